/* check_perf.h - what ccrun-check measures, and how times become bandwidths, as nccl-tests define them. Pure.
 *
 * The bytes of an operation are those of the largest buffer that a rank has in it: of all-gather what it receives, of
 * reduce-scatter what it sends.  Algorithm bandwidth is bytes by time; bus bandwidth is that times a factor which makes
 * it comparable with the bandwidth of the hardware whatever the number of ranks.
 */
#ifndef LAUNCHER_CHECK_PERF_H
#define LAUNCHER_CHECK_PERF_H

#include <stddef.h>
#include <stdint.h>

enum check_op {
    CHECK_ALL_REDUCE,
    CHECK_ALL_GATHER,
    CHECK_REDUCE_SCATTER,
    CHECK_SENDRECV, /* to the next rank, and from the one before, at once */
    CHECK_N_OPS
};

const char *check_op_name(enum check_op op);
int         check_op_find(const char *name, size_t n); /* -1: none is called that; '_' is as good as '-' */

/* float elements of one call, in ccrun.h's sense of a count, at least 1; and the bytes that are counted for it. */
size_t   check_op_count(enum check_op op, uint64_t bytes, unsigned ranks);
uint64_t check_op_bytes(enum check_op op, size_t count, unsigned ranks);

double check_algbw(uint64_t bytes, uint64_t ns); /* GB/s, of 10^9 bytes; 0 for no time */
double check_busbw(enum check_op op, unsigned ranks, uint64_t bytes, uint64_t ns);

uint64_t check_median(uint64_t *values, size_t n); /* sorts them; of two in the middle the mean; 0 for none */

#endif
