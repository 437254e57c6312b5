/* sim_solo.h - a job of one node the way that `ccrun` runs it: the core `member`, led by a coordinator in the same process.
 *
 * It has the calls and the ops of a lone core `node`, so that the two can be held against each other.
 */
#ifndef SIM_SOLO_H
#define SIM_SOLO_H

#include "agent/core/member.h"
#include "agent/core/rdzv.h"

enum { SOLO_QUEUE = 16 };

struct solo {
    struct member          m;
    struct rdzv           *r;
    const struct node_ops *ops; /* the lone node's: `ended` is not used */
    void                  *ctx;
    uint64_t               now;
    struct rdzv_hello      hellos[SOLO_QUEUE];
    struct rdzv_view       views[SOLO_QUEUE];
    unsigned               n_hellos, n_views;
};

void solo_start(struct solo *s, const struct node_cfg *cfg, uint64_t now, const struct node_ops *ops, void *ctx);
void solo_free(struct solo *s);
void solo_exited(struct solo *s, uint64_t now, int status);
void solo_signal(struct solo *s, uint64_t now, int signum);
void solo_tick(struct solo *s, uint64_t now);
void solo_settle(struct solo *s, uint64_t now, bool is_empty, bool is_drained);
uint64_t solo_deadline(const struct solo *s);

#endif
