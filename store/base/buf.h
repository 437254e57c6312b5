/* buf.h - bytes: a borrowed stretch of them, and a buffer that grows at its end and shrinks at its front.
 *
 * A zeroed struct cc_buf is empty and owns nothing.  Nothing here remembers limits: who fills a buffer on
 * behalf of a peer checks first how much.
 */
#ifndef CC_BUF_H
#define CC_BUF_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct cc_bytes {
    const uint8_t *p; /* may be NULL when n is 0 */
    size_t         n;
};

struct cc_buf {
    uint8_t *p;
    size_t   off, len, cap; /* the content is p[off .. len) */
};

static inline struct cc_bytes cc_bytes_of(const char *text)
{
    return (struct cc_bytes){ (const uint8_t *) text, strlen(text) };
}

static inline size_t cc_buf_len(const struct cc_buf *b)
{
    return b->len - b->off;
}

static inline const uint8_t *cc_buf_data(const struct cc_buf *b)
{
    return b->p ? b->p + b->off : NULL;
}

/* Adds n bytes of content for the caller to fill in and returns where they start; NULL: no memory, nothing
 * changed. */
uint8_t *cc_buf_grow(struct cc_buf *b, size_t n);
int      cc_buf_add(struct cc_buf *b, const void *p, size_t n); /* 0 or -ENOMEM */
void     cc_buf_drop(struct cc_buf *b, size_t n); /* n bytes from the front; the memory is kept */
void     cc_buf_free(struct cc_buf *b);           /* empty again, memory given back */

#endif
