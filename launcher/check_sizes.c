#include "launcher/check_sizes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/size.h"

enum { ITEM_MAX = 64, FACTOR_MAX = 1024, ELEMENT = 4 };

struct item {
    uint64_t min, max, factor;
};

/* A size that messages of whole elements can have. */
static int read_size(const char *text, uint64_t *ret, struct cc_err *err)
{
    if (size_parse(text, ret) < 0)
        return cc_fail(err, -EINVAL, "'%s' is not a size such as 8, 64K or 1G", text);
    if (*ret < CHECK_SIZE_MIN || *ret > CHECK_SIZE_LIMIT)
        return cc_fail(err, -EINVAL, "a message of '%s' bytes is not within %d bytes and 1T", text, CHECK_SIZE_MIN);
    *ret -= *ret % ELEMENT;
    return 0;
}

/* The text is ours to cut up. */
static int read_item(char *text, struct item *ret, struct cc_err *err)
{
    char    *max = strchr(text, ':'), *factor = max ? strchr(max + 1, ':') : NULL;
    uint64_t n = 2;
    int      r;

    if (factor)
        *factor++ = '\0';
    if (max)
        *max++ = '\0';
    if (factor && (size_parse(factor, &n) < 0 || n < 2 || n > FACTOR_MAX))
        return cc_fail(err, -EINVAL, "'%s' is not a factor from 2 to %d between sizes", factor, FACTOR_MAX);
    r = read_size(text, &ret->min, err);
    if (r == 0)
        r = max ? read_size(max, &ret->max, err) : (ret->max = ret->min, 0);
    if (r == 0 && ret->max < ret->min)
        return cc_fail(err, -EINVAL, "the range '%s:%s' falls", text, max);
    ret->factor = n;
    return r;
}

static int add(struct check_sizes *to, uint64_t bytes, struct cc_err *err)
{
    if (to->n > 0 && bytes <= to->bytes[to->n - 1])
        return bytes == to->bytes[to->n - 1]
                   ? 0
                   : cc_fail(err, -EINVAL, "sizes must rise, and %llu comes after %llu", (unsigned long long) bytes,
                             (unsigned long long) to->bytes[to->n - 1]);
    if (to->n == CHECK_SIZES_MAX)
        return cc_fail(err, -EINVAL, "more than %d sizes", CHECK_SIZES_MAX);
    to->bytes[to->n++] = bytes;
    return 0;
}

static int add_item(struct check_sizes *to, const struct item *i, struct cc_err *err)
{
    uint64_t at;
    int      r = 0;

    for (at = i->min; r == 0 && at < i->max; at *= i->factor) /* below 2^40 x 2^10 */
        r = add(to, at, err);
    return r == 0 ? add(to, i->max, err) : r;
}

int check_sizes_parse(const char *text, struct check_sizes *ret, struct cc_err *err)
{
    struct check_sizes all = { .n = 0 };
    struct item        item = { .min = 0 };
    char               copy[ITEM_MAX];
    int                r = 0;

    while (r == 0) {
        size_t n = strcspn(text, ",");

        if (n == 0)
            return cc_fail(err, -EINVAL, "a size is missing; it is SIZE, MIN:MAX or MIN:MAX:FACTOR,...");
        if (n >= sizeof copy)
            return cc_fail(err, -EINVAL, "'%.20s...' is too long for a range of sizes", text);
        memcpy(copy, text, n);
        copy[n] = '\0';
        r = read_item(copy, &item, err);
        if (r == 0)
            r = add_item(&all, &item, err);
        if (text[n] == '\0')
            break;
        text += n + 1;
    }
    if (r == 0)
        *ret = all;
    return r;
}
