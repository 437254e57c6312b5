#include "launcher/size.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <strings.h>

int size_parse(const char *text, uint64_t *ret_bytes)
{
    static const char units[] = "KMGT";
    uint64_t          n = 0;
    unsigned          shift = 0;

    if (!isdigit((unsigned char) *text))
        return -EINVAL;
    for (; isdigit((unsigned char) *text); text++) {
        uint64_t digit = (uint64_t) (*text - '0');

        if (n > (UINT64_MAX - digit) / 10)
            return -ERANGE;
        n = n * 10 + digit;
    }
    if (*text && strchr(units, toupper((unsigned char) *text))) {
        shift = 10 * (unsigned) (strchr(units, toupper((unsigned char) *text)) - units + 1);
        text++;
        if (strcasecmp(text, "b") == 0 || strcasecmp(text, "ib") == 0)
            text += strlen(text);
    }
    if (*text)
        return -EINVAL;
    if (n > UINT64_MAX >> shift)
        return -ERANGE;
    *ret_bytes = n << shift;
    return 0;
}
