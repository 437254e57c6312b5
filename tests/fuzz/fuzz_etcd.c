/* fuzz_etcd.c - a member of etcd answers anything.
 *
 * An input is a byte that says what is asked and the status of the answer, and the answer; a watch gets it in
 * two pieces. Instead of libcurl the fuzzer answers: what stands here is linked in the place of store/http.c.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "store/etcd.h"
#include "store/http.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct http_call {
    struct http_cbs cbs;
    void           *ctx;
    struct http    *http;
};

struct http { /* one call at a time is enough: a second is only made inside of the callback of the first */
    struct http_call *now;
    unsigned          n_posts;
};

static struct http the_http;

struct http *http_new(uv_loop_t *loop, const struct http_cfg *cfg, struct cc_err *err)
{
    (void) loop, (void) cfg, (void) err;
    the_http = (struct http){ .now = NULL };
    return &the_http;
}

struct http_call *http_post(struct http *h, const struct http_request *req, const struct http_cbs *cbs,
                            void *ctx)
{
    struct http_call *c = calloc(1, sizeof *c);

    assert(req->url && strncmp(req->url, "http://", 7) == 0 && req->body && strlen(req->body) == req->n);
    if (!c)
        abort();
    *c = (struct http_call){ *cbs, ctx, h };
    assert(!h->now);
    h->now = c;
    h->n_posts++;
    return c;
}

void http_cancel(struct http_call *c)
{
    if (c->http->now == c)
        c->http->now = NULL;
    free(c);
}

void http_close(struct http *h)
{
    assert(!h->now);
}

/* The answer to the call that is under way; what comes of it may be another call. */
static void reply(struct http *h, long status, const char *body, size_t n)
{
    struct http_call  *c = h->now;
    struct http_answer a = { .why = "", .status = status, .body = body, .n = n, .own = "127.0.0.1" };

    h->now = NULL;
    if (c->cbs.part && status == 200) {
        size_t half = n / 2;

        if (c->cbs.part(c->ctx, body, half))
            (void) c->cbs.part(c->ctx, body + half, n - half);
        a.body = "";
        a.n = 0;
    }
    c->cbs.done(c->ctx, &a);
    free(c);
}

static void check_kv(const struct etcd_kv *kv)
{
    unsigned sum = 0;

    for (size_t i = 0; i < kv->n; i++)
        sum += kv->value[i]; /* all of it can be read */
    assert(sum <= 255 * kv->n);
}

static void on_done(void *ctx, const struct etcd_answer *a)
{
    unsigned *n_done = ctx;

    ++*n_done;
    assert(a->why && a->own && (a->code == 0 || a->why[0]) && a->ttl >= 0);
    check_kv(&a->kv);
}

static void on_changed(void *ctx, const struct etcd_kv *kv)
{
    (void) ctx;
    check_kv(kv);
}

static void on_ended(void *ctx, const char *why)
{
    unsigned *n_done = ctx;

    ++*n_done;
    assert(why[0]);
}

static void ask(struct etcd *e, unsigned what, unsigned *n_done)
{
    static const struct etcd_watch_cbs watch = { on_changed, on_ended };
    struct etcd_value                  v = { "value", 5 };

    switch (what) {
    case 0: assert(etcd_grant(e, 4, on_done, n_done) == 0); break;
    case 1: assert(etcd_keep(e, 7, on_done, n_done) == 0); break;
    case 2: assert(etcd_get(e, "key", on_done, n_done) == 0); break;
    case 3: assert(etcd_create(e, "key", v, 7, on_done, n_done) == 0); break;
    case 4: assert(etcd_put_if(e, "key", 5, "state", v, 7, on_done, n_done) == 0); break;
    default: assert(etcd_watch(e, "key", 3, &watch, n_done)); break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const long statuses[] = { 200, 200, 401, 403, 404, 500, 503, 400 };
    struct etcd_cfg   cfg = { .endpoints = "a:1,b:2", .try_timeout = 1000, .call_timeout = 5000 };
    struct cc_err     err = { 0 };
    unsigned          n_done = 0, what = size > 0 ? data[0] % 6 : 0;
    size_t            n = size > 0 ? size - 1 : 0;
    char             *body = malloc(n + 1);
    struct etcd      *e;

    if (!body)
        return 0;
    if (n > 0)
        memcpy(body, data + 1, n);
    body[n] = '\0';
    if (size > 0 && data[0] & 0x80)
        cfg.user = cfg.password = "root";
    e = etcd_new(NULL, &cfg, &err);
    assert(e);
    ask(e, what, &n_done);
    while (the_http.now && the_http.n_posts < 20)
        reply(&the_http, statuses[size > 0 ? data[0] / 6 % 8 : 0], body, n);
    assert(n_done == 1 && !the_http.now); /* in a bounded number of tries */
    etcd_close(e);
    free(body);
    return 0;
}
