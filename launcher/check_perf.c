#include "launcher/check_perf.h"

#include <stdlib.h>
#include <string.h>

static const char *const names[CHECK_N_OPS] = { "all-reduce", "all-gather", "reduce-scatter", "send-recv" };

const char *check_op_name(enum check_op op)
{
    return names[op];
}

int check_op_find(const char *name, size_t n)
{
    for (int op = 0; op < CHECK_N_OPS; op++) {
        size_t i = 0;

        while (i < n && names[op][i] && (name[i] == '_' ? '-' : name[i]) == names[op][i])
            i++;
        if (i == n && names[op][i] == '\0')
            return op;
    }
    return -1;
}

/* Whose one buffer has a part for each rank. */
static int is_shared_out(enum check_op op)
{
    return op == CHECK_ALL_GATHER || op == CHECK_REDUCE_SCATTER;
}

size_t check_op_count(enum check_op op, uint64_t bytes, unsigned ranks)
{
    uint64_t n = bytes / sizeof(float) / (is_shared_out(op) ? ranks : 1);

    return n > 0 ? (size_t) n : 1;
}

uint64_t check_op_bytes(enum check_op op, size_t count, unsigned ranks)
{
    return (uint64_t) count * sizeof(float) * (is_shared_out(op) ? ranks : 1);
}

double check_algbw(uint64_t bytes, uint64_t ns)
{
    return ns > 0 ? (double) bytes / (double) ns : 0; /* bytes in a nanosecond are GB in a second */
}

double check_busbw(enum check_op op, unsigned ranks, uint64_t bytes, uint64_t ns)
{
    double others = ((double) ranks - 1) / (double) ranks;
    double factor = op == CHECK_ALL_REDUCE ? 2 * others : op == CHECK_SENDRECV ? 1 : others;

    return check_algbw(bytes, ns) * factor;
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *) a, y = *(const uint64_t *) b;

    return (x > y) - (x < y);
}

uint64_t check_median(uint64_t *v, size_t n)
{
    if (n == 0)
        return 0;
    qsort(v, n, sizeof v[0], by_value);
    return n % 2 == 1 ? v[n / 2] : v[n / 2 - 1] + (v[n / 2] - v[n / 2 - 1]) / 2;
}
