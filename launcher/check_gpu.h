/* check_gpu.h - the buffers of ccrun-check on a GPU, filled and checked there by a kernel, where one was built in and the
 * driver takes it; else by the host, which copies.
 *
 * One thread.  Every call waits until the GPU is done.
 */
#ifndef LAUNCHER_CHECK_GPU_H
#define LAUNCHER_CHECK_GPU_H

#include <stddef.h>
#include <stdint.h>

#include "backends/cuda.h"

enum { CHECK_PERIOD = 13 }; /* of the pattern, see check_measure.h */

struct check_period {
    float of[CHECK_PERIOD];
};

struct check_gpu {
    struct cuda   cuda;
    cu_address    send, recv, wrong; /* wrong: a counter */
    cu_module     module;            /* NULL: there is no kernel */
    cu_function   fill, count;
    struct cc_err why; /* there is none */
};

/* The GPU that a group of this process takes, too; two buffers of so many bytes. */
int  check_gpu_open(struct check_gpu *ret, size_t bytes, struct cc_err *err);
void check_gpu_close(struct check_gpu *g); /* also of one that did not open, if it was all zeros before */

/* With a kernel: the pattern from its place `at` on into send; and how many of recv[first ... first + n) differ. */
int check_gpu_fill(struct check_gpu *g, size_t n, unsigned at, struct cc_err *err);
int check_gpu_count(struct check_gpu *g, size_t first, size_t n, const struct check_period *period, unsigned at,
                    uint64_t *ret_wrong, struct cc_err *err);

/* Without: n elements of the host's to send, and of recv to the host. */
int check_gpu_push(struct check_gpu *g, const float *from, size_t n, struct cc_err *err);
int check_gpu_pull(struct check_gpu *g, float *to, size_t n, struct cc_err *err);

#endif
