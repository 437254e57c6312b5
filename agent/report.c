#include "agent/report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "agent/atomicfile.h"
#include "agent/core/cause.h"
#include "agent/errfile.h"
#include "agent/evidence.h"
#include "agent/failure.h"
#include "agent/report_json.h"
#include "agent/report_text.h"
#include "store/base/cleanup.h"
#include "store/base/clock.h"
#include "store/base/signame.h"

enum { ATTEMPTS_MAX = 256 }; /* kept for the JSON; of more the oldest go */

struct report {
    struct report_cfg          cfg;
    struct evidence_watch      watch;
    uint64_t                   started_ms;
    struct failure           **failures; /* of this attempt */
    size_t                     n, cap;
    unsigned                   attempt;
    struct report_json_attempt attempts[ATTEMPTS_MAX];
    struct failure            *attempt_first[ATTEMPTS_MAX]; /* owns what attempts[].first shows */
    size_t                     n_attempts, n_attempts_omitted;
    bool                       has_counts; /* report_print() told them */
    unsigned                   n_ok, n_stopped;
};

struct report *report_new(const struct report_cfg *cfg)
{
    struct report *r = calloc(1, sizeof *r);

    if (!r)
        return NULL;
    r->cfg = *cfg;
    r->started_ms = cc_realtime_ms();
    evidence_start(&r->watch, cfg->root);
    return r;
}

struct report *report_free(struct report *r)
{
    if (!r)
        return NULL;
    for (size_t i = 0; i < r->n; i++)
        failure_free(r->failures[i]);
    for (size_t i = 0; i < r->n_attempts; i++)
        failure_free(r->attempt_first[i]);
    free(r->failures);
    free(r);
    return NULL;
}

/* Short of memory the failure is dropped: the job is about to end, and the others still tell. */
void report_failure(struct report *r, const struct report_failure *f)
{
    struct failure *x;

    if (r->n == r->cap) {
        size_t           cap = r->cap ? 2 * r->cap : 8;
        struct failure **grown = reallocarray(r->failures, cap, sizeof(struct failure *));

        if (!grown)
            return;
        r->failures = grown;
        r->cap = cap;
    }
    x = failure_new(f, &r->watch, r->cfg.shutdown_timeout);
    if (x)
        r->failures[r->n++] = x;
}

/* Index of the root cause; n is at least 1. */
static size_t first_of(const struct report *r)
{
    CC_AUTO_FREE struct cause_failure *causes = calloc(r->n, sizeof *causes);

    if (!causes)
        return 0; /* the first one that was seen */
    for (size_t i = 0; i < r->n; i++)
        causes[i] = failure_cause(r->failures[i]);
    return cause_first(causes, r->n);
}

void report_round(struct report *r, unsigned world_size)
{
    r->cfg.world_size = world_size;
}

void report_restarted(struct report *r)
{
    size_t first = r->n > 0 ? first_of(r) : 0;

    if (r->n_attempts == ATTEMPTS_MAX) {
        failure_free(r->attempt_first[0]);
        for (size_t i = 1; i < ATTEMPTS_MAX; i++) {
            r->attempts[i - 1] = r->attempts[i];
            r->attempt_first[i - 1] = r->attempt_first[i];
        }
        r->n_attempts--;
        r->n_attempts_omitted++;
    }
    r->attempt_first[r->n_attempts] = r->n > 0 ? CC_STEAL(r->failures[first]) : NULL;
    r->attempts[r->n_attempts] = (struct report_json_attempt){
        .attempt = r->attempt++,
        .n_failures = r->n,
        .ended_ms = cc_realtime_ms(),
        .first = r->attempt_first[r->n_attempts],
    };
    r->n_attempts++;
    for (size_t i = 0; i < r->n; i++)
        failure_free(r->failures[i]);
    r->n = 0;
}

unsigned report_first_code(const struct report *r)
{
    const struct failure *x = r->n > 0 ? r->failures[first_of(r)] : NULL;

    if (!x)
        return 0;
    if (!WIFSIGNALED(x->f.status))
        return (unsigned) WEXITSTATUS(x->f.status);
    return x->message && x->f.is_killed_by_us ? 1 : 128 + (unsigned) WTERMSIG(x->f.status);
}

static void describe_end(const struct failure *x, char *how, size_t n_how, char *why, size_t n_why)
{
    report_describe_status(x->f.status, how, n_how);
    why[0] = '\0';
    if (x->message)
        failure_why(x, why, n_why);
}

