/* nccldev.c - a rank whose buffers are on its GPU, some of them: what collsuite.c, which has all on the host,
 * does not see.
 *
 * Wherever the driver's library is, the real one or the tests' double.  Prints "N checked" and exits 0.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/ccrun.h"
#include "backends/cuda.h"

enum { N = 1000, MAX_SIZE = 64, TIMEOUT_MS = 30000 };

static struct ccrun_pg *pg;
static struct cuda      gpu;
static int              rank, size, n_checked;
static const char      *doing = "init";

static void die(const char *what)
{
    (void) fprintf(stderr, "nccldev: rank %d: %s: %s\n", rank, doing, what);
    exit(1);
}

static void must(int r)
{
    if (r < 0)
        die(ccrun_error());
}

/* Of the GPU, with value + i in place i; for drop(). */
static int32_t *filled(size_t n, int32_t value)
{
    static int32_t host[MAX_SIZE * N];
    cu_address     p;
    struct cc_err  err;

    for (size_t i = 0; i < n; i++)
        host[i] = value + (int32_t) i;
    cuda_enter(&gpu);
    if (cuda_alloc(&gpu, n * sizeof *host, &p, &err) < 0 ||
        cuda_to_device(&gpu, p, host, n * sizeof *host, &err) < 0)
        die(err.msg);
    cuda_leave(&gpu);
    return (int32_t *) (uintptr_t) p;
}

static void drop(int32_t *p)
{
    cuda_enter(&gpu);
    cuda_free(&gpu, (cu_address) (uintptr_t) p, gpu.work);
    cuda_leave(&gpu);
}

/* From place `at` on there are n numbers: first, first + step, ... */
static void check(const int32_t *p, size_t at, size_t n, int32_t first, int32_t step)
{
    static int32_t host[MAX_SIZE * N];
    struct cc_err  err;

    cuda_enter(&gpu);
    if (cuda_to_host(&gpu, host, (cu_address) (uintptr_t) (p + at), n * sizeof *host, &err) < 0)
        die(err.msg);
    cuda_leave(&gpu);
    for (size_t i = 0; i < n; i++)
        if (host[i] != first + step * (int32_t) i) {
            char text[96];

            (void) snprintf(text, sizeof text, "place %zu is %d, not %d", at + i, host[i],
                            first + step * (int32_t) i);
            die(text);
        }
    n_checked++;
}

static void collectives(void)
{
    size_t   all = (size_t) size * N, own = (size_t) rank * N;
    int32_t  sum = size * (size - 1) / 2 * 1000, *send = filled(all, rank * 1000), *recv = filled(all, -1);
    int32_t *host = malloc(N * sizeof *host);

    doing = "all-reduce from GPU to GPU, and in place";
    must(ccrun_all_reduce(pg, send, recv, N, CCRUN_I32, CCRUN_SUM));
    check(recv, 0, N, sum, size);
    must(ccrun_all_reduce(pg, recv, recv, N, CCRUN_I32, CCRUN_MAX));
    check(recv, 0, N, sum, size);
    doing = "all-reduce from the GPU to the host, and back";
    must(ccrun_all_reduce(pg, send, host, N, CCRUN_I32, CCRUN_SUM));
    must(ccrun_all_reduce(pg, host, recv, N, CCRUN_I32, CCRUN_MIN));
    check(recv, 0, N, sum, size);
    free(host);
    doing = "gather, and scatter of what was gathered";
    must(ccrun_gather(pg, send, recv, N, CCRUN_I32, size - 1));
    for (int i = 0; rank == size - 1 && i < size; i++)
        check(recv, (size_t) i * N, N, i * 1000, 1);
    must(ccrun_scatter(pg, recv, send, N, CCRUN_I32, size - 1));
    check(send, 0, N, rank * 1000, 1);
    doing = "all-to-all";
    must(ccrun_all_to_all(pg, send, recv, N, CCRUN_I32));
    for (int i = 0; i < size; i++)
        check(recv, (size_t) i * N, N, i * 1000 + (rank == 0 ? 0 : rank * N), 1);
    doing = "gather in place";
    must(ccrun_all_gather(pg, recv + own, recv, N, CCRUN_I32));
    check(recv, own, N, rank * 1000 + (rank == 0 ? 0 : rank * N), 1);
    drop(send);
    drop(recv);
}

