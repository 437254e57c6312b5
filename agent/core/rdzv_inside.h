/* rdzv_inside.h - what the coordinator of a job remembers: for rdzv.c, which decides, rdzv_state.c, which saves, and
 * rdzv_lists.c, which says who is there, and rdzv_declined.c, which counts who will not come. */
#ifndef AGENT_CORE_RDZV_INSIDE_H
#define AGENT_CORE_RDZV_INSIDE_H

#include "agent/core/peers.h"
#include "agent/core/rdzv.h"

#define RDZV_NEVER UINT64_MAX

/* Nodes that came to say that they cannot take part, before the first round. */
struct rdzv_declined {
    uint32_t          n;
    uint64_t         *seats; /* [nodes_cap]: which, so that none counts twice */
    struct rdzv_cause first;
};

struct rdzv {
    struct rdzv_cfg cfg;
    const struct rdzv_ops *ops;
    void           *ctx;
    struct budget  *budget;
    struct peers    peers;
    struct ranks_node **order, **scratch;     /* [nodes_cap] */
    struct ranks_sizes sizes;                 /* of the round from SWITCH on */
    char          (*rank_host)[RDZV_HOST_MAX]; /* [max_nodes]: where the ranks of the last round were */
    enum rdzv_phase phase;
    uint32_t        round, active_round; /* active_round: the newest that was ACTIVE, 0: none */
    uint32_t        n_members, n_done;
    uint32_t        n_gone; /* members that left this round with their work undone */
    uint32_t        n_ready, n_placed, n_awaited, n_unreported; /* peers with that flag; n_placed: ready, and no spare */
    uint32_t        n_rejoins;
    struct rdzv_declined declined;
    uint32_t        n_told;     /* nodes that were told of the end which that made */
    uint64_t        seq, gather_since, last_call_at, not_before, switch_at, started_at, scale_at;
    uint64_t        earliest; /* at which a worker of the last round can have failed */
    uint64_t        amnesty; /* we were away ourselves: nobody counts as silent before */
    uint64_t        finish_at; /* of a round whose first worker is done; never: none is, or there is time */
    uint64_t        notice_at;
    struct peer    *host; /* of the store of the round, from SWITCH on */
    /* how the last round ended: decided when all of it have told */
    bool            is_judged, has_failure, has_loss, has_leaver;
    struct rdzv_cause failure, loss, leave; /* the first of each; loss.at: its last word */
    uint64_t        failed;          /* incarnation of who told of `failure` */
    struct rdzv_cause why;           /* so far; in ENDED for good */
    bool            has_why, has_told_all;
    bool            is_handing_over; /* our node leaves: a successor begins a round of its own, so that ours would be in vain */
    char            have[RDZV_HAVE_MAX], missing[RDZV_MISSING_MAX];
    uint64_t        listed_at;
    uint64_t        n_changes, vital; /* of what rdzv_save() saves; see there */
};

/* r->have and r->missing: of the nodes that are ready, and of the n_wanted. */
void rdzv_list_nodes(struct rdzv *r, uint64_t now, bool is_first, uint32_t n_wanted);

/* True: it had not said so before.  A node without a rank that tries again is another one. */
bool rdzv_note_declined(struct rdzv *r, uint64_t now, const struct rdzv_hello *h);
void rdzv_withdraw_declined(struct rdzv *r, const struct rdzv_about *about); /* it comes after all, if it had */
bool rdzv_is_hopeless(const struct rdzv *r); /* because of those, for as long as too few others are known */
bool rdzv_tell_latecomer(struct rdzv *r, const struct rdzv_event *ev); /* true: done, the job has ended for that cause */

/* A node comes from a job that runs, and this coordinator knows nothing of it: the state was lost, or another hosts at the
 * same endpoint.  The first round gets a number that the node has not seen, or it would never stop its workers for it. */
void rdzv_catch_up(struct rdzv *r, const struct rdzv_hello *h);

#endif
