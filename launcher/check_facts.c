#include "launcher/check_facts.h"

#include <dirent.h>
#include <errno.h>
#include <gnu/libc-version.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "launcher/cpulist.h"
#include "launcher/gpus.h"
#include "store/base/macros.h"

enum { NICS_MAX = 16, NAME_ROOM = 24 };

void nodefacts_set(struct nodefacts *f, const char *name, const char *value)
{
    struct nodefact *to = f->n < FACTS_MAX ? &f->list[f->n] : NULL;

    if (!to || !value[0])
        return;
    (void) snprintf(to->name, sizeof to->name, "%s", name);
    (void) snprintf(to->value, sizeof to->value, "%s", value);
    for (char *c = to->name; *c; c++)
        if (*c == '=' || (unsigned char) *c < ' ')
            *c = '?';
    for (char *c = to->value; *c; c++)
        if ((unsigned char) *c < ' ')
            *c = '?';
    f->n++;
}

const char *nodefacts_get(const struct nodefacts *f, const char *name)
{
    for (unsigned i = 0; i < f->n; i++)
        if (strcmp(f->list[i].name, name) == 0)
            return f->list[i].value;
    return NULL;
}

/* ---- this machine */

/* To three digits: enough to see a difference, and not every byte that differs is one. */
static void set_bytes(struct nodefacts *f, const char *name, uint64_t n)
{
    static const char units[] = "BKMGTPE";
    char              text[32];
    double            x = (double) n;
    unsigned          u = 0;

    for (; x >= 1024 && u + 2 < sizeof units; u++)
        x /= 1024;
    (void) snprintf(text, sizeof text, u == 0 || x >= 100 ? "%.0f%c" : "%.3g%c", x, units[u]);
    nodefacts_set(f, name, text);
}

static void set_limit(struct nodefacts *f, const char *name, int resource, bool is_bytes)
{
    struct rlimit r;
    char          text[32];

    if (getrlimit((__rlimit_resource_t) resource, &r) < 0)
        return;
    if (r.rlim_cur == RLIM_INFINITY) {
        nodefacts_set(f, name, "unlimited");
    } else if (is_bytes) {
        set_bytes(f, name, r.rlim_cur);
    } else {
        (void) snprintf(text, sizeof text, "%" PRIu64, (uint64_t) r.rlim_cur);
        nodefacts_set(f, name, text);
    }
}

static void read_memory(struct nodefacts *f, const struct machine *m)
{
    struct statvfs s;
    char           path[PATH_MAX], text[256];
    const char    *kb;

    if (machine_path(m, path, "/dev/shm") == 0 && statvfs(path, &s) == 0)
        set_bytes(f, "/dev/shm", (uint64_t) s.f_blocks * s.f_frsize);
    else
        nodefacts_set(f, "/dev/shm", "missing");
    if (machine_read(m, text, sizeof text, "/proc/meminfo") > 0 && (kb = strstr(text, "MemTotal:")))
        set_bytes(f, "memory", strtoull(kb + 9, NULL, 10) * 1024);
}

static void read_versions(struct nodefacts *f, const struct machine *m)
{
    struct utsname u;
    char           text[FACT_VALUE_MAX];

    nodefacts_set(f, "ccrun", CCRUN_VERSION);
    if (uname(&u) == 0)
        nodefacts_set(f, "kernel", u.release);
    nodefacts_set(f, "glibc", gnu_get_libc_version());
    if (machine_read(m, text, sizeof text, "/sys/module/nvidia/version") > 0)
        nodefacts_set(f, "nvidia driver", text);
}

static void read_cpus(struct nodefacts *f, const struct machine *m)
{
    cpu_set_t cpus, nodes;
    char      text[FACT_VALUE_MAX];

    if (machine_affinity(m, &cpus) == 0) {
        (void) snprintf(text, sizeof text, "%d", CPU_COUNT(&cpus));
        nodefacts_set(f, "CPUs", text);
    }
    if (machine_read(m, text, sizeof text, "/sys/devices/system/node/online") > 0 && cpulist_parse(text, &nodes) == 0) {
        (void) snprintf(text, sizeof text, "%d", CPU_COUNT(&nodes));
        nodefacts_set(f, "NUMA nodes", text);
    }
}

