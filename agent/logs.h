/* logs.h - what the workers print: pipes, whole lines on the console, labels, files, rotation.
 *
 * One struct logs for the life of the agent, over all attempts.  For each start of a worker the agent asks
 * for the child's descriptors (logs_open), spawns, and reports with logs_started; when the worker has exited
 * it calls logs_exited, and gets on_drained once that worker's streams are read to their end (or `drain_ms`
 * after the exit, when a process that outlived the worker still holds the pipe).  Not thread-safe; runs on
 * the agent's loop.
 *
 * The program must ignore SIGPIPE, and SIGXFSZ where a file size limit may be set.  Two descriptors a worker
 * are open (four with log files), beside those of the process itself.
 */
#ifndef AGENT_LOGS_H
#define AGENT_LOGS_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "store/base/err.h"

enum { LOGS_OUT = 1, LOGS_ERR = 2 }; /* bits of a mask; torchrun's 0, 1, 2, 3 */

enum logs_cr { LOGS_CR_AUTO, LOGS_CR_KEEP }; /* --cr: redraw or thin out progress bars, or pass every \r on */

struct logs_cfg {
    unsigned           nproc;
    const uint8_t     *redirects, *tee; /* nproc masks each (contract 3.3), or NULL: all 0 */
    const bool        *is_on_console;   /* --local-ranks-filter: nproc flags, or NULL: all */
    const char        *log_dir; /* --log-dir as typed, NULL: none asked for; /dev/null: no files at all */
    const char        *run_id, *role;
    bool               is_label;                 /* --label */
    bool               is_merged; /* --merge: a worker's stderr is its stdout, which has the tail; stderr's bits of the
                                   * masks count for nothing */
    const char        *prefix_template;          /* TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE, or NULL */
    const char *const *dup_out, *const *dup_err; /* --duplicate-*-filters: NULL-terminated needles, or NULL */
    enum logs_cr cr;
    bool         is_dropping; /* --log-overflow drop: a slow console does not hold the workers up */
    uint64_t     max_size;  /* --log-max-size in bytes, 0: no rotation */
    unsigned     keep;      /* --log-keep: rotated files kept beside the current one */
    bool         is_strict; /* a log file that cannot be opened refuses the first start; else, and in later
                             * attempts, it is said once and the job goes on */
    uint64_t     drain_ms;  /* how long a pipe is still read after its worker has gone; 2000 */
    int          console_fd[3]; /* [1], [2]: where the console streams go; usually 1 and 2 */
    int          keeper_fd;     /* completes the files if we are killed; 0 or -1: there is no keeper */
};

struct logs;

struct logs_cbs {
    void (*on_drained)(void *ctx, unsigned local_rank); /* once per logs_exited(), never from inside it */
    void (*on_console_lost)(void *ctx); /* EPIPE on the console; output goes on to files only */
    void (*on_notice)(void *ctx, const char *sentence); /* disk full, lines dropped ...: said once each */
};

/* The child's ends.  A worker that inherits the console gets the console's own descriptors. */
struct logs_stdio {
    int out, err;
};

int logs_new(struct logs **ret, uv_loop_t *loop, const struct logs_cfg *cfg, const struct logs_cbs *cbs,
             void *ctx, struct cc_err *err);
/* The global rank of local rank 0, which labels and prefixes show from the next logs_open() on; 0 at first. */
void logs_set_base_rank(struct logs *l, unsigned base_rank);
/* Makes attempt_<n>/<local_rank>/ and the pipes.  The descriptors stay owned by logs until logs_started(). */
int  logs_open(struct logs *l, unsigned local_rank, unsigned attempt, struct logs_stdio *ret,
               struct cc_err *err);
void logs_started(struct logs *l,
                  unsigned local_rank); /* spawned, or the spawn failed: the child's ends are closed here */
void logs_exited(struct logs *l, unsigned local_rank);
/* Last bytes of that worker's stderr (with is_merged: of all its output) in this attempt, whole lines, NUL-terminated; valid
 * until its next logs_open(). */
const char *logs_stderr_tail(struct logs *l, unsigned local_rank);
const char *logs_run_dir(const struct logs *l);     /* of all attempts; NULL when there are no files */
const char *logs_attempt_dir(const struct logs *l); /* the newest attempt's; NULL as above */
/* A path for TORCHELASTIC_ERROR_FILE of that worker: in the attempt's directory when there is one, else in a
 * private directory that logs_free() removes.  Empty: nowhere (--log-dir /dev/null, or nothing can be
 * written).  After logs_open(). */
const char *logs_error_file(struct logs *l, unsigned local_rank);
/* A path for a file of the job that goes with it (the caller frees it), or NULL: nothing can be written. */
char *logs_private_file(struct logs *l, const char *name);
/* A sentence of our own on the console's stderr, as whole lines between those of the workers.  It may use
 * room that the workers' output does not get, and is dropped only when that is full too. */
void logs_say(struct logs *l, const char *text);
/* Writes out what is queued, for the very end, waiting for a slow reader so long for each console (UINT64_MAX: for ever)
 * or until a signal that `mask` lets through (see ppoll(); NULL: as it is).  0; -ETIMEDOUT or -EINTR: some is still queued. */
int  logs_flush(struct logs *l, uint64_t timeout_ms, const sigset_t *mask);
void logs_close(struct logs *l); /* close every handle; the loop must run once more before logs_free() */
/* Without logs_close() only where the loop never runs again: the files go, the handles do not matter any
 * more. */
struct logs *logs_free(struct logs *l);

#endif
