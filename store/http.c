#include "store/http.h"

#include <assert.h>
#include <curl/curl.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <unistd.h>

#include "store/base/buf.h"
#include "store/base/macros.h"
#include "store/base/shared.h"

enum { CONNECT_MS = 5000, WHY_MAX = 200 };

/* What we use of it, as its header declares it: a library with another interface does not compile. */
struct curl {
    void *library;
    __typeof__(curl_global_init)         *global_init;
    __typeof__(curl_easy_init)           *easy_init;
    __typeof__(curl_easy_setopt)         *easy_setopt;
    __typeof__(curl_easy_getinfo)        *easy_getinfo;
    __typeof__(curl_easy_cleanup)        *easy_cleanup;
    __typeof__(curl_easy_strerror)       *easy_strerror;
    __typeof__(curl_slist_append)        *slist_append;
    __typeof__(curl_slist_free_all)      *slist_free_all;
    __typeof__(curl_multi_init)          *multi_init;
    __typeof__(curl_multi_setopt)        *multi_setopt;
    __typeof__(curl_multi_add_handle)    *multi_add_handle;
    __typeof__(curl_multi_remove_handle) *multi_remove_handle;
    __typeof__(curl_multi_socket_action) *multi_socket_action;
    __typeof__(curl_multi_info_read)     *multi_info_read;
    __typeof__(curl_multi_assign)        *multi_assign;
    __typeof__(curl_multi_cleanup)       *multi_cleanup;
};

struct http_call {
    struct http           *h;
    CURL                  *easy;
    struct curl_slist     *headers;
    const struct http_cbs *cbs;
    void                  *ctx;
    struct cc_buf          body;
    char                   trouble[CURL_ERROR_SIZE];
    bool                   is_enough, is_running, is_done;
    LIST_ENTRY(http_call) all;
};

struct http {
    uv_loop_t  *loop;
    struct curl curl;
    CURLM      *multi;
    uv_timer_t  timer;
    bool        is_closing;
    char       *ca_file, *cert_file, *key_file;
    LIST_HEAD(, http_call) calls;
};

struct sock { /* one of libcurl's sockets */
    uv_poll_t   poll;
    struct http *h;
    curl_socket_t fd;
};

/* ---- the library */

static const char *const library_names[] = { "libcurl.so.4", "libcurl-gnutls.so.4", "libcurl-nss.so.4" };

/* NULL, and why the first of them is none. */
static void *open_library(char why[WHY_MAX])
{
    void *library = NULL;

    for (size_t i = 0; i < CC_COUNT(library_names) && !library; i++) {
        library = cc_shared_open(library_names[i]);
        if (!library && i == 0)
            (void) snprintf(why, WHY_MAX, "%s", cc_shared_error());
    }
    return library; /* never unloaded: its TLS library does not like that */
}

int http_library(char *ret, size_t n)
{
    __typeof__(curl_version_info) *version_info = NULL;
    char                           why[WHY_MAX];
    void                          *library = open_library(why), *symbol;

    symbol = library ? cc_shared_symbol(library, "curl_version_info") : NULL;
    if (!symbol)
        return -ENOENT;
    memcpy(&version_info, &symbol, sizeof symbol); /* ISO C has no cast for this */
    (void) snprintf(ret, n, "libcurl %s", version_info(CURLVERSION_FIRST)->version);
    return 0;
}

