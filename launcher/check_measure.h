/* check_measure.h - one rank's part in measuring: buffers with a pattern, calls of libccrun, times, and whether what arrived is
 * what was sent.
 *
 * Each call sends numbers that no call before has sent, so an old result is a wrong one; they are small whole numbers, so sums
 * are exact in any order.  What is checked is not timed.
 */
#ifndef LAUNCHER_CHECK_MEASURE_H
#define LAUNCHER_CHECK_MEASURE_H

#include <stddef.h>
#include <stdint.h>

#include "backends/ccrun.h"
#include "launcher/check_gpu.h"
#include "launcher/check_perf.h"
#include "store/base/err.h"

/* The pattern, and what a reduction of it over `size` ranks is (pure). */
void     measure_fill(float *to, size_t n, size_t first, unsigned rank, unsigned call);
uint64_t measure_count_wrong(const float *got, size_t n, size_t first, unsigned rank, unsigned call);
uint64_t measure_count_wrong_sum(const float *got, size_t n, size_t first, unsigned size, unsigned call);

struct measure {
    struct ccrun_pg *pg;
    unsigned         rank, size, iters, warmup;
    uint64_t         timeout_ms;
    float           *send, *recv;
    size_t           room; /* elements of each */
    struct check_gpu gpu;  /* with nccl */
    const void      *from; /* what calls send: send, or the GPU's */
    void            *to;
    uint64_t        *times;
    unsigned         n_calls; /* so far: names the next pattern */
};

struct measured {
    uint64_t ns, n_wrong; /* the median; elements of all calls */
};

/* Room for messages of so many bytes. */
int  measure_open(struct measure *m, struct ccrun_pg *pg, uint64_t max_bytes, unsigned iters, unsigned warmup,
                  struct cc_err *err);
void measure_close(struct measure *m); /* not the group */
/* Where buffers are filled and checked: "" the host, which has them; "GPU"; or why they are on the GPU and not there. */
const char *measure_where(const struct measure *m);

/* Fails with the sentence of libccrun; then the group is of no use any more. */
int measure_op(struct measure *m, enum check_op op, uint64_t bytes, struct measured *ret, struct cc_err *err);

/* A group of two: messages from rank 0 to rank 1 and then the other way; the time is that of our
 * own, of the better ones: what the way can do, whatever else the machine had to do. */
int measure_pair(struct measure *m, uint64_t bytes, struct measured *ret, struct cc_err *err);

#endif
