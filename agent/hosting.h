/* hosting.h - is this the machine that the endpoint of the job names, and by which addresses do others reach it?
 *
 * The endpoint's host is looked up, by a thread (resolver.h), and what comes out is compared with the addresses of our
 * interfaces: see hostpick.h.  A name that does not resolve may do so later (its DNS record lags behind), and may be ours
 * then, so the answer waits for it.
 *
 * The answer's `bind`, its `also` and `publish` are addresses of one store at one port: store_server_cfg.also.  A second
 * agent on the machine whose answer is "ours" finds the port taken, and connects to `bind`, not to the name.
 */
#ifndef AGENT_HOSTING_H
#define AGENT_HOSTING_H

#include <stdbool.h>
#include <uv.h>

#include "agent/core/hostpick.h"
#include "store/base/err.h"

struct hosting_cfg {
    const char *host;   /* of the endpoint; all are copied */
    const char *iface;  /* --iface: the name of the interface whose address is published, or NULL */
    const char *subnet; /* --subnet: the network that it is in, 10.0.0.0/16, or NULL */
    const char *local_addr;     /* --local-addr: published as it is, or NULL */
    enum hosting_wish wish;     /* other than AUTO: nothing waits for the name */
    uint64_t    resolve_timeout; /* ms; a name that could not be resolved for so long is the end */
};

/* done() comes from a later turn of the loop, once.  a is NULL when there is an err: what was asked for cannot be (no such
 * interface), or the name does not resolve. */
typedef void hosting_done_fn(void *ctx, const struct hosting_answer *a, const struct cc_err *err);

struct hosting;

/* NULL: no memory. */
struct hosting *hosting_start(uv_loop_t *loop, const struct hosting_cfg *cfg, hosting_done_fn *done, void *ctx);

/* Why there is no answer yet, for the line about waiting; "" when there is nothing to say. */
const char *hosting_trouble(const struct hosting *h);

/* No done() comes any more.  Frees it once the loop has let go of it. */
void hosting_close(struct hosting *h);

/* The number by which most others reach us: of the way out of here, else of an interface that is up, else 127.0.0.1. */
void hosting_own_address(char *ret, size_t size);

/* NETWORK/BITS, or an address alone.  -EINVAL, with a sentence. */
int hosting_parse_subnet(struct hostpick_net *ret, const char *text, struct cc_err *err);

#endif
