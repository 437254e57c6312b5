#include "agent/core/plaintext.h"

#include <assert.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static bool is_continuation(unsigned char c)
{
    return (c & 0xc0) == 0x80;
}

size_t plaintext_utf8(const char *s, size_t len)
{
    unsigned char c[4] = { 0 };
    size_t        n;

    if (len == 0)
        return 0;
    memcpy(c, s, len < 4 ? len : 4);
    n = c[0] < 0x80 ? 1 : c[0] < 0xc2 ? 0 : c[0] < 0xe0 ? 2 : c[0] < 0xf0 ? 3 : c[0] < 0xf5 ? 4 : 0;
    if (n > len)
        return 0;
    for (size_t i = 1; i < n; i++)
        if (!is_continuation(c[i]))
            return 0;
    /* overlong forms, surrogates, and what lies beyond U+10FFFF */
    if ((c[0] == 0xe0 && c[1] < 0xa0) || (c[0] == 0xed && c[1] > 0x9f) || (c[0] == 0xf0 && c[1] < 0x90) ||
        (c[0] == 0xf4 && c[1] > 0x8f))
        return 0;
    return n;
}

/* U+0080..U+009F: a terminal may take them for control sequences too. */
static bool is_c1(const char *s, size_t n)
{
    return n == 2 && (unsigned char) s[0] == 0xc2 && (unsigned char) s[1] < 0xa0;
}

/* Writes what stands for the character at src to buf; *ret_used is how much of src it covers. */
static size_t one(char buf[8], const char *src, size_t len, size_t *ret_used)
{
    size_t        n = plaintext_utf8(src, len);
    unsigned char c = (unsigned char) src[0];

    *ret_used = 1;
    if (c == '\n' || c == '\r') {
        buf[0] = '\\';
        buf[1] = c == '\n' ? 'n' : 'r';
        return 2;
    }
    if (n == 0 || (c < 0x20 && c != '\t') || c == 0x7f || is_c1(src, n))
        return (size_t) snprintf(buf, 8, "\\x%02x", c);
    memcpy(buf, src, n);
    *ret_used = n;
    return n;
}

size_t plaintext_line(char *dst, size_t size, const char *src, size_t len)
{
    size_t at = 0, fit = 0; /* fit: the last place where "..." still has room */

    assert(size >= 8);
    while (len > 0) {
        char   buf[8];
        size_t used, n = one(buf, src, len, &used);

        if (at + n >= size) {
            memcpy(dst + fit, "...", 4);
            return fit + 3;
        }
        memcpy(dst + at, buf, n);
        at += n;
        if (at + 4 <= size)
            fit = at;
        src += used;
        len -= used;
    }
    dst[at] = '\0';
    return at;
}

const char *plaintext_tail(const char *text, unsigned max, unsigned *ret_n)
{
    const char *end = text + strlen(text), *p = end;
    unsigned    n = 0;

    if (p > text && p[-1] == '\n')
        p--;
    while (p > text && n < max) {
        const char *nl = memrchr(text, '\n', (size_t) (p - text));

        n++;
        p = nl ? nl : text;
        end = nl ? nl + 1 : text;
    }
    *ret_n = n;
    return end;
}

const char *plaintext_after_cr(const char *line, size_t *len)
{
    const char *cr;

    while (*len > 0 && line[*len - 1] == '\r')
        --*len;
    cr = memrchr(line, '\r', *len);
    if (!cr)
        return line;
    *len -= (size_t) (cr + 1 - line);
    return cr + 1;
}
