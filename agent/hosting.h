/* hosting.h - is this the machine that the endpoint of the job names, and by which addresses do others reach it?
 *
 * The endpoint's host is looked up, by a thread of libuv's, and what comes out is compared with the addresses of our
 * interfaces; names are never compared with names, but for our own host name when nothing resolves it.
 */
#ifndef AGENT_HOSTING_H
#define AGENT_HOSTING_H

#include <stdbool.h>
#include <uv.h>

#include "store/base/err.h"

enum { HOSTING_ADDR_MAX = 64 };

struct hosting_cfg {
    const char *host;   /* of the endpoint */
    const char *iface;  /* --iface: the name of the interface whose address is published, or NULL */
    const char *subnet; /* --subnet: the network that it is in, 10.0.0.0/16, or NULL */
    const char *local_addr; /* --local-addr: published as it is, or NULL */
};

struct hosting_answer {
    bool is_ours;                   /* host is an address of this machine */
    char bind[HOSTING_ADDR_MAX];    /* is_ours: where to listen, numeric */
    char publish[HOSTING_ADDR_MAX]; /* our address as the others see it, where that was chosen or follows from the endpoint; "" when it is to be seen */
    char from[HOSTING_ADDR_MAX];    /* to connect from, "" when that does not matter */
};

/* done() comes from a later turn of the loop, once.  err: what was asked for cannot be (no such interface). */
typedef void hosting_done_fn(void *ctx, const struct hosting_answer *a, const struct cc_err *err);

struct hosting;

/* NULL: no memory. */
struct hosting *hosting_start(uv_loop_t *loop, const struct hosting_cfg *cfg, hosting_done_fn *done, void *ctx);

/* No done() comes any more.  Frees it once the loop has let go of it. */
void hosting_close(struct hosting *h);

#endif
