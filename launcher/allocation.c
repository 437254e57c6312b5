#include "launcher/allocation.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/allocation_read.h"
#include "launcher/endpoint.h"
#include "launcher/oneline.h"
#include "launcher/plan.h"
#include "store/base/macros.h"
#include "store/core/siphash.h"

enum { PORT_MAX = 65535, TEXT_MAX = 300 };

/* ---- what the readers are made of */

const char *reader_text(const struct reader *r, const char *name)
{
    const char *text = machine_env(r->m, name);

    return text && *text ? text : NULL;
}

int reader_number(const struct reader *r, const char *name, unsigned max, unsigned *ret, struct cc_err *err)
{
    const char *text = reader_text(r, name);
    char       *end;
    unsigned long v;

    if (!text)
        return 0;
    errno = 0;
    v = strtoul(text, &end, 10);
    if (*text < '0' || *text > '9' || *end)
        return cc_fail(err, -EINVAL, "%s='%.60s' is not a number", name, text);
    if (errno || v > max)
        return cc_fail(err, -EINVAL, "%s=%.60s is above %u", name, text, max);
    *ret = (unsigned) v;
    return 1;
}

int reader_nodes(const struct reader *r, const char *name, struct cc_err *err)
{
    unsigned v = 0;
    int      n = reader_number(r, name, RDZV_NODES_MAX, &v, err);

    if (n > 0 && v > 0) {
        r->a->nodes = v;
        r->a->nodes_from = name;
    }
    return n < 0 ? n : 0;
}

int reader_node_rank(const struct reader *r, const char *name, struct cc_err *err)
{
    unsigned v = 0;
    int      n = reader_number(r, name, RDZV_NODES_MAX - 1, &v, err);

    if (n > 0) {
        r->a->node_rank = (int) v;
        r->a->node_rank_from = name;
    }
    return n < 0 ? n : 0;
}

int reader_port(const struct reader *r, const char *name, struct cc_err *err)
{
    unsigned v = 0;
    int      n = reader_number(r, name, PORT_MAX, &v, err);

    if (n > 0 && v > 0) {
        r->a->port = v;
        r->a->port_from = name;
    }
    return n < 0 ? n : 0;
}

void reader_job_id(const struct reader *r, const char *name)
{
    const char *text = reader_text(r, name);

    if (!text)
        return;
    (void) snprintf(r->a->job_id, sizeof r->a->job_id, "%.*s", (int) strcspn(text, "#"), text);
    oneline_text(r->a->job_id, sizeof r->a->job_id);
    r->a->job_id_from = name;
}

void reader_head(const struct reader *r, const char *host, const char *from)
{
    if (strlen(host) >= sizeof r->a->head)
        return; /* no host has such a name */
    memcpy(r->a->head, host, strlen(host) + 1);
    r->a->head_from = from;
}

int reader_endpoint(const struct reader *r, const char *name, const char *text, struct cc_err *err)
{
    struct endpoint at;

    if (endpoint_parse(&at, text, ENDPOINT_NO_PORT, err) < 0)
        return cc_wrap(err, "%s", name);
    reader_head(r, at.host, name);
    if (at.port > 0) {
        r->a->port = (unsigned) at.port;
        r->a->port_from = name;
    }
    return 0;
}

unsigned allocation_job_port(const char *job_id)
{
    static const uint64_t key[2] = { 0x63637272756e2e70, 0x6f7274206f66206a }; /* any, the same on all nodes */

    return JOB_PORT_FIRST + (unsigned) (siphash13(key, cc_bytes_of(job_id)) % JOB_PORTS);
}

void reader_port_of_job(const struct reader *r)
{
    if (r->a->port > 0 || !r->a->job_id[0])
        return;
    r->a->port = allocation_job_port(r->a->job_id);
    r->a->port_from = r->a->job_id_from;
}

int reader_add_host(const struct reader *r, const char *from, const char *name, size_t n, unsigned slots,
                    struct cc_err *err)
{
    const struct hostlist_item item = { .where = from, .text = name, .at = name, .n = n, .like = { .slots = slots } };

    return hostlist_expand(&r->a->hosts, &item, err);
}

