#include "store/etcd.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/queue.h>

#include "store/base/buf.h"
#include "store/base/cleanup.h"
#include "store/base/clock.h"
#include "store/core/base64.h"
#include "store/http.h"

#define DEFAULT_PORT ":2379"

enum {
    URL_MAX = 320,
    WHY_MAX = 400,
    LINE_MAX_BYTES = 2 * ETCD_VALUE_MAX,
    LOGIN_CALLS = 5, /* a login may take as long as so many calls: members make it slow on purpose, and agents come at once */
    TTL_MAX_S = 9000000, /* etcd grants no more: 9,000,000,000 s is an error, and a lease here is one of seconds */
};

struct call {
    struct etcd      *e;
    const char       *path;
    char             *body;
    struct http_call *http;
    etcd_done_fn     *done;
    void             *ctx;
    uint64_t          until;
    unsigned          n_tries, endpoint;
    bool              is_login, was_renewed; /* a new token was asked for on its behalf */
    LIST_ENTRY(call) all;
};

struct etcd_watch {
    struct etcd                 *e;
    struct http_call            *http;
    const struct etcd_watch_cbs *cbs;
    void                        *ctx;
    char                        *body;
    struct cc_buf                line;
    LIST_ENTRY(etcd_watch) all;
};

struct etcd {
    struct http *http;
    char         endpoint[ETCD_ENDPOINTS_MAX][URL_MAX];
    unsigned     n_endpoints, first; /* first: the one that answered last */
    uint64_t     try_timeout, call_timeout;
    char        *user, *password, *token;
    LIST_HEAD(, call) calls;
    LIST_HEAD(, etcd_watch) watches;
};

static void try_call(struct call *c);

/* ---- JSON of the gateway: numbers of 64 bits are texts, and zeros are left out */

/* What no int64_t can be is 0, as if it was left out. */
static int64_t number_in(const cJSON *o, const char *name)
{
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, name);
    char        *end;
    int64_t      n;

    if (cJSON_IsString(v)) {
        errno = 0;
        n = strtoll(v->valuestring, &end, 10);
        return errno || *end ? 0 : n;
    }
    return cJSON_IsNumber(v) && v->valuedouble > -0x1p63 && v->valuedouble < 0x1p63 ? (int64_t) v->valuedouble : 0;
}

/* In seconds.  That of a lease which has expired is left out by some versions and -1 with others. */
static int64_t ttl_in(const cJSON *o)
{
    int64_t ttl = number_in(o, "TTL");

    return ttl < 0 ? 0 : ttl > TTL_MAX_S ? TTL_MAX_S : ttl;
}

static const char *text_in(const cJSON *o, const char *name)
{
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, name);

    return cJSON_IsString(v) ? v->valuestring : "";
}

/* In place: the bytes are shorter than the text. */
static void take_kv(const cJSON *o, struct etcd_kv *ret)
{
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, "value");
    ssize_t      n = 0;

    *ret = (struct etcd_kv) { .is_there = true, .value = (const uint8_t *) "" };
    ret->create_revision = number_in(o, "create_revision");
    ret->mod_revision = number_in(o, "mod_revision");
    ret->lease = number_in(o, "lease");
    if (!cJSON_IsString(v))
        return;
    n = base64_decode(v->valuestring, strlen(v->valuestring), (uint8_t *) v->valuestring);
    ret->value = (const uint8_t *) v->valuestring;
    ret->n = n > 0 ? (size_t) n : 0;
}

static void take_first_kv(const cJSON *range, struct etcd_kv *ret)
{
    const cJSON *kv = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(range, "kvs"), 0);

    if (kv)
        take_kv(kv, ret);
}

/* Each answer has some of these. */
static void take_answer(const cJSON *o, struct etcd_answer *a)
{
    const cJSON *result = cJSON_GetObjectItemCaseSensitive(o, "result");
    const cJSON *responses = cJSON_GetObjectItemCaseSensitive(o, "responses");

    o = result ? result : o; /* of a stream, as keepalive is one */
    a->revision = number_in(cJSON_GetObjectItemCaseSensitive(o, "header"), "revision");
    a->is_done = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(o, "succeeded"));
    a->lease = number_in(o, "ID");
    a->ttl = ttl_in(o);
    take_first_kv(o, &a->kv);
    if (responses)
        take_first_kv(cJSON_GetObjectItemCaseSensitive(cJSON_GetArrayItem(responses, 0), "response_range"), &a->kv);
}

