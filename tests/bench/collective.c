/* collective - a rank of the benchmarks of libccrun; collective.py is the same with torch.distributed.
 *
 *     collective first DIR [BACKEND]  meet, make one barrier, and note when it was done in DIR/exit.0.RANK
 *     collective all-reduce           rank 0 reads lines "COUNT TIMES": so many all-reduces of so many
 * floats, and prints the nanoseconds of each, on one line
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backends/ccrun.h"

enum { TIMES_MAX = 1000 };

static struct ccrun_pg *pg;

static void must(int r)
{
    if (r >= 0)
        return;
    (void) fprintf(stderr, "collective: %s\n", ccrun_error());
    exit(1);
}

static long long now_ns(void)
{
    struct timespec t;

    (void) clock_gettime(CLOCK_MONOTONIC, &t);
    return (long long) t.tv_sec * 1000000000 + t.tv_nsec;
}

static int first(const char *dir, const char *backend)
{
    struct ccrun_init init = { .backend = backend, .timeout_ms = 60000 };
    char              path[4096];
    long long         end;
    FILE             *f;

    must(ccrun_init_process_group(&pg, &init));
    must(ccrun_barrier(pg));
    end = now_ns();
    (void) snprintf(path, sizeof path, "%s/exit.0.%d", dir, ccrun_rank(pg));
    f = fopen(path, "we");
    if (!f || fprintf(f, "%lld\n", end) < 0 || fclose(f) != 0) {
        perror(path);
        return 1;
    }
    must(ccrun_destroy_process_group(pg));
    return 0;
}

/* What rank 0 was told; false: that was the last. */
static bool next_order(int64_t order[2])
{
    char line[64], *at = line;

    order[0] = order[1] = 0;
    if (ccrun_rank(pg) == 0 && fgets(line, sizeof line, stdin)) {
        order[0] = strtoll(at, &at, 10);
        order[1] = strtoll(at, &at, 10);
    }
    must(ccrun_broadcast(pg, order, 2, CCRUN_I64, 0));
    return order[0] > 0 && order[1] > 0 && order[1] <= TIMES_MAX;
}

static int all_reduce(void)
{
    struct ccrun_init init = { .backend = "gloo", .timeout_ms = 60000 };
    long long         took[TIMES_MAX];
    int64_t           order[2];

    must(ccrun_init_process_group(&pg, &init));
    while (next_order(order)) {
        size_t n = (size_t) order[0];
        float *buf = calloc(n, sizeof *buf);

        if (!buf)
            return 1;
        for (int64_t i = 0; i < order[1]; i++) {
            long long begin;

            for (size_t k = 0; k < n; k++)
                buf[k] = 1;
            must(ccrun_barrier(pg));
            begin = now_ns();
            must(ccrun_all_reduce(pg, buf, buf, n, CCRUN_F32, CCRUN_SUM));
            took[i] = now_ns() - begin;
            if (buf[0] != (float) ccrun_size(pg) || buf[n - 1] != buf[0]) {
                (void) fprintf(stderr, "collective: a sum is wrong\n");
                return 1;
            }
        }
        free(buf);
        for (int64_t i = 0; ccrun_rank(pg) == 0 && i < order[1]; i++)
            printf("%lld%c", took[i], i + 1 < order[1] ? ' ' : '\n');
        (void) fflush(stdout);
    }
    must(ccrun_destroy_process_group(pg));
    return 0;
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";

    if (strcmp(mode, "first") == 0 && argc >= 3)
        return first(argv[2], argc > 3 ? argv[3] : "gloo");
    if (strcmp(mode, "all-reduce") == 0)
        return all_reduce();
    (void) fprintf(stderr, "usage: collective first DIR [BACKEND] | all-reduce\n");
    return 2;
}
