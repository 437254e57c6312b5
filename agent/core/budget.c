#include "agent/core/budget.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct budget {
    struct budget_cfg cfg;
    uint32_t          n_used, n_quick, n_same;
    struct rdzv_cause last; /* the newest failure that counts, when n_same > 0 */
    uint64_t          times[]; /* of the last max_restarts restarts, a ring; only with a window */
};

struct budget *budget_new(const struct budget_cfg *cfg, struct cc_err *err)
{
    struct budget *b;

    if (cfg->window > 0 && cfg->max_restarts > BUDGET_WINDOW_MAX) {
        (void) cc_fail(err, -EINVAL, "%u restarts within a time: at most %d can be counted", cfg->max_restarts,
                       BUDGET_WINDOW_MAX);
        return NULL;
    }
    b = calloc(1, sizeof(*b) + (cfg->window > 0 ? cfg->max_restarts : 0) * sizeof(b->times[0]));
    if (!b) {
        (void) cc_fail(err, -ENOMEM, "no memory to count %u restarts", cfg->max_restarts);
        return NULL;
    }
    b->cfg = *cfg;
    return b;
}

struct budget *budget_free(struct budget *b)
{
    free(b);
    return NULL;
}

static bool is_spent(const struct budget *b, uint64_t now)
{
    uint32_t max = b->cfg.max_restarts;

    if (b->n_used < max)
        return false;
    return max == 0 || b->cfg.window == 0 || now - b->times[b->n_used % max] < b->cfg.window; /* the oldest of the ring */
}

static bool is_same(const struct rdzv_cause *a, const struct rdzv_cause *b)
{
    if (a->progress != 0 || b->progress != 0)
        return a->progress == b->progress;
    return a->rank == b->rank && a->code == b->code && strcmp(a->text, b->text) == 0;
}

static void count(struct budget *b, uint64_t ran, const struct rdzv_cause *why)
{
    bool is_quick = ran <= b->cfg.quick;

    b->n_quick = is_quick ? b->n_quick + 1 : 0;
    if (!is_quick && why->progress == 0) {
        b->n_same = 0;
        return;
    }
    b->n_same = b->n_same > 0 && is_same(&b->last, why) ? b->n_same + 1 : 1;
    b->last = *why;
}

static uint64_t backoff(const struct budget *b)
{
    uint64_t wait = b->cfg.backoff_min;
    uint32_t i;

    if (b->n_quick == 0)
        return 0;
    for (i = 1; i < b->n_quick && wait < b->cfg.backoff_max; i++)
        wait *= 2;
    return wait < b->cfg.backoff_max ? wait : b->cfg.backoff_max;
}

enum budget_answer budget_ask(struct budget *b, uint64_t now, uint64_t ran, const struct rdzv_cause *why, uint64_t *ret_wait)
{
    count(b, ran, why);
    if (why->is_final)
        return BUDGET_FINAL;
    if (is_spent(b, now))
        return BUDGET_SPENT;
    if (b->cfg.same_max > 0 && b->n_same >= b->cfg.same_max)
        return BUDGET_SAME;
    if (b->cfg.window > 0)
        b->times[b->n_used % b->cfg.max_restarts] = now;
    b->n_used++;
    *ret_wait = backoff(b);
    return BUDGET_RESTART;
}

uint32_t budget_used(const struct budget *b)
{
    return b->n_used;
}

void budget_state(struct budget *b, struct fields *f, uint64_t moved)
{
    uint32_t n, i;

    fields_u32(f, &b->n_used);
    fields_u32(f, &b->n_quick);
    fields_u32(f, &b->n_same);
    if (b->n_same > 0)
        fields_cause(f, &b->last);
    n = b->cfg.window == 0 ? 0 : b->n_used < b->cfg.max_restarts ? b->n_used : b->cfg.max_restarts;
    for (i = 0; i < n; i++) {
        uint64_t at = b->times[i];

        fields_u64(f, &at);
        b->times[i] = at + moved;
    }
}