static int load(struct curl *ret, struct cc_err *err)
{
    static const struct {
        const char *name;
        size_t      at;
    } symbols[] = {
        { "curl_global_init", offsetof(struct curl, global_init) },
        { "curl_easy_init", offsetof(struct curl, easy_init) },
        { "curl_easy_setopt", offsetof(struct curl, easy_setopt) },
        { "curl_easy_getinfo", offsetof(struct curl, easy_getinfo) },
        { "curl_easy_cleanup", offsetof(struct curl, easy_cleanup) },
        { "curl_easy_strerror", offsetof(struct curl, easy_strerror) },
        { "curl_slist_append", offsetof(struct curl, slist_append) },
        { "curl_slist_free_all", offsetof(struct curl, slist_free_all) },
        { "curl_multi_init", offsetof(struct curl, multi_init) },
        { "curl_multi_setopt", offsetof(struct curl, multi_setopt) },
        { "curl_multi_add_handle", offsetof(struct curl, multi_add_handle) },
        { "curl_multi_remove_handle", offsetof(struct curl, multi_remove_handle) },
        { "curl_multi_socket_action", offsetof(struct curl, multi_socket_action) },
        { "curl_multi_info_read", offsetof(struct curl, multi_info_read) },
        { "curl_multi_assign", offsetof(struct curl, multi_assign) },
        { "curl_multi_cleanup", offsetof(struct curl, multi_cleanup) },
    };
    char        why[WHY_MAX] = "";
    struct curl c = { .library = open_library(why) };
    unsigned    i;

    if (!c.library && !cc_shared_can())
        return cc_fail(err, -ENOENT,
                       "this ccrun is static and cannot speak with etcd, for which libcurl has to be loaded: use one that is "
                       "not, or --rdzv-backend c10d");
    if (!c.library)
        return cc_fail(err, -ENOENT,
                       "libcurl is needed to speak with etcd, and cannot be loaded: install the package libcurl4 (%s)", why);
    for (i = 0; i < CC_COUNT(symbols); i++) {
        void *symbol = cc_shared_symbol(c.library, symbols[i].name);

        if (!symbol) {
            cc_shared_close(c.library);
            return cc_fail(err, -ENOENT, "the libcurl that is installed has no %s: install the package libcurl4",
                           symbols[i].name);
        }
        memcpy((char *) &c + symbols[i].at, &symbol, sizeof symbol); /* ISO C has no cast for this */
    }
    if (c.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return cc_fail(err, -EIO, "libcurl cannot be initialized");
    *ret = c;
    return 0;
}

/* ---- libcurl's sockets and its timer on our loop */

static int code_of(CURLcode c)
{
    if (c == CURLE_OPERATION_TIMEDOUT)
        return -ETIMEDOUT;
    return c == CURLE_COULDNT_CONNECT || c == CURLE_COULDNT_RESOLVE_HOST ? -ECONNREFUSED : -EPROTO;
}

static void release(struct http_call *c)
{
    struct http *h = c->h;

    if (!c->is_done)
        LIST_REMOVE(c, all);
    if (c->is_running)
        (void) h->curl.multi_remove_handle(h->multi, c->easy);
    h->curl.easy_cleanup(c->easy);
    h->curl.slist_free_all(c->headers);
    cc_buf_free(&c->body);
    free(c);
}

static void finish(struct http_call *c, CURLcode result)
{
    struct http       *h = c->h;
    struct http_answer a = { 0 };
    char              *own = NULL, ip[HTTP_ADDR_MAX] = "";
    bool               is_well = result == CURLE_OK || c->is_enough;

    (void) h->curl.easy_getinfo(c->easy, CURLINFO_LOCAL_IP, &own);
    (void) snprintf(ip, sizeof ip, "%s", own ? own : "");
    (void) h->curl.easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &a.status);
    a.code = is_well ? 0 : code_of(result);
    a.why = is_well ? "" : c->trouble[0] ? c->trouble : h->curl.easy_strerror(result);
    a.own = ip;
    if (cc_buf_add(&c->body, "", 1) < 0) {
        a.code = -ENOMEM;
        a.why = "no memory";
        a.body = "";
    } else {
        a.body = (const char *) cc_buf_data(&c->body);
        a.n = cc_buf_len(&c->body) - 1;
    }
    LIST_REMOVE(c, all); /* done() may close everything: this one is ours then */
    (void) h->curl.multi_remove_handle(h->multi, c->easy);
    c->is_running = false;
    c->is_done = true;
    c->cbs->done(c->ctx, &a);
    release(c);
}

static void reap(struct http *h)
{
    CURLMsg *m;
    int      n_left;

    while (!h->is_closing && (m = h->curl.multi_info_read(h->multi, &n_left))) {
        char *who = NULL;

        if (m->msg != CURLMSG_DONE)
            continue;
        (void) h->curl.easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &who);
        finish((struct http_call *) (void *) who, m->data.result);
    }
}

static void act(struct http *h, curl_socket_t fd, int what)
{
    int n_running;

    (void) h->curl.multi_socket_action(h->multi, fd, what, &n_running);
    reap(h);
}

static void on_timer(uv_timer_t *t)
{
    act(CC_CONTAINER_OF(t, struct http, timer), CURL_SOCKET_TIMEOUT, 0);
}

