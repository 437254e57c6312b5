#include "store/client_uv.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "store/base/macros.h"
#include "store/lane.h"

enum {
    SPARE_LANES = 2, /* kept for the next waits */
    DEFAULT_CONNECT_MS = 30000,
    DEFAULT_REQUESTS = 65536,
    DEFAULT_WAITS = 16,
};

#define DEFAULT_BYTES ((uint64_t) 64 << 20)

/* A request whose answer is to come. */
struct asked {
    enum wire_op op;
    uint64_t     n_values;
    store_uv_fn *fn;
    void        *ctx;
    TAILQ_ENTRY(asked) entry;
};

enum wait_state { WAIT_QUEUED, WAIT_SENT, WAIT_CANCELLING };

struct wait {
    struct store_uv *c;
    struct lane     *lane; /* its user is this wait; NULL: queued */
    enum wait_state  state;
    bool             has_come; /* the answer crossed with the cancel */
    uint64_t         deadline;
    struct cc_buf    request;
    store_uv_fn     *fn;
    void            *ctx;
    TAILQ_ENTRY(wait) entry;
};

/* A wait, then a GET. */
struct get {
    struct store_uv *c;
    store_uv_fn     *fn;
    void            *ctx;
    struct cc_bytes  key;
    uint8_t          bytes[];
};

struct store_uv {
    uv_loop_t              *loop;
    struct store_uv_cfg     cfg;
    char                   *prefix;
    struct sockaddr_storage address;
    char                    where[80];
    struct lane            *main;
    struct wire_in          parser; /* of main's answers */
    TAILQ_HEAD(, asked) asked;      /* of main, in the order in which they will be answered */
    TAILQ_HEAD(, wait) waits;
    struct lane *spare[SPARE_LANES];
    unsigned     n_spare, n_wait_lanes, n_pending, n_open;
    uv_timer_t   timer;    /* the next deadline of a wait */
    uint64_t     timer_at; /* UINT64_MAX: none */
    int          status;   /* 0, or why it is over */
    bool         is_closing;
    void (*on_closed)(void *ctx);
    void *on_closed_ctx;
};

static void on_closed_one(void *owner)
{
    struct store_uv *c = owner;
    void (*on_closed)(void *ctx) = c->on_closed;
    void *ctx = c->on_closed_ctx;

    assert(c->n_open > 0);
    if (--c->n_open > 0 || !c->is_closing)
        return;
    free(c->prefix);
    free(c);
    if (on_closed)
        on_closed(ctx);
}

/* ---- waits */

static void send_wait(struct lane *l, struct wait *w)
{
    l->user = w;
    w->lane = l;
    w->state = WAIT_SENT;
    l->out = w->request;
    w->request = (struct cc_buf){ 0 };
    lane_send(l);
}

/* The lane's wait is over: the next one has it. */
static void put_back(struct store_uv *c, struct lane *l)
{
    struct wait *w = TAILQ_FIRST(&c->waits);

    l->user = NULL;
    cc_buf_free(&l->out); /* a wait that was never sent */
    while (w && w->state != WAIT_QUEUED)
        w = TAILQ_NEXT(w, entry);
    if (w && c->status == 0) {
        send_wait(l, w);
    } else if (c->n_spare < SPARE_LANES && c->status == 0) {
        c->spare[c->n_spare++] = l;
    } else {
        c->n_wait_lanes--;
        lane_free(l);
    }
}

static void finish_wait(struct wait *w, int status)
{
    struct store_uv *c = w->c;

    TAILQ_REMOVE(&c->waits, w, entry);
    c->n_pending--;
    if (w->lane)
        put_back(c, w->lane);
    cc_buf_free(&w->request);
    w->fn(w->ctx, status, NULL);
    free(w);
}

