/* http.h - HTTP requests on the loop's thread, by libcurl, which is loaded at the first use.
 *
 * Linked in, it would cost every start 7 ms and 6 MB.  Nothing blocks.  Every request has a deadline but those that ask for
 * none; done() comes once for each, never from inside http_post().
 */
#ifndef STORE_HTTP_H
#define STORE_HTTP_H

#include <stdbool.h>
#include <uv.h>

#include "store/base/err.h"

enum { HTTP_ADDR_MAX = 64, HTTP_BODY_MAX = 8 * 1024 * 1024 };

struct http;
struct http_call;

struct http_cfg { /* copied; NULL: none */
    const char *ca_file;              /* the system's */
    const char *cert_file, *key_file; /* of the client */
};

struct http_request {
    const char *url;
    const char *token;  /* of the header Authorization, or NULL */
    const char *body;
    size_t      n;
    uint64_t    timeout; /* ms; 0: as long as the connection lives (but to connect there are 5 s) */
};

struct http_answer {
    int         code;   /* 0: there is a status; -ETIMEDOUT, -ECONNREFUSED (nobody answers), -EPROTO (all else) */
    const char *why;    /* code != 0: in libcurl's words */
    long        status;
    const char *body;   /* with a NUL behind it; what part() has taken is not in it */
    size_t      n;
    const char *own;    /* our address on this connection, "" when it was never made */
};

struct http_cbs {
    /* A piece of the body of a 200, as it comes; NULL: it is kept for done().  false: enough, end it. */
    bool (*part)(void *ctx, const char *bytes, size_t n);
    void (*done)(void *ctx, const struct http_answer *a);
};

/* The version of the libcurl that would be used, such as "libcurl 7.88.1".  -ENOENT: there is none. */
int http_library(char *ret, size_t n);

/* NULL and err: -ENOENT names the package that is missing, -EINVAL the file that cannot be read. */
struct http *http_new(uv_loop_t *loop, const struct http_cfg *cfg, struct cc_err *err);

/* NULL: no memory. */
struct http_call *http_post(struct http *h, const struct http_request *req, const struct http_cbs *cbs, void *ctx);
void http_cancel(struct http_call *c); /* no callback comes any more; not from inside of its own */

/* Cancels what is under way.  The loop lets go of it in later turns. */
void http_close(struct http *h);

#endif
