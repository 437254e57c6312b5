/* helper.h - the store that rank 0 serves when no agent does: ccrun-store, as a process of its own that ends
 * with us.
 *
 * It is looked for beside this library, in ../bin of it, and on PATH.  Who asks for it again at the same host
 * and port shares it; it ends with the last of them.
 */
#ifndef BACKENDS_HELPER_H
#define BACKENDS_HELPER_H

#include <stdint.h>

#include "store/base/err.h"

struct helper;

/* Returns when it can answer.  host: a name or an address; listened on is the address that it means here, or
 * every one when it is not of this machine.  -ENOENT: there is no such program; -EADDRINUSE and others: it
 * says why. */
int            helper_start(struct helper **ret, const char *host, uint16_t port, uint64_t timeout_ms,
                            struct cc_err *err);
struct helper *helper_stop(struct helper *h); /* and waits for it. Accepts and returns NULL */

#endif
