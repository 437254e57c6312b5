#include "agent/core/ranklist.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum { RANGE_MAX = 24, CUT_MAX = 5 }; /* ",4294967295-4294967295"; ",..." with its NUL */

size_t ranklist_format(const unsigned *ranks, size_t n, char *buf, size_t size)
{
    size_t at = 0, i = 0;

    assert(size >= RANGE_MAX + CUT_MAX);
    buf[0] = '\0';
    while (i < n) {
        size_t last = i;
        char   range[RANGE_MAX];
        int    len;

        while (last + 1 < n && ranks[last + 1] == ranks[last] + 1)
            last++;
        len = last > i ? snprintf(range, sizeof range, "%s%u-%u", at ? "," : "", ranks[i], ranks[last])
                       : snprintf(range, sizeof range, "%s%u", at ? "," : "", ranks[i]);
        assert(len > 0 && len < RANGE_MAX);
        if (at + (size_t) len + CUT_MAX > size) {
            memcpy(buf + at, ",...", CUT_MAX);
            return at + CUT_MAX - 1;
        }
        memcpy(buf + at, range, (size_t) len + 1);
        at += (size_t) len;
        i = last + 1;
    }
    return at;
}
