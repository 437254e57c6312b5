/* gloo_shim.h - the C side of libccrun-gloo.so, which is C++ and the only thing here that knows libgloo.
 *
 * It exports one object, ccrun_gloo_shim.  No exception leaves it, and no SIGPIPE is left behind: gloo writes
 * to its sockets without MSG_NOSIGNAL, so the signal is blocked in its threads, and in ours while we are in
 * there.
 */
#ifndef BACKENDS_GLOO_SHIM_H
#define BACKENDS_GLOO_SHIM_H

#include <stddef.h>
#include <stdint.h>

#include "backends/ccrun.h"

#ifdef __cplusplus
extern "C" {
#endif

#define GLOO_SHIM_VERSION 3 /* of this file */
#define GLOO_SHIM_ERROR_MAX 400

struct gloo_shim_error {
    int  code; /* as in ccrun.h */
    char text[GLOO_SHIM_ERROR_MAX];
};

/* 0 or a negative code, and then the text is filled in. get() waits for the key; *ret is malloc()ed. */
struct gloo_shim_store {
    void *ctx;
    int (*set)(void *ctx, const char *key, const void *value, size_t n, struct gloo_shim_error *err);
    int (*get)(void *ctx, const char *key, void **ret, size_t *ret_n, struct gloo_shim_error *err);
};

struct gloo_shim_cfg {
    int                    rank, size;
    uint64_t               timeout_ms;
    const char            *address, *interface; /* one of the two */
    struct gloo_shim_store store;
};

struct gloo_shim_call {
    enum ccrun_what what; /* no REDUCE_SCATTER */
    const void     *send;
    void           *recv;
    size_t          count, width; /* elements, and the bytes of one: 1, 2, 4 or 8 */
    int             peer, tag;
    uint16_t        digest; /* of a collective: what all ranks have to say alike */
    uint64_t        timeout_ms;
    void (*reduce)(void *out, const void *a, const void *b, size_t n);
};

struct gloo_shim {
    int version;
    int (*open)(void **ret, const struct gloo_shim_cfg *cfg, struct gloo_shim_error *err);
    int (*run)(void *g, const struct gloo_shim_call *call, struct gloo_shim_error *err);
    int (*start)(void *g, const struct gloo_shim_call *call, void **ret,
                 struct gloo_shim_error *err); /* SEND, RECV */
    int (*poll)(void *handle, uint64_t wait_ms,
                struct gloo_shim_error *err); /* -EAGAIN; else the handle is released */
    void (*abort)(void *g);
    void (*close)(void *g);
    const void *library; /* something in libgloo */
};

extern const struct gloo_shim ccrun_gloo_shim;

#ifdef __cplusplus
}
#endif
#endif
