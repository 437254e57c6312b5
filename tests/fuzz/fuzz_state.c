/* fuzz_state.c - whatever stands where the state of a coordinator is expected: refused, or a coordinator that works. */
#include <assert.h>
#include <stdlib.h>

#include "agent/core/rdzv.h"

static void on_view(void *ctx, uint64_t link, const struct rdzv_view *v)
{
    (void) ctx, (void) link, (void) v;
}

static void on_refuse(void *ctx, uint64_t link, const struct rdzv_refused *r)
{
    (void) ctx, (void) link, (void) r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct rdzv_ops ops = { on_view, on_refuse };
    const struct rdzv_cfg        cfg = {
        .nodes_cap = 16, .min_nodes = 1, .max_nodes = 8, .max_rejoins = 3, .join_timeout = 1000, .dead_after = 100,
        .budget = { .max_restarts = 3 }, .plan = { .min_nodes = 1, .max_nodes = 8 },
    };
    struct cc_err err = { 0 };
    struct rdzv  *r = rdzv_new(&cfg, 1000, &ops, NULL, &err);
    uint8_t      *again = malloc(rdzv_save_max(&cfg));
    uint64_t      now = 1000;
    unsigned      i;

    assert(r && again);
    if (rdzv_load(r, now, data, size, &err) < 0) {
        assert(err.msg[0]);
    } else {
        assert(rdzv_save(r, now, again) <= rdzv_save_max(&cfg));
        for (i = 0; i < 20 && rdzv_deadline(r) != UINT64_MAX; i++) {
            now = rdzv_deadline(r) > now ? rdzv_deadline(r) : now;
            rdzv_event(r, &(struct rdzv_event) { .kind = RDZV_EV_TICK, .now = now });
        }
        assert(rdzv_save(r, now, again) <= rdzv_save_max(&cfg));
    }
    free(again);
    rdzv_free(r);
    return 0;
}
