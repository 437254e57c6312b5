/* client_uv.h - a client of a TCPStore server on a libuv loop: many requests under way, answers by callback.
 *
 * Requests of one connection are answered in order, but the one byte that ends a WAIT comes whenever its time
 * comes and cannot be told from other answers.  So plain requests are pipelined on one connection, and each
 * wait that is under way has a connection of its own (a few at most, the others queue).
 *
 * A callback is called once for each call that returned 0, never from inside that call; what it gets points
 * into buffers and is good until it returns.  Everything may be called from callbacks.  When the connection
 * is lost everything under way ends with the same negative status, and so does every later call: close it and
 * start another.
 */
#ifndef STORE_CLIENT_UV_H
#define STORE_CLIENT_UV_H

#include <stdint.h>
#include <uv.h>

#include "store/base/err.h"
#include "store/core/wire.h"

struct store_uv;

/* status 0: answered. -ETIMEDOUT: the keys did not come, or the server was not reached. -ECANCELED: closed.
 */
typedef void store_uv_fn(void *ctx, int status, const struct wire_answer *a);

struct store_uv_cfg {
    const char *host; /* numeric address: a loop never waits for a resolver */
    uint16_t    port;
    const char *prefix;             /* in front of every key; NULL: "/" as PyTorch */
    uint64_t    connect_timeout_ms; /* how long to try; 0: 30 s */
    unsigned    max_requests;       /* waiting for an answer; 0: 65,536 */
    uint64_t    max_bytes;          /* waiting to be sent; 0: 64 MiB */
    unsigned    max_waits;          /* under way at the same time; 0: 16 */
    /* 0 once the server has answered; a negative status and a sentence when the connection is lost or never
     * came. */
    void (*on_state)(void *ctx, int status, const char *sentence);
    void *ctx;
};

/* Begins to connect; requests may be made at once. -EINVAL: host is no numeric address; -ENOMEM. */
int store_uv_start(struct store_uv **ret, uv_loop_t *loop, const struct store_uv_cfg *cfg,
                   struct cc_err *err);

/* Any request but WAIT and BARRIER.  fn: NULL exactly when the request has no answer (wire_has_answer()).
 * -ENOBUFS: a bound of cfg is reached, try again after some answers; -E2BIG: over a limit of the protocol. */
int store_uv_ask(struct store_uv *c, const struct wire_req *r, const struct cc_bytes *items, uint64_t n_items,
                 store_uv_fn *fn, void *ctx);
/* WAIT for items, or BARRIER (r->key, r->number). */
int store_uv_wait(struct store_uv *c, const struct wire_req *r, const struct cc_bytes *items,
                  uint64_t n_items, uint64_t timeout_ms, store_uv_fn *fn, void *ctx);
/* Waits for the key, then asks for its value. */
int store_uv_get(struct store_uv *c, struct cc_bytes key, uint64_t timeout_ms, store_uv_fn *fn, void *ctx);

/* What is under way ends with -ECANCELED; c is freed before on_closed (which may be NULL). Not twice. */
void store_uv_close(struct store_uv *c, void (*on_closed)(void *ctx), void *ctx);

#endif
