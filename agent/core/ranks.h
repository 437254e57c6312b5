/* ranks.h - which nodes take part in a round, in which order, and the ranks of their workers.
 *
 * Pure.  The rules, in this order:
 *   1. With more nodes than places, those of the last round come first, then explicit node ranks in their order, then
 *      arrival.  An explicit node rank that is not below max_nodes is a spare's: it comes last and says nothing of places.
 *   2. An explicit node rank is the group rank when nobody is missing; once nodes are missing it is an order.
 *   3. Who was there before keeps its rank.  A newcomer takes the hole; with none to fill it, ranks close up in the old order
 *      and no more of them change than must.  Rank 0 stays where it lives.
 *   4. Newcomers take what is left, in the order of arrival.  An address never counts.
 *   5. A node that names a group (those of one switch, of one rack) is to be near the others of it, which its explicit rank
 *      cannot know: that is no more than an order, of the groups by their first nodes and of the nodes within one.
 * Workers of one node have consecutive ranks; ranks within a role count that role's nodes only.
 */
#ifndef AGENT_CORE_RANKS_H
#define AGENT_CORE_RANKS_H

#include <stdint.h>

enum { RANKS_NONE = -1, RANKS_MAX_ROLES = 64 };

struct ranks_node {
    int32_t  wish;     /* explicit node rank, no two alike; RANKS_NONE */
    int32_t  previous; /* group rank in the last round, no two alike; RANKS_NONE: a newcomer */
    uint64_t arrival;  /* no two alike */
    uint64_t group;    /* 0: none */
    uint32_t nproc, role; /* role < RANKS_MAX_ROLES: nodes with equal numbers share it */
    uint32_t group_rank, base_rank, base_role_rank; /* the result */
    uint32_t lead;     /* of the algorithm: the place of its group among newcomers */
};

struct ranks_sizes {
    uint64_t world; /* all workers */
    uint64_t role[RANKS_MAX_ROLES];
};

/* Rule 1: sorts nodes[n] so that the first max_nodes of them take part. */
void ranks_choose(struct ranks_node **nodes, uint32_t n, uint32_t max_nodes);

/* Rules 2 to 4: gives group ranks 0 .. n - 1 and sorts nodes by them.  scratch: n places, any content. */
void ranks_order(struct ranks_node **nodes, uint32_t n, uint32_t max_nodes, struct ranks_node **scratch);

/* Ranks of the workers of nodes[n], which are sorted by group rank. */
void ranks_count(struct ranks_node *const *nodes, uint32_t n, struct ranks_sizes *ret);

#endif