void reader_listed(const struct reader *r, const char *from)
{
    struct allocation *a = r->a;
    const struct host *ours = hostlist_find(&a->hosts, r->host);

    if (a->hosts.n == 0)
        return;
    if (a->nodes == 0) {
        a->nodes = (unsigned) a->hosts.n;
        a->nodes_from = from;
    }
    if (a->node_rank == ALLOCATION_NO_RANK && ours) {
        a->node_rank = (int) (ours - a->hosts.host);
        a->node_rank_from = from;
    }
    if (!a->head[0])
        reader_head(r, a->hosts.host[0].name, from);
}

/* ---- which system */

static reader_fn *const readers[SCHEDULER_N] = {
    [SCHEDULER_SLURM] = allocation_slurm,
    [SCHEDULER_PBS] = allocation_pbs,
    [SCHEDULER_LSF] = allocation_lsf,
    [SCHEDULER_SGE] = allocation_sge,
    [SCHEDULER_OAR] = allocation_oar,
    [SCHEDULER_COBALT] = allocation_cobalt,
    [SCHEDULER_FLUX] = allocation_flux,
    [SCHEDULER_PALS] = allocation_pals,
    [SCHEDULER_OPEN_MPI] = allocation_mpi,
    [SCHEDULER_MPI] = allocation_mpi,
    [SCHEDULER_SAGEMAKER] = allocation_sagemaker,
    [SCHEDULER_AZURE] = allocation_azure,
    [SCHEDULER_AWS_BATCH] = allocation_aws,
    [SCHEDULER_VERTEX] = allocation_vertex,
    [SCHEDULER_SKYPILOT] = allocation_skypilot,
    [SCHEDULER_DLROVER] = allocation_dlrover,
    [SCHEDULER_PODS] = allocation_pods,
    [SCHEDULER_INDEXED_JOB] = allocation_indexed_job,
};

int allocation_read(struct allocation *ret, const struct machine *m, const char *host, struct cc_err *err)
{
    const struct reader r = { m, host, ret };
    struct scheduler    s;
    int                 code = 0;

    *ret = (struct allocation){ .node_rank = ALLOCATION_NO_RANK };
    scheduler_detect(m, host, &s);
    ret->system = s.name;
    ret->group_from = "SLURM_TOPOLOGY_ADDR";
    (void) allocation_switches(reader_text(&r, ret->group_from), reader_text(&r, "SLURM_TOPOLOGY_ADDR_PATTERN"), ret->group,
                               sizeof ret->group);
    if (s.job_id_from)
        reader_job_id(&r, s.job_id_from);
    if (readers[s.kind])
        code = readers[s.kind](&r, err);
    if (code == 0 && ret->role == ALLOCATION_NONE && ret->nodes == 0 && !ret->head[0])
        code = allocation_by_node_rank(&r, NULL);
    if (code == 0 && ret->role == ALLOCATION_MEMBER && ret->nodes > 0 && ret->node_rank >= (int) ret->nodes)
        code = cc_fail(err, -EINVAL, "%s=%d: the ranks of %u nodes (%s) are 0 to %u", ret->node_rank_from, ret->node_rank,
                       ret->nodes, ret->nodes_from, ret->nodes - 1);
    return oneline_err(err, code);
}

void allocation_clear(struct allocation *a)
{
    hostlist_clear(&a->hosts);
    *a = (struct allocation){ .node_rank = ALLOCATION_NO_RANK };
}

/* ---- what follows for the options */

static int suggest_number(struct options *o, enum option_id id, unsigned v, const char *from, struct cc_err *err)
{
    char text[16];

    (void) snprintf(text, sizeof text, "%u", v);
    return options_suggest(o, id, text, from, err);
}

/* With as many nodes as the user said there are, and not with fewer of them: which were meant is not known. */
static int suggest_rank(const struct allocation *a, struct options *o, unsigned nodes, struct cc_err *err)
{
    if (a->crowd > 0)
        return nodes == a->n_tasks
                   ? suggest_number(o, OPTION_node_rank, (unsigned) a->task_rank, a->task_rank_from, err)
                   : 0;
    if (a->node_rank == ALLOCATION_NO_RANK || (a->nodes > 0 ? nodes != a->nodes : (unsigned) a->node_rank >= nodes))
        return 0;
    return suggest_number(o, OPTION_node_rank, (unsigned) a->node_rank, a->node_rank_from, err);
}

