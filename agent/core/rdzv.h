/* rdzv.h - the coordinator of a job: which nodes take part in which round, and how the job ends.
 *
 * Pure, and fed by a log of events: the same configuration and the same events give the same views, so a recorded job can
 * be played again, and the state can live wherever its log does.  Allocates at birth only, O(nodes).  An event costs O(1);
 * one that changes the round costs O(1) a node.  All times are ms of the coordinator's own monotonic clock.
 *
 * The rules:
 *   - The first forming ends at once when all that are expected are there, else last_call after min_nodes are.  A later one
 *     ends as soon as every node that was there has said that its workers are gone, and min_nodes are there.
 *   - The node of group rank 0 hosts the store of the workers.  It changes to an empty key space and says so; only then the
 *     others hear that the round is active.
 *   - A worker's failure costs one restart of the job's only budget.  A loss costs none, nor does what fails because of it.
 *     Which failure was the first is decided when all have told, by the coordinator's clock; it is the job's cause.
 *   - A node is lost reset_grace after its connection broke, unless it is back, and dead_after its last word.
 *   - Whoever comes while there is room starts a new round; beyond max_nodes it is a spare and takes over.
 *   - The node that it lives on cannot leave the job to the others unless there is a successor.
 *   - A node that cannot take part says so (GONE, with a cause, as its first word): the first round does not wait for it, and
 *     when too few are left to come, or it is the one that this lives on, the job ends for that cause.
 *   - A job that has ended stays ended.
 */
#ifndef AGENT_CORE_RDZV_H
#define AGENT_CORE_RDZV_H

#include "agent/core/budget.h"
#include "agent/core/rdzv_msg.h"
#include "store/base/cleanup.h"
#include "store/base/err.h"

struct rdzv_cfg {
    uint32_t nodes_cap; /* at one time, spares included; explicit node ranks are below it */
    uint32_t min_nodes, max_nodes;
    uint32_t expected;  /* how many will come, as the scheduler says; 0: max_nodes */
    uint32_t n_spares;  /* that come besides */
    uint32_t max_rejoins; /* rounds that the loss of a node may cost */
    struct budget_cfg budget;
    uint64_t last_call, join_timeout;
    uint64_t replace_timeout; /* how long too few nodes wait for another once the job has run; 0: a fixed set of nodes */
    uint64_t dead_after, reset_grace;
    uint64_t settle_timeout;  /* how long to wait for what all nodes know of a failure */
    uint64_t switch_timeout;  /* for the new key space */
    uint64_t scale_delay;     /* newcomers that come one by one within it cost one round */
    uint64_t finish_timeout;  /* for all workers, after the first that ended well; 0: there is none */
    uint64_t own;             /* incarnation of the node that this coordinator lives on; 0: it outlives every node */
    bool     has_successor;   /* when that node goes, another can take the job over */
    bool     scales_on_restart_only;
    struct rdzv_plan plan;
};

enum rdzv_event_kind {
    RDZV_EV_HELLO, /* link, hello */
    RDZV_EV_BROKEN, /* link, incarnation: the connection on which it was heard is closed */
    RDZV_EV_TICK,  /* rdzv_deadline() has passed, and what has come in by then is read */
};

struct rdzv_event {
    enum rdzv_event_kind kind;
    uint64_t    now;
    uint64_t    link; /* the driver's name for a connection, never used twice */
    uint64_t    incarnation;
    const struct rdzv_hello *hello;
};

/* Called from inside rdzv_event(), which they must not call. */
struct rdzv_ops {
    void (*view)(void *ctx, uint64_t link, const struct rdzv_view *view);
    void (*refuse)(void *ctx, uint64_t link, const struct rdzv_refused *refused);
};

struct rdzv;

/* NULL and err: -EINVAL for a range of nodes or a budget that cannot be, -ENOMEM. */
struct rdzv *rdzv_new(const struct rdzv_cfg *cfg, uint64_t now, const struct rdzv_ops *ops, void *ctx, struct cc_err *err);
struct rdzv *rdzv_free(struct rdzv *r); /* accepts NULL, returns NULL */
CC_DEFINE_AUTO(struct rdzv, rdzv_free)

void     rdzv_event(struct rdzv *r, const struct rdzv_event *ev);
uint64_t rdzv_deadline(const struct rdzv *r); /* UINT64_MAX: nothing is due */

/* Whether that agent is one of the job's, for now: the oracles of the simulation ask. */
bool rdzv_knows(const struct rdzv *r, uint64_t incarnation);

/* A successor may go on where this coordinator was, when it has what rdzv_save() wrote.  Whatever a view says must be saved
 * before it is sent, or the successor could say something else: so a view that was made when *ret_vital changes had happened
 * waits until a state with so many is saved.  The rest may be saved later.  Returns how many changes there were. */
uint64_t rdzv_changes(const struct rdzv *r, uint64_t *ret_vital);

size_t rdzv_save_max(const struct rdzv_cfg *cfg); /* bytes */

/* Returns the number of bytes, at most rdzv_save_max(). */
size_t rdzv_save(const struct rdzv *r, uint64_t now, uint8_t *ret);

/* Into a new one that has heard nothing yet: a new round begins, which waits for all that were there, but the job's end,
 * its budget, the ranks and the round of the workers are what they were.  The state must be the newest that there is.
 * -ESTALE: it is of a job with another plan; -EINVAL: it is damaged, or there are more nodes than nodes_cap.  r is to be
 * freed then. */
int rdzv_load(struct rdzv *r, uint64_t now, const uint8_t *bytes, size_t n, struct cc_err *err);

struct rdzv_status {
    enum rdzv_phase phase;
    uint32_t round, n_known, n_members, n_done, n_ready, restarts, rejoins;
    uint32_t n_over; /* nodes for which a job that could not begin is over: they cannot take part, or were told of that end */
    struct rdzv_cause cause; /* of the end, or of the end of the last round */
};
void rdzv_status(const struct rdzv *r, struct rdzv_status *ret);

#endif
