#include "launcher/outlet.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store/base/cleanup.h"
#include "store/base/macros.h"

/* ---- from bytes to lines */

static void show(struct outlet_stream *s, enum demux_kind kind, const char *bytes, size_t len)
{
    if (len > 0 && s->console->is_ready) /* nobody reads it, but what is for us still comes */
        merge_unit(&s->console->merge, &s->src, kind, bytes, len, uv_now(s->outlet->loop));
}

static void on_unit(void *ctx, enum demux_kind kind, const char *bytes, size_t len)
{
    struct outlet_stream *s = ctx;
    const char           *end = bytes + len, *from = bytes, *at = bytes;

    if (!s->on_line || (kind != DEMUX_LINES && kind != DEMUX_REST)) {
        show(s, kind, bytes, len);
        return;
    }
    while (at < end) {
        const char *nl = memchr(at, '\n', (size_t) (end - at));
        size_t      n = nl ? (size_t) (nl + 1 - at) : (size_t) (end - at);
        size_t      keep = s->on_line(s->ctx, at, n);

        if (keep < n) {
            show(s, DEMUX_LINES, from, (size_t) (at - from));
            show(s, DEMUX_REST, at, keep);
            from = at + n;
        }
        at += n;
    }
    show(s, kind, from, (size_t) (end - from));
}

/* ---- time */

static void on_timer(uv_timer_t *t);

static void wake(struct outlet *o, uint64_t at)
{
    uint64_t now = uv_now(o->loop);

    if (o->is_closing || at >= o->timer_at)
        return;
    o->timer_at = at;
    (void) uv_timer_start(&o->timer, on_timer, at > now ? at - now : 0, 0);
}

/* States of progress bars that are due. */
static void on_timer(uv_timer_t *t)
{
    struct outlet *o = CC_CONTAINER_OF(t, struct outlet, timer);
    uint64_t       now = uv_now(o->loop);

    o->timer_at = UINT64_MAX;
    for (struct outlet_stream *s = o->streams; s; s = s->next) {
        merge_tick(&s->console->merge, &s->src, now);
        wake(o, s->src.state_due);
    }
}

static void on_check(uv_check_t *c)
{
    struct outlet *o = CC_CONTAINER_OF(c, struct outlet, check);

    for (unsigned i = 0; i < 2; i++)
        if (!o->console[i].is_waiting)
            console_write(&o->console[i]);
}

/* ---- reading */

static void on_closed(uv_handle_t *h)
{
    struct outlet_stream *s = CC_CONTAINER_OF((uv_poll_t *) (void *) h, struct outlet_stream, poll);

    free(s->memory);
    s->on_end(s->ctx);
}

static void finish(struct outlet_stream *s)
{
    if (s->console->is_ready) {
        demux_end(&s->demux);
        merge_end(&s->console->merge, &s->src);
    }
    s->is_open = false;
    *s->link = s->next;
    if (s->next)
        s->next->link = s->link;
    (void) uv_poll_stop(&s->poll);
    uv_close((uv_handle_t *) &s->poll, on_closed);
    cc_fdp(&s->fd);
}

/* One read; false: nothing more to be had now. */
static bool step(struct outlet_stream *s)
{
    struct outlet *o = s->outlet;
    size_t         room = console_take(s->console, 0);
    ssize_t        n;

    if (room == 0) {
        (void) uv_poll_stop(&s->poll);
        s->is_polling = false;
        return false;
    }
    n = s->is_eof ? 0 : read(s->fd, o->buf, room < OUTLET_READ_MAX ? room : OUTLET_READ_MAX);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (n <= 0) {
        finish(s);
        return false;
    }
    demux_feed(&s->demux, o->buf, (size_t) n);
    if (s->demux.used > 0 && s->console->is_ready)
        merge_peek(&s->console->merge, &s->src, s->demux.buf, s->demux.used, uv_now(o->loop));
    wake(o, s->src.state_due);
    return true;
}

static void on_readable(uv_poll_t *p, int status, int events)
{
    struct outlet_stream *s = CC_CONTAINER_OF(p, struct outlet_stream, poll);

    (void) status, (void) events;
    (void) step(s);
}

