/* coordinator.h - the coordinator of a job at work: core rdzv (agent/core/rdzv.h) between the connections of the agents and
 * the clock.
 *
 * It lives in the agent that hosts the job.  That agent's own member (agent/core/member.h) speaks with it directly, without a
 * socket; all others by connections that begin with OPEN.  Everything happens on the loop's thread.
 *
 * How many may be connected that have not said hello, for how long, and how often people are told of them is bounded, and a
 * connection on which nothing comes for longer than a node may be silent is closed.
 */
#ifndef AGENT_COORDINATOR_H
#define AGENT_COORDINATOR_H

#include <uv.h>

#include "agent/core/proto.h"
#include "agent/core/rdzv.h"
#include "agent/recorder.h"

struct coordinator;

struct coordinator_cfg {
    struct rdzv_cfg rdzv;
    const char     *job;  /* its id, as in the OPEN of every agent; copied */
    const char     *host; /* our name, for sentences; copied */
    bool            is_durable; /* its state is saved by ops->save, and what it says waits for that */
    const uint8_t  *state;      /* of its predecessor; NULL: it is the first */
    size_t          n_state;
    const uint8_t  *secret; /* that every agent must know, or NULL; copied */
    size_t          n_secret;
    struct recorder *recorder; /* NULL: nothing is recorded */
};

struct coordinator_ops {
    /* To the member in this process, from inside of coordinator_hello() too: take it later. */
    void (*view)(void *ctx, const struct rdzv_view *v);
    void (*refused)(void *ctx, const struct rdzv_refused *r);
    void (*say)(void *ctx, const char *sentence); /* for people: who was turned away and why */
    /* is_durable: the state, with so many changes.  Then coordinator_saved(), later; none other comes before. */
    void (*save)(void *ctx, uint64_t version, const uint8_t *state, size_t n);
    void (*woken)(void *ctx);                     /* last, after what came in or was due: view() may have been called */
};

/* NULL and err: as rdzv_new(), rdzv_load() and secret_new(). */
struct coordinator *coordinator_new(uv_loop_t *loop, const struct coordinator_cfg *cfg, const struct coordinator_ops *ops,
                                    void *ctx, struct cc_err *err);

/* The connection of an agent, as store_server_cfg.other has it. */
void coordinator_accept(struct coordinator *c, int fd, const uint8_t *bytes, size_t n);

void coordinator_hello(struct coordinator *c, uint64_t now, const struct rdzv_hello *h); /* of our own member */

void coordinator_saved(struct coordinator *c, uint64_t version);

/* Whether a successor would know all that matters; true where there can be none. */
bool coordinator_is_saved(const struct coordinator *c);

void     coordinator_status(const struct coordinator *c, struct rdzv_status *ret);
unsigned coordinator_links(const struct coordinator *c); /* agents that are connected */

/* Closes all connections; frees c once the loop has let go of it. */
void coordinator_close(struct coordinator *c);

#endif
