#include "launcher/duration.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "store/base/macros.h"
#include "store/base/pyvalue.h"

enum { NUMBER_MAX = 64, SECONDS_MAX = 1000 * 1000 * 1000 };

int duration_parse(const char *text, uint64_t *ret_ms)
{
    static const struct {
        char     letter;
        unsigned seconds;
    } units[] = { { 's', 1 }, { 'm', 60 }, { 'h', 3600 }, { 'd', 86400 } };
    char   number[NUMBER_MAX];
    size_t len = strlen(text), i;
    double n, seconds = 1;
    int    r;

    for (i = 0; len > 0 && i < CC_COUNT(units); i++)
        if (text[len - 1] == units[i].letter) {
            seconds = units[i].seconds;
            len--;
            break;
        }
    if (len >= sizeof number)
        return -EINVAL;
    (void) snprintf(number, sizeof number, "%.*s", (int) len, text);
    r = pyvalue_float(number, &n);
    if (r < 0 || isnan(n))
        return -EINVAL;
    if (n < 0 || n * seconds > (double) SECONDS_MAX)
        return -ERANGE;
    *ret_ms = (uint64_t) ceil(n * seconds * 1000);
    return 0;
}