/* In a stream of ours, where others of ours may come behind it. */
static void streams(void)
{
    int32_t              *buf = filled(N, rank);
    struct ccrun_request *q;
    struct ccrun_call     c = {
            .what = CCRUN_ALL_REDUCE, .send = buf, .recv = buf, .count = N, .type = CCRUN_I32, .stream = gpu.work
    };

    doing = "in a stream of the user";
    must(ccrun_run(pg, &c));
    check(buf, 0, N, size * (size - 1) / 2, size);
    c.op = CCRUN_MAX;
    must(ccrun_start(&q, pg, &c));
    must(ccrun_wait(q));
    check(buf, 0, N, size * (size - 1) / 2, size);
    drop(buf);
}

/* Everybody sends to everybody at once, and asks for the end in the wrong order. */
static void messages(void)
{
    struct ccrun_request *q[2 * MAX_SIZE];
    int32_t              *in = filled((size_t) size * N, -1), *out = filled(N, rank * 1000);
    int                   n = 0;

    doing = "messages";
    for (int i = 0; i < size; i++) {
        struct ccrun_call recv = {
            .what = CCRUN_RECV, .recv = in + i * N, .count = N, .type = CCRUN_I32, .peer = i
        };
        struct ccrun_call send = {
            .what = CCRUN_SEND, .send = out, .count = N, .type = CCRUN_I32, .peer = i
        };

        if (i == rank)
            continue;
        must(ccrun_start(&q[n++], pg, &recv));
        must(ccrun_start(&q[n++], pg, &send));
    }
    while (n > 0 && ccrun_test(q[n - 1]) == 0)
        continue;
    while (n > 0)
        must(ccrun_wait(q[--n]));
    for (int i = 0; i < size; i++)
        if (i != rank)
            check(in, (size_t) i * N, N, i * 1000, 1);
    drop(in);
    drop(out);
}

/* Memory of another GPU is refused, by name, before anything is sent. */
static void refusals(void)
{
    struct cuda   other;
    struct cc_err err;
    char          name[16];
    cu_address    p;
    int           r;

    (void) snprintf(name, sizeof name, "cuda:%d", gpu.ordinal == 0 ? 1 : 0);
    if (cuda_open(&other, name, &err) < 0) {
        cuda_close(&other); /* there is one only */
        return;
    }
    doing = "a buffer on another GPU";
    cuda_enter(&other);
    if (cuda_alloc(&other, N * sizeof(int32_t), &p, &err) < 0)
        die(err.msg);
    cuda_leave(&other);
    r = ccrun_all_reduce(pg, (void *) (uintptr_t) p, (void *) (uintptr_t) p, N, CCRUN_I32, CCRUN_SUM);
    if (r != -EINVAL || !strstr(ccrun_error(), "the send buffer is on cuda:"))
        die(r < 0 ? ccrun_error() : "it was taken");
    cuda_enter(&other);
    cuda_free(&other, p, other.work);
    cuda_leave(&other);
    cuda_close(&other);
    must(ccrun_barrier(pg));
    n_checked++;
}

int main(void)
{
    struct ccrun_init init = { .backend = "nccl", .timeout_ms = TIMEOUT_MS };
    struct cc_err     err;

    must(ccrun_init_process_group(&pg, &init));
    rank = ccrun_rank(pg);
    size = ccrun_size(pg);
    if (cuda_open(&gpu, NULL, &err) < 0)
        die(err.msg);
    collectives();
    streams();
    messages();
    refusals();
    doing = "destroy";
    must(ccrun_destroy_process_group(pg));
    cuda_close(&gpu);
    printf("%d checked\n", n_checked);
    return 0;
}
