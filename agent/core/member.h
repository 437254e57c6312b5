/* member.h - a node's side of a job: what it tells the coordinator and when, and what its workers do by the coordinator's
 * views.  A job of one node has a coordinator too, in the same process.
 *
 * Pure; leads a core `node` (node.h) and passes its ops on: a driver reports what happened to processes by member_*(), calls
 * member_settle() at the end of each of its callbacks and member_tick() when member_deadline() has passed.  No op may call
 * back, but member_started() and member_cannot_start() in ops->start and member_store_switched() in ops->host_store.  Times:
 * ms of this node's monotonic clock.
 *
 * Workers start for a round only after this node has said that it is ready for it, and only when none of an earlier round
 * is left.  When the coordinator is silent for too long, the workers are stopped and the node ends.
 */
#ifndef AGENT_CORE_MEMBER_H
#define AGENT_CORE_MEMBER_H

#include "agent/core/exitstatus.h"
#include "agent/core/node.h"
#include "agent/core/rdzv_msg.h"

enum {
    MEMBER_EXIT_REFUSED = AGENT_EXIT_USAGE,
    MEMBER_EXIT_STUCK = AGENT_EXIT_INTERNAL,
    MEMBER_EXIT_ORPHAN = AGENT_EXIT_TEMPORARY, /* the coordinator is lost, or was never reached: try again */
};

enum member_news { /* worth a line for the user */
    MEMBER_WAITING,  /* the round is being formed: who is there and who is missing, see the view; at most every 5 s */
    MEMBER_SPARE,    /* this node is no member of the round that runs */
    MEMBER_HALTED,   /* the round is over: its workers are being stopped; see the view's cause */
    MEMBER_ORPHANED, /* nothing was heard from the coordinator for too long */
    MEMBER_ENDED,    /* the job; see the view's cause */
};

struct member_ops {
    void (*hello)(void *ctx, const struct rdzv_hello *h); /* send it; may be lost */
    void (*start)(void *ctx, const struct rdzv_view *view);
    void (*signal)(void *ctx, int signum);
    void (*sweep)(void *ctx, int signum);
    unsigned (*attempt_ended)(void *ctx);
    void (*node_news)(void *ctx, enum node_news news, int arg);
    /* What the failure of this attempt looks like so far: rank, code, progress, text. */
    void (*describe)(void *ctx, struct rdzv_cause *c);
    void (*host_store)(void *ctx, uint32_t round); /* an empty key space for it, then member_store_switched() */
    void (*notice)(void *ctx, uint64_t ms_left);   /* a pre-emption, wherever in the job it was announced */
    void (*news)(void *ctx, enum member_news news, const struct rdzv_view *view);
    void (*finish)(void *ctx, unsigned status);    /* the last */
};

struct member_cfg {
    struct node_cfg   node;
    uint64_t          incarnation;
    struct rdzv_about about;
    uint64_t          heartbeat;    /* one hello at least */
    uint64_t          join_timeout; /* to the first view */
    uint64_t          lost_after;   /* silence of the coordinator, once heard */
    uint64_t          exit_barrier; /* how long a node that is done waits for the others; UINT64_MAX: until the end */
};

struct member {
    struct member_cfg        cfg;
    const struct member_ops *ops;
    void            *ctx;
    struct node      node;
    struct rdzv_view view;        /* the newest */
    uint32_t         ready_round; /* the newest for which nothing stood in the way here */
    uint32_t         work_round;  /* of the workers that live, or last lived */
    uint32_t         asked_round, store_round;
    bool             is_known;    /* the coordinator knows this incarnation */
    bool             is_busy;     /* workers live, or may */
    bool             is_done, is_stuck, is_leaving, is_orphan, is_refused, is_finished, is_spare;
    bool             has_heard, has_cause, has_noticed;
    struct rdzv_cause cause;      /* at: by this node's clock */
    uint64_t         held_at;     /* the first death by SIGTERM that may be a failure; 0: none is held */
    uint64_t         first_done;  /* when the first worker of work_round ended well; 0: none did */
    uint64_t         seq, next_hello, joined_at, heard_at, done_at, told_at;
    uint64_t         notice_at;   /* by this node's clock, of its own; 0: none */
    uint64_t         best_rtt, ahead; /* the coordinator's clock is ahead of ours, modulo 2^64 */
};

void member_init(struct member *m, const struct member_cfg *cfg, uint64_t now, const struct member_ops *ops, void *ctx);
void member_connected(struct member *m, uint64_t now); /* a new connection: hello goes out on it */
void member_view(struct member *m, uint64_t now, const struct rdzv_view *v);
void member_refused(struct member *m, uint64_t now, const struct rdzv_refused *r);
void member_store_switched(struct member *m, uint64_t now, uint32_t round);
void member_notice(struct member *m, uint64_t now, uint64_t ms_left); /* announced at this node */

/* As node_*(). */
void member_started(struct member *m);
void member_cannot_start(struct member *m, uint64_t now, unsigned code);
enum policy_exit member_exited(struct member *m, uint64_t now, int status, bool is_terminal);
void member_signal(struct member *m, uint64_t now, int signum);
void member_pressed(struct member *m, uint64_t now);
bool member_tick(struct member *m, uint64_t now);
void member_settle(struct member *m, uint64_t now, bool is_empty, bool is_drained);
void member_paused(struct member *m, uint64_t ms);
uint64_t member_deadline(const struct member *m);

#endif
