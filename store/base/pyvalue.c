#include "store/base/pyvalue.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { NUMBER_MAX = 4300 }; /* what int() takes of digits */

/* ASCII of what str.strip() takes off: the C locale's blanks and the four separators. */
static bool is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r') || (c >= '\x1c' && c <= '\x1f');
}

static const char *strip(const char *text, size_t *ret_len)
{
    size_t len;

    while (is_blank(*text))
        text++;
    len = strlen(text);
    while (len > 0 && is_blank(text[len - 1]))
        len--;
    *ret_len = len;
    return text;
}

/* Reads digits with single underscores between them; returns the rest, or NULL when there is no such run. */
static const char *skip_digits(const char *p, const char *end)
{
    if (p == end || !isdigit((unsigned char) *p))
        return NULL;
    while (p < end) {
        if (isdigit((unsigned char) *p))
            p++;
        else if (*p == '_' && p + 1 < end && isdigit((unsigned char) p[1]))
            p += 2;
        else
            break;
    }
    return p;
}

int pyvalue_int(const char *text, int64_t *ret)
{
    size_t      len;
    const char *p = strip(text, &len), *end = p + len;
    bool        is_negative = p < end && *p == '-';
    int64_t     n = 0;

    if (len > NUMBER_MAX)
        return -EINVAL;
    if (p < end && (*p == '-' || *p == '+'))
        p++;
    if (skip_digits(p, end) != end)
        return -EINVAL;
    for (; p < end; p++) {
        int digit = *p - '0';

        if (*p == '_')
            continue;
        if (n < (INT64_MIN + digit) / 10)
            return -ERANGE;
        n = n * 10 - digit; /* downwards, because the smallest number has no positive twin */
    }
    if (!is_negative && n == INT64_MIN)
        return -ERANGE;
    *ret = is_negative ? n : -n;
    return 0;
}

static bool is_special_float(const char *p, size_t len)
{
    static const char *const names[] = { "inf", "infinity", "nan" };
    size_t                   i;

    for (i = 0; i < 3; i++)
        if (strlen(names[i]) == len && strncasecmp(p, names[i], len) == 0)
            return true;
    return false;
}

static bool is_decimal_float(const char *p, const char *end)
{
    const char *whole = skip_digits(p, end), *rest = whole ? whole : p;

    if (rest < end && *rest == '.') {
        const char *part = skip_digits(++rest, end);

        if (!whole && !part)
            return false;
        rest = part ? part : rest;
    } else if (!whole) {
        return false;
    }
    if (rest < end && (*rest == 'e' || *rest == 'E')) {
        rest++;
        if (rest < end && (*rest == '-' || *rest == '+'))
            rest++;
        rest = skip_digits(rest, end);
    }
    return rest == end;
}

int pyvalue_float(const char *text, double *ret)
{
    char        plain[NUMBER_MAX + 1];
    size_t      len, i, n = 0;
    const char *all = strip(text, &len), *p = all;

    if (len > NUMBER_MAX)
        return -EINVAL;
    if (len > 0 && (*p == '-' || *p == '+'))
        p++;
    if (!is_special_float(p, (size_t) (all + len - p)) && !is_decimal_float(p, all + len))
        return -EINVAL;
    for (i = 0; i < len; i++)
        if (all[i] != '_')
            plain[n++] = all[i];
    plain[n] = '\0';
    *ret = strtod(plain, NULL);
    return 0;
}

static const char *escape(char c, char quote, char *buf, size_t size)
{
    switch (c) {
    case '\n': return "\\n";
    case '\r': return "\\r";
    case '\t': return "\\t";
    case '\\': return "\\\\";
    default:
        if (c == quote || (unsigned char) c < 0x20 || c == 0x7f)
            (void) snprintf(buf, size, c == quote ? "\\%c" : "\\x%02x", (unsigned char) c);
        else
            (void) snprintf(buf, size, "%c", c); /* bytes of UTF-8 pass */
        return buf;
    }
}

const char *pyvalue_repr(const char *text, char *buf, size_t size)
{
    char   quote = strchr(text, '\'') && !strchr(text, '"') ? '"' : '\'';
    size_t used = 0;

    if (size < 8)
        return "";
    buf[used++] = quote;
    for (; *text; text++) {
        char        one[8];
        const char *e = escape(*text, quote, one, sizeof one);

        if (used + strlen(e) + sizeof "...'" > size) {
            memcpy(buf + used, "...", 3);
            used += 3;
            break;
        }
        memcpy(buf + used, e, strlen(e));
        used += strlen(e);
    }
    buf[used++] = quote;
    buf[used] = '\0';
    return buf;
}
