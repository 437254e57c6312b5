#include "store/core/filelog.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

enum { LENGTH = 4 };

static uint32_t get32(const uint8_t *p)
{
    uint32_t n;

    memcpy(&n, p, sizeof n);
    return le32toh(n);
}

/* One string at *off; as filelog_read(). */
static int get_string(const uint8_t *p, size_t n, size_t *off, uint32_t max, struct cc_bytes *ret)
{
    uint32_t len;

    if (n - *off < LENGTH)
        return 0;
    len = get32(p + *off);
    if (len > max)
        return -EBADMSG;
    if (n - *off - LENGTH < len)
        return 0;
    *ret = (struct cc_bytes){ p + *off + LENGTH, len };
    *off += LENGTH + len;
    return 1;
}

ssize_t filelog_read(const uint8_t *p, size_t n, struct filelog_record *ret)
{
    size_t off = 0;
    int    r = get_string(p, n, &off, FILELOG_KEY_MAX, &ret->key);

    if (r > 0)
        r = get_string(p, n, &off, FILELOG_VALUE_MAX, &ret->value);
    if (r <= 0)
        return r;
    if (ret->key.n == 0)
        return -EBADMSG; /* every key has a prefix */
    ret->is_deleted = ret->key.p[0] == '-';
    ret->key.p += ret->is_deleted;
    ret->key.n -= ret->is_deleted;
    return (ssize_t) off;
}

static uint8_t *put32(uint8_t *at, size_t n)
{
    uint32_t le = htole32((uint32_t) n);

    memcpy(at, &le, sizeof le);
    return at + sizeof le;
}

static uint8_t *put(uint8_t *at, const void *p, size_t n)
{
    if (n > 0)
        memcpy(at, p, n);
    return at + n;
}

int filelog_put(struct cc_buf *b, const char *prefix, struct cc_bytes key, struct cc_bytes value)
{
    size_t   n_prefix = strlen(prefix);
    uint8_t *at;

    if (key.n > FILELOG_KEY_MAX - n_prefix || value.n > FILELOG_VALUE_MAX)
        return -E2BIG;
    at = cc_buf_grow(b, 2 * LENGTH + n_prefix + key.n + value.n);
    if (!at)
        return -ENOMEM;
    at = put(put32(at, n_prefix + key.n), prefix, n_prefix);
    at = put32(put(at, key.p, key.n), value.n);
    (void) put(at, value.p, value.n);
    return 0;
}