static void read_gpus(struct nodefacts *f, const struct machine *m)
{
    struct gpus   g;
    struct cc_err err;
    char          text[FACT_VALUE_MAX];

    if (gpus_count(m, false, &g, &err) < 0) {
        nodefacts_set(f, "GPUs", err.msg);
        return;
    }
    (void) snprintf(text, sizeof text, "%u", g.n_total);
    nodefacts_set(f, "GPUs", text);
    gpus_clear(&g);
}

/* ---- its networks */

static bool is_there(const struct machine *m, const char *nic, const char *what)
{
    char path[PATH_MAX], link[8];

    return machine_path(m, path, "/sys/class/net/%s/%s", nic, what) == 0 && readlink(path, link, sizeof link) > 0;
}

/* "up, 100 Gb/s, MTU 9000"; speed and state are what the driver says, and some say nothing. */
static void add_nic(struct nodefacts *f, const struct machine *m, const char *nic)
{
    char state[32] = "", name[FACT_NAME_MAX], text[FACT_VALUE_MAX];
    long mtu = 0, mbit = 0;
    int  n;

    if (machine_read(m, state, sizeof state, "/sys/class/net/%s/operstate", nic) <= 0)
        (void) snprintf(state, sizeof state, "state unknown");
    (void) machine_read_int(m, &mtu, "/sys/class/net/%s/mtu", nic);
    if (machine_read_int(m, &mbit, "/sys/class/net/%s/speed", nic) < 0)
        mbit = 0;
    n = snprintf(text, sizeof text, "%s, MTU %ld", state, mtu);
    if (mbit > 0 && n > 0 && (size_t) n < sizeof text)
        (void) snprintf(text + n, sizeof text - (size_t) n, mbit % 1000 == 0 ? ", %ld Gb/s" : ", %ld Mb/s",
                        mbit % 1000 == 0 ? mbit / 1000 : mbit);
    (void) snprintf(name, sizeof name, "NIC %.*s", NAME_ROOM, nic);
    nodefacts_set(f, name, text);
}

