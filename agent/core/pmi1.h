/* pmi1.h - the process manager's side of PMI-1 for the ranks of one node: what they say, and what they are told.
 *
 * PMI-1 is what MPICH and its relatives speak over the descriptor PMI_FD: lines "cmd=NAME key=value ...", each answered by
 * one line.  The ranks put keys, meet in a barrier, and then get what others have put.
 *
 * Pure: the driver owns the connections.  It hands in bytes as they come, in pieces of any size; lines go out through
 * ops->send.  When all ranks of the node are in the barrier, ops->fence is given what they have put since the last one; the
 * driver lets the nodes exchange it, hands in what the others have put (pmi1_merge) and lets the ranks go on (pmi1_release).
 * Both may be called from within ops->fence; nothing else may be called from within an op.
 */
#ifndef AGENT_CORE_PMI1_H
#define AGENT_CORE_PMI1_H

#include <stdbool.h>
#include <stdint.h>

#include "store/base/buf.h"
#include "store/base/err.h"

enum { /* what the ranks are told, and held to */
    PMI1_KVSNAME_MAX = 256,
    PMI1_KEY_MAX = 64,
    PMI1_VALUE_MAX = 1024,
    PMI1_LINE_MAX = 64 * 1024, /* a spawn request has the arguments of a program */
};

struct pmi1_cfg { /* strings are copied */
    unsigned    n_local, world;
    const char *kvsname; /* another one for each attempt */
    const char *mapping; /* PMI_process_mapping: which ranks share a node; NULL, or too long for a value: they look themselves */
    uint64_t    max_bytes; /* of all keys and values; 0: 256 MiB */
};

struct pmi1_ops {
    void (*send)(void *ctx, unsigned local_rank, const char *line, size_t n); /* n bytes, the newline included */
    void (*fence)(void *ctx, struct cc_bytes put); /* good until it returns */
    void (*aborted)(void *ctx, unsigned local_rank, int code);
    void (*begun)(void *ctx, unsigned local_rank); /* it is inside */
};

struct pmi1;

struct pmi1 *pmi1_new(const struct pmi1_cfg *cfg, const struct pmi1_ops *ops, void *ctx); /* NULL: no memory */
struct pmi1 *pmi1_free(struct pmi1 *p);

/* -EPROTO, -ENOBUFS or -ENOMEM and a sentence: nothing more can be said to this rank, close its connection. */
int pmi1_feed(struct pmi1 *p, unsigned local_rank, const void *bytes, size_t n, struct cc_err *err);

/* What another node's ops->fence has been given.  -EPROTO: it is none of that; -ENOBUFS, -ENOMEM. */
int  pmi1_merge(struct pmi1 *p, struct cc_bytes put, struct cc_err *err);
void pmi1_release(struct pmi1 *p); /* after ops->fence: every rank leaves the barrier */

/* Has it begun, and not ended?  Then its exit leaves the others waiting for ever. */
bool pmi1_is_inside(const struct pmi1 *p, unsigned local_rank);

#endif
