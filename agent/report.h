/* report.h - why the job failed: one cause in words on stderr, the same as JSON, and torchelastic's error
 * files.
 *
 * The agent notes every worker that ended badly (report_failure) in the order in which it learned of it; the
 * report decides which failed first (rules in agent/core/cause.h), collects the evidence and prints.
 */
#ifndef AGENT_REPORT_H
#define AGENT_REPORT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "store/base/err.h"

struct report_failure {
    unsigned    rank, local_rank, attempt; /* attempt counts from 0 */
    pid_t       pid;
    int         status;                          /* as waitpid() gives it */
    uint64_t    realtime_ms;                     /* when we learned of it, CLOCK_REALTIME */
    uint64_t    ran_ms;                          /* how long it had run */
    bool        is_killed_by_us, is_after_grace; /* we sent TERM / KILL after the grace time */
    const char *error_file;                      /* TORCHELASTIC_ERROR_FILE of that worker */
    const char *stderr_tail;                     /* its last lines, or NULL */
    const char *log_dir; /* where its streams went, or NULL: its error file is not named, it goes with us */
};

struct report_cfg {
    const char *entry, *host, *run_id, *role;
    const char *python; /* what runs it, or NULL: PyTorch's advice is for Python */
    const char *python_why; /* what chose that, or NULL: said when it lacks a module */
    unsigned    world_size, nproc, max_restarts;
    const char *json_file;         /* --report, or NULL */
    const char *parent_error_file; /* our own TORCHELASTIC_ERROR_FILE, or NULL (contract 4.4) */
    uint64_t    shutdown_timeout;
    bool        is_merged; /* --merge: what is called a stderr tail is of all output */
    const char *root; /* put before /proc, /sys and /dev; NULL: the machine itself (tests) */
};

struct report;

/* Before the first worker starts (OOM kills are counted from here).  NULL: out of memory.  cfg is
 * copied, its strings are borrowed. */
struct report *report_new(const struct report_cfg *cfg);

/* Everything is copied.  The evidence (error file, cgroup OOM counters) is read here, while it is fresh.
 * Workers that we stopped and that ended with something else than 0 are noted too, as torchrun does. */
void report_failure(struct report *r, const struct report_failure *f);

/* How many workers the job has now. */
void report_round(struct report *r, unsigned world_size);

/* A new attempt: the failures so far are history, kept for the JSON. */
void report_restarted(struct report *r);

/* Exit status for ccrun: the first failure's code, or 128 + signal; 0 when nothing failed in this attempt.
 * When the first one raised and then died of our own signal it is 1, as Python would have ended: a worker
 * that we killed never lends its signal. */
unsigned report_first_code(const struct report *r);

/* The first failure of this attempt in one line, for the notice of a restart: "rank 1 (local_rank: 1, pid:
 * 101) exited with code 3 after 12.3 s: ValueError: boom".  Empty when there is none. */
void report_describe_first(const struct report *r, char *buf, size_t size);

/* The same without what differs each time: "rank 1 exited with code 3: ValueError: boom". -ENOENT: there is none. */
int report_first_in_short(const struct report *r, unsigned *ret_rank, char *buf, size_t size);

/* Not for a job that was stopped.  At most 15 lines beside a stderr tail, in one write.  n_ok other workers
 * ended with 0, n_stopped ended otherwise because we told them to (those that are noted as failures too).
 * With a parent_error_file, the first failure's error file is copied there. 0, or the negative errno of the
 * write; -ENOMEM. */
int report_print(struct report *r, FILE *to, unsigned n_ok, unsigned n_stopped);

/* Does nothing without a json_file.  outcome: "succeeded", "failed" or "stopped".  Schema: ccrun-report(5).
 * 0, or a negative errno: the file is then as it was before. */
int report_write_json(struct report *r, int exit_status, const char *outcome, struct cc_err *err);

/* The launcher itself failed: recorded for a parent as an exception would be.  NULL and "" do nothing. */
int report_own_failure(const char *parent_error_file, const char *sentence, struct cc_err *err);

/* How `status` reads in a sentence: "exited with code 3", "was killed by SIGSEGV (core dumped)". */
void report_describe_status(int status, char *buf, size_t size);

struct report *report_free(struct report *r); /* accepts NULL, returns NULL */

#endif
