/* node.h - one node's part of a job, decided: the life of its workers in each attempt, and how the attempt ended.
 *
 * Pure; composes group (the life of one attempt) and policy (what an event means).  The driver owns processes, clock and
 * timers: it reports what happened, calls node_settle() at the end of each of its callbacks, and calls node_tick() when
 * node_deadline() has passed.  Only node_next() leads to ops->start, only node_settle() to ops->attempt_ended and ->ended; no
 * op may call node_*() back, but for those of a start (node_started, node_cannot_start).  Times: ms of a monotonic clock.
 *
 * A node is led, by member (member.h): it says how an attempt ended and waits for node_next().  Whether there is a next one,
 * and with which status ccrun exits, is not its business.
 */
#ifndef NODE_H
#define NODE_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/core/group.h"
#include "agent/core/policy.h"

enum node_news { /* worth a line for the user */
    NODE_STOPPING,   /* arg: the signal */
    NODE_KILLING,    /* the second ^C */
    NODE_PRESSED,    /* ^C again, but the worker with the terminal may have its own use for it */
    NODE_OUT_OF_TIME, /* workers have not stopped in time: SIGKILL now */
    NODE_STUCK,      /* something outlived SIGKILL and is left behind */
};

enum node_end { /* of an attempt */
    NODE_END_DONE,    /* all workers ended well */
    NODE_END_FAILED,
    NODE_END_HALTED,  /* by node_halt() */
    NODE_END_STOPPED, /* by a signal to us, or ^C */
    NODE_END_STUCK,   /* something outlived SIGKILL: there can be no next one */
};

struct node_ops {
    void (*start)(void *ctx);              /* all workers of the next attempt */
    void (*signal)(void *ctx, int signum); /* to the process group of each worker */
    void (*sweep)(void *ctx, int signum);  /* to every process of the job */
    /* Every stream is read, every worker reaped: look at the failures.  The exit code of the one that was first by its own
     * clock, or 0: as it was seen. */
    unsigned (*attempt_ended)(void *ctx);
    void (*news)(void *ctx, enum node_news news, int arg);
    void (*ended)(void *ctx, enum node_end how); /* after attempt_ended */
};

struct node {
    const struct node_ops *ops;
    void         *ctx;
    struct group  group;
    struct policy policy;
    unsigned      n_alive;
    uint64_t      drain_grace, give_up_at; /* when what nobody reads is dropped; UINT64_MAX: no process is gone, or wait */
    bool          has_ended; /* the attempt is over and not dealt with yet */
    bool          is_halted, is_stuck;
};

struct node_cfg {
    uint64_t term_grace, kill_grace, sweep_grace; /* see group.h */
};

void node_init(struct node *n, const struct node_cfg *cfg, const struct node_ops *ops, void *ctx);
void node_next(struct node *n, uint64_t now); /* the first attempt, or another after ops->ended; not once stopped or stuck */
void node_halt(struct node *n, uint64_t now); /* end this attempt; what fails from now on is expected */
void node_started(struct node *n); /* in ops->start: one more worker lives */
void node_cannot_start(struct node *n, uint64_t now, unsigned code); /* in ops->start: 126, 127 or 70; no more will */
enum policy_exit node_exited(struct node *n, uint64_t now, int status, bool is_terminal);
void node_signal(struct node *n, uint64_t now, int signum); /* one that stops the job */
void node_pressed(struct node *n, uint64_t now);            /* ^C, which went to the worker with the terminal */
/* True: what was held is a failure now. */
bool node_tick(struct node *n, uint64_t now);
/* is_empty: no process of the job is left; is_drained: every stream of a worker that has gone is read to its end.  An
 * attempt waits for that as long as the console's reader takes, but for sweep_grace only once the job was stopped. */
void node_settle(struct node *n, uint64_t now, bool is_empty, bool is_drained);
void node_paused(struct node *n, uint64_t ms); /* job control stopped everything for so long */
uint64_t node_deadline(const struct node *n);  /* UINT64_MAX: none */

#endif
