/* uplink.h - an agent's way to the coordinator of its job: finds its address, connects, and connects again.
 *
 * The name is looked up by a thread (resolver.h), so nothing blocks.  Name errors and refused connections are waited out: the
 * other node may come later, and so may its DNS record.  It tries every address that the name has, and all of them again
 * after a pause that grows to a second.  Who answers must speak our protocol, and say so soon; else that is said.
 */
#ifndef AGENT_UPLINK_H
#define AGENT_UPLINK_H

#include <uv.h>

#include "agent/core/proto.h"
#include "store/base/err.h"

struct uplink;

struct uplink_cfg {
    const char *host;            /* name or number of the endpoint; copied */
    uint16_t    port;
    const char *from;            /* numeric address to connect from, or NULL; copied */
    uint64_t    resolve_timeout; /* ms; a name that could not be resolved for so long, and never could, is the end */
    const char *job;             /* its id, "": whichever the host has; copied */
    const uint8_t *secret;       /* that the host must know too, or NULL; copied */
    size_t      n_secret;
};

struct uplink_cbs { /* any of them may call uplink_close() */
    /* The other end understands us: say hello. own: the address that we have on this connection. */
    void (*connected)(void *ctx, const char *own);
    /* A view, or a refusal: the host's, or ours when it does not know our secret. */
    void (*message)(void *ctx, const struct proto_msg *m);
    void (*broken)(void *ctx, const char *why); /* it was connected; it will be again, if that can be */
    void (*stranger)(void *ctx); /* who answers is no ccrun, see uplink_trouble(); it is tried again all the same */
    void (*failed)(void *ctx, const struct cc_err *err); /* nothing more is tried; close it */
};

/* NULL and err: as secret_new().  Begins in the next turn of the loop. */
struct uplink *uplink_new(uv_loop_t *loop, const struct uplink_cfg *cfg, const struct uplink_cbs *cbs, void *ctx,
                          struct cc_err *err);

/* The id of the job as the host has it; "" before the first connection. */
const char *uplink_job(const struct uplink *u);

void uplink_send(struct uplink *u, const struct proto_msg *m); /* lost when there is no connection */

/* Why there is no connection right now, for the line about waiting: "connection refused by 10.0.0.1:29400"; "": there is. */
const char *uplink_trouble(const struct uplink *u);

/* What is queued is sent as far as the kernel takes it now. Frees u once the loop has let go of it. */
void uplink_close(struct uplink *u);

#endif
