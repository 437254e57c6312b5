#include <criterion/criterion.h>
#include <math.h>

#include "launcher/check_perf.h"

static int is_close(double a, double b)
{
    return fabs(a - b) < 1e-9;
}

/* nccl-tests, doc/PERFORMANCE.md: the factors for n ranks. */
Test(check_perf, bus_bandwidth_is_that_of_nccl_tests)
{
    uint64_t gb = 1000000000, s = 1000000000;

    cr_expect(is_close(check_algbw(gb, s), 1));
    cr_expect(is_close(check_busbw(CHECK_ALL_REDUCE, 8, gb, s), 2 * 7.0 / 8));
    cr_expect(is_close(check_busbw(CHECK_ALL_GATHER, 8, gb, s), 7.0 / 8));
    cr_expect(is_close(check_busbw(CHECK_REDUCE_SCATTER, 4, gb, s), 3.0 / 4));
    cr_expect(is_close(check_busbw(CHECK_SENDRECV, 8, gb, s), 1));
    cr_expect(is_close(check_busbw(CHECK_ALL_REDUCE, 2, gb, s / 2), 2));
    cr_expect(is_close(check_busbw(CHECK_ALL_REDUCE, 1, gb, s), 0));
    cr_expect(is_close(check_algbw(gb, 0), 0));
}

Test(check_perf, bytes_are_those_of_the_largest_buffer)
{
    cr_expect_eq(check_op_count(CHECK_ALL_REDUCE, 64, 4), 16);
    cr_expect_eq(check_op_count(CHECK_ALL_GATHER, 64, 4), 4);
    cr_expect_eq(check_op_bytes(CHECK_ALL_GATHER, 4, 4), 64);
    cr_expect_eq(check_op_bytes(CHECK_REDUCE_SCATTER, 4, 4), 64);
    cr_expect_eq(check_op_bytes(CHECK_SENDRECV, 4, 4), 16);
    cr_expect_eq(check_op_count(CHECK_ALL_GATHER, 8, 4), 1, "one element for each rank is the least");
    cr_expect_eq(check_op_bytes(CHECK_ALL_GATHER, 1, 4), 16, "and then that is what is counted");
}

Test(check_perf, knows_its_operations_by_name)
{
    cr_expect_eq(check_op_find("all-reduce", 10), CHECK_ALL_REDUCE);
    cr_expect_eq(check_op_find("all_gather", 10), CHECK_ALL_GATHER);
    cr_expect_eq(check_op_find("all", 3), -1);
    cr_expect_eq(check_op_find("all-reduces", 11), -1);
    cr_expect_eq(check_op_find("", 0), -1);
}

Test(check_perf, the_median_does_not_care_for_one_that_was_late)
{
    uint64_t odd[] = { 5, 1, 1000000 }, even[] = { 4, 1, 2, 9 }, one[] = { 7 };

    cr_expect_eq(check_median(odd, 3), 5);
    cr_expect_eq(check_median(even, 4), 3);
    cr_expect_eq(check_median(one, 1), 7);
    cr_expect_eq(check_median(NULL, 0), 0);
}