static void start_polling(struct outlet_stream *s)
{
    if (!s->is_polling && uv_poll_start(&s->poll, UV_READABLE, on_readable) == 0)
        s->is_polling = true;
}

static void on_room(void *ctx)
{
    struct outlet *o = ctx;

    for (struct outlet_stream *s = o->streams; s; s = s->next)
        start_polling(s);
}

static void on_lost(void *ctx, int error)
{
    struct outlet *o = ctx;

    (void) error;
    on_room(o);
    if (!o->is_lost && o->on_lost)
        o->on_lost(o->ctx);
    o->is_lost = true;
}

static void on_dropped(void *ctx, int error)
{
    (void) error;
    on_room(ctx); /* a full disk is tried again by the console */
}

static const struct console_cbs callbacks = { .on_room = on_room, .on_lost = on_lost, .on_dropped = on_dropped };

int outlet_read(struct outlet *o, struct outlet_stream *s, int fd, unsigned which, struct cc_err *err)
{
    int r;

    s->outlet = o;
    s->console = o->console_of[which];
    s->fd = fd;
    s->memory = malloc(MERGE_HOLD_MAX + MERGE_STATE_MAX);
    r = s->memory ? uv_poll_init(o->loop, &s->poll, fd) : UV_ENOMEM;
    if (r < 0) {
        free(s->memory);
        cc_fdp(&s->fd);
        return cc_fail(err, r, "cannot watch the output of a program: %s", uv_strerror(r));
    }
    merge_src_init(&s->src, "", 0, s->memory + MERGE_HOLD_MAX);
    demux_init(&s->demux, s->memory, MERGE_HOLD_MAX, s->console->merge.cr == MERGE_KEEP, on_unit, s);
    s->is_open = true;
    s->is_polling = s->is_eof = false;
    s->next = o->streams;
    s->link = &o->streams;
    if (s->next)
        s->next->link = &s->next;
    o->streams = s;
    start_polling(s);
    return 0;
}

void outlet_end(struct outlet_stream *s)
{
    if (!s->is_open)
        return;
    while (step(s))
        ;
    if (!s->is_open)
        return;
    s->is_eof = true; /* with a full console the end comes when there is room */
    (void) step(s);
}

/* ---- life */

int outlet_init(struct outlet *o, uv_loop_t *loop, bool is_keep_cr, struct cc_err *err)
{
    *o = (struct outlet) { .loop = loop, .timer_at = UINT64_MAX, .buf = malloc(OUTLET_READ_MAX) };
    if (!o->buf)
        return cc_fail(err, -ENOMEM, "no memory for the output of the nodes");
    for (unsigned i = 0; i < 2; i++) {
        console_init(&o->console[i], loop, (int) i + 1, is_keep_cr, &callbacks, o);
        o->console_of[i] = &o->console[i];
    }
    if (console_is_same(&o->console[0], STDERR_FILENO))
        o->console_of[1] = &o->console[0];
    (void) uv_timer_init(loop, &o->timer);
    (void) uv_check_init(loop, &o->check);
    (void) uv_check_start(&o->check, on_check);
    uv_unref((uv_handle_t *) &o->check);
    return 0;
}

void outlet_say(struct outlet *o, const char *text)
{
    struct console  *c = o->console_of[1];
    struct merge_src us;
    size_t           len = strlen(text);

    merge_src_init(&us, "", 0, NULL);
    if (len == 0 || !console_admits(c, len))
        return;
    merge_unit(&c->merge, &us, text[len - 1] == '\n' ? DEMUX_LINES : DEMUX_REST, text, len, uv_now(o->loop));
    console_write(c);
}

int outlet_flush(struct outlet *o, const sigset_t *mask)
{
    int r = console_flush(&o->console[0], UINT64_MAX, mask);

    return r == -EINTR ? r : console_flush(&o->console[1], UINT64_MAX, mask);
}

void outlet_close(struct outlet *o)
{
    o->is_closing = true;
    uv_close((uv_handle_t *) &o->timer, NULL);
    uv_close((uv_handle_t *) &o->check, NULL);
    for (unsigned i = 0; i < 2; i++)
        console_close(&o->console[i]);
}

void outlet_free(struct outlet *o)
{
    free(o->buf);
}
