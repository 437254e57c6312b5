#include "launcher/numa.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/cpulist.h"
#include "store/base/cleanup.h"
#include "store/base/macros.h"

enum { LIST_MAX = 8192 }; /* bytes of a kernel list: 1,024 numbers alternate at worst */

static const char *const mode_names[] = { [NUMA_NODE] = "node",
                                          [NUMA_SOCKET] = "socket",
                                          [NUMA_EXCLUSIVE] = "exclusive",
                                          [NUMA_CORE_COMPLEX] = "core-complex" };

struct group {     /* CPUs that share a core, or a cache */
    int       key; /* the lowest CPU of all that share it, ours or not */
    cpu_set_t cpus;
};

struct node {
    int           id;
    cpu_set_t     cpus;    /* those we may use */
    unsigned      n_seats; /* here */
    struct group *groups;  /* read when the first seat needs them */
    unsigned      n_groups;
};

struct seat {       /* a place for a worker: one for each GPU, and as many as there are workers */
    unsigned node;  /* index into nodes */
    unsigned place; /* among the seats of that node */
};

struct layout {
    const struct machine *m;
    cpu_set_t             allowed;
    struct node          *nodes;
    unsigned              n_nodes;
    struct seat          *seats;
    unsigned              n_seats;
};

int numa_parse(const char *text, enum numa_mode *ret, struct cc_err *err)
{
    for (unsigned i = NUMA_NODE; i < CC_COUNT(mode_names); i++)
        if (strcmp(text, mode_names[i]) == 0) {
            *ret = (enum numa_mode) i;
            return 0;
        }
    return cc_fail(err, -EINVAL, "--numa-binding '%.60s': it is node, socket, exclusive or core-complex",
                   text);
}

/* A kernel list below /sys; an empty set when it cannot be read. */
static int read_list(const struct machine *m, const char *path, int id, const char *file, cpu_set_t *ret)
{
    char text[LIST_MAX];
    int  r = machine_read(m, text, sizeof text, "%s%d%s", path, id, file);

    CPU_ZERO(ret);
    return r < 0 ? r : cpulist_parse(text, ret);
}

/* ---- the nodes of this machine */

static int add_node(struct layout *l, int id, const cpu_set_t *cpus)
{
    struct node *grown = realloc(l->nodes, (l->n_nodes + 1UL) * sizeof *grown);

    if (!grown)
        return -ENOMEM;
    l->nodes = grown;
    l->nodes[l->n_nodes] = (struct node){ .id = id };
    CPU_AND(&l->nodes[l->n_nodes].cpus, cpus, &l->allowed);
    l->n_nodes++;
    return 0;
}

/* "possible" names nodes that may be plugged in later; those have no folder. A kernel without NUMA has one
 * node. */
static int read_nodes(struct layout *l)
{
    char      text[LIST_MAX];
    cpu_set_t ids, cpus;
    bool      has_cpus = false;
    int       r = 0;

    CPU_ZERO(&ids);
    if (machine_read(l->m, text, sizeof text, "/sys/devices/system/node/possible") >= 0)
        (void) cpulist_parse(text, &ids);
    for (int id = cpulist_next(&ids, -1); id >= 0 && r == 0; id = cpulist_next(&ids, id)) {
        if (read_list(l->m, "/sys/devices/system/node/node", id, "/cpulist", &cpus) < 0)
            continue;
        r = add_node(l, id, &cpus);
        has_cpus = has_cpus || (r == 0 && CPU_COUNT(&l->nodes[l->n_nodes - 1].cpus) > 0);
    }
    return r == 0 && !has_cpus ? add_node(l, 0, &l->allowed) : r;
}

/* ---- who sits where */

static void sit(struct layout *l, unsigned k, unsigned node)
{
    l->seats[k] = (struct seat){ .node = node, .place = l->nodes[node].n_seats++ };
}

static int seat_by_gpus(struct layout *l, const struct gpus *gpus, struct cc_err *err)
{
    for (unsigned k = 0; k < l->n_seats; k++) {
        const struct gpu *g = &gpus->list[k % gpus->n];
        int               id = g->numa_node < 0 ? 0 : g->numa_node; /* -1 on machines with one node */
        unsigned          i = 0;

        while (i < l->n_nodes && l->nodes[i].id != id)
            i++;
        if (i == l->n_nodes)
            return cc_fail(err, -ENOENT,
                           "--numa-binding: GPU %s is on NUMA node %d, which /sys does not describe", g->id,
                           id);
        sit(l, k, i);
    }
    return 0;
}