static int on_curl_timer(CURLM *multi, long ms, void *ctx)
{
    struct http *h = ctx;

    (void) multi;
    if (h->is_closing)
        return 0;
    uv_update_time(h->loop);
    if (ms < 0)
        (void) uv_timer_stop(&h->timer);
    else
        (void) uv_timer_start(&h->timer, on_timer, (uint64_t) ms, 0);
    return 0;
}

static void on_sock_closed(uv_handle_t *u)
{
    free(CC_CONTAINER_OF(u, struct sock, poll));
}

static void on_ready(uv_poll_t *p, int status, int events)
{
    struct sock *s = CC_CONTAINER_OF(p, struct sock, poll);
    int          what = status < 0 ? CURL_CSELECT_ERR : 0;

    what |= events & UV_READABLE ? CURL_CSELECT_IN : 0;
    what |= events & UV_WRITABLE ? CURL_CSELECT_OUT : 0;
    act(s->h, s->fd, what);
}

static struct sock *new_sock(struct http *h, curl_socket_t fd)
{
    struct sock *s = calloc(1, sizeof *s);

    if (!s)
        return NULL;
    s->h = h;
    s->fd = fd;
    if (uv_poll_init_socket(h->loop, &s->poll, fd) < 0) {
        free(s);
        return NULL;
    }
    (void) h->curl.multi_assign(h->multi, fd, s);
    return s;
}

static int on_curl_socket(CURL *easy, curl_socket_t fd, int what, void *ctx, void *assigned)
{
    struct http *h = ctx;
    struct sock *s = assigned;
    int          events = 0;

    (void) easy;
    if (what == CURL_POLL_REMOVE) {
        if (s) {
            (void) uv_poll_stop(&s->poll);
            uv_close((uv_handle_t *) &s->poll, on_sock_closed);
            (void) h->curl.multi_assign(h->multi, fd, NULL);
        }
        return 0;
    }
    s = s ? s : new_sock(h, fd);
    if (!s)
        return -1; /* the transfer ends with an error */
    events |= what != CURL_POLL_OUT ? UV_READABLE : 0;
    events |= what != CURL_POLL_IN ? UV_WRITABLE : 0;
    return uv_poll_start(&s->poll, events, on_ready) < 0 ? -1 : 0;
}

/* ---- requests */

static size_t on_body(char *bytes, size_t size, size_t n, void *ctx)
{
    struct http_call *c = ctx;
    long              status = 0;

    n *= size;
    (void) c->h->curl.easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &status);
    if (c->cbs->part && status == 200) {
        c->is_enough = !c->cbs->part(c->ctx, bytes, n);
        return c->is_enough ? 0 : n;
    }
    if (cc_buf_len(&c->body) + n > HTTP_BODY_MAX || cc_buf_add(&c->body, bytes, n) < 0)
        return 0; /* ends it with an error */
    return n;
}

static void set_tls(struct http *h, CURL *e)
{
    if (h->ca_file)
        (void) h->curl.easy_setopt(e, CURLOPT_CAINFO, h->ca_file);
    if (h->cert_file)
        (void) h->curl.easy_setopt(e, CURLOPT_SSLCERT, h->cert_file);
    if (h->key_file)
        (void) h->curl.easy_setopt(e, CURLOPT_SSLKEY, h->key_file);
}

static bool set_headers(struct http_call *c, const char *token)
{
    char               line[2048];
    struct curl_slist *more = c->h->curl.slist_append(NULL, "Content-Type: application/json");

    c->headers = more;
    if (more && token) {
        (void) snprintf(line, sizeof line, "Authorization: %s", token);
        more = c->h->curl.slist_append(more, line);
    }
    if (more)
        more = c->h->curl.slist_append(more, "Expect:"); /* else a larger body waits a second for a 100 */
    return more != NULL;
}

struct http_call *http_post(struct http *h, const struct http_request *req, const struct http_cbs *cbs, void *ctx)
{
    struct http_call  *c = calloc(1, sizeof *c);
    const struct curl *curl = &h->curl;

