#include "launcher/job.h"

#include <string.h>

#include "launcher/oneline.h"
#include "store/core/siphash.h"

enum {
    QUICK_MS = 5000,       /* a failure so soon after the start is worth a second look */
    SAME_MAX = 3,          /* the same one so often in a row does not go away by a restart */
    RESET_GRACE_MS = 300,  /* for a connection that broke to come back */
    SWITCH_TIMEOUT_MS = 5000,
    SCALE_DELAY_MS = 1000,
};

/* A replacement may come before the node is lost whose place it takes, and nodes of a job that is to grow come at once. */
static uint32_t nodes_cap(const struct plan_values *p)
{
    uint32_t cap = p->max_nodes + p->n_spares;

    cap += p->max_nodes / 4 + 4;
    return cap < RDZV_NODES_MAX ? cap : RDZV_NODES_MAX;
}

static const uint64_t fixed_key[2] = { 0x63637272756e2e61, 0x72677320312e3000 }; /* any, the same everywhere */

/* What must be the same on all nodes, by value: how the program is started and with which arguments, as they were typed. */
static uint64_t fingerprint(const struct options *o)
{
    uint64_t              sum = (uint64_t) o->module | (uint64_t) o->no_python << 1 | (uint64_t) o->run_path << 2;
    char                **a;

    for (a = o->worker_argv; *a; a++) {
        const uint64_t next[2] = { fixed_key[0] ^ sum, fixed_key[1] };

        sum = siphash13(next, (struct cc_bytes) { (const uint8_t *) *a, strlen(*a) });
    }
    return sum;
}

static uint64_t group(const char *name)
{
    uint64_t sum = name && *name ? siphash13(fixed_key, (struct cc_bytes) { (const uint8_t *) name, strlen(name) }) : 0;

    return name && *name && sum == 0 ? 1 : sum;
}

static void fill_plan(const struct job *j, struct rdzv_plan *p)
{
    const struct options *o = j->options;
    size_t                used = 0;
    char                **a;

    p->min_nodes = j->plan.min_nodes;
    p->max_nodes = j->plan.max_nodes;
    p->arguments = fingerprint(o);
    for (a = o->worker_argv; *a && used < sizeof p->program; a++)
        used += (size_t) snprintf(p->program + used, sizeof p->program - used, "%s%s", used ? " " : "", *a);
    oneline_text(p->program, sizeof p->program);
    (void) snprintf(p->version, sizeof p->version, "%s", CCRUN_VERSION);
}

/* A few restarts are had as torchrun gives them; many are not wasted on what fails the same way each time. */
static void fill_budget(const struct plan_values *p, struct budget_cfg *b)
{
    *b = (struct budget_cfg) {
        .max_restarts = p->max_restarts,
        .window = p->restart_window,
        .backoff_min = p->backoff_min,
        .backoff_max = p->backoff_max,
        .quick = QUICK_MS,
        .same_max = p->max_restarts > SAME_MAX ? SAME_MAX : 0,
    };
}

/* How many agents the scheduler has started: a job of 2 to 8 nodes that was given 4 need not wait for a fifth. */
static uint32_t expected(const struct job *j)
{
    const struct allocation *a = &j->allocation;
    bool                     is_known = a->role == ALLOCATION_MEMBER && a->crowd == 0;

    return is_known && a->nodes < j->plan.max_nodes ? a->nodes : 0;
}

static void fill_rdzv(const struct job *j, struct rdzv_cfg *r)
{
    const struct plan_values  *p = &j->plan;
    const struct plan_timings *t = &p->timings;
    bool                       is_alone = p->hosting == PARTY_ALONE;

    *r = (struct rdzv_cfg) {
        .nodes_cap = is_alone ? 1 : nodes_cap(p),
        .min_nodes = p->min_nodes,
        .max_nodes = p->max_nodes,
        .expected = expected(j),
        .n_spares = p->n_spares,
        .max_rejoins = p->max_rejoins,
        .last_call = t->last_call,
        .join_timeout = t->join,
        .replace_timeout = t->replace,
        .dead_after = t->dead_after,
        .reset_grace = RESET_GRACE_MS,
        .settle_timeout = is_alone ? UINT64_MAX / 2 : t->settle, /* alone, nobody else waits for the verdict */
        .switch_timeout = is_alone ? t->join : SWITCH_TIMEOUT_MS,
        .scale_delay = SCALE_DELAY_MS,
        .finish_timeout = p->finish_timeout,
        .scales_on_restart_only = strcmp(j->options->scale_policy, "restart-only") == 0,
    };
    fill_budget(p, &r->budget);
    fill_plan(j, &r->plan);
}

static const char *text_or_null(const char *s)
{
    return s && *s ? s : NULL;
}

void job_fill_party(const struct job *j, struct party_cfg *p)
{
    const struct options     *o = j->options;
    const struct plan_values *v = &j->plan;
    bool                      is_alone = v->hosting == PARTY_ALONE;

    *p = (struct party_cfg) {
        .hosting = v->hosting,
        .directory = v->directory,
        .host = is_alone ? j->bind_addr : v->bind_host,
        .port = v->port,
        .is_port_named = v->is_port_named,
        .master_addr = v->master_addr,
        .local_addr = text_or_null(v->local_addr),
        .iface = text_or_null(o->iface),
        .subnet = text_or_null(o->subnet),
        .resolve_timeout = o->resolve_timeout,
        .record = text_or_null(o->record),
        .job = v->run_id,
        .secret = j->token,
        .n_secret = j->n_token,
        .store_max_memory = o->store_max_memory,
        .nproc = j->nproc.n,
        .wish = v->node_rank,
        .group = group(o->node_group),
        .our_host = j->host,
        .role = o->role,
        .node = {
            .term_grace = v->shutdown_timeout,
            .kill_grace = o->unkillable_timeout,
            .sweep_grace = o->drain_timeout,
        },
        .heartbeat = v->timings.heartbeat,
        .join_timeout = v->timings.join,
        .lost_after = v->timings.lost_after,
        .exit_barrier = is_alone ? UINT64_MAX : o->exit_barrier_timeout,
    };
    fill_rdzv(j, &p->rdzv);
}