static bool add_bytes(cJSON *o, const char *name, const void *p, size_t n)
{
    CC_AUTO_FREE char *text = malloc(BASE64_LEN(n) + 1);

    if (!text)
        return false;
    base64_encode(p, n, text);
    return cJSON_AddStringToObject(o, name, text) != NULL;
}

static bool add_int64(cJSON *o, const char *name, int64_t v)
{
    char text[24];

    (void) snprintf(text, sizeof text, "%" PRId64, v);
    return cJSON_AddStringToObject(o, name, text) != NULL;
}

/* ---- one call: as many tries as there is time */

static void end_call(struct call *c)
{
    LIST_REMOVE(c, all);
    if (c->http)
        http_cancel(c->http);
    free(c->body);
    free(c);
}

static void answer(struct call *c, const struct etcd_answer *a)
{
    etcd_done_fn *done = c->done;
    void         *ctx = c->ctx;

    end_call(c);
    if (done)
        done(ctx, a);
}

__attribute__((format(printf, 3, 4))) static void fail(struct call *c, int code, const char *fmt, ...)
{
    char               why[WHY_MAX];
    struct etcd_answer a = { .code = code, .why = why, .own = "" };
    va_list            ap;

    va_start(ap, fmt);
    (void) vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    answer(c, &a);
}

/* Another member may do better: false, when there is no time left or all were asked twice. */
static bool try_another(struct call *c)
{
    struct etcd *e = c->e;

    if (c->endpoint == e->first)
        e->first = (e->first + 1) % e->n_endpoints;
    if (++c->n_tries >= 2 * e->n_endpoints || cc_monotonic_ms() >= c->until)
        return false;
    try_call(c);
    return true;
}

static void on_logged_in(void *ctx, const struct etcd_answer *a);

static int start_call(struct etcd *e, const char *path, cJSON *body, etcd_done_fn *done, void *ctx);

/* The token has ended, or there is none yet: ask for one, then again. */
static void log_in(struct call *c)
{
    cJSON       *o = cJSON_CreateObject();
    struct call *login;

    c->was_renewed = true;
    if (!o || !cJSON_AddStringToObject(o, "name", c->e->user) || !cJSON_AddStringToObject(o, "password", c->e->password) ||
        start_call(c->e, "/v3/auth/authenticate", o, on_logged_in, c) < 0) {
        fail(c, -ENOMEM, "no memory to log in");
        return;
    }
    login = LIST_FIRST(&c->e->calls);
    login->is_login = true;
    login->until = cc_monotonic_ms() + LOGIN_CALLS * c->e->call_timeout;
    try_call(login);
}

static void on_logged_in(void *ctx, const struct etcd_answer *a)
{
    struct call *c = ctx;

    if (a->code < 0) {
        fail(c, a->code, "%s", a->why);
        return;
    }
    c->until = cc_monotonic_ms() + c->e->call_timeout; /* what the login took is not this call's */
    try_call(c);
}

static void take_token(struct etcd *e, const cJSON *o)
{
    const cJSON *t = cJSON_GetObjectItemCaseSensitive(o, "token");

    free(e->token);
    e->token = cJSON_IsString(t) ? strdup(t->valuestring) : NULL;
}

/* It answers that it will not. */
static void refused(struct call *c, long status, const cJSON *o)
{
    const char *url = c->e->endpoint[c->endpoint];
    const char *why = text_in(o, "message");
    bool        is_passing = status >= 500 || status == 408 || status == 429;

    why = why[0] ? why : text_in(o, "error");
    if (status == 401 && c->e->user && !c->was_renewed && !c->is_login)
        log_in(c);
    else if (status == 404 && number_in(o, "code") == 5)
        fail(c, -ENOENT, "%s: %s", url, why);
    else if (!is_passing || !try_another(c))
        fail(c, is_passing ? -ETIMEDOUT : status == 401 || status == 403 ? -EACCES : -EPROTO,
             "etcd at %s refuses (HTTP status %ld): %.200s", url, status, why[0] ? why : "it gives no reason; is it etcd v3?");
}