    if (!c)
        return NULL;
    c->h = h;
    c->cbs = cbs;
    c->ctx = ctx;
    LIST_INSERT_HEAD(&h->calls, c, all);
    c->easy = curl->easy_init();
    if (!c->easy || !set_headers(c, req->token)) {
        release(c);
        return NULL;
    }
    (void) curl->easy_setopt(c->easy, CURLOPT_URL, req->url);
    (void) curl->easy_setopt(c->easy, CURLOPT_PRIVATE, (void *) c);
    (void) curl->easy_setopt(c->easy, CURLOPT_NOSIGNAL, 1L);
    (void) curl->easy_setopt(c->easy, CURLOPT_HTTPHEADER, c->headers);
    (void) curl->easy_setopt(c->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t) req->n);
    (void) curl->easy_setopt(c->easy, CURLOPT_COPYPOSTFIELDS, req->body);
    (void) curl->easy_setopt(c->easy, CURLOPT_WRITEFUNCTION, on_body);
    (void) curl->easy_setopt(c->easy, CURLOPT_WRITEDATA, (void *) c);
    (void) curl->easy_setopt(c->easy, CURLOPT_ERRORBUFFER, c->trouble);
    (void) curl->easy_setopt(c->easy, CURLOPT_PROXY, ""); /* it is a service of the cluster */
    (void) curl->easy_setopt(c->easy, CURLOPT_CONNECTTIMEOUT_MS, (long) CONNECT_MS);
    (void) curl->easy_setopt(c->easy, CURLOPT_TIMEOUT_MS, (long) req->timeout);
    (void) curl->easy_setopt(c->easy, CURLOPT_TCP_KEEPALIVE, 1L);
    set_tls(h, c->easy);
    c->is_running = curl->multi_add_handle(h->multi, c->easy) == CURLM_OK;
    if (!c->is_running) {
        release(c);
        return NULL;
    }
    return c;
}

void http_cancel(struct http_call *c)
{
    release(c);
}

/* ---- the whole */

static void free_http(struct http *h)
{
    free(h->ca_file);
    free(h->cert_file);
    free(h->key_file);
    free(h);
}

static int copy_text(char **ret, const char *text)
{
    *ret = text ? strdup(text) : NULL;
    return text && !*ret ? -ENOMEM : 0;
}

/* libcurl would find out at each request. */
static int check_file(const char *path, const char *what, struct cc_err *err)
{
    if (!path || access(path, R_OK) == 0)
        return 0;
    return cc_fail(err, -EINVAL, "the %s '%.256s' cannot be read: %s", what, path, strerror(errno));
}

struct http *http_new(uv_loop_t *loop, const struct http_cfg *cfg, struct cc_err *err)
{
    struct http *h;

    if (check_file(cfg->ca_file, "file of certificate authorities", err) < 0 ||
        check_file(cfg->cert_file, "client certificate", err) < 0 || check_file(cfg->key_file, "key of the client", err) < 0)
        return NULL;
    h = calloc(1, sizeof *h);
    if (!h || copy_text(&h->ca_file, cfg->ca_file) < 0 || copy_text(&h->cert_file, cfg->cert_file) < 0 ||
        copy_text(&h->key_file, cfg->key_file) < 0) {
        (void) cc_fail(err, -ENOMEM, "no memory to speak HTTP");
        if (h)
            free_http(h);
        return NULL;
    }
    h->loop = loop;
    LIST_INIT(&h->calls);
    if (load(&h->curl, err) < 0) {
        free_http(h);
        return NULL;
    }
    assert(h->curl.multi_init); /* load() has found them all */
    h->multi = h->curl.multi_init();
    if (!h->multi) {
        (void) cc_fail(err, -ENOMEM, "no memory to speak HTTP");
        free_http(h);
        return NULL;
    }
    (void) uv_timer_init(loop, &h->timer);
    (void) h->curl.multi_setopt(h->multi, CURLMOPT_SOCKETFUNCTION, on_curl_socket);
    (void) h->curl.multi_setopt(h->multi, CURLMOPT_SOCKETDATA, (void *) h);
    (void) h->curl.multi_setopt(h->multi, CURLMOPT_TIMERFUNCTION, on_curl_timer);
    (void) h->curl.multi_setopt(h->multi, CURLMOPT_TIMERDATA, (void *) h);
    return h;
}

static void on_timer_closed(uv_handle_t *u)
{
    free_http(CC_CONTAINER_OF(u, struct http, timer));
}

void http_close(struct http *h)
{
    while (!LIST_EMPTY(&h->calls))
        release(LIST_FIRST(&h->calls));
    h->is_closing = true;
    (void) h->curl.multi_cleanup(h->multi); /* closes idle connections, whose sockets it takes from the loop */
    uv_close((uv_handle_t *) &h->timer, on_timer_closed);
}