static void on_wait_byte(struct lane *l)
{
    struct store_uv *c = l->owner;

    while (c->status == 0 && cc_buf_len(&l->in) > 0) {
        struct wait *w = l->user;
        bool         is_stop = *cc_buf_data(&l->in) == WIRE_STOP_WAITING;

        cc_buf_drop(&l->in, 1);
        if (w && w->state == WAIT_CANCELLING && is_stop) {
            w->has_come = true;
        } else if (w && (w->state == WAIT_CANCELLING || (w->state == WAIT_SENT && is_stop))) {
            finish_wait(w, is_stop || w->has_come ? 0 : -ETIMEDOUT);
            return;
        } else {
            lane_fail(l, -EPROTO);
            return;
        }
    }
}

static void cancel_wait(struct wait *w)
{
    static const struct wire_req r = { .op = WIRE_CANCEL_WAIT };

    if (w->state == WAIT_QUEUED || !w->lane->is_up) { /* the server has not heard of it */
        finish_wait(w, -ETIMEDOUT);
        return;
    }
    w->state = WAIT_CANCELLING;
    if (wire_put_request(&w->lane->out, cc_bytes_of(""), &r, NULL, 0) < 0)
        lane_fail(w->lane, -ENOMEM);
    else
        lane_send(w->lane);
}

static void on_deadline(uv_timer_t *t)
{
    struct store_uv *c = CC_CONTAINER_OF(t, struct store_uv, timer);
    uint64_t         now = uv_now(c->loop), at = UINT64_MAX;
    struct wait     *w = TAILQ_FIRST(&c->waits), *next;

    for (; w && c->status == 0; w = next) {
        next = TAILQ_NEXT(w, entry);
        if (w->state == WAIT_CANCELLING)
            continue;
        if (now >= w->deadline) {
            cancel_wait(w);
            next = TAILQ_FIRST(&c->waits); /* a callback may have done anything to the list */
            at = UINT64_MAX;
        } else if (w->deadline < at) {
            at = w->deadline;
        }
    }
    c->timer_at = UINT64_MAX;
    if (at < UINT64_MAX && c->status == 0) {
        c->timer_at = at;
        (void) uv_timer_start(&c->timer, on_deadline, at - now, 0);
    }
}

/* ---- the end */

/* Tells everyone.  What a callback may do meanwhile is to close c, which happens later. */
static void end_all(struct store_uv *c)
{
    struct wait  *w;
    struct asked *a;

    while ((w = TAILQ_FIRST(&c->waits)) != NULL)
        finish_wait(w, c->status);
    while ((a = TAILQ_FIRST(&c->asked)) != NULL) {
        TAILQ_REMOVE(&c->asked, a, entry);
        c->n_pending--;
        a->fn(a->ctx, c->status, NULL);
        free(a);
    }
    while (c->n_spare > 0)
        lane_free(c->spare[--c->n_spare]);
    if (c->main)
        lane_free(c->main);
    c->main = NULL;
}

static void on_lost(struct lane *l, int status)
{
    struct store_uv *c = l->owner;
    char             sentence[200];

    if (c->status < 0)
        return;
    c->status = status;
    end_all(c);
    if (c->is_closing || !c->cfg.on_state)
        return;
    (void) snprintf(sentence, sizeof sentence, "store %s: %s", c->where,
                    status == -ECONNRESET  ? "the server closed the connection"
                    : status == -ETIMEDOUT ? "it was not reached in time"
                    : status == -EPROTO    ? "it does not answer as a TCPStore server does"
                                           : strerror(-status));
    c->cfg.on_state(c->cfg.ctx, status, sentence);
}

static void on_timer_closed(uv_handle_t *h)
{
    struct store_uv *c = CC_CONTAINER_OF(h, struct store_uv, timer);

    end_all(c);
    on_closed_one(c);
}

void store_uv_close(struct store_uv *c, void (*on_closed)(void *ctx), void *ctx)
{
    assert(!c->is_closing);
    c->is_closing = true;
    if (c->status == 0)
        c->status = -ECANCELED;
    c->on_closed = on_closed;
    c->on_closed_ctx = ctx;
    uv_close((uv_handle_t *) &c->timer, on_timer_closed);
}

/* ---- answers of the main lane */

