/* meeting.h - where the agents of a round exchange bytes for their workers: the store on which these meet, too.
 *
 * The store is new in each round, every node can reach it, and its host is no bottleneck that the workers would not have
 * anyway.  The keys have a prefix that no client of PyTorch can write: those all begin with a slash.
 */
#ifndef AGENT_MEETING_H
#define AGENT_MEETING_H

#include <uv.h>

#include "store/base/buf.h"
#include "store/base/err.h"

struct meeting_cfg {
    const char *host; /* of the store: a name or a number */
    uint16_t    port;
    uint32_t    node, n_nodes; /* our number, and how many there are */
};

struct meeting_cbs {
    /* The store cannot be reached any more; nothing further is called.  Once. */
    void (*lost)(void *ctx, const char *sentence);
    void (*received)(void *ctx, struct cc_bytes message); /* see meeting_send() */
};

struct meeting;

/* parts[n]: what each of the nodes has given, in the order in which they were named; good until it returns. */
typedef void meeting_fn(void *ctx, const struct cc_bytes *parts, uint32_t n);

int meeting_start(struct meeting **ret, uv_loop_t *loop, const struct meeting_cfg *cfg, const struct meeting_cbs *cbs, void *ctx,
                  struct cc_err *err);

/* We give `part`, and get those of all nodes[n]; NULL: of all there are.  Each of them must call it with the same name, once. */
int meeting_exchange(struct meeting *m, struct cc_bytes name, struct cc_bytes part, const uint32_t *nodes, uint32_t n,
                     meeting_fn *done, void *ctx, struct cc_err *err);

/* To another node, which must listen: its `received` gets it, in the order in which they were sent by all. */
int meeting_send(struct meeting *m, uint32_t node, struct cc_bytes message, struct cc_err *err);
int meeting_listen(struct meeting *m, struct cc_err *err);

/* Nothing is called any more; freed in a later turn of the loop.  NULL is accepted. */
void meeting_close(struct meeting *m);

#endif
