#include "agent/meeting.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "agent/resolver.h"
#include "store/base/macros.h"
#include "store/client_uv.h"

enum { KEY_MAX = 64 };

/* An exchange waits for as long as its workers do; who ends them ends it. */
static const uint64_t ever = (uint64_t) 30 * 24 * 3600 * 1000;

struct exchange {
    LIST_ENTRY(exchange) link;
    struct meeting  *meeting;
    struct cc_buf    keys;  /* of all parts, one behind the other, */
    struct cc_bytes *items; /* and where each is */
    struct cc_buf    part;  /* ours, until it is sent */
    uint32_t         n, own;
    meeting_fn      *done;
    void            *ctx;
};

struct meeting {
    uv_loop_t         *loop;
    struct meeting_cfg cfg; /* but the host */
    char               host[RESOLVER_HOST_MAX];
    const struct meeting_cbs *cbs;
    void              *ctx;
    struct resolver   *resolver; /* until the store has an address */
    struct store_uv   *store;
    LIST_HEAD(, exchange) exchanges;
    uint64_t           n_received; /* messages to us */
    bool               is_listening, is_closed;
};

static void lose(struct meeting *m, const char *sentence)
{
    if (m->is_closed)
        return;
    m->is_closed = true;
    m->cbs->lost(m->ctx, sentence);
}

static void lose_by(struct meeting *m, int status)
{
    char line[160];

    (void) snprintf(line, sizeof line, "the store of the workers, %.80s:%u: %s", m->host, m->cfg.port, strerror(-status));
    lose(m, line);
}

static void free_exchange(struct exchange *x)
{
    LIST_REMOVE(x, link);
    cc_buf_free(&x->keys);
    cc_buf_free(&x->part);
    free(x->items);
    free(x);
}

/* ---- an exchange: we set our part, wait for all parts, and get them */

static void on_parts(void *ctx, int status, const struct wire_answer *a)
{
    struct exchange *x = ctx;
    struct meeting  *m = x->meeting;
    struct wire_list list;
    uint32_t         i;

    if (status < 0)
        lose_by(m, status);
    if (!m->is_closed) {
        list = a->list;
        for (i = 0; i < x->n; i++) /* as many as were asked for: the parser has seen to that */
            x->items[i] = wire_next(&list);
        x->done(x->ctx, x->items, x->n);
    }
    free_exchange(x);
}

static void on_all_there(void *ctx, int status, const struct wire_answer *a)
{
    static const struct wire_req get = { .op = WIRE_MULTI_GET };
    struct exchange *x = ctx;
    struct meeting  *m = x->meeting;

    (void) a;
    if (status == 0 && !m->is_closed)
        status = store_uv_ask(m->store, &get, x->items, x->n, on_parts, x);
    if (status == 0 && !m->is_closed)
        return; /* on_parts() goes on */
    if (status < 0)
        lose_by(m, status);
    free_exchange(x);
}

/* What cannot be asked for any more has lost the meeting, and x. */
static void begin(struct exchange *x)
{
    static const struct wire_req wait = { .op = WIRE_WAIT };
    struct meeting *m = x->meeting;
    struct wire_req set = { .op = WIRE_SET, .key = x->items[x->own] };
    int             r;

    set.value = (struct cc_bytes) { cc_buf_data(&x->part), cc_buf_len(&x->part) };
    r = store_uv_ask(m->store, &set, NULL, 0, NULL, NULL);
    if (r == 0)
        r = store_uv_wait(m->store, &wait, x->items, x->n, ever, on_all_there, x);
    cc_buf_free(&x->part);
    if (r == 0)
        return;
    free_exchange(x);
    lose_by(m, r);
}

static int make_keys(struct exchange *x, struct cc_bytes name, const uint32_t *nodes, uint32_t node)
{
    char     key[KEY_MAX];
    uint32_t i;
    size_t   from = 0;

    x->own = UINT32_MAX;
    for (i = 0; i < x->n; i++) {
        uint32_t who = nodes ? nodes[i] : i;
        int      len = snprintf(key, sizeof key, "/%u", who);

        if (who == node)
            x->own = i;
        if (cc_buf_add(&x->keys, name.p, name.n) < 0 || cc_buf_add(&x->keys, key, (size_t) len) < 0)
            return -ENOMEM;
        x->items[i].n = name.n + (size_t) len;
    }
    for (i = 0; i < x->n; i++) { /* they stay where they are from now on */
        x->items[i].p = cc_buf_data(&x->keys) + from;
        from += x->items[i].n;
    }
    return 0;
}

int meeting_exchange(struct meeting *m, struct cc_bytes name, struct cc_bytes part, const uint32_t *nodes, uint32_t n,
                     meeting_fn *done, void *ctx, struct cc_err *err)
{
    struct exchange *x = calloc(1, sizeof *x);

    if (!x)
        return cc_fail(err, -ENOMEM, "no memory for an exchange between nodes");
    LIST_INSERT_HEAD(&m->exchanges, x, link);
    x->meeting = m;
    x->n = nodes ? n : m->cfg.n_nodes;
    x->done = done;
    x->ctx = ctx;
    x->items = calloc(x->n, sizeof *x->items);
    if (!x->items || cc_buf_add(&x->part, part.p, part.n) < 0 || make_keys(x, name, nodes, m->cfg.node) < 0) {
        free_exchange(x);
        return cc_fail(err, -ENOMEM, "no memory for an exchange between %u nodes", n);
    }
    assert(x->own != UINT32_MAX); /* who exchanges takes part */
    if (m->store)
        begin(x);
    return 0;
}

