#include "launcher/restarts.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "launcher/duration.h"
#include "store/base/pyvalue.h"
#include "store/base/signame.h"

enum { TEXT_MAX = 128, SHOWN = 100 };

int restarts_rate(const char *text, struct restarts_rate *ret)
{
    struct restarts_rate rate = { 0 };
    char                 number[TEXT_MAX];
    const char          *slash = strchr(text, '/');
    size_t               len = slash ? (size_t) (slash - text) : strlen(text);
    int                  r;

    if (len >= sizeof number)
        return -EINVAL;
    (void) snprintf(number, sizeof number, "%.*s", (int) len, text);
    r = pyvalue_int(number, &rate.n);
    if (r < 0)
        return r;
    if (rate.n > INT32_MAX || rate.n < INT32_MIN)
        return -ERANGE;
    if (slash && (duration_parse(slash + 1, &rate.window) < 0 || rate.window == 0))
        return -EDOM;
    *ret = rate;
    return 0;
}

int restarts_backoff(const char *text, uint64_t *ret_min, uint64_t *ret_max, struct cc_err *err)
{
    char        first[TEXT_MAX];
    const char *colon = strchr(text, ':');
    uint64_t    min, max;
    int         r;

    (void) snprintf(first, sizeof first, "%.*s", (int) strcspn(text, ":"), text);
    r = duration_parse(first, &min);
    max = min;
    if (r == 0 && colon)
        r = duration_parse(colon + 1, &max);
    if (r < 0)
        return cc_fail(err, -EINVAL, "--restart-backoff: '%.*s' is not MIN:MAX, two durations such as 1s:5m", SHOWN, text);
    if (min > max)
        return cc_fail(err, -EINVAL, "--restart-backoff %.*s: MIN is more than MAX", SHOWN, text);
    if (min == 0 && max > 0)
        return cc_fail(err, -EINVAL, "--restart-backoff %.*s: MIN doubles up to MAX, so it cannot be 0", SHOWN, text);
    *ret_min = min;
    *ret_max = max;
    return 0;
}

static int parse_code(const char *text)
{
    int64_t n;
    int     signum = cc_signal_number(text);

    if (signum > 0)
        return 128 + signum < RESTARTS_CODES ? 128 + signum : -1;
    return pyvalue_int(text, &n) == 0 && n >= 1 && n < RESTARTS_CODES ? (int) n : -1;
}

static int add_codes(char *item, bool ret[RESTARTS_CODES])
{
    char *dash = strchr(item, '-');
    int   first, last;

    if (dash && cc_signal_number(item) == 0) /* SIGRTMAX-1 is one signal */
        *dash++ = '\0';
    else
        dash = NULL;
    first = parse_code(item);
    last = dash ? parse_code(dash) : first;
    if (first < 0 || last < first)
        return -1;
    while (first <= last)
        ret[first++] = true;
    return 0;
}

int restarts_codes(const char *text, bool ret[RESTARTS_CODES], struct cc_err *err)
{
    for (;;) {
        char   item[TEXT_MAX];
        size_t len = strcspn(text, ",");

        (void) snprintf(item, sizeof item, "%.*s", (int) len, text);
        if (len >= sizeof item || add_codes(item, ret) < 0)
            return cc_fail(err, -EINVAL,
                           "--no-restart-codes: '%.*s' is no exit status (1 to 255), range (3-5) or signal (SIGSEGV)",
                           (int) (len < SHOWN ? len : SHOWN), text);
        if (!text[len])
            return 0;
        text += len + 1;
    }
}
