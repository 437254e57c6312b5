#include "agent/tell.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "agent/events.h"
#include "store/base/cleanup.h"
#include "store/base/clock.h"

static void write_event(void *ctx, const char *line, size_t len)
{
    struct tell *t = ctx;

    if (t->logs)
        logs_say(t->logs, line);
    else
        (void) !write(STDERR_FILENO, line, len);
}

static struct events events_of(struct tell *t)
{
    return (struct events) {
        .run_id = t->cfg->run_id,
        .role = t->cfg->role,
        .host = t->cfg->host,
        .backend = t->cfg->backend,
        .entry_point = t->cfg->program,
        .is_formed = t->is_formed,
        .group_rank = t->round.group_rank,
        .group_world_size = t->round.group_world,
        .n_restarts = t->round.restarts,
        .write = write_event,
        .ctx = t,
    };
}

int tell_init(struct tell *t, const struct agent_cfg *c, struct cc_err *err)
{
    const struct report_cfg cfg = {
        .entry = c->entry,
        .python = c->python,
        .python_why = c->python_why,
        .host = c->host,
        .run_id = c->run_id,
        .role = c->role,
        .world_size = c->nproc,
        .nproc = c->nproc,
        .max_restarts = c->max_restarts,
        .json_file = c->report_file,
        .is_merged = c->logs.is_merged,
        .parent_error_file = getenv("TORCHELASTIC_ERROR_FILE"),
        .shutdown_timeout = c->shutdown_timeout,
    };

    *t = (struct tell) {
        .cfg = c,
        .report = report_new(&cfg),
        .failed = calloc(c->nproc, sizeof *t->failed),
        .started_at = cc_monotonic_ms(),
        .is_events = c->is_events_console && !events_are_silenced(getenv("LOGLEVEL")),
    };
    return t->report && t->failed ? 0 : cc_fail(err, -ENOMEM, "no memory for %u workers", c->nproc);
}

void tell_clear(struct tell *t)
{
    t->report = report_free(t->report);
    free(t->failed);
    t->failed = NULL;
}

void tell_round(struct tell *t, const struct rdzv_view *round, unsigned attempt)
{
    struct events e;

    t->round = *round;
    t->attempt = attempt;
    e = events_of(t);
    t->n_failed = 0;
    report_round(t->report, round->world);
    t->is_formed = true; /* after events_of(): torchrun tells of a round with what it knew before */
    if (!t->is_events)
        return;
    (void) events_agent(&e, EVENTS_RENDEZVOUS, 0, NULL);
    (void) events_agent(&e, EVENTS_ASSIGN_WORKER_RANKS, 0, NULL);
}

static void worker_event(struct tell *t, const struct events *e, enum events_state state, unsigned local_rank)
{
    const struct worker *w = workers_get(t->workers, local_rank);

    (void) events_worker(e, state, &(struct events_worker) {
        .rank = t->round.base_rank + local_rank,
        .local_rank = local_rank,
        .role_rank = t->round.base_role_rank + local_rank,
        .role_world_size = t->round.role_world,
        .pid = w->pid,
        .status = w->status,
        .error_file = logs_error_file(t->logs, local_rank),
    });
}

void tell_workers_run(struct tell *t)
{
    struct events e = events_of(t);
    unsigned      i;

    for (i = 0; t->is_events && i < t->cfg->nproc; i++)
        worker_event(t, &e, EVENTS_START, i);
}

void tell_failed(struct tell *t, unsigned local_rank)
{
    t->failed[t->n_failed++] = local_rank;
}

void tell_attempt_ended(struct tell *t)
{
    unsigned i;

    for (i = 0; i < t->n_failed; i++) {
        const struct worker *w = workers_get(t->workers, t->failed[i]);

        report_failure(t->report, &(struct report_failure) {
            .rank = t->round.base_rank + t->failed[i],
            .local_rank = t->failed[i],
            .attempt = t->attempt,
            .pid = w->pid,
            .status = w->status,
            .realtime_ms = w->ended_at,
            .ran_ms = w->ran_ms,
            .is_killed_by_us = !w->is_failure && w->is_termed,
            .is_after_grace = !w->is_failure && w->is_killed,
            .error_file = logs_error_file(t->logs, t->failed[i]),
            .stderr_tail = logs_stderr_tail(t->logs, t->failed[i]),
            .log_dir = logs_attempt_dir(t->logs),
        });
    }
}

