#include "launcher/cpulist.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool parse_number(const char **s, unsigned long *ret)
{
    char *end;

    if (**s < '0' || **s > '9')
        return false;
    *ret = strtoul(*s, &end, 10);
    *s = end;
    return true;
}

static bool parse_list(const char *text, cpu_set_t *ret)
{
    unsigned long first, last;

    text += strspn(text, " \t\n");
    while (*text) {
        if (!parse_number(&text, &first))
            return false;
        last = first;
        if (*text == '-') {
            text++;
            if (!parse_number(&text, &last) || last < first)
                return false;
        }
        for (unsigned long i = first; i <= last && i < CPU_SETSIZE; i++)
            CPU_SET(i, ret);
        text += strspn(text, " \t\n");
        if (*text == ',')
            text += 1 + strspn(text + 1, " \t\n");
        else if (*text)
            return false;
    }
    return true;
}

int cpulist_parse(const char *text, cpu_set_t *ret)
{
    CPU_ZERO(ret);
    if (parse_list(text, ret))
        return 0;
    CPU_ZERO(ret);
    return -EINVAL;
}

int cpulist_next(const cpu_set_t *set, int after)
{
    for (size_t i = (size_t) after + 1; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, set))
            return (int) i;
    return -1;
}

const char *cpulist_format(const cpu_set_t *set, char *buf, size_t size)
{
    size_t n = 0;

    buf[0] = '\0';
    for (int last, first = cpulist_next(set, -1); first >= 0; first = cpulist_next(set, last)) {
        char item[32];
        int  len;

        for (last = first; cpulist_next(set, last) == last + 1;)
            last++;
        len = last == first ? snprintf(item, sizeof item, "%s%d", n ? "," : "", first)
                            : snprintf(item, sizeof item, "%s%d-%d", n ? "," : "", first, last);
        if (n + (size_t) len + sizeof ",..." > size) { /* the mark must fit behind what is there */
            (void) snprintf(buf + n, size - n, ",...");
            break;
        }
        memcpy(buf + n, item, (size_t) len + 1);
        n += (size_t) len;
    }
    return buf;
}
