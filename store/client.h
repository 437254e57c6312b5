/* client.h - a blocking client of a TCPStore server (ours, or PyTorch's from 2.2 on), for workers: libc only.
 *
 * One connection, one thread at a time (but store_client_interrupt()).  Every call has a deadline: its own (timeout_ms,
 * milliseconds; 0 asks once and does not wait), or cfg.timeout_ms.  -ETIMEDOUT from a call that waits for keys leaves the
 * connection good; after any other failure of the network it is not, and every call returns -ENOTCONN.  Keys get cfg.prefix
 * in front.
 *
 * Not every server has every query: queues need PyTorch 2.8 and its libuv server, list_keys 2.10,
 * barrier 2.12.  A server closes the connection on a query that it does not know.
 */
#ifndef STORE_CLIENT_H
#define STORE_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

#include "store/base/buf.h"
#include "store/base/err.h"

struct store_client;

struct store_client_cfg {
    const char *host; /* numeric address, or a name: then the resolver is asked */
    uint16_t    port;
    const char *prefix;     /* NULL: "/", which PyTorch puts in front of every key of the user */
    uint64_t    timeout_ms; /* of calls without a timeout of their own; 0: 300,000 as PyTorch */
};

/* Tries again, with pauses that grow, until the server answers or timeout_ms is over (-ETIMEDOUT). */
int store_client_connect(struct store_client **ret, const struct store_client_cfg *cfg, uint64_t timeout_ms,
                         struct cc_err *err);
struct store_client *store_client_free(struct store_client *c);
/* From any thread: the call that waits for the server returns -ECANCELED, and so does every later one. */
void store_client_interrupt(struct store_client *c);
/* The numeric address of our end of the connection; false: there is none any more. */
bool store_client_own_address(struct store_client *c, char *ret, size_t size);

int store_client_set(struct store_client *c, struct cc_bytes key, struct cc_bytes value, struct cc_err *err);
int store_client_append(struct store_client *c, struct cc_bytes key, struct cc_bytes value,
                        struct cc_err *err);
/* Waits for the key, then adds its value to *ret. */
int store_client_get(struct store_client *c, struct cc_bytes key, uint64_t timeout_ms, struct cc_buf *ret,
                     struct cc_err *err);
int store_client_add(struct store_client *c, struct cc_bytes key, int64_t delta, int64_t *ret_sum,
                     struct cc_err *err);
/* Adds what the server answers to *ret: `desired` if it was stored, else what is there (or `expected`: no
 * such key). */
int store_client_compare_set(struct store_client *c, struct cc_bytes key, struct cc_bytes expected,
                             struct cc_bytes desired, struct cc_buf *ret, struct cc_err *err);
int store_client_delete(struct store_client *c, struct cc_bytes key, bool *ret_was_there, struct cc_err *err);
int store_client_num_keys(struct store_client *c, int64_t *ret, struct cc_err *err);

int store_client_check(struct store_client *c, const struct cc_bytes *keys, uint64_t n, bool *ret_all_there,
                       struct cc_err *err);
int store_client_wait(struct store_client *c, const struct cc_bytes *keys, uint64_t n, uint64_t timeout_ms,
                      struct cc_err *err);
/* Waits for all n keys, then adds their values to ret[0 .. n). */
int store_client_multi_get(struct store_client *c, const struct cc_bytes *keys, uint64_t n,
                           uint64_t timeout_ms, struct cc_buf *ret, struct cc_err *err);
int store_client_multi_set(struct store_client *c, const struct cc_bytes *pairs, uint64_t n_pairs,
                           struct cc_err *err); /* key, value, key, value ... */
/* Calls `each` for every key with cfg.prefix, which is cut off. */
int store_client_list_keys(struct store_client *c, void (*each)(void *ctx, struct cc_bytes key), void *ctx,
                           struct cc_err *err);

int store_client_queue_push(struct store_client *c, struct cc_bytes key, struct cc_bytes value,
                            struct cc_err *err);
/* Adds the front of the queue to *ret; -EAGAIN: empty (timeout_ms 0, or another client was faster). */
int store_client_queue_pop(struct store_client *c, struct cc_bytes key, uint64_t timeout_ms,
                           struct cc_buf *ret, struct cc_err *err);
int store_client_queue_len(struct store_client *c, struct cc_bytes key, int64_t *ret, struct cc_err *err);
/* Returns once world_size clients have called it with this key. */
int store_client_barrier(struct store_client *c, struct cc_bytes key, int64_t world_size, uint64_t timeout_ms,
                         struct cc_err *err);

#endif