static int suggest_endpoint(const struct allocation *a, struct options *o, struct cc_err *err)
{
    char text[ALLOCATION_HOST_MAX + 16], port[16] = "";
    bool is_v6 = strchr(a->head, ':');

    if (!a->head[0] || options_is_given(o, OPTION_master_addr))
        return 0;
    if (options_is_given(o, OPTION_master_port))
        (void) snprintf(port, sizeof port, ":%u", (unsigned) o->master_port);
    else if (a->port > 0)
        (void) snprintf(port, sizeof port, ":%u", a->port);
    (void) snprintf(text, sizeof text, "%s%s%s%s", is_v6 ? "[" : "", a->head, is_v6 ? "]" : "", port);
    return options_suggest(o, OPTION_rdzv_endpoint, text, a->head_from, err);
}

static int refuse_crowd(const struct allocation *a, struct cc_err *err)
{
    char or_else[80] = "";

    if (a->n_tasks > 0)
        (void) snprintf(or_else, sizeof or_else, ", or say --nnodes %u to make each one a node of its own", a->n_tasks);
    return cc_fail(err, -EINVAL,
                   "%u of us were started on %s node (%s), and each starts the workers of the whole node: start one ccrun "
                   "on each (srun --ntasks-per-node=1, mpirun --npernode 1)%s",
                   a->crowd, a->is_crowd_elsewhere ? "another" : "this", a->crowd_from, or_else);
}

/* A script that starts us once on the first of several nodes wastes the others, and nobody would notice. */
static void warn_of_others(const struct allocation *a, struct options *o)
{
    if (a->role == ALLOCATION_EITHER && a->nodes > 1 && !options_is_given(o, OPTION_nnodes))
        warnings_add(&o->warnings,
                     "%s gave the job %u nodes (%s), and this runs on one of them; when a ccrun is started on each, say "
                     "--nnodes %u",
                     a->system, a->nodes, a->nodes_from, a->nodes);
}

int allocation_suggest(const struct allocation *a, struct options *o, struct cc_err *err)
{
    bool     is_counted = a->role == ALLOCATION_MEMBER && a->nodes > 0;
    unsigned nodes;
    int      r = 0;

    /* Who gives ranks has an order of his own. */
    if (a->group[0] && a->role != ALLOCATION_HEAD && !o->standalone && !options_is_given(o, OPTION_node_rank))
        r = options_suggest(o, OPTION_node_group, a->group, a->group_from, err);
    if (r < 0 || a->role == ALLOCATION_NONE || o->standalone)
        return r;
    if (a->crowd > 0 && !options_is_given(o, OPTION_nnodes))
        return refuse_crowd(a, err);
    warn_of_others(a, o);
    if (is_counted)
        r = suggest_number(o, OPTION_nnodes, a->nodes, a->nodes_from, err);
    nodes = plan_max_nodes(o->nnodes);
    if (r < 0 || nodes < 2 || a->role == ALLOCATION_HEAD)
        return r;
    r = suggest_rank(a, o, nodes, err);
    if (r == 0)
        r = suggest_endpoint(a, o, err);
    if (r == 0 && a->job_id[0])
        r = options_suggest(o, OPTION_rdzv_id, a->job_id, a->job_id_from, err);
    if (r == 0 && a->iface)
        r = options_suggest(o, OPTION_iface, a->iface, a->iface_from, err);
    return r;
}

const char *allocation_text(const struct allocation *a, char *buf, size_t size)
{
    char   text[TEXT_MAX + ALLOCATION_HOST_MAX];
    size_t used;

    used = (size_t) snprintf(text, sizeof text, "%.40s%s%.100s: ", a->system ? a->system : "no scheduler",
                             a->job_id[0] ? " " : "", a->job_id);
    if (a->nodes > 0)
        used += (size_t) snprintf(text + used, sizeof text - used, "%u node%s", a->nodes, a->nodes == 1 ? "" : "s");
    else
        used += (size_t) snprintf(text + used, sizeof text - used, "it does not say how many nodes");
    if (a->node_rank != ALLOCATION_NO_RANK)
        used += (size_t) snprintf(text + used, sizeof text - used, ", this is node %d", a->node_rank);
    if (a->head[0] && a->nodes != 1)
        used += (size_t) snprintf(text + used, sizeof text - used, ", they meet at %s", a->head);
    if (a->head[0] && a->nodes != 1 && a->port > 0)
        (void) snprintf(text + used, sizeof text - used, "%s%u", strchr(a->head, ':') ? " port " : ":", a->port);
    (void) snprintf(buf, size, "%s", text);
    return buf;
}