static void on_done(void *ctx, const struct http_answer *h)
{
    struct call       *c = ctx;
    struct etcd_answer a = { .why = "", .own = h->own };
    const char        *url = c->e->endpoint[c->endpoint];
    cJSON             *o;

    c->http = NULL;
    if (h->code < 0) {
        if (!try_another(c))
            fail(c, h->code, "etcd at %s does not answer: %.200s", url, h->why);
        return;
    }
    o = cJSON_Parse(h->body);
    if (h->status != 200) {
        refused(c, h->status, o);
    } else if (!cJSON_IsObject(o)) {
        fail(c, -EPROTO, "what answers at %s is no etcd: it sent no JSON object", url);
    } else {
        c->e->first = c->endpoint;
        if (c->is_login)
            take_token(c->e, o);
        take_answer(o, &a);
        answer(c, &a);
    }
    cJSON_Delete(o);
}

static const struct http_cbs call_cbs = { NULL, on_done };

static void try_call(struct call *c)
{
    struct etcd        *e = c->e;
    uint64_t            now = cc_monotonic_ms(), left = c->until > now ? c->until - now : 1;
    uint64_t            most = !c->is_login ? e->try_timeout : e->n_endpoints > 1 ? e->call_timeout : left;
    char                url[URL_MAX + 40];
    struct http_request req = { .url = url, .token = c->is_login ? NULL : e->token, .body = c->body };

    if (e->user && !e->token && !c->is_login && !c->was_renewed) {
        log_in(c);
        return;
    }
    c->endpoint = e->first;
    (void) snprintf(url, sizeof url, "%s%s", e->endpoint[c->endpoint], c->path);
    req.n = strlen(c->body);
    req.timeout = left < most ? left : most;
    c->http = http_post(e->http, &req, &call_cbs, c);
    if (!c->http)
        fail(c, -ENOMEM, "no memory to ask etcd");
}

/* Takes body, which may be NULL: no memory. */
static int start_call(struct etcd *e, const char *path, cJSON *body, etcd_done_fn *done, void *ctx)
{
    struct call *c = body ? calloc(1, sizeof *c) : NULL;
    char        *text = c ? cJSON_PrintUnformatted(body) : NULL;

    cJSON_Delete(body);
    if (!text) {
        free(c);
        return -ENOMEM;
    }
    *c = (struct call) { .e = e, .path = path, .body = text, .done = done, .ctx = ctx };
    c->until = cc_monotonic_ms() + e->call_timeout;
    LIST_INSERT_HEAD(&e->calls, c, all);
    return 0;
}

/* With a body that could be made. */
static int call(struct etcd *e, const char *path, cJSON *body, bool is_whole, etcd_done_fn *done, void *ctx)
{
    int r;

    if (!is_whole) {
        cJSON_Delete(body);
        return -ENOMEM;
    }
    r = start_call(e, path, body, done, ctx);
    if (r == 0)
        try_call(LIST_FIRST(&e->calls));
    return r;
}

/* ---- what can be asked */

int etcd_grant(struct etcd *e, int64_t ttl_s, etcd_done_fn *done, void *ctx)
{
    cJSON *o = cJSON_CreateObject();

    return call(e, "/v3/lease/grant", o, add_int64(o, "TTL", ttl_s), done, ctx);
}

int etcd_keep(struct etcd *e, int64_t lease, etcd_done_fn *done, void *ctx)
{
    cJSON *o = cJSON_CreateObject();

    return call(e, "/v3/lease/keepalive", o, add_int64(o, "ID", lease), done, ctx);
}

int etcd_revoke(struct etcd *e, int64_t lease, etcd_done_fn *done, void *ctx)
{
    cJSON *o = cJSON_CreateObject();

    return call(e, "/v3/lease/revoke", o, add_int64(o, "ID", lease), done, ctx);
}

int etcd_get(struct etcd *e, const char *key, etcd_done_fn *done, void *ctx)
{
    cJSON *o = cJSON_CreateObject();

    return call(e, "/v3/kv/range", o, add_bytes(o, "key", key, strlen(key)), done, ctx);
}

static bool add_put(cJSON *txn, const char *key, struct etcd_value v, int64_t lease)
{
    cJSON *list = cJSON_AddArrayToObject(txn, "success"), *op = cJSON_CreateObject(), *put;

    if (!list || !cJSON_AddItemToArray(list, op)) {
        cJSON_Delete(op);
        return false;
    }
    put = cJSON_AddObjectToObject(op, "request_put");
    return put && add_bytes(put, "key", key, strlen(key)) && add_bytes(put, "value", v.p, v.n) && add_int64(put, "lease", lease);
}

static bool add_get(cJSON *txn, const char *key)
{
    cJSON *list = cJSON_AddArrayToObject(txn, "failure"), *op = cJSON_CreateObject(), *range;

    if (!list || !cJSON_AddItemToArray(list, op)) {
        cJSON_Delete(op);
        return false;
    }
    range = cJSON_AddObjectToObject(op, "request_range");
    return range && add_bytes(range, "key", key, strlen(key));
}