static void on_main_up(struct lane *l)
{
    struct store_uv *c = l->owner;

    if (c->status == 0 && c->cfg.on_state)
        c->cfg.on_state(c->cfg.ctx, 0, "connected");
}

static void on_main_input(struct lane *l)
{
    struct store_uv *c = l->owner;

    while (c->status == 0 && cc_buf_len(&l->in) > 0) {
        struct asked      *first = TAILQ_FIRST(&c->asked), a;
        struct wire_answer answer = { 0 };
        ssize_t            n = -EPROTO;

        if (first)
            n = wire_answer(&c->parser, first->op, first->n_values, cc_buf_data(&l->in), cc_buf_len(&l->in),
                            &answer, NULL);
        if (n < 0)
            lane_fail(l, -EPROTO);
        if (n <= 0)
            return;
        a = *first;
        TAILQ_REMOVE(&c->asked, first, entry);
        c->n_pending--;
        free(first);
        a.fn(a.ctx, 0, &answer);
        cc_buf_drop(&l->in, (size_t) n);
    }
}

static void on_wait_lane_up(struct lane *l)
{
    (void) l; /* its WAIT is on its way already */
}

static const struct lane_ops main_ops = { on_main_up, on_main_input, on_lost, on_closed_one },
                             wait_ops = { on_wait_lane_up, on_wait_byte, on_lost, on_closed_one };

static struct lane *add_lane(struct store_uv *c, const struct lane_ops *ops)
{
    struct lane *l =
        lane_new(c->loop, (const struct sockaddr *) &c->address, c->cfg.connect_timeout_ms, ops, c);

    c->n_open += l != NULL;
    return l;
}

/* ---- calls */

int store_uv_ask(struct store_uv *c, const struct wire_req *r, const struct cc_bytes *items, uint64_t n_items,
                 store_uv_fn *fn, void *ctx)
{
    struct asked *a = NULL;
    int           code;

    assert(r->op != WIRE_WAIT && r->op != WIRE_BARRIER);
    assert((fn != NULL) == wire_has_answer(r->op, n_items));
    if (c->status < 0)
        return c->status;
    if (c->n_pending >= c->cfg.max_requests || cc_buf_len(&c->main->out) >= c->cfg.max_bytes)
        return -ENOBUFS;
    if (fn) {
        a = malloc(sizeof *a);
        if (!a)
            return -ENOMEM;
        *a = (struct asked){ .op = r->op, .n_values = n_items, .fn = fn, .ctx = ctx };
    }
    code = wire_put_request(&c->main->out, cc_bytes_of(c->prefix), r, items, n_items);
    if (code < 0) {
        free(a);
        return code;
    }
    if (a) {
        TAILQ_INSERT_TAIL(&c->asked, a, entry);
        c->n_pending++;
    }
    lane_send(c->main);
    return 0;
}

static struct lane *find_lane(struct store_uv *c)
{
    struct lane *l;

    if (c->n_spare > 0)
        return c->spare[--c->n_spare];
    if (c->n_wait_lanes >= c->cfg.max_waits)
        return NULL;
    l = add_lane(c, &wait_ops);
    c->n_wait_lanes += l != NULL;
    return l;
}

int store_uv_wait(struct store_uv *c, const struct wire_req *r, const struct cc_bytes *items,
                  uint64_t n_items, uint64_t timeout_ms, store_uv_fn *fn, void *ctx)
{
    uint64_t     now;
    struct wait *w;
    struct lane *l;
    int          code;

    assert(r->op == WIRE_WAIT || r->op == WIRE_BARRIER);
    if (c->status < 0)
        return c->status;
    if (c->n_pending >= c->cfg.max_requests)
        return -ENOBUFS;
    w = malloc(sizeof *w);
    if (!w)
        return -ENOMEM;
    *w = (struct wait){ .c = c, .fn = fn, .ctx = ctx };
    uv_update_time(c->loop); /* before the loop runs, and in a long callback, its clock stands still */
    now = uv_now(c->loop);
    w->deadline = timeout_ms < UINT64_MAX - now ? now + timeout_ms : UINT64_MAX - 1;
    code = wire_put_request(&w->request, cc_bytes_of(c->prefix), r, items, n_items);
    l = code == 0 ? find_lane(c) : NULL;
    if (code == 0 && !l && c->n_wait_lanes == 0)
        code = -ENOMEM;
    if (code < 0) {
        cc_buf_free(&w->request);
        free(w);
        return code;
    }
    TAILQ_INSERT_TAIL(&c->waits, w, entry);
    c->n_pending++;
    if (l)
        send_wait(l, w);
    if (w->deadline < c->timer_at) {
        c->timer_at = w->deadline;
        (void) uv_timer_start(&c->timer, on_deadline, w->deadline - now, 0);
    }
    return 0;
}

