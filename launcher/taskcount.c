#include "launcher/taskcount.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "launcher/oneline.h"

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* A number up to `max`; more is max + 1. */
static bool take_number(const char **p, uint64_t max, uint64_t *ret)
{
    const char *begin = *p;

    for (*ret = 0; is_digit(**p); (*p)++)
        *ret = *ret > max ? *ret : *ret * 10 + (uint64_t) (**p - '0');
    if (*ret > max)
        *ret = max + 1;
    return *p > begin;
}

/* "3" or "4(x2)"; NULL, or what is wrong at *p */
static const char *take_item(const char **p, uint64_t *ret_n, uint64_t *ret_times)
{
    const char *begin = *p;

    *ret_times = 1;
    if (!take_number(p, TASKCOUNT_MAX, ret_n))
        return "a number is wanted";
    if (*ret_n > TASKCOUNT_MAX) {
        *p = begin;
        return "the number is above 65536";
    }
    if (**p != '(')
        return NULL;
    if (*++*p != 'x')
        return "'x' is wanted, as in 4(x2)";
    begin = ++*p;
    if (!take_number(p, TASKCOUNT_MAX, ret_times) || *ret_times == 0 || *ret_times > TASKCOUNT_MAX) {
        *p = begin;
        return "a number of nodes, 1 to 65536, is wanted";
    }
    if (**p != ')')
        return "')' is wanted";
    ++*p;
    return NULL;
}

int taskcount_parse(const char *name, const char *text, unsigned *ret, size_t n, bool *ret_is_longer, struct cc_err *err)
{
    const char *p = text, *wrong;
    size_t      i = 0;
    bool        is_longer = false;

    for (;;) {
        uint64_t value, times;

        wrong = take_item(&p, &value, &times);
        if (!wrong && *p && *p != ',')
            wrong = "',' is wanted";
        if (wrong)
            return oneline_err(err, cc_fail(err, -EINVAL, "%s '%.60s': position %zu: %s", name, text, (size_t) (p - text) + 1,
                                            wrong));
        is_longer |= times > n - i;
        for (; times > 0 && i < n; times--)
            ret[i++] = (unsigned) value;
        if (!*p++)
            break;
    }
    if (i < n)
        return cc_fail(err, -EINVAL, "%s '%.60s' is for %zu node%s; there are %zu", name, text, i, i == 1 ? "" : "s", n);
    *ret_is_longer = is_longer;
    return 0;
}

unsigned taskcount_gpus(const char *text)
{
    uint64_t sum = 0;

    while (text && *text) {
        size_t      len = strcspn(text, ",");
        const char *colon = memrchr(text, ':', len);
        const char *p = colon ? colon + 1 : text;
        uint64_t    n;

        if (!take_number(&p, TASKCOUNT_MAX, &n) || p != text + len)
            return 0;
        sum += n;
        text += len + (text[len] == ',');
    }
    return sum > TASKCOUNT_MAX ? 0 : (unsigned) sum;
}