static bool add_created_at(cJSON *txn, const char *key, int64_t revision)
{
    cJSON *list = cJSON_AddArrayToObject(txn, "compare"), *o = cJSON_CreateObject();

    if (!list || !cJSON_AddItemToArray(list, o)) {
        cJSON_Delete(o);
        return false;
    }
    return add_bytes(o, "key", key, strlen(key)) && cJSON_AddStringToObject(o, "target", "CREATE") &&
           cJSON_AddStringToObject(o, "result", "EQUAL") && add_int64(o, "create_revision", revision);
}

int etcd_create(struct etcd *e, const char *key, struct etcd_value v, int64_t lease, etcd_done_fn *done, void *ctx)
{
    cJSON *o = cJSON_CreateObject();

    return call(e, "/v3/kv/txn", o, add_created_at(o, key, 0) && add_put(o, key, v, lease) && add_get(o, key), done, ctx);
}

int etcd_put_if(struct etcd *e, const char *guard, int64_t created, const char *key, struct etcd_value v, int64_t lease,
                etcd_done_fn *done, void *ctx)
{
    cJSON *o = cJSON_CreateObject();

    return call(e, "/v3/kv/txn", o, add_created_at(o, guard, created) && add_put(o, key, v, lease), done, ctx);
}

void etcd_cancel(struct etcd *e)
{
    while (!LIST_EMPTY(&e->calls))
        end_call(LIST_FIRST(&e->calls));
}

/* ---- a watch: one long answer, a JSON object a line */

static void take_events(struct etcd_watch *w, const cJSON *o)
{
    const cJSON *result = cJSON_GetObjectItemCaseSensitive(o, "result"), *ev;

    cJSON_ArrayForEach(ev, cJSON_GetObjectItemCaseSensitive(result, "events"))
    {
        struct etcd_kv kv;

        take_kv(cJSON_GetObjectItemCaseSensitive(ev, "kv"), &kv);
        kv.is_there = strcmp(text_in(ev, "type"), "DELETE") != 0;
        w->cbs->changed(w->ctx, &kv);
    }
}

static bool is_cancelled(const cJSON *o)
{
    const cJSON *result = cJSON_GetObjectItemCaseSensitive(o, "result");

    return !result || cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(result, "canceled"));
}

static bool on_part(void *ctx, const char *bytes, size_t n)
{
    struct etcd_watch *w = ctx;
    bool               is_on = cc_buf_len(&w->line) + n <= LINE_MAX_BYTES && cc_buf_add(&w->line, bytes, n) == 0;

    while (is_on) {
        const char *line = (const char *) cc_buf_data(&w->line);
        const char *end = line ? memchr(line, '\n', cc_buf_len(&w->line)) : NULL;
        cJSON      *o;

        if (!end)
            break;
        o = cJSON_ParseWithLength(line, (size_t) (end - line));
        cc_buf_drop(&w->line, (size_t) (end - line) + 1);
        is_on = o && !is_cancelled(o);
        if (is_on)
            take_events(w, o);
        cJSON_Delete(o);
    }
    return is_on;
}

static void on_watch_done(void *ctx, const struct http_answer *a)
{
    struct etcd_watch           *w = ctx;
    const struct etcd_watch_cbs *cbs = w->cbs;
    void                        *of = w->ctx;

    w->http = NULL;
    if (a->code < 0 && w->e->n_endpoints > 1)
        w->e->first = (w->e->first + 1) % w->e->n_endpoints;
    if (a->status == 401) {
        free(w->e->token);
        w->e->token = NULL;
    }
    etcd_watch_close(w);
    cbs->ended(of, a->code < 0 ? a->why : "the member has ended it");
}

static const struct http_cbs watch_cbs = { on_part, on_watch_done };

struct etcd_watch *etcd_watch(struct etcd *e, const char *key, int64_t from, const struct etcd_watch_cbs *cbs, void *ctx)
{
    struct etcd_watch  *w = calloc(1, sizeof *w);
    char                url[URL_MAX + 40];
    struct http_request req = { .url = url, .token = e->token };
    cJSON              *o = cJSON_CreateObject(), *create = cJSON_AddObjectToObject(o, "create_request");

