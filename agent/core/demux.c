#include "agent/core/demux.h"

#include <assert.h>
#include <string.h>

void demux_init(struct demux *d, char *buf, size_t cap, bool is_eager, demux_unit_fn *on_unit, void *ctx)
{
    assert(cap >= 2);
    *d = (struct demux){ .on_unit = on_unit, .ctx = ctx, .buf = buf, .cap = cap, .is_eager = is_eager };
}

static void emit(struct demux *d, enum demux_kind kind, const char *bytes, size_t len)
{
    if (len > 0)
        d->on_unit(d->ctx, kind, bytes, len);
}

static void emit_held(struct demux *d, enum demux_kind kind)
{
    size_t n = d->used;

    d->used = 0;
    emit(d, kind, d->buf, n);
}

/* The unit ends with these bytes; what is held comes before them. */
static void emit_with_held(struct demux *d, enum demux_kind kind, const char *bytes, size_t len)
{
    if (d->used == 0) {
        emit(d, kind, bytes, len);
    } else if (len <= d->cap - d->used) {
        memcpy(d->buf + d->used, bytes, len);
        d->used += len;
        emit_held(d, kind);
    } else {
        emit_held(d, DEMUX_PIECE);
        emit(d, kind, bytes, len);
    }
}

static void hold(struct demux *d, const char *bytes, size_t len)
{
    if (len > d->cap - d->used) {
        size_t keep = bytes[len - 1] == '\r'; /* it may be half of a \r\n */

        emit_held(d, DEMUX_PIECE);
        emit(d, DEMUX_PIECE, bytes, len - keep);
        bytes += len - keep;
        len = keep;
    }
    memcpy(d->buf + d->used, bytes, len);
    d->used += len;
}

/* The first `\r` in [p, end) that ends a state. NULL: there is none, or the next byte must tell. */
static const char *find_state_end(const struct demux *d, const char *p, const char *end)
{
    const char *cr;

    while (p < end && (cr = memchr(p, '\r', (size_t) (end - p)))) {
        if (cr + 1 == end)
            return d->is_eager ? cr : NULL;
        if (cr[1] != '\n')
            return cr;
        p = cr + 2;
    }
    return NULL;
}

static void feed_lines(struct demux *d, const char *p, const char *end)
{
    const char *nl = p < end ? memrchr(p, '\n', (size_t) (end - p)) : NULL;

    if (nl) {
        const char *first = d->used ? (const char *) memchr(p, '\n', (size_t) (end - p)) + 1 : p;

        if (first > p)
            emit_with_held(d, DEMUX_LINES, p, (size_t) (first - p));
        emit(d, DEMUX_LINES, first, (size_t) (nl + 1 - first));
        p = nl + 1;
    }
    if (p < end)
        hold(d, p, (size_t) (end - p));
}

void demux_feed(struct demux *d, const char *bytes, size_t len)
{
    const char *end = bytes + len, *cr;

    if (len > 0 && d->used > 0 && d->buf[d->used - 1] == '\r' && bytes[0] != '\n')
        emit_held(d, DEMUX_STATE);
    while ((cr = find_state_end(d, bytes, end))) {
        const char *nl = memrchr(bytes, '\n', (size_t) (cr - bytes)), *start = nl ? nl + 1 : bytes;

        feed_lines(d, bytes, start);
        emit_with_held(d, DEMUX_STATE, start, (size_t) (cr + 1 - start));
        bytes = cr + 1;
    }
    feed_lines(d, bytes, end);
}

void demux_flush(struct demux *d)
{
    if (d->used > 0 && d->buf[d->used - 1] != '\r')
        emit_held(d, DEMUX_PIECE);
}

void demux_end(struct demux *d)
{
    if (d->used > 0)
        emit_held(d, d->buf[d->used - 1] == '\r' ? DEMUX_STATE : DEMUX_REST);
}