bool tell_is_ours(const struct tell *t, const struct rdzv_cause *c)
{
    return c->rank != RDZV_NO_RANK && c->round == t->round.round && c->rank >= t->round.base_rank &&
           c->rank < t->round.base_rank + t->cfg->nproc;
}

void tell_describe(const struct tell *t, struct rdzv_cause *c)
{
    const struct worker *w;
    char                 how[96];
    unsigned             i;

    if (t->n_failed == 0 || report_first_in_short(t->report, &c->rank, c->text, sizeof c->text) == 0)
        return;
    for (i = 0; i + 1 < t->n_failed && !workers_get(t->workers, t->failed[i])->is_failure; i++)
        ; /* none yet: the last, which is just being looked at */
    w = workers_get(t->workers, t->failed[i]);
    c->rank = t->round.base_rank + t->failed[i];
    report_describe_status(w->status, how, sizeof how);
    (void) snprintf(c->text, sizeof c->text, "rank %u %s", c->rank, how);
}

/* How those ended that did not fail by themselves. */
static void count_ends(const struct tell *t, unsigned *ret_ok, unsigned *ret_stopped)
{
    unsigned i;

    *ret_ok = *ret_stopped = 0;
    for (i = 0; i < t->cfg->nproc; i++) {
        const struct worker *w = workers_get(t->workers, i);

        if (w->is_started && !w->is_alive && !w->is_failure) {
            *ret_ok += w->status == 0;
            *ret_stopped += w->status != 0;
        }
    }
}

static void end_events(struct tell *t)
{
    struct events e = events_of(t);
    unsigned      i;

    e.run_time_s = (unsigned) ((cc_monotonic_ms() - t->started_at) / 1000);
    if (t->policy->is_stopped) {
        (void) events_agent(&e, EVENTS_FAILED, -1, "the job was stopped by a signal");
        return;
    }
    for (i = 0; i < t->cfg->nproc; i++) {
        const struct worker *w = workers_get(t->workers, i);
        bool is_bad = w->status != 0;

        if (w->is_started)
            worker_event(t, &e, is_bad ? EVENTS_FAILED : t->n_failed ? EVENTS_TERMINATED : EVENTS_SUCCEEDED, i);
    }
    (void) events_agent(&e, EVENTS_SUCCEEDED, -1, NULL);
}

/* On its way to stderr it stands in line with what the workers printed last. */
static void print_report(struct tell *t, unsigned n_ok, unsigned n_stopped)
{
    CC_AUTO_FREE char *text = NULL;
    size_t             len;
    FILE              *memory = open_memstream(&text, &len);

    if (!memory)
        return;
    (void) report_print(t->report, memory, n_ok, n_stopped);
    if (fclose(memory) == 0)
        logs_say(t->logs, text);
}

/* The job's end is the coordinator's word; who left it, or was left, has only its own. */
static bool has_failed(const struct tell *t, const struct rdzv_view *last, unsigned status)
{
    if (last->phase == RDZV_ENDED)
        return last->cause.kind != RDZV_CAUSE_NONE && last->cause.kind != RDZV_CAUSE_STOPPED;
    return status != 0 && !t->policy->is_stopped;
}

/* Of a job that ended without us, we know only what failed here by itself. */
static bool is_cause_here(const struct tell *t, const struct rdzv_view *last)
{
    unsigned i;

    if (last->phase == RDZV_ENDED)
        return t->n_failed > 0 && tell_is_ours(t, &last->cause);
    for (i = 0; i < t->n_failed; i++)
        if (workers_get(t->workers, t->failed[i])->is_failure)
            return true;
    return false;
}

int tell_job_ended(struct tell *t, const struct rdzv_view *last, unsigned status, struct cc_err *err)
{
    bool        is_failed = has_failed(t, last, status);
    bool        is_stopped = t->policy->is_stopped || last->cause.kind == RDZV_CAUSE_STOPPED;
    const char *outcome = is_failed ? "failed" : is_stopped ? "stopped" : status ? "failed" : "succeeded";
    unsigned    n_ok, n_stopped;

    if (t->is_events)
        end_events(t);
    count_ends(t, &n_ok, &n_stopped);
    /* When an attempt could not be started that was said, and who was ended for it is not the cause. */
    if (is_failed && is_cause_here(t, last) && !t->policy->is_final)
        print_report(t, n_ok, n_stopped);
    return report_write_json(t->report, (int) status, outcome, err);
}

void tell_own_failure(const char *sentence)
{
    struct cc_err err = { 0 };

    (void) report_own_failure(getenv("TORCHELASTIC_ERROR_FILE"), sentence, &err);
}
