#include <criterion/criterion.h>

#include "launcher/check_measure.h"

enum { N = 100 };

Test(check_measure, a_result_is_right_only_in_its_place_of_its_rank_in_its_call)
{
    float buf[N];

    measure_fill(buf, N, 5, 3, 11);
    cr_expect_eq(measure_count_wrong(buf, N, 5, 3, 11), 0);
    cr_expect_eq(measure_count_wrong(buf, N, 6, 3, 11), N);
    cr_expect_eq(measure_count_wrong(buf, N, 5, 4, 11), N);
    cr_expect_eq(measure_count_wrong(buf, N, 5, 3, 12), N);
    buf[42] += 1;
    cr_expect_eq(measure_count_wrong(buf, N, 5, 3, 11), 1);
}

Test(check_measure, a_part_of_a_buffer_goes_on_where_the_one_before_ended)
{
    float whole[N], parts[N];

    measure_fill(whole, N, 0, 2, 7);
    measure_fill(parts, 33, 0, 2, 7);
    measure_fill(parts + 33, N - 33, 33, 2, 7);
    for (unsigned i = 0; i < N; i++)
        cr_assert_eq(whole[i], parts[i]);
}

Test(check_measure, sums_are_those_of_all_ranks)
{
    for (unsigned size = 1; size <= 40; size++) {
        float sum[N] = { 0 }, one[N];

        for (unsigned rank = 0; rank < size; rank++) {
            measure_fill(one, N, 17, rank, 3);
            for (unsigned i = 0; i < N; i++)
                sum[i] += one[i];
        }
        cr_expect_eq(measure_count_wrong_sum(sum, N, 17, size, 3), 0);
        sum[0] -= 1;
        sum[N - 1] = sum[N - 1] * 2 + 1;
        cr_expect_eq(measure_count_wrong_sum(sum, N, 17, size, 3), 2);
    }
}

Test(check_measure, what_is_no_number_is_wrong)
{
    float buf[2];

    measure_fill(buf, 2, 0, 0, 0);
    buf[1] = 0.0f / 0.0f;
    cr_expect_eq(measure_count_wrong(buf, 2, 0, 0, 0), 1);
}
