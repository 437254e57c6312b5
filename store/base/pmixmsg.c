#include "store/base/pmixmsg.h"

#include <endian.h>
#include <errno.h>

enum { HEAD = 4, FIXED = 1 + 4 + 4 + 4 }; /* the length; type, two numbers and the length of the text */

static uint8_t *put32(uint8_t *at, uint32_t n)
{
    n = htole32(n);
    memcpy(at, &n, sizeof n);
    return at + sizeof n;
}

static uint32_t get32(const uint8_t *at)
{
    uint32_t n;

    memcpy(&n, at, sizeof n);
    return le32toh(n);
}

static uint8_t *put_bytes(uint8_t *at, struct cc_bytes b)
{
    if (b.n > 0)
        memcpy(at, b.p, b.n);
    return at + b.n;
}

int pmixmsg_put(struct cc_buf *b, const struct pmixmsg *m)
{
    uint8_t *at;
    size_t   n;

    if (m->text.n > PMIXMSG_MAX || m->blob.n > PMIXMSG_MAX || FIXED + m->text.n + m->blob.n > PMIXMSG_MAX)
        return -E2BIG;
    n = FIXED + m->text.n + m->blob.n;
    at = cc_buf_grow(b, HEAD + n);
    if (!at)
        return -ENOMEM;
    at = put32(at, (uint32_t) n);
    *at++ = (uint8_t) m->type;
    at = put32(at, m->id);
    at = put32(at, (uint32_t) m->number);
    at = put32(at, (uint32_t) m->text.n);
    (void) put_bytes(put_bytes(at, m->text), m->blob);
    return 0;
}

ssize_t pmixmsg_take(const uint8_t *p, size_t n, struct pmixmsg *ret)
{
    uint32_t size, n_text;

    if (n < HEAD)
        return 0;
    size = get32(p);
    if (size < FIXED || size > PMIXMSG_MAX)
        return -EPROTO;
    if (n - HEAD < size)
        return 0;
    p += HEAD;
    n_text = get32(p + 9);
    if (p[0] == 0 || p[0] >= PMIXMSG_N_TYPES || n_text > size - FIXED)
        return -EPROTO;
    *ret = (struct pmixmsg) {
        .type = (enum pmixmsg_type) p[0],
        .id = get32(p + 1),
        .number = (int32_t) get32(p + 5),
        .text = { p + FIXED, n_text },
        .blob = { p + FIXED + n_text, size - FIXED - n_text },
    };
    return (ssize_t) HEAD + (ssize_t) size;
}
