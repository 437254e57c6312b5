/* fuzz_state.c - whatever stands where the state of a coordinator is expected: refused, or a coordinator that
 * works.
 *
 * An input is a byte, so many bytes that say what happens to a job whose coordinator then saves its state,
 * and groups of three that spoil bytes of that: where, and what is changed.  An unspoilt one is taken.  So no
 * input grows old with the format.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/core/rdzv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { N_NODES = 4, N_WHAT = 8, ROOM = 16 };

static const struct rdzv_cfg cfg = {
    .nodes_cap = 16,
    .min_nodes = 1,
    .max_nodes = 8,
    .max_rejoins = 3,
    .join_timeout = 1000,
    .replace_timeout = 1000,
    .dead_after = 100,
    .settle_timeout = 200,
    .switch_timeout = 200,
    .has_successor = true,
    .budget = { .max_restarts = 3 },
    .plan = { .min_nodes = 1, .max_nodes = 8, .program = "train.py", .version = "1" },
};

struct job {
    struct rdzv     *r;
    uint64_t         now, seq;
    struct rdzv_view view[N_NODES];
};

static void on_view(void *ctx, uint64_t link, const struct rdzv_view *v)
{
    struct job *j = ctx;

    if (link < N_NODES)
        j->view[link] = *v;
}

static void on_refuse(void *ctx, uint64_t link, const struct rdzv_refused *r)
{
    (void) ctx, (void) link, (void) r;
}

static const struct rdzv_ops ops = { on_view, on_refuse };

static void say(struct job *j, unsigned node, enum rdzv_node_phase phase)
{
    const struct rdzv_view *v = &j->view[node];
    struct rdzv_hello h = { .incarnation = 1001 + node, .seq = ++j->seq, .round = v->round, .phase = phase };

    h.has_about = true;
    h.about =
        (struct rdzv_about){ .nproc = 1 + node, .wish = -1, .pid = 4000, .port = 29500, .plan = cfg.plan };
    (void) snprintf(h.about.host, sizeof h.about.host, "node-%u", node);
    (void) snprintf(h.about.addr, sizeof h.about.addr, "10.0.0.%u", node);
    (void) snprintf(h.about.role, sizeof h.about.role, node == 3 ? "ps" : "trainer");
    h.store_round = v->hosts_store ? v->round : 0;
    h.has_cause = phase == RDZV_NODE_FAILED;
    if (h.has_cause)
        h.cause = (struct rdzv_cause){
            .kind = RDZV_CAUSE_WORKER, .round = v->round, .at = j->now, .rank = node, .code = 3
        };
    rdzv_event(j->r, &(struct rdzv_event){ .kind = RDZV_EV_HELLO, .now = j->now, .link = node, .hello = &h });
}

static void happen(struct job *j, uint8_t what)
{
    static const enum rdzv_node_phase phases[N_WHAT] = {
        RDZV_NODE_READY, RDZV_NODE_READY,   RDZV_NODE_RUNNING, RDZV_NODE_FAILED,
        RDZV_NODE_DONE,  RDZV_NODE_LEAVING, RDZV_NODE_GONE,
    };
    unsigned node = what % N_NODES, kind = what / N_NODES % N_WHAT;

    j->now += what / (N_NODES * N_WHAT) * 20u;
    if (kind + 1 < N_WHAT)
        say(j, node, phases[kind]);
    else
        rdzv_event(j->r, &(struct rdzv_event){ .kind = RDZV_EV_TICK, .now = j->now += 200 });
}

static size_t make_state(uint8_t *state, const uint8_t *data, size_t n)
{
    struct cc_err err = { 0 };
    struct job    j = { .now = 1000 };
    size_t        used;

    j.r = rdzv_new(&cfg, j.now, &ops, &j, &err);
    assert(j.r);
    for (size_t i = 0; i < n; i++)
        happen(&j, data[i]);
    used = rdzv_save(j.r, j.now, state);
    rdzv_free(j.r);
    return used;
}

static void use(const uint8_t *state, size_t n, bool is_whole)
{
    struct cc_err err = { 0 };
    struct job    j = { .now = 1000 };
    uint8_t      *again = malloc(rdzv_save_max(&cfg));

    j.r = rdzv_new(&cfg, j.now, &ops, &j, &err);
    assert(j.r && again);
    if (rdzv_load(j.r, j.now, state, n, &err) < 0) {
        assert(err.msg[0] && !is_whole);
    } else {
        assert(rdzv_save(j.r, j.now, again) <= rdzv_save_max(&cfg));
        for (unsigned i = 0; i < 20 && rdzv_deadline(j.r) != UINT64_MAX; i++) {
            j.now = rdzv_deadline(j.r) > j.now ? rdzv_deadline(j.r) : j.now;
            rdzv_event(j.r, &(struct rdzv_event){ .kind = RDZV_EV_TICK, .now = j.now });
        }
        assert(rdzv_save(j.r, j.now, again) <= rdzv_save_max(&cfg));
    }
    free(again);
    rdzv_free(j.r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *state = malloc(rdzv_save_max(&cfg) + ROOM), *copy;
    size_t   n_events = size > 0 ? (data[0] < size - 1 ? data[0] : size - 1) : 0, n;
    bool     is_whole = true;

    assert(state);
    n = make_state(state, data + (size > 0), n_events);
    for (size_t at = 1 + n_events; at + 3 <= size; at += 3) {
        size_t where = (size_t) data[at] | (size_t) data[at + 1] << 8;

        is_whole = false;
        if (where < n)
            state[where] ^= data[at + 2];
        else
            n -= n > 0; /* it is cut */
    }
    copy = malloc(n + (n == 0)); /* so that a read past the end is seen */
    assert(copy);
    for (size_t i = 0; i < n; i++)
        copy[i] = state[i];
    use(copy, n, is_whole);
    free(copy);
    free(state);
    return 0;
}
