/* peers.h - the nodes that the coordinator of a job knows: found by incarnation, and in the order in which they were heard.
 *
 * Pure; allocates at birth only.  Everything but peers_new() is O(1), so that a heartbeat costs the same with 4 nodes and
 * with 16,384: who is silent for the longest time stands first in a list, and being heard moves a node to its end.
 */
#ifndef AGENT_CORE_PEERS_H
#define AGENT_CORE_PEERS_H

#include "agent/core/ranks.h"
#include "agent/core/rdzv_msg.h"
#include "store/base/err.h"

#define PEERS_NONE UINT32_MAX

enum peer_list {
    PEER_FREE,
    PEER_HEARD, /* by when it was last heard */
    PEER_DOWN,  /* its connection broke: by when */
    PEER_N_LISTS
};

struct peer {
    struct ranks_node rank;
    uint64_t incarnation, link, seq, echo;
    uint64_t seen, down_at;   /* down_at: in PEER_DOWN only */
    uint64_t rival_since;     /* another agent claimed its node rank then; 0: none */
    uint32_t first_round;     /* of the job when it came */
    bool     is_known_alive;  /* it answered to a view: not the echo of an agent that is gone */
    bool     is_ready;        /* for the round of the job, in which it is no member yet */
    bool     is_awaited;      /* its workers are not known to be gone yet */
    bool     is_member;       /* of the round that is active, or was the last one that was */
    bool     is_unreported;   /* a member that has not told yet how its part of the round ended */
    bool     is_done, is_leaving, is_stuck;
    uint32_t pid;
    uint16_t port;
    char     host[RDZV_HOST_MAX], addr[RDZV_ADDR_MAX];
    /* of the table */
    enum peer_list list;
    uint32_t       before, after;
};

struct peers {
    uint32_t     cap, n;
    struct peer *peer; /* [cap] */
    uint32_t    *slots, mask;  /* by incarnation: open addressing */
    uint32_t    *holders;      /* by explicit node rank: [cap] */
    uint32_t     first[PEER_N_LISTS], last[PEER_N_LISTS];
    uint32_t     role_uses[RANKS_MAX_ROLES];
    char         role[RANKS_MAX_ROLES][RDZV_ROLE_MAX];
    uint64_t     n_arrived;
};

int  peers_init(struct peers *t, uint32_t cap, struct cc_err *err); /* -ENOMEM; then peers_free() */
void peers_free(struct peers *t);

/* NULL: not known. */
struct peer *peers_find(const struct peers *t, uint64_t incarnation);
struct peer *peers_holder(const struct peers *t, int32_t wish);
struct peer *peers_first(const struct peers *t, enum peer_list list);
struct peer *peers_next(const struct peers *t, const struct peer *p); /* in the order of slots; NULL begins. NULL: the end */

/* The number for a role's name, or PEERS_NONE: there are RANKS_MAX_ROLES others. */
uint32_t peers_role(const struct peers *t, const char *name);

/* A new one, heard now.  There must be room (t->n < t->cap), a role, and no holder of its rank. */
struct peer *peers_add(struct peers *t, uint64_t now, uint64_t incarnation, const struct rdzv_about *about);
void peers_heard(struct peers *t, struct peer *p, uint64_t now);
void peers_broken(struct peers *t, struct peer *p, uint64_t now);
void peers_remove(struct peers *t, struct peer *p);

#endif
