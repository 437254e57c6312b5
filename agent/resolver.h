/* resolver.h - looks a host name up without blocking, and can be told to forget it.
 *
 * getaddrinfo() blocks for as long as DNS servers are silent, and cannot be ended: a thread of our own waits there, and is
 * left alone when nobody is interested any more, so that the end of a job never waits for DNS.  A number needs no thread.
 */
#ifndef AGENT_RESOLVER_H
#define AGENT_RESOLVER_H

#include <netdb.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

enum { RESOLVER_HOST_MAX = 256 };

/* From a later turn of the loop, once.  list: the caller's, for freeaddrinfo(); NULL: none, because of `why`. */
typedef void resolver_done_fn(void *ctx, struct addrinfo *list, const char *why);

struct resolver;

/* is_usable: only addresses of the families that this machine has (AI_ADDRCONFIG); numbers are taken as they are.
 * NULL: no memory, or no thread. */
struct resolver *resolver_start(uv_loop_t *loop, const char *host, uint16_t port, bool is_usable, resolver_done_fn *done,
                                void *ctx);

/* Before done(): it does not come any more. */
void resolver_cancel(struct resolver *r);

/* NULL: it is no number. Else for freeaddrinfo(). */
struct addrinfo *resolver_number(const char *host, uint16_t port);

#endif
