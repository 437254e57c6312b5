/* workers.h - the worker processes of this node: started, signalled, reaped.
 *
 * A table indexed by local rank, kept over all attempts.  It owns no handles: the agent learns of SIGCHLD and calls
 * workers_reap(), which tells of each end through the callbacks.  A pid is signalled only until it is reaped here, so it
 * cannot have been reused.
 */
#ifndef AGENT_WORKERS_H
#define AGENT_WORKERS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/spawn.h"
#include "store/base/err.h"

struct worker {
    pid_t    pid;
    uint64_t started_at; /* ms, monotonic */
    uint64_t ended_at;   /* ms, CLOCK_REALTIME */
    uint64_t ran_ms;
    int      status;     /* as waitpid() gives it, once it is not alive */
    bool     is_started, is_alive, is_stopped; /* stopped: by a job-control signal */
    bool     is_terminal; /* has the terminal's foreground group */
    bool     is_termed, is_killed; /* we sent it a stop signal, SIGKILL */
    bool     is_unborn;   /* its exec failed; it exits with 127 */
    bool     is_failure;  /* its end is a failure, not the echo of one */
};

struct workers;

struct workers_cbs {
    void (*on_exit)(void *ctx, unsigned local_rank, struct worker *w);
    void (*on_stopped)(void *ctx, unsigned local_rank, struct worker *w); /* ^Z at its terminal, or a debugger */
    void (*on_reaped)(void *ctx, pid_t pid); /* of the job, a worker or what one left behind: it is dead; may be NULL */
};

struct workers *workers_new(unsigned n, const struct workers_cbs *cbs, void *ctx); /* NULL: no memory */
struct workers *workers_free(struct workers *ws);
struct worker  *workers_get(struct workers *ws, unsigned local_rank);
/* Several may be on their way: after the last one workers_await() tells whether all have come up. Nothing of *req is
 * needed any more when workers_start() returns. */
int workers_start(struct workers *ws, unsigned local_rank, const struct spawn_req *req, struct cc_err *err);
/* 0, or the errno of the first whose exec failed, and its rank. Such a worker ends like any other, through on_exit. */
int             workers_await(struct workers *ws, unsigned *ret_rank, struct cc_err *err);
/* To the process group of each that is alive. workers_stop(): to end them by; one that job control has stopped goes on. */
void            workers_signal(struct workers *ws, int signum);
void            workers_stop(struct workers *ws, int signum);
bool            workers_reap(struct workers *ws); /* all that have ended; true: no child is left, orphans included */

#endif