    if (w && create && add_bytes(create, "key", key, strlen(key)) && add_int64(create, "start_revision", from))
        w->body = cJSON_PrintUnformatted(o);
    cJSON_Delete(o);
    if (!w || !w->body) {
        free(w);
        return NULL;
    }
    w->e = e;
    w->cbs = cbs;
    w->ctx = ctx;
    LIST_INSERT_HEAD(&e->watches, w, all);
    (void) snprintf(url, sizeof url, "%s/v3/watch", e->endpoint[e->first]);
    req.body = w->body;
    req.n = strlen(w->body);
    w->http = http_post(e->http, &req, &watch_cbs, w);
    if (w->http)
        return w;
    etcd_watch_close(w);
    return NULL;
}

void etcd_watch_close(struct etcd_watch *w)
{
    LIST_REMOVE(w, all);
    if (w->http)
        http_cancel(w->http);
    cc_buf_free(&w->line);
    free(w->body);
    free(w);
}

/* ---- the whole */

static bool has_port(const char *text, size_t len)
{
    size_t i = len;

    while (i > 0 && text[i - 1] >= '0' && text[i - 1] <= '9')
        i--;
    return i > 0 && i < len && text[i - 1] == ':';
}

static int add_endpoint(struct etcd *e, const char *text, size_t len, const char *protocol, struct cc_err *err)
{
    bool has_protocol = (len > 7 && strncasecmp(text, "http://", 7) == 0) || (len > 8 && strncasecmp(text, "https://", 8) == 0);

    while (len > 0 && text[len - 1] == '/')
        len--;
    if (len == 0 || len + 16 > URL_MAX)
        return cc_fail(err, -EINVAL, "an etcd endpoint is host:port, not '%.*s'", (int) (len < 80 ? len : 80), text);
    if (e->n_endpoints == ETCD_ENDPOINTS_MAX)
        return cc_fail(err, -EINVAL, "more than %d etcd endpoints", ETCD_ENDPOINTS_MAX);
    (void) snprintf(e->endpoint[e->n_endpoints++], URL_MAX, "%s%s%.*s%s", has_protocol ? "" : protocol,
                    has_protocol ? "" : "://", (int) len, text, has_port(text, len) ? "" : DEFAULT_PORT);
    return 0;
}

static int parse_endpoints(struct etcd *e, const struct etcd_cfg *cfg, struct cc_err *err)
{
    const char *protocol = cfg->protocol ? cfg->protocol : "http", *at = cfg->endpoints;
    int         r = 0;

    if (strcasecmp(protocol, "http") != 0 && strcasecmp(protocol, "https") != 0)
        return cc_fail(err, -EINVAL, "The protocol must be HTTP or HTTPS."); /* torchrun's words */
    while (r == 0) {
        size_t len;

        at += strspn(at, ", ");
        len = strcspn(at, ", ");
        if (len == 0)
            break;
        r = add_endpoint(e, at, len, protocol, err);
        at += len;
    }
    if (r == 0 && e->n_endpoints == 0)
        return cc_fail(err, -EINVAL, "no etcd endpoint is given: name it as host:port, several with commas between");
    return r;
}

static void free_etcd(struct etcd *e)
{
    free(e->user);
    free(e->password);
    free(e->token);
    free(e);
}

struct etcd *etcd_new(uv_loop_t *loop, const struct etcd_cfg *cfg, struct cc_err *err)
{
    const struct http_cfg http = { .ca_file = cfg->ca_file, .cert_file = cfg->cert_file, .key_file = cfg->key_file };
    struct etcd          *e = calloc(1, sizeof *e);

    if (!e) {
        (void) cc_fail(err, -ENOMEM, "no memory for etcd");
        return NULL;
    }
    LIST_INIT(&e->calls);
    LIST_INIT(&e->watches);
    e->try_timeout = cfg->try_timeout;
    e->call_timeout = cfg->call_timeout;
    e->user = cfg->user ? strdup(cfg->user) : NULL;
    e->password = cfg->user ? strdup(cfg->password ? cfg->password : "") : NULL;
    if (cfg->user && (!e->user || !e->password))
        (void) cc_fail(err, -ENOMEM, "no memory for etcd");
    else if (parse_endpoints(e, cfg, err) == 0)
        e->http = http_new(loop, &http, err);
    if (e->http)
        return e;
    free_etcd(e);
    return NULL;
}

void etcd_close(struct etcd *e)
{
    etcd_cancel(e);
    while (!LIST_EMPTY(&e->watches))
        etcd_watch_close(LIST_FIRST(&e->watches));
    http_close(e->http);
    free_etcd(e);
}
