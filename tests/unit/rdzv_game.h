/* rdzv_game.h - nodes that play by hand with the coordinator of a job, for its tests. */
#ifndef UNIT_RDZV_GAME_H
#define UNIT_RDZV_GAME_H

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/core/rdzv.h"

/* Nodes are 1 .. N_MAX: number, incarnation and host name go together. What each was told last is kept. */
enum { N_MAX = 9 };

struct game {
    struct rdzv_cfg     cfg;
    struct rdzv        *r;
    uint64_t            now, seq;
    uint64_t            incarnation[N_MAX + 1], link[N_MAX + 1];
    int32_t             wish[N_MAX + 1];
    const char         *host; /* of all nodes, before their number */
    struct rdzv_view    view[N_MAX + 1];
    struct rdzv_refused refused[N_MAX + 1];
    unsigned            n_views;
};

static inline void on_view(void *ctx, uint64_t link, const struct rdzv_view *v)
{
    struct game *g = ctx;

    g->view[link % 10] = *v;
    g->n_views++;
}

static inline void on_refuse(void *ctx, uint64_t link, const struct rdzv_refused *refused)
{
    struct game *g = ctx;

    g->refused[link % 10] = *refused;
}

static const struct rdzv_ops ops = { on_view, on_refuse };

static inline void event(struct game *g, struct rdzv_event ev)
{
    ev.now = g->now;
    rdzv_event(g->r, &ev);
}

/* The clock goes on, and what is due happens. */
static inline void pass(struct game *g, uint64_t ms)
{
    uint64_t until = g->now + ms;

    while (rdzv_deadline(g->r) <= until) {
        g->now = rdzv_deadline(g->r) > g->now ? rdzv_deadline(g->r) : g->now;
        event(g, (struct rdzv_event) { .kind = RDZV_EV_TICK });
        cr_assert_gt(rdzv_deadline(g->r), g->now, "due for ever");
    }
    g->now = until;
}

static inline struct rdzv_hello hello_of(struct game *g, unsigned node, enum rdzv_node_phase phase, uint32_t round)
{
    struct rdzv_hello h = { .incarnation = g->incarnation[node], .seq = ++g->seq, .round = round, .phase = phase };

    h.has_about = true;
    h.about = (struct rdzv_about) { .nproc = 2, .wish = g->wish[node], .pid = 4000 + node, .plan = g->cfg.plan };
    h.about.port = (uint16_t) (29500 + node);
    (void) snprintf(h.about.host, sizeof h.about.host, "%s%u", g->host, node);
    (void) snprintf(h.about.addr, sizeof h.about.addr, "10.0.0.%u", node);
    return h;
}

static inline void send_hello(struct game *g, unsigned node, const struct rdzv_hello *h)
{
    event(g, (struct rdzv_event) { .kind = RDZV_EV_HELLO, .link = g->link[node], .hello = h });
}

static inline void say(struct game *g, unsigned node, enum rdzv_node_phase phase, uint32_t round)
{
    struct rdzv_hello h = hello_of(g, node, phase, round);

    send_hello(g, node, &h);
}

/* Of a worker, `ago` ms. */
static inline void fail(struct game *g, unsigned node, uint64_t ago, uint32_t code)
{
    uint32_t          round = g->view[node].round - (g->view[node].phase == RDZV_GATHER ? 1 : 0);
    struct rdzv_hello h = hello_of(g, node, RDZV_NODE_FAILED, round);

    h.has_cause = true;
    h.cause = (struct rdzv_cause) { .kind = RDZV_CAUSE_WORKER, .round = round, .rank = 2 * node, .code = code };
    h.cause.at = g->now - ago;
    (void) snprintf(h.cause.host, sizeof h.cause.host, "%s%u", g->host, node);
    (void) snprintf(h.cause.text, sizeof h.cause.text, "exit code %u", code);
    send_hello(g, node, &h);
}

static inline void boot(struct game *g, unsigned node)
{
    g->incarnation[node] += 1000;
    g->link[node] += 10;
    say(g, node, RDZV_NODE_READY, 0);
}

/* It does what it was told, at once, until there is nothing left to do. */
static inline void obey(struct game *g, unsigned node)
{
    const struct rdzv_view *v = &g->view[node];
    struct rdzv_hello       h;

    if (v->phase == RDZV_GATHER)
        say(g, node, RDZV_NODE_READY, v->round);
    if (v->phase != RDZV_SWITCH || !v->hosts_store)
        return;
    h = hello_of(g, node, RDZV_NODE_READY, v->round);
    h.store_round = v->round;
    send_hello(g, node, &h);
}

static inline void obey_all(struct game *g, unsigned n)
{
    for (unsigned turn = 0; turn < 3; turn++)
        for (unsigned i = 1; i <= n; i++)
            obey(g, i);
}

/* All that live say so, while time passes. */
static inline void live(struct game *g, unsigned from, unsigned to, uint64_t ms)
{
    for (uint64_t until = g->now + ms; g->now < until;) {
        for (unsigned i = from; i <= to; i++)
            say(g, i, g->view[i].phase == RDZV_ACTIVE ? RDZV_NODE_RUNNING : RDZV_NODE_READY, g->view[i].round);
        pass(g, until - g->now < 1000 ? until - g->now : 1000);
    }
}

static inline void init(struct game *g, uint32_t min, uint32_t max)
{
    *g = (struct game) { .now = 1000 };
    g->cfg = (struct rdzv_cfg) {
        .nodes_cap = 9, .min_nodes = min, .max_nodes = max, .max_rejoins = UINT32_MAX,
        .budget = { .max_restarts = 3, .quick = 5000 },
        .last_call = 30000, .join_timeout = 600000, .replace_timeout = 600000,
        .dead_after = 3000, .reset_grace = 300, .settle_timeout = 4500, .switch_timeout = 5000, .scale_delay = 500,
        .plan = { .min_nodes = min, .max_nodes = max, .program = "train.py", .version = "1" },
    };
    g->host = "h";
    for (unsigned i = 0; i <= N_MAX; i++) {
        g->incarnation[i] = g->link[i] = i;
        g->wish[i] = -1;
    }
}

static inline void begin(struct game *g)
{
    struct cc_err err = { 0 };

    g->r = rdzv_new(&g->cfg, g->now, &ops, g, &err);
    cr_assert(g->r, "%s", err.msg);
}

/* n nodes in an active round. */
static inline void form(struct game *g, uint32_t min, uint32_t max, unsigned n)
{
    init(g, min, max);
    begin(g);
    for (unsigned i = 1; i <= n; i++)
        boot(g, i);
    obey_all(g, n);
    if (n < max)
        live(g, 1, n, g->cfg.last_call + 1);
    obey_all(g, n);
    for (unsigned i = 1; i <= n; i++)
        cr_assert_eq(g->view[i].phase, RDZV_ACTIVE);
}

static inline void crash(struct game *g, unsigned node)
{
    event(g, (struct rdzv_event) { .kind = RDZV_EV_BROKEN, .link = g->link[node], .incarnation = g->incarnation[node] });
}

static inline struct rdzv_status status(const struct game *g)
{
    struct rdzv_status s;

    rdzv_status(g->r, &s);
    return s;
}

static inline void check_ranks(const struct game *g, const char *want)
{
    char   got[64] = "";
    size_t len = 0;

    for (unsigned i = 1; i <= N_MAX && g->incarnation[i] > 999; i++)
        len += (size_t) snprintf(got + len, sizeof got - len, "%s%d", i > 1 ? " " : "", (int) g->view[i].group_rank);
    cr_expect_str_eq(got, want, "%s, not %s", got, want);
}

#endif
