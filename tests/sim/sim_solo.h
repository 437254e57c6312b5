/* sim_solo.h - a job of one node the way that `ccrun` runs it: the core `member`, and its coordinator in the same process.
 *
 * What the two say to each other is heard before the call returns that led to it; what stays are a node's calls and ops.
 */
#ifndef SIM_SOLO_H
#define SIM_SOLO_H

#include "agent/core/member.h"
#include "agent/core/rdzv.h"

enum { SOLO_QUEUE = 16 };

struct solo_ops { /* as those of member.h */
    void (*start)(void *ctx);
    void (*signal)(void *ctx, int signum);
    void (*sweep)(void *ctx, int signum);
    unsigned (*attempt_ended)(void *ctx);
    void (*news)(void *ctx, enum node_news news, int arg);
    void (*finish)(void *ctx, unsigned status);
};

struct solo_cfg {
    struct node_cfg node;
    unsigned        max_restarts;
};

struct solo {
    struct member          m;
    struct rdzv           *r;
    const struct solo_ops *ops;
    void                  *ctx;
    uint64_t               now;
    struct rdzv_hello      hellos[SOLO_QUEUE];
    struct rdzv_view       views[SOLO_QUEUE];
    unsigned               n_hellos, n_views;
};

void solo_start(struct solo *s, const struct solo_cfg *cfg, uint64_t now, const struct solo_ops *ops, void *ctx);
void solo_free(struct solo *s);
void solo_exited(struct solo *s, uint64_t now, int status);
void solo_signal(struct solo *s, uint64_t now, int signum);
void solo_tick(struct solo *s, uint64_t now);
void solo_settle(struct solo *s, uint64_t now, bool is_empty, bool is_drained);
uint64_t solo_deadline(const struct solo *s);

#endif
