#include "tests/sim/sim_solo.h"

#include <stdlib.h>

enum { OWN = 1 };

static const uint64_t hardly_ever = UINT64_MAX / 4; /* nobody can be silent, so nobody has to speak */

/* ---- the coordinator's ops: said now, heard a little later */

static void on_view(void *ctx, uint64_t link, const struct rdzv_view *v)
{
    struct solo *s = ctx;

    (void) link;
    if (s->n_views == SOLO_QUEUE)
        abort();
    s->views[s->n_views++] = *v;
}

static void on_refuse(void *ctx, uint64_t link, const struct rdzv_refused *r)
{
    (void) ctx, (void) link, (void) r;
    abort();
}

static const struct rdzv_ops rdzv_ops = { on_view, on_refuse };

/* ---- the member's */

static void op_hello(void *ctx, const struct rdzv_hello *h)
{
    struct solo *s = ctx;

    if (s->n_hellos == SOLO_QUEUE)
        abort();
    s->hellos[s->n_hellos++] = *h;
}

static void op_start(void *ctx, const struct rdzv_view *view)
{
    struct solo *s = ctx;

    (void) view;
    s->ops->start(s->ctx);
}

static void op_signal(void *ctx, int signum)
{
    struct solo *s = ctx;

    s->ops->signal(s->ctx, signum);
}

static void op_sweep(void *ctx, int signum)
{
    struct solo *s = ctx;

    s->ops->sweep(s->ctx, signum);
}

static unsigned op_attempt_ended(void *ctx)
{
    struct solo *s = ctx;

    return s->ops->attempt_ended(s->ctx);
}

static void op_node_news(void *ctx, enum node_news news, int arg)
{
    struct solo *s = ctx;

    s->ops->news(s->ctx, news, arg);
}

static void op_describe(void *ctx, struct rdzv_cause *c)
{
    (void) ctx, (void) c;
}

static void op_host_store(void *ctx, uint32_t round)
{
    struct solo *s = ctx;

    member_store_switched(&s->m, s->now, round);
}

static void op_notice(void *ctx, uint64_t ms_left)
{
    (void) ctx, (void) ms_left;
}

static void op_news(void *ctx, enum member_news news, const struct rdzv_view *view)
{
    (void) ctx, (void) news, (void) view;
}

static void op_finish(void *ctx, unsigned status)
{
    struct solo *s = ctx;

    s->ops->finish(s->ctx, status);
}

static const struct member_ops member_ops = {
    op_hello, op_start, op_signal, op_sweep, op_attempt_ended, op_node_news, op_describe, op_host_store, op_notice, op_news,
    op_finish,
};

/* ---- both together */

static void hear_hello(struct solo *s)
{
    struct rdzv_hello h = s->hellos[0];
    unsigned          i;

    for (i = 1; i < s->n_hellos; i++)
        s->hellos[i - 1] = s->hellos[i];
    s->n_hellos--;
    rdzv_event(s->r, &(struct rdzv_event) { .kind = RDZV_EV_HELLO, .now = s->now, .link = 1, .hello = &h });
}

static void hear_view(struct solo *s)
{
    struct rdzv_view v = s->views[0];
    unsigned         i;

    for (i = 1; i < s->n_views; i++)
        s->views[i - 1] = s->views[i];
    s->n_views--;
    member_view(&s->m, s->now, &v);
}

/* Whether anything had been said. */
static bool pump(struct solo *s)
{
    bool was_quiet = s->n_hellos + s->n_views == 0;

    while (s->n_hellos + s->n_views > 0) {
        if (s->n_hellos > 0)
            hear_hello(s);
        else
            hear_view(s);
    }
    return !was_quiet;
}

void solo_start(struct solo *s, const struct solo_cfg *cfg, uint64_t now, const struct solo_ops *ops, void *ctx)
{
    const struct rdzv_cfg rdzv = {
        .nodes_cap = 1, .min_nodes = 1, .max_nodes = 1,
        .budget = { .max_restarts = cfg->max_restarts },
        .join_timeout = hardly_ever, .dead_after = hardly_ever, .settle_timeout = hardly_ever,
        .switch_timeout = hardly_ever, .own = OWN,
        .plan = { .min_nodes = 1, .max_nodes = 1 },
    };
    const struct member_cfg member = {
        .node = cfg->node, .incarnation = OWN, .about = { .nproc = 1, .wish = -1, .plan = rdzv.plan },
        .heartbeat = hardly_ever, .join_timeout = hardly_ever, .lost_after = hardly_ever, .exit_barrier = UINT64_MAX,
    };
    struct cc_err err;

    *s = (struct solo) { .ops = ops, .ctx = ctx, .now = now };
    s->r = rdzv_new(&rdzv, now, &rdzv_ops, s, &err);
    if (!s->r)
        abort();
    member_init(&s->m, &member, now, &member_ops, s);
    (void) pump(s);
}

void solo_free(struct solo *s)
{
    s->r = rdzv_free(s->r);
}

void solo_exited(struct solo *s, uint64_t now, int status)
{
    s->now = now;
    (void) member_exited(&s->m, now, status, false);
    (void) pump(s);
}

void solo_signal(struct solo *s, uint64_t now, int signum)
{
    s->now = now;
    member_signal(&s->m, now, signum);
    (void) pump(s);
}

void solo_tick(struct solo *s, uint64_t now)
{
    s->now = now;
    if (now >= rdzv_deadline(s->r))
        rdzv_event(s->r, &(struct rdzv_event) { .kind = RDZV_EV_TICK, .now = now });
    (void) member_tick(&s->m, now);
    (void) pump(s);
}

void solo_settle(struct solo *s, uint64_t now, bool is_empty, bool is_drained)
{
    s->now = now;
    do
        member_settle(&s->m, now, is_empty, is_drained);
    while (pump(s)); /* a view is taken, and that is a callback too */
}

uint64_t solo_deadline(const struct solo *s)
{
    uint64_t a = member_deadline(&s->m), b = rdzv_deadline(s->r), at = a < b ? a : b;

    return at < hardly_ever / 2 ? at : UINT64_MAX;
}
