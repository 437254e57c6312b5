/* link.h - a connection between two agents: frames of proto.h over TCP, on the loop's thread.
 *
 * Nothing blocks.  What a peer may send in one turn of the loop and what may be queued for it are bounded: who does not
 * read is disconnected, which costs nothing, because every message carries a whole state and the next connection begins
 * with a new one.
 */
#ifndef AGENT_LINK_H
#define AGENT_LINK_H

#include <uv.h>

#include "agent/core/proto.h"
#include "store/base/err.h"

struct link;

struct link_cbs { /* either may call link_close() */
    void (*message)(void *ctx, struct link *l, const struct proto_msg *m);
    void (*broken)(void *ctx, struct link *l, const char *why); /* no message follows; close it */
};

/* Takes the connected, non-blocking fd whatever happens.  NULL and err: -ENOMEM and errors of libuv. */
struct link *link_new(uv_loop_t *loop, int fd, const struct link_cbs *cbs, void *ctx, struct cc_err *err);

/* As if they had been read from it; from outside of its callbacks.  Callbacks may come out of this. */
void link_input(struct link *l, const uint8_t *bytes, size_t n);

/* Written at once as far as the kernel takes it.  A connection that is in the way breaks, in a later turn of the loop. */
void link_send(struct link *l, const struct proto_msg *m);

/* "10.0.0.7" or "fd00::7", of the other end or of ours; an IPv4 address in IPv6 clothes is undressed.  Returns buf. */
enum link_end { LINK_PEER, LINK_OWN };
const char *link_address(const struct link *l, enum link_end end, char *buf, size_t size);

/* What is queued is sent as far as the kernel takes it now.  No callback comes any more. */
void link_close(struct link *l);

#endif
