/* tell.h - what the agent tells of its job while it runs and when it has ended: event lines, the report, the JSON file.
 *
 * It turns the worker table into struct report_failure and struct events_worker; what is said is theirs.
 */
#ifndef AGENT_TELL_H
#define AGENT_TELL_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/agent.h"
#include "agent/core/policy.h"
#include "agent/report.h"
#include "agent/workers.h"

struct tell {
    const struct agent_cfg *cfg;
    struct report  *report;
    struct workers *workers; /* borrowed, as the two below */
    struct logs    *logs;
    const struct policy *policy;
    unsigned  *failed, n_failed; /* local ranks in the order in which we learned of their failures, this attempt */
    struct rdzv_view round;      /* the newest whose workers were started here */
    unsigned   attempt;          /* restarts of the job by then */
    uint64_t   started_at;       /* ms, monotonic */
    bool       is_events, is_formed;
};

/* -ENOMEM only.  workers, logs and policy are set by the caller when they exist. */
int  tell_init(struct tell *t, const struct agent_cfg *cfg, struct cc_err *err);
void tell_clear(struct tell *t);

void tell_round(struct tell *t, const struct rdzv_view *round, unsigned attempt); /* it has formed; its workers start */
void tell_workers_run(struct tell *t);                  /* all of them have been started */
void tell_failed(struct tell *t, unsigned local_rank);  /* this worker ended with something else than 0 */
void tell_attempt_ended(struct tell *t);                /* every stream is read: look at the failures */
bool tell_is_ours(const struct tell *t, const struct rdzv_cause *c); /* did it happen to a worker here? */
void tell_describe(const struct tell *t, struct rdzv_cause *c); /* fills rank and text from the first failure here */
/* Before logs_close(): what is said is in the console's queue then. The JSON file is what can fail. */
int  tell_job_ended(struct tell *t, const struct rdzv_view *last, unsigned status, struct cc_err *err);
void tell_own_failure(const char *sentence); /* ccrun itself could not go on */

#endif