/* Seat k of n on the k*nodes/n-th of the nodes that have CPUs for us. */
static void seat_evenly(struct layout *l)
{
    unsigned n = 0, used = 0, k = 0;

    for (unsigned i = 0; i < l->n_nodes; i++)
        n += CPU_COUNT(&l->nodes[i].cpus) > 0;
    assert(n > 0); /* read_nodes() sees to it */
    for (unsigned i = 0; i < l->n_nodes; i++) {
        if (CPU_COUNT(&l->nodes[i].cpus) == 0)
            continue;
        for (used++; k < l->n_seats && (uint64_t) k * n / l->n_seats < used; k++)
            sit(l, k, i);
    }
}

static int make_layout(struct layout *l, const struct gpus *gpus, unsigned nproc, struct cc_err *err)
{
    bool has_gpus = gpus && gpus->n > 0;
    int  r = machine_affinity(l->m, &l->allowed);

    if (r == 0 && CPU_COUNT(&l->allowed) == 0)
        r = -EINVAL;
    if (r < 0)
        return cc_fail(err, r, "--numa-binding: cannot read the CPU affinity mask (up to %d CPUs): %s",
                       CPU_SETSIZE, strerror(-r));
    l->n_seats = has_gpus && gpus->n > nproc ? gpus->n : nproc;
    l->seats = calloc(l->n_seats, sizeof *l->seats);
    if (!l->seats || read_nodes(l) < 0)
        return cc_fail(err, -ENOMEM, "no memory for the NUMA nodes");
    if (has_gpus)
        return seat_by_gpus(l, gpus, err);
    seat_evenly(l);
    return 0;
}

static void clear_layout(struct layout *l)
{
    for (unsigned i = 0; i < l->n_nodes; i++)
        free(l->nodes[i].groups);
    free(l->nodes);
    free(l->seats);
}

/* ---- groups of a node's CPUs: those that share a core, or a cache */

static int core_of(const struct machine *m, int cpu, cpu_set_t *ret, struct cc_err *err)
{
    if (read_list(m, "/sys/devices/system/cpu/cpu", cpu, "/topology/thread_siblings_list", ret) < 0 ||
        CPU_COUNT(ret) == 0)
        return cc_fail(err, -ENOENT, "--numa-binding exclusive: /sys does not say which core CPU %d is on",
                       cpu);
    return 0;
}

static int is_cache(const struct dirent *d)
{
    const char *digits = d->d_name + 5;

    return strncmp(d->d_name, "index", 5) == 0 && *digits && digits[strspn(digits, "0123456789")] == '\0';
}

/* Who shares one cache, and that cache's level; false for a cache of instructions. */
static bool read_cache(const struct machine *m, int cpu, const char *index, long *ret_level, cpu_set_t *ret)
{
    static const char dir[] = "/sys/devices/system/cpu/cpu";
    char              text[LIST_MAX];

    return machine_read(m, text, sizeof text, "%s%d/cache/%s/type", dir, cpu, index) >= 0 &&
           (strcmp(text, "Unified") == 0 || strcmp(text, "Data") == 0) &&
           machine_read_int(m, ret_level, "%s%d/cache/%s/level", dir, cpu, index) == 0 &&
           machine_read(m, text, sizeof text, "%s%d/cache/%s/shared_cpu_list", dir, cpu, index) >= 0 &&
           cpulist_parse(text, ret) == 0 && CPU_COUNT(ret) > 0;
}

static int cache_of(const struct machine *m, int cpu, cpu_set_t *ret, struct cc_err *err)
{
    char            path[PATH_MAX];
    struct dirent **names = NULL;
    long            best = -1;
    int             n = machine_path(m, path, "/sys/devices/system/cpu/cpu%d/cache", cpu);

    if (n == 0)
        n = scandir(path, &names, is_cache, NULL);
    for (int i = 0; names && i < n; i++) {
        cpu_set_t shared;
        long      level;

        if (read_cache(m, cpu, names[i]->d_name, &level, &shared) && level > best) {
            best = level;
            *ret = shared;
        }
        free(names[i]);
    }
    free(names);
    if (best < 0)
        return cc_fail(err, -ENOENT,
                       "--numa-binding core-complex: /sys does not describe the caches of CPU %d", cpu);
    return 0;
}

static int by_key(const void *a, const void *b)
{
    const struct group *x = a, *y = b;

    return (x->key > y->key) - (x->key < y->key);
}

static int by_size(const void *a, const void *b)
{
    const struct group *x = a, *y = b;
    int                 nx = CPU_COUNT(&x->cpus), ny = CPU_COUNT(&y->cpus);

    return nx != ny ? ny - nx : by_key(a, b);
}

/* Sets node->groups, once.  What one CPU shares it shares with the same CPUs as they do, so one read a group
 * is enough. */
