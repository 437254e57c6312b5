#include "launcher/logmask.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "store/base/pyvalue.h"

static bool is_what(char c)
{
    return c >= '0' && c <= '3';
}

/* "7:3" at p: the rank (UINT_MAX when it is too large for any) and what follows the pair, or NULL. */
static const char *parse_pair(const char *p, unsigned *ret_rank)
{
    unsigned rank = 0;

    if (!isdigit((unsigned char) *p))
        return NULL;
    for (; isdigit((unsigned char) *p); p++)
        rank = rank > UINT_MAX / 10 - 1 ? UINT_MAX : rank * 10 + (unsigned) (*p - '0');
    *ret_rank = rank;
    return *p == ':' && is_what(p[1]) ? p + 2 : NULL;
}

int logmask_parse(const char *option, const char *text, uint8_t *masks, unsigned n, struct cc_err *err)
{
    const char *p = text;
    bool        is_bad = false;

    if (n > 0)
        memset(masks, is_what(text[0]) && !text[1] ? text[0] - '0' : 0, n);
    if (is_what(text[0]) && !text[1])
        return 0;
    do {
        unsigned rank;

        p = parse_pair(p, &rank);
        is_bad = !p || (*p != ',' && *p != '\0');
        if (!is_bad && rank < n)
            masks[rank] = (uint8_t) (p[-1] - '0');
    } while (!is_bad && *p++ == ',');
    if (is_bad)
        return cc_fail(err, -EINVAL,
                       "%s: %.200s does not match: <^[0123]$> or <^(\\d:[0123],)*(\\d:[0123])$> (0 none, 1 stdout, "
                       "2 stderr, 3 both, for all workers or as RANK:WHAT,...)",
                       option, text);
    return 0;
}

int logmask_filter(const char *text, bool *is_on_console, unsigned n, struct cc_err *err)
{
    const char *all = text;
    unsigned    i;

    for (i = 0; i < n; i++)
        is_on_console[i] = !*text;
    while (*text) {
        char    item[32];
        size_t  len = strcspn(text, ",");
        int64_t rank = -1;
        int     r = len < sizeof item ? 0 : -EINVAL;

        if (r == 0) {
            memcpy(item, text, len);
            item[len] = '\0';
            r = pyvalue_int(item, &rank);
        }
        if (r < 0 || (text[len] == ',' && !text[len + 1]))
            return cc_fail(err, -EINVAL,
                           "--local_ranks_filter must be a comma-separated list of integers "
                           "e.g. --local_ranks_filter=0,1,2; got '%.100s'",
                           all);
        if (rank >= 0 && rank < n)
            is_on_console[rank] = true;
        text += len + (text[len] == ',');
    }
    return 0;
}

const char *logmask_beyond(const char *text, unsigned n, int *ret_len)
{
    while (*text) {
        char    number[32];
        size_t  len = strcspn(text, ","), n_digits = strcspn(text, ":,");
        int64_t rank = -1;

        if (n_digits < sizeof number) {
            memcpy(number, text, n_digits);
            number[n_digits] = '\0';
            if (pyvalue_int(number, &rank) < 0)
                rank = -1; /* too large for any */
        }
        *ret_len = (int) len;
        if (rank < 0 || rank >= n)
            return text;
        text += len + (text[len] == ',');
    }
    return NULL;
}