static void add_port(struct nodefacts *f, const struct machine *m, const char *device)
{
    char state[48] = "", rate[48] = "", name[FACT_NAME_MAX], text[FACT_VALUE_MAX];

    if (machine_read(m, state, sizeof state, "/sys/class/infiniband/%s/ports/1/state", device) <= 0)
        return;
    (void) machine_read(m, rate, sizeof rate, "/sys/class/infiniband/%s/ports/1/rate", device);
    (void) snprintf(name, sizeof name, "RDMA %.*s", NAME_ROOM, device);
    (void) snprintf(text, sizeof text, "%s, %s", state, rate);
    nodefacts_set(f, name, text);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* The names in a directory, in order. */
static unsigned list_dir(const struct machine *m, const char *dir, char (*ret)[NAME_ROOM])
{
    char           path[PATH_MAX];
    DIR           *d = machine_path(m, path, "%s", dir) == 0 ? opendir(path) : NULL;
    struct dirent *e;
    unsigned       n = 0;

    while (d && n < NICS_MAX && (e = readdir(d)))
        if (e->d_name[0] != '.' && strcmp(e->d_name, "lo") != 0 && strlen(e->d_name) < NAME_ROOM)
            memcpy(ret[n++], e->d_name, strlen(e->d_name) + 1);
    if (d)
        (void) closedir(d);
    qsort(ret, n, NAME_ROOM, by_name);
    return n;
}

/* The real ones; where there are none, as in a container, whatever there is. */
static void read_nics(struct nodefacts *f, const struct machine *m)
{
    char     names[NICS_MAX][NAME_ROOM];
    unsigned n = list_dir(m, "/sys/class/net", names), n_real = 0;

    for (unsigned i = 0; i < n; i++)
        n_real += is_there(m, names[i], "device");
    for (unsigned i = 0; i < n; i++)
        if (n_real == 0 || is_there(m, names[i], "device"))
            add_nic(f, m, names[i]);
    n = list_dir(m, "/sys/class/infiniband", names);
    for (unsigned i = 0; i < n; i++)
        add_port(f, m, names[i]);
}

void nodefacts_read(struct nodefacts *f, const struct machine *m)
{
    *f = (struct nodefacts) { .n = 0 };
    read_versions(f, m);
    read_cpus(f, m);
    read_memory(f, m);
    set_limit(f, "ulimit -l (memlock)", RLIMIT_MEMLOCK, true);
    set_limit(f, "ulimit -n (nofile)", RLIMIT_NOFILE, false);
    set_limit(f, "ulimit -s (stack)", RLIMIT_STACK, true);
    set_limit(f, "ulimit -c (core)", RLIMIT_CORE, true);
    read_gpus(f, m);
    read_nics(f, m);
}

/* ---- on the wire */

int nodefacts_write(const struct nodefacts *f, struct cc_buf *to)
{
    int r = 0;

    for (unsigned i = 0; r == 0 && i < f->n; i++) {
        char line[FACT_NAME_MAX + FACT_VALUE_MAX + 2];
        int  n = snprintf(line, sizeof line, "%s=%s\n", f->list[i].name, f->list[i].value);

        r = cc_buf_add(to, line, (size_t) n);
    }
    return r;
}

void nodefacts_parse(struct nodefacts *ret, const char *text)
{
    *ret = (struct nodefacts) { .n = 0 };
    while (*text) {
        size_t n = strcspn(text, "\n"), n_name = strcspn(text, "=\n");
        char   name[FACT_NAME_MAX], value[FACT_VALUE_MAX];

        if (n_name < n) {
            (void) snprintf(name, sizeof name, "%.*s", (int) n_name, text);
            (void) snprintf(value, sizeof value, "%.*s", (int) (n - n_name - 1), text + n_name + 1);
            nodefacts_set(ret, name, value);
        }
        text += n + (text[n] == '\n');
    }
}

/* ---- differences */

static const char *value_of(const struct nodefacts *f, const char *name)
{
    const char *v = nodefacts_get(f, name);

    return v ? v : "none";
}

static unsigned count_same(const struct nodefacts *const *nodes, unsigned n, const char *name, const char *value)
{
    unsigned k = 0;

    for (unsigned i = 0; i < n; i++)
        k += nodes[i] && strcmp(value_of(nodes[i], name), value) == 0;
    return k;
}

struct comparison {
    const struct nodefacts *const *nodes;
    unsigned                   n, n_known;
    struct nodefacts_difference   *ret;
    unsigned                   n_ret, max;
};

static void compare_one(struct comparison *c, const char *name)
{
    struct nodefacts_difference d = { .name = name, .n = c->n_known };

    for (unsigned i = 0; i < c->n && d.n_same * 2 <= c->n_known; i++) { /* more than half: there can be no better one */
        const char *v = c->nodes[i] ? value_of(c->nodes[i], name) : NULL;
        unsigned    k = v ? count_same(c->nodes, c->n, name, v) : 0;

        if (k > d.n_same) {
            d.n_same = k;
            d.usual = v;
        }
    }
    for (unsigned i = 0; d.usual && i < c->n && d.n_same < c->n_known && c->n_ret < c->max; i++) {
        d.node = i;
        d.value = c->nodes[i] ? value_of(c->nodes[i], name) : d.usual;
        if (strcmp(d.value, d.usual) != 0)
            c->ret[c->n_ret++] = d;
    }
}

static bool was_compared(const struct nodefacts *const *nodes, unsigned before, const char *name)
{
    for (unsigned i = 0; i < before; i++)
        if (nodes[i] && nodefacts_get(nodes[i], name))
            return true;
    return false;
}

unsigned nodefacts_compare(const struct nodefacts *const *nodes, unsigned n, struct nodefacts_difference *ret, unsigned max)
{
    struct comparison c = { .nodes = nodes, .n = n, .ret = ret, .max = max };

    for (unsigned i = 0; i < n; i++)
        c.n_known += nodes[i] != NULL;
    for (unsigned i = 0; i < n; i++)
        for (unsigned k = 0; nodes[i] && k < nodes[i]->n; k++)
            if (i == 0 || !was_compared(nodes, i, nodes[i]->list[k].name))
                compare_one(&c, nodes[i]->list[k].name);
    return c.n_ret;
}
