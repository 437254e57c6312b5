#include "store/lane.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "store/base/macros.h"
#include "store/core/wire.h"

enum { READ_SIZE = 16 << 10, FIRST_PAUSE_MS = 10, MAX_PAUSE_MS = 1000 };

/* One try to reach the server, and the connection if it succeeds. */
struct lane_link {
    struct lane  *lane;
    uv_tcp_t      tcp;
    uv_connect_t  connect;
    uv_write_t    write;
    struct cc_buf writing; /* handed to libuv */
    bool          is_writing, is_given_up;
};

static void start_try(struct lane *l);

static void on_closed_one(struct lane *l)
{
    void (*on_gone)(void *owner) = l->ops->on_gone;
    void *owner = l->owner;

    assert(l->n_open > 0);
    if (--l->n_open > 0 || !l->is_freed)
        return;
    free(l);
    on_gone(owner);
}

static void on_link_closed(uv_handle_t *h)
{
    struct lane_link *k = CC_CONTAINER_OF(h, struct lane_link, tcp);
    struct lane      *l = k->lane;

    cc_buf_free(&k->writing);
    free(k);
    on_closed_one(l);
}

static void drop_link(struct lane *l)
{
    if (!l->link)
        return;
    l->link->is_given_up = true;
    uv_close((uv_handle_t *) &l->link->tcp, on_link_closed);
    l->link = NULL;
}

static void on_timer(uv_timer_t *t)
{
    struct lane *l = CC_CONTAINER_OF(t, struct lane, timer);

    if (l->status < 0)
        l->ops->on_lost(l, l->status);
    else if (uv_now(l->loop) >= l->give_up_at)
        lane_fail(l, -ETIMEDOUT);
    else if (!l->link)
        start_try(l);
}

void lane_fail(struct lane *l, int status)
{
    if (l->status < 0 || l->is_freed)
        return;
    l->status = status;
    drop_link(l);
    (void) uv_timer_start(&l->timer, on_timer, 0, 0);
}

/* Not reached yet: again, a little later. */
static void link_failed(struct lane *l, int status)
{
    uint64_t now = uv_now(l->loop), left = l->give_up_at > now ? l->give_up_at - now : 0;

    if (l->is_up) {
        lane_fail(l, status);
        return;
    }
    drop_link(l);
    cc_buf_free(&l->in);
    (void) uv_timer_start(&l->timer, on_timer, l->pause < left ? l->pause : left, 0);
    l->pause = l->pause * 3 / 2 < MAX_PAUSE_MS ? l->pause * 3 / 2 : MAX_PAUSE_MS;
}

static void on_written(uv_write_t *req, int status)
{
    struct lane_link *k = CC_CONTAINER_OF(req, struct lane_link, write);

    k->is_writing = false;
    cc_buf_free(&k->writing);
    if (k->is_given_up)
        return;
    if (status < 0)
        link_failed(k->lane, status);
    else
        lane_send(k->lane);
}

static int start_write(struct lane_link *k)
{
    uv_buf_t b = uv_buf_init((char *) k->writing.p + k->writing.off, (unsigned) cc_buf_len(&k->writing));
    int      r = uv_write(&k->write, (uv_stream_t *) &k->tcp, &b, 1, on_written);

    k->is_writing = r == 0;
    return r;
}

void lane_send(struct lane *l)
{
    struct lane_link *k = l->link;
    int               r;

    if (!k || !l->is_up || k->is_writing || cc_buf_len(&l->out) == 0)
        return;
    k->writing = l->out;
    l->out = (struct cc_buf){ 0 };
    r = start_write(k);
    if (r < 0)
        lane_fail(l, r);
}

static void on_alloc(uv_handle_t *h, size_t suggested, uv_buf_t *b)
{
    struct lane_link *k = CC_CONTAINER_OF(h, struct lane_link, tcp);
    uint8_t          *at = k->is_given_up ? NULL : cc_buf_grow(&k->lane->in, READ_SIZE);

    (void) suggested;
    *b = uv_buf_init((char *) at, at ? READ_SIZE : 0);
}

