/* events.h - the lines of `--event-log-handler console`: one JSON object a step, as torchrun writes them.
 *
 * The agent calls, in this order:
 *   events_agent(RENDEZVOUS), events_agent(ASSIGN_WORKER_RANKS)
 *       each round, with how long it took, before the workers start
 *   events_worker(START)
 *       each worker of the round, in local-rank order, once all run
 *   events_worker(SUCCEEDED | FAILED | TERMINATED)
 *       at the end of the job, each worker of the last round: all ended with 0; this one failed (a failure of
 *       the report); else, in a failed job
 *   events_agent(SUCCEEDED)
 *       last, also when workers failed: the agent's own loop ended well
 *   events_agent(FAILED)
 *       last, instead, when ccrun itself failed or a signal stopped it; there are no worker events then
 * A restart writes no worker event but the next round's START.
 */
#ifndef AGENT_EVENTS_H
#define AGENT_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum events_state {
    EVENTS_RENDEZVOUS,
    EVENTS_ASSIGN_WORKER_RANKS,
    EVENTS_START,
    EVENTS_SUCCEEDED,
    EVENTS_FAILED,
    EVENTS_TERMINATED,
};

/* `line` ends in a newline and must be written whole. */
typedef void events_write_fn(void *ctx, const char *line, size_t len);

struct events { /* filled by the agent; strings are borrowed */
    const char      *run_id, *role, *host;
    const char      *backend;     /* rdzv_backend: "c10d", "static" */
    const char      *entry_point; /* the program that is executed; its base name is shown */
    bool             is_formed;   /* a first round has been formed: group rank and size are known */
    unsigned         group_rank, group_world_size;
    unsigned         n_restarts; /* used so far */
    unsigned         run_time_s; /* of the whole job; 0 until it has ended */
    events_write_fn *write;
    void            *ctx;
};

struct events_worker {
    unsigned    rank, local_rank, role_rank, role_world_size;
    pid_t       pid;
    int         status;     /* as waitpid() gives it; told for EVENTS_FAILED only */
    const char *error_file; /* may be missing or unusable; read for EVENTS_FAILED only */
};

/* LOGLEVEL (or NULL) asks for less than INFO, the level of events: then torchrun writes none. */
bool events_are_silenced(const char *loglevel);

/* duration_ms < 0: none.  raw_error: why ccrun failed, or NULL.  -ENOMEM: nothing was written. */
int events_agent(const struct events *e, enum events_state state, double duration_ms, const char *raw_error);
int events_worker(const struct events *e, enum events_state state, const struct events_worker *w);

#endif
