/* report.h - why the job failed: one cause in words on stderr, the same as JSON, and torchelastic's error files.
 *
 * The agent notes every worker that ended badly (report_failure) in the order in which it learned of it; the report
 * decides which failed first (an error file's timestamp beats the time of detection only within the same second rule
 * of the header of report.c), collects the evidence and prints.
 */
#ifndef AGENT_REPORT_H
#define AGENT_REPORT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "store/base/err.h"

struct report_failure {
    unsigned    rank, local_rank, attempt;
    pid_t       pid;
    int         status;        /* as waitpid() gives it */
    uint64_t    realtime_ms;   /* when we learned of it, CLOCK_REALTIME */
    uint64_t    ran_ms;        /* how long it had run */
    bool        is_killed_by_us, is_after_grace; /* we sent TERM / we sent KILL after the grace time */
    const char *error_file;    /* TORCHELASTIC_ERROR_FILE of that worker */
    const char *stderr_tail;   /* its last lines, or NULL */
    const char *log_dir;       /* where its streams went, or NULL */
};

struct report_cfg {
    const char *entry, *host, *run_id, *role;
    unsigned    world_size, nproc, max_restarts;
    const char *json_file;         /* --report, or NULL */
    const char *parent_error_file; /* our own TORCHELASTIC_ERROR_FILE, or NULL (contract 4.4) */
    uint64_t    shutdown_timeout;
};

struct report;

struct report *report_new(const struct report_cfg *cfg); /* NULL: out of memory; cfg is borrowed */
/* Everything is copied.  The evidence (error file, cgroup OOM counters) is read here, while it is fresh. */
void report_failure(struct report *r, const struct report_failure *f);
void report_restarted(struct report *r); /* a new attempt: the failures so far are history, kept for the JSON */
unsigned report_first_code(const struct report *r); /* exit status for ccrun: the first failure's code, or 128 + signal */
int report_print(struct report *r, FILE *to, unsigned n_ok, unsigned n_stopped); /* at most 15 lines beside a stderr tail */
int report_write_json(struct report *r, int exit_status, const char *outcome, struct cc_err *err);
/* How `status` reads in a sentence: "exited with code 3", "was killed by SIGSEGV (core dumped)". */
void report_describe_status(int status, char *buf, size_t size);
struct report *report_free(struct report *r);

#endif