/* ---- messages: a counter for each node says which key is next */

static void listen_on(struct meeting *m);

static void on_message(void *ctx, int status, const struct wire_answer *a)
{
    struct meeting *m = ctx;

    if (status < 0)
        lose_by(m, status);
    if (m->is_closed)
        return;
    m->n_received++;
    listen_on(m); /* the next one may be there */
    if (!m->is_closed)
        m->cbs->received(m->ctx, a->value);
}

static void listen_on(struct meeting *m)
{
    char key[KEY_MAX];
    int  r;

    (void) snprintf(key, sizeof key, "to/%u/%" PRIu64, m->cfg.node, m->n_received + 1);
    r = store_uv_get(m->store, cc_bytes_of(key), ever, on_message, m);
    if (r < 0)
        lose_by(m, r);
}

int meeting_listen(struct meeting *m, struct cc_err *err)
{
    (void) err;
    m->is_listening = true;
    if (m->store)
        listen_on(m);
    return 0;
}

struct letter {
    struct meeting *meeting;
    uint32_t        node;
    struct cc_buf   text;
};

static void on_number(void *ctx, int status, const struct wire_answer *a)
{
    struct letter  *l = ctx;
    struct meeting *m = l->meeting;
    char            key[KEY_MAX];
    struct wire_req set = { .op = WIRE_SET };

    if (status == 0 && !m->is_closed) {
        (void) snprintf(key, sizeof key, "to/%u/%" PRId64, l->node, a->number);
        set.key = cc_bytes_of(key);
        set.value = (struct cc_bytes) { cc_buf_data(&l->text), cc_buf_len(&l->text) };
        status = store_uv_ask(m->store, &set, NULL, 0, NULL, NULL);
    }
    if (status < 0)
        lose_by(m, status);
    cc_buf_free(&l->text);
    free(l);
}

int meeting_send(struct meeting *m, uint32_t node, struct cc_bytes message, struct cc_err *err)
{
    struct letter  *l = calloc(1, sizeof *l);
    char            key[KEY_MAX];
    struct wire_req add = { .op = WIRE_ADD, .number = 1 };
    int             r = -ENOMEM;

    assert(m->store); /* nobody has anything to say before all have met */
    (void) snprintf(key, sizeof key, "to/%u", node);
    add.key = cc_bytes_of(key);
    if (l && cc_buf_add(&l->text, message.p, message.n) == 0) {
        l->meeting = m;
        l->node = node;
        r = store_uv_ask(m->store, &add, NULL, 0, on_number, l);
    }
    if (r == 0)
        return 0;
    if (l)
        cc_buf_free(&l->text);
    free(l);
    return cc_fail(err, r, "a message to another node: %s", strerror(-r));
}

/* ---- the store */

static void on_state(void *ctx, int status, const char *sentence)
{
    if (status < 0)
        lose(ctx, sentence);
}

static void connect_to(struct meeting *m, const struct addrinfo *at)
{
    char                host[NI_MAXHOST];
    struct store_uv_cfg cfg = { .host = host, .port = m->cfg.port, .prefix = "ccrun/mpi/", .on_state = on_state, .ctx = m };
    struct cc_err       err = { 0 };
    struct exchange    *x, *next;

    if (getnameinfo(at->ai_addr, at->ai_addrlen, host, sizeof host, NULL, 0, NI_NUMERICHOST) != 0 ||
        store_uv_start(&m->store, m->loop, &cfg, &err) < 0) {
        m->store = NULL;
        lose(m, err.msg[0] ? err.msg : "the store of the workers has no address");
        return;
    }
    for (x = LIST_FIRST(&m->exchanges); x && !m->is_closed; x = next) {
        next = LIST_NEXT(x, link);
        begin(x);
    }
    if (m->is_listening && !m->is_closed)
        listen_on(m);
}

static void on_resolved(void *ctx, struct addrinfo *list, const char *why)
{
    struct meeting *m = ctx;
    char            line[300];

    m->resolver = NULL;
    if (list) {
        connect_to(m, list);
        freeaddrinfo(list);
        return;
    }
    (void) snprintf(line, sizeof line, "the host of the workers' store, %.100s, cannot be resolved: %.100s", m->host, why);
    lose(m, line);
}

int meeting_start(struct meeting **ret, uv_loop_t *loop, const struct meeting_cfg *cfg, const struct meeting_cbs *cbs, void *ctx,
                  struct cc_err *err)
{
    struct meeting *m = calloc(1, sizeof *m);

    if (m) {
        m->loop = loop;
        m->cfg = *cfg;
        (void) snprintf(m->host, sizeof m->host, "%s", cfg->host);
        m->cbs = cbs;
        m->ctx = ctx;
        LIST_INIT(&m->exchanges);
        m->resolver = resolver_start(loop, cfg->host, cfg->port, true, on_resolved, m);
    }
    if (!m || !m->resolver) {
        free(m);
        return cc_fail(err, -ENOMEM, "no memory to meet the other nodes");
    }
    *ret = m;
    return 0;
}

static void on_store_closed(void *ctx)
{
    struct meeting *m = ctx;

    while (!LIST_EMPTY(&m->exchanges))
        free_exchange(LIST_FIRST(&m->exchanges));
    free(m);
}

void meeting_close(struct meeting *m)
{
    if (!m)
        return;
    m->is_closed = true;
    if (m->resolver)
        resolver_cancel(m->resolver);
    if (m->store)
        store_uv_close(m->store, on_store_closed, m);
    else
        on_store_closed(m);
}
