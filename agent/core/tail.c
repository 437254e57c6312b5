#include "agent/core/tail.h"

#include <string.h>

void tail_init(struct tail *t, char *buf, size_t cap)
{
    *t = (struct tail){ .buf = buf, .cap = cap };
}

void tail_put(struct tail *t, const char *bytes, size_t len)
{
    size_t first;

    if (len >= t->cap) {
        /* One byte too many means that the first line is cut: `used` beyond `cap` is how tail_text() knows.
         */
        memcpy(t->buf, bytes + (len - t->cap), t->cap);
        t->pos = 0;
        t->used = t->used + len > t->cap ? t->cap + 1 : t->cap;
        return;
    }
    first = t->cap - t->pos < len ? t->cap - t->pos : len;
    memcpy(t->buf + t->pos, bytes, first);
    memcpy(t->buf, bytes + first, len - first);
    t->pos = (t->pos + len) % t->cap;
    t->used = t->used + len > t->cap ? t->cap + 1 : t->used + len;
}

/* Moves the lines of [in, end) to `out`, which may be the same memory, without what a `\r` has overwritten.
 */
static char *copy_lines(const char *in, const char *end, char *out)
{
    while (in < end) {
        const char *nl = memchr(in, '\n', (size_t) (end - in)), *stop = nl ? nl : end, *cr;

        while (stop > in && stop[-1] == '\r')
            stop--;
        cr = stop > in ? memrchr(in, '\r', (size_t) (stop - in)) : NULL;
        if (cr)
            in = cr + 1;
        memmove(out, in, (size_t) (stop - in));
        out += stop - in;
        *out++ = '\n';
        in = nl ? nl + 1 : end;
    }
    return out;
}

size_t tail_text(const struct tail *t, char *out, unsigned max_lines)
{
    size_t      n = t->used < t->cap ? t->used : t->cap, start = t->used < t->cap ? 0 : t->pos;
    const char *from = out, *end = out + n;
    char       *stop;

    memcpy(out, t->buf + start, n - start < n ? n - start : n);
    memcpy(out + (n - start), t->buf, start);
    for (size_t i = 0; i < n; i++)
        if (out[i] == '\0')
            out[i] = ' ';
    if (t->used > t->cap) {
        const char *nl = memchr(out, '\n', n);

        if (nl && nl + 1 < end)
            from = nl + 1;
    }
    stop = copy_lines(from, end, out);
    from = stop;
    while (max_lines > 0 && from > out) {
        const char *nl = memrchr(out, '\n', (size_t) (from - 1 - out));

        from = nl ? nl + 1 : out;
        max_lines--;
    }
    n = (size_t) (stop - from);
    memmove(out, from, n);
    out[n] = '\0';
    return n;
}
