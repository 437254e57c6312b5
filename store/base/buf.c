#include "store/base/buf.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

enum { BUF_MIN = 64 };

static int make_room(struct cc_buf *b, size_t n)
{
    size_t   used = b->len - b->off, cap = b->cap;
    uint8_t *p;

    if (n > SIZE_MAX / 2 - used)
        return -ENOMEM;
    if (b->off > 0 && b->off >= used) { /* moving costs no more than what was taken from the front already */
        memmove(b->p, b->p + b->off, used);
        b->off = 0;
        b->len = used;
    }
    if (b->len + n <= b->cap)
        return 0;
    cap = cap < BUF_MIN ? BUF_MIN : 2 * cap;
    if (cap < b->len + n)
        cap = b->len + n;
    p = realloc(b->p, cap);
    if (!p)
        return -ENOMEM;
    b->p = p;
    b->cap = cap;
    return 0;
}

uint8_t *cc_buf_grow(struct cc_buf *b, size_t n)
{
    uint8_t *at;

    if (b->cap - b->len < n && make_room(b, n) < 0)
        return NULL;
    at = b->p + b->len;
    b->len += n;
    return at;
}

int cc_buf_add(struct cc_buf *b, const void *p, size_t n)
{
    uint8_t *at;

    if (n == 0)
        return 0;
    at = cc_buf_grow(b, n);
    if (!at)
        return -ENOMEM;
    memcpy(at, p, n);
    return 0;
}

void cc_buf_drop(struct cc_buf *b, size_t n)
{
    assert(n <= b->len - b->off);
    b->off += n;
    if (b->off == b->len)
        b->off = b->len = 0;
}

void cc_buf_free(struct cc_buf *b)
{
    free(b->p);
    *b = (struct cc_buf){ 0 };
}