static void on_value(void *ctx, int status, const struct wire_answer *a)
{
    struct get *g = ctx;

    g->fn(g->ctx, status, a);
    free(g);
}

static void on_key_there(void *ctx, int status, const struct wire_answer *a)
{
    struct get *g = ctx;

    (void) a;
    if (status == 0)
        status =
            store_uv_ask(g->c, &(struct wire_req){ .op = WIRE_GET, .key = g->key }, NULL, 0, on_value, g);
    if (status < 0)
        on_value(g, status, NULL);
}

int store_uv_get(struct store_uv *c, struct cc_bytes key, uint64_t timeout_ms, store_uv_fn *fn, void *ctx)
{
    struct get *g = malloc(sizeof *g + key.n);
    int         r;

    if (!g)
        return -ENOMEM;
    *g = (struct get){ .c = c, .fn = fn, .ctx = ctx, .key = { g->bytes, key.n } };
    if (key.n > 0)
        memcpy(g->bytes, key.p, key.n);
    r = store_uv_wait(c, &(struct wire_req){ .op = WIRE_WAIT }, &g->key, 1, timeout_ms, on_key_there, g);
    if (r < 0)
        free(g);
    return r;
}

static struct store_uv *give_up(struct store_uv *c)
{
    if (c)
        free(c->prefix);
    free(c);
    return NULL;
}

int store_uv_start(struct store_uv **ret, uv_loop_t *loop, const struct store_uv_cfg *cfg, struct cc_err *err)
{
    struct store_uv *c = calloc(1, sizeof *c);

    if (c)
        c->prefix = strdup(cfg->prefix ? cfg->prefix : "/");
    if (!c || !c->prefix) {
        (void) give_up(c);
        return cc_fail(err, -ENOMEM, "no memory for a client of the store");
    }
    if (uv_ip4_addr(cfg->host, cfg->port, (struct sockaddr_in *) &c->address) < 0 &&
        uv_ip6_addr(cfg->host, cfg->port, (struct sockaddr_in6 *) &c->address) < 0) {
        (void) give_up(c);
        return cc_fail(err, -EINVAL, "store '%s': it is not a numeric address such as 127.0.0.1 or ::1",
                       cfg->host);
    }
    c->loop = loop;
    c->cfg = *cfg;
    c->cfg.connect_timeout_ms = cfg->connect_timeout_ms > 0 ? cfg->connect_timeout_ms : DEFAULT_CONNECT_MS;
    c->cfg.max_requests = cfg->max_requests > 0 ? cfg->max_requests : DEFAULT_REQUESTS;
    c->cfg.max_bytes = cfg->max_bytes > 0 ? cfg->max_bytes : DEFAULT_BYTES;
    c->cfg.max_waits = cfg->max_waits > 0 ? cfg->max_waits : DEFAULT_WAITS;
    c->timer_at = UINT64_MAX;
    (void) snprintf(c->where, sizeof c->where, "%.60s port %u", cfg->host, cfg->port);
    TAILQ_INIT(&c->asked);
    TAILQ_INIT(&c->waits);
    c->main = add_lane(c, &main_ops);
    if (!c->main) {
        (void) give_up(c);
        return cc_fail(err, -ENOMEM, "no memory for a client of the store");
    }
    (void) uv_timer_init(loop, &c->timer);
    c->n_open++;
    *ret = c;
    return 0;
}
