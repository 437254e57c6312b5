/* budget.h - may the job restart once more after a failure, and how soon: one budget for all of its nodes.
 *
 * Pure.  Times are ms of one monotonic clock.
 *
 * An attempt came no further than the last one when the progress file is the same, however long it ran and whoever failed;
 * without a progress file, when the same worker failed in the same way, and soon after the start.
 */
#ifndef AGENT_CORE_BUDGET_H
#define AGENT_CORE_BUDGET_H

#include "agent/core/fields.h"
#include "store/base/err.h"

enum { BUDGET_WINDOW_MAX = 1024 }; /* restarts that can be counted within a window */

struct budget_cfg {
    uint32_t max_restarts;
    uint64_t window;                   /* only the restarts of the last so many ms count; 0: all of the job's */
    uint64_t backoff_min, backoff_max; /* a failure soon after a start waits, twice as long each time; 0: no wait */
    uint64_t quick;                    /* what is soon after a start */
    uint32_t same_max;                 /* so many attempts that came no further are the end; 0: never */
};

struct budget;

enum budget_answer { BUDGET_RESTART, BUDGET_SPENT, BUDGET_SAME, BUDGET_FINAL };

/* NULL and err: -EINVAL for a window with more than BUDGET_WINDOW_MAX restarts, -ENOMEM. Free with budget_free(). */
struct budget *budget_new(const struct budget_cfg *cfg, struct cc_err *err);
struct budget *budget_free(struct budget *b); /* accepts NULL, returns NULL */

/* `ran`: how long the workers had run.  BUDGET_RESTART charges one restart, and *ret_wait is how long to wait with it. */
enum budget_answer budget_ask(struct budget *b, uint64_t now, uint64_t ran, const struct rdzv_cause *why, uint64_t *ret_wait);
uint32_t budget_used(const struct budget *b); /* in the whole job */

/* What was used, saved or (into a new one with the same configuration) loaded.  moved: what to add to the times that were
 * saved, modulo 2^64, since a successor has another clock. */
enum { BUDGET_STATE_MAX = 12 + FIELDS_CAUSE_MAX + 8 * BUDGET_WINDOW_MAX };
void budget_state(struct budget *b, struct fields *f, uint64_t moved);

#endif