/* The answer to the greeting's CANCEL_WAIT: from here on the server is known to serve us. */
static void take_greeting(struct lane *l)
{
    uint8_t byte = *cc_buf_data(&l->in);

    cc_buf_drop(&l->in, 1);
    if (byte != WIRE_WAIT_CANCELED) {
        lane_fail(l, -EPROTO);
        return;
    }
    l->is_up = true;
    (void) uv_timer_stop(&l->timer);
    lane_send(l);
    l->ops->on_up(l);
}

static void on_read(uv_stream_t *s, ssize_t n, const uv_buf_t *b)
{
    struct lane_link *k = CC_CONTAINER_OF(s, struct lane_link, tcp);
    struct lane      *l = k->lane;

    if (k->is_given_up)
        return;
    l->in.len -= b->len - (n > 0 ? (size_t) n : 0); /* what on_alloc() gave and was not used */
    if (n < 0)
        link_failed(l, n == UV_EOF ? -ECONNRESET : (int) n);
    if (n > 0 && !l->is_up)
        take_greeting(l);
    if (n > 0 && !k->is_given_up && cc_buf_len(&l->in) > 0)
        l->ops->on_input(l);
    if (!k->is_given_up && cc_buf_len(&l->in) == 0)
        cc_buf_free(&l->in);
}

/* VALIDATE, which is not answered, and behind it something that is, and that servers of every release know.
 */
static int greet(struct lane_link *k)
{
    static const struct wire_req hello = { .op = WIRE_VALIDATE, .number = WIRE_MAGIC },
                                 probe = { .op = WIRE_CANCEL_WAIT };
    int r = wire_put_request(&k->writing, cc_bytes_of(""), &hello, NULL, 0);

    if (r == 0)
        r = wire_put_request(&k->writing, cc_bytes_of(""), &probe, NULL, 0);
    if (r == 0)
        r = start_write(k);
    return r < 0 ? r : uv_read_start((uv_stream_t *) &k->tcp, on_alloc, on_read);
}

static void on_connect(uv_connect_t *req, int status)
{
    struct lane_link *k = CC_CONTAINER_OF(req, struct lane_link, connect);

    if (k->is_given_up)
        return;
    (void) uv_tcp_nodelay(&k->tcp, 1);
    if (status == 0)
        status = greet(k);
    if (status < 0)
        link_failed(k->lane, status);
}

static void start_try(struct lane *l)
{
    struct lane_link *k = calloc(1, sizeof *k);
    uint64_t          now = uv_now(l->loop);
    int               r;

    if (!k || uv_tcp_init(l->loop, &k->tcp) < 0) {
        free(k);
        lane_fail(l, -ENOMEM);
        return;
    }
    k->lane = l;
    l->link = k;
    l->n_open++;
    r = uv_tcp_connect(&k->connect, &k->tcp, l->address, on_connect);
    if (r < 0)
        link_failed(l, r);
    else
        (void) uv_timer_start(&l->timer, on_timer, l->give_up_at > now ? l->give_up_at - now : 0, 0);
}

struct lane *lane_new(uv_loop_t *loop, const struct sockaddr *address, uint64_t timeout_ms,
                      const struct lane_ops *ops, void *owner)
{
    struct lane *l = calloc(1, sizeof *l);

    if (!l)
        return NULL;
    l->loop = loop;
    l->address = address;
    l->ops = ops;
    l->owner = owner;
    l->pause = FIRST_PAUSE_MS;
    uv_update_time(loop); /* before the loop runs, and in a long callback, its clock stands still */
    l->give_up_at = uv_now(loop) + timeout_ms;
    (void) uv_timer_init(loop, &l->timer);
    l->n_open = 1;
    start_try(l);
    return l;
}

static void on_timer_closed(uv_handle_t *h)
{
    on_closed_one(CC_CONTAINER_OF(h, struct lane, timer));
}

void lane_free(struct lane *l)
{
    assert(!l->is_freed);
    l->is_freed = true;
    drop_link(l);
    cc_buf_free(&l->out);
    cc_buf_free(&l->in);
    uv_close((uv_handle_t *) &l->timer, on_timer_closed);
}