void report_describe_first(const struct report *r, char *buf, size_t size)
{
    const struct failure *x = r->n > 0 ? r->failures[first_of(r)] : NULL;
    char                  how[96], why[200];

    buf[0] = '\0';
    if (!x)
        return;
    describe_end(x, how, sizeof how, why, sizeof why);
    (void) snprintf(buf, size, "rank %u (local_rank: %u, pid: %d) %s after %.1f s%s%s", x->f.rank,
                    x->f.local_rank, (int) x->f.pid, how, (double) x->f.ran_ms / 1000, why[0] ? ": " : "",
                    why);
}

int report_first_in_short(const struct report *r, unsigned *ret_rank, char *buf, size_t size)
{
    const struct failure *x = r->n > 0 ? r->failures[first_of(r)] : NULL;
    char                  how[96], why[200];

    if (!x)
        return -ENOENT;
    describe_end(x, how, sizeof how, why, sizeof why);
    *ret_rank = x->f.rank;
    (void) snprintf(buf, size, "rank %u %s%s%s", x->f.rank, how, why[0] ? ": " : "", why);
    return 0;
}

/* A launcher above us reads there why we failed.  As with torchrun, without a file of the worker nothing is
 * written. */
static void copy_to_parent(const struct report *r, const struct failure *x, FILE *to)
{
    struct cc_err err = { 0 };

    if (!r->cfg.parent_error_file || !r->cfg.parent_error_file[0] || !x->message)
        return;
    if (errfile_copy(x->f.error_file, r->cfg.parent_error_file, failure_exitcode(x), &err) < 0)
        (void) fprintf(to, "ccrun: %s\n", err.msg);
}

int report_print(struct report *r, FILE *to, unsigned n_ok, unsigned n_stopped)
{
    struct report_text t = { &r->cfg, r->failures, r->n, 0, n_ok, n_stopped };
    CC_AUTO_FREE char *text = NULL;
    size_t             len;
    FILE              *memory;
    int                ret;

    r->has_counts = true;
    r->n_ok = n_ok;
    r->n_stopped = n_stopped;
    if (r->n == 0)
        return 0;
    t.first = first_of(r);
    memory = open_memstream(&text, &len);
    if (!memory)
        return -ENOMEM;
    ret = report_text_write(&t, memory);
    copy_to_parent(r, r->failures[t.first], memory);
    if (fclose(memory) != 0)
        return -ENOMEM;
    if (fwrite(text, 1, len, to) != len || fflush(to) != 0)
        return errno ? -errno : -EIO;
    return ret;
}

int report_write_json(struct report *r, int exit_status, const char *outcome, struct cc_err *err)
{
    struct report_json j = {
        .cfg = &r->cfg,
        .outcome = outcome,
        .exit_status = exit_status,
        .started_ms = r->started_ms,
        .ended_ms = cc_realtime_ms(),
        .attempts = r->attempts,
        .n_attempts = r->n_attempts,
        .n_attempts_omitted = r->n_attempts_omitted,
        .failures = r->failures,
        .n = r->n,
        .first = r->n > 0 ? first_of(r) : 0,
        .has_counts = r->has_counts,
        .n_ok = r->n_ok,
        .n_stopped = r->n_stopped,
    };
    CC_AUTO_FREE char *text = NULL;

    if (!r->cfg.json_file)
        return 0;
    text = report_json_text(&j);
    if (!text)
        return cc_fail(err, -ENOMEM, "no memory for the report '%s'", r->cfg.json_file);
    if (atomicfile_write(r->cfg.json_file, text, strlen(text), err) < 0)
        return cc_wrap(err, "the report of --report");
    return 0;
}

int report_own_failure(const char *parent_error_file, const char *sentence, struct cc_err *err)
{
    if (!parent_error_file || !parent_error_file[0])
        return 0;
    return errfile_write(parent_error_file, sentence, (int64_t) (cc_realtime_ms() / 1000), err);
}

void report_describe_status(int status, char *buf, size_t size)
{
    char name[CC_SIGNAME_MAX];

    if (WIFSIGNALED(status))
        (void) snprintf(buf, size, "was killed by %s%s", cc_signal_name(WTERMSIG(status), name),
                        WCOREDUMP(status) ? " (core dumped)" : "");
    else
        (void) snprintf(buf, size, "exited with code %d", WEXITSTATUS(status));
}