static int group_cpus(const struct machine *m, struct node *node, enum numa_mode mode, struct cc_err *err)
{
    bool         is_cores = mode == NUMA_EXCLUSIVE;
    cpu_set_t    left = node->cpus;
    struct group g;

    if (node->groups)
        return 0;
    node->groups = calloc((size_t) CPU_COUNT(&left), sizeof g);
    if (!node->groups)
        return cc_fail(err, -ENOMEM, "no memory for the CPUs of NUMA node %d", node->id);
    for (int cpu = cpulist_next(&left, -1); cpu >= 0; cpu = cpulist_next(&left, cpu)) {
        cpu_set_t shared = { { 0 } };
        int       r = is_cores ? core_of(m, cpu, &shared, err) : cache_of(m, cpu, &shared, err);

        if (r < 0)
            return r;
        CPU_SET((size_t) cpu, &shared);
        g.key = cpulist_next(&shared, -1);
        CPU_AND(&g.cpus, &shared, &left);
        CPU_XOR(&left, &left, &g.cpus);
        node->groups[node->n_groups++] = g;
    }
    qsort(node->groups, node->n_groups, sizeof g, is_cores ? by_key : by_size);
    return 0;
}

/* ---- the four ways to bind a worker */

static int socket_of(const struct machine *m, int cpu, long *ret)
{
    return machine_read_int(m, ret, "/sys/devices/system/cpu/cpu%d/topology/physical_package_id", cpu);
}

static int bind_socket(const struct layout *l, const struct node *node, cpu_set_t *ret, struct cc_err *err)
{
    int  cpu = cpulist_next(&node->cpus, -1);
    long own, other;

    if (socket_of(l->m, cpu, &own) < 0)
        return cc_fail(err, -ENOENT, "--numa-binding socket: /sys does not say which socket CPU %d is on",
                       cpu);
    CPU_ZERO(ret);
    for (unsigned i = 0; i < l->n_nodes; i++) {
        cpu = cpulist_next(&l->nodes[i].cpus, -1);
        if (cpu >= 0 && socket_of(l->m, cpu, &other) == 0 && other == own)
            CPU_OR(ret, ret, &l->nodes[i].cpus);
    }
    return 0;
}

/* An equal share of the cores for each seat; what is left over goes to the first seats, one each. */
static int bind_exclusive(const struct node *node, unsigned place, cpu_set_t *ret, struct cc_err *err)
{
    unsigned share = node->n_groups / node->n_seats, more = node->n_groups % node->n_seats;
    unsigned first = place * share + (place < more ? place : more), end = first + share + (place < more);

    if (share == 0)
        return cc_fail(
            err, -EINVAL,
            "--numa-binding exclusive: NUMA node %d has %u physical cores for us, too few for %u GPUs or "
            "workers",
            node->id, node->n_groups, node->n_seats);
    CPU_ZERO(ret);
    for (unsigned i = first; i < end; i++)
        CPU_OR(ret, ret, &node->groups[i].cpus);
    return 0;
}

static int bind_worker(const struct layout *l, enum numa_mode mode, unsigned k, cpu_set_t *ret,
                       struct cc_err *err)
{
    const struct seat *seat = &l->seats[k];
    struct node       *node = &l->nodes[seat->node];
    char               mask[64];
    int                r;

    if (CPU_COUNT(&node->cpus) == 0)
        return cc_fail(err, -EINVAL,
                       "--numa-binding %s: local rank %u belongs to NUMA node %d, but the inherited CPU "
                       "mask %s has none of its CPUs",
                       mode_names[mode], k, node->id, cpulist_format(&l->allowed, mask, sizeof mask));
    r = mode == NUMA_EXCLUSIVE || mode == NUMA_CORE_COMPLEX ? group_cpus(l->m, node, mode, err) : 0;
    if (r < 0)
        return r;
    switch (mode) {
    case NUMA_SOCKET: return bind_socket(l, node, ret, err);
    case NUMA_EXCLUSIVE: return bind_exclusive(node, seat->place, ret, err);
    case NUMA_CORE_COMPLEX: *ret = node->groups[seat->place % node->n_groups].cpus; return 0;
    case NUMA_NODE:
    case NUMA_OFF: break;
    }
    *ret = node->cpus;
    return 0;
}

int numa_bind(const struct machine *m, enum numa_mode mode, const struct gpus *gpus, unsigned nproc,
              cpu_set_t *ret, struct cc_err *err)
{
    struct layout l = { .m = m };
    int           r;

    assert(mode != NUMA_OFF && nproc > 0);
    r = make_layout(&l, gpus, nproc, err);
    for (unsigned k = 0; k < nproc && r == 0; k++)
        r = bind_worker(&l, mode, k, &ret[k], err);
    clear_layout(&l);
    return r;
}
