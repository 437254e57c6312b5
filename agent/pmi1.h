/* pmi1.h - PMI-1 for the workers of this node in one attempt: a socketpair for each, and core/pmi1.h behind them.
 *
 * No callback may call pmi1_server_close().
 */
#ifndef AGENT_PMI1_H
#define AGENT_PMI1_H

#include <uv.h>

#include "agent/core/pmi1.h"
#include "store/base/err.h"

struct pmi1_server;

struct pmi1_server_cbs {
    void (*fence)(void *ctx, struct cc_bytes put); /* as pmi1_ops; pmi1_release(pmi1_server_core()), now or later */
    void (*aborted)(void *ctx, unsigned local_rank, int code);
    void (*begun)(void *ctx, unsigned local_rank);
    void (*trouble)(void *ctx, unsigned local_rank, const char *sentence); /* its connection is closed */
};

/* NULL: no memory. */
struct pmi1_server *pmi1_server_new(uv_loop_t *loop, const struct pmi1_cfg *cfg, const struct pmi1_server_cbs *cbs, void *ctx);
struct pmi1        *pmi1_server_core(struct pmi1_server *s);

/* The descriptor that the worker inherits, or a negative code; it is ours, and good until pmi1_server_started(). */
int  pmi1_server_open(struct pmi1_server *s, unsigned local_rank, struct cc_err *err);
void pmi1_server_started(struct pmi1_server *s, unsigned local_rank); /* or it could not be */
void pmi1_server_exited(struct pmi1_server *s, unsigned local_rank);  /* what it said last is read before this returns */

/* Closes all; s is freed in a later turn of the loop.  NULL is accepted. */
void pmi1_server_close(struct pmi1_server *s);

#endif
