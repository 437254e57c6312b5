#include <criterion/criterion.h>

#include "agent/core/cause.h"

enum { T = 1700000000 };

#define MS(s, ms) ((uint64_t) (T + (s)) * 1000 + (ms))

static struct cause_failure seen(uint64_t at)
{
    return (struct cause_failure){ .started_ms = MS(-10, 0), .detected_ms = at };
}

static struct cause_failure raised(int64_t s, uint64_t file_ms, uint64_t at)
{
    struct cause_failure f = seen(at);

    f.file_s = T + s;
    f.file_ms = file_ms;
    return f;
}

static struct cause_failure ours(struct cause_failure f)
{
    f.is_ours = true;
    return f;
}

Test(cause, of_plain_exits_the_one_seen_first_wins)
{
    struct cause_failure f[] = { seen(MS(0, 20)), seen(MS(0, 10)), seen(MS(0, 10)) };

    cr_assert_eq(cause_first(f, 3), 1);
}

Test(cause, an_exception_that_took_long_to_exit_beats_its_victim)
{
    /* raised at .020, spent 900 ms in exit handlers; its peer crashed of the closed connection at .250 */
    struct cause_failure f[] = { seen(MS(0, 250)), raised(0, MS(0, 20), MS(0, 920)) };

    cr_assert_eq(cause_first(f, 2), 1);
}

Test(cause, without_the_files_clock_whole_seconds_decide_and_a_tie_goes_to_the_one_seen_first)
{
    struct cause_failure tie[] = { seen(MS(0, 250)), raised(0, 0, MS(0, 920)) };
    struct cause_failure earlier[] = { seen(MS(1, 250)), raised(0, 0, MS(1, 300)) };

    cr_assert_eq(cause_first(tie, 2), 0);
    cr_assert_eq(cause_first(earlier, 2), 1);
}

Test(cause, a_file_system_with_another_clock_is_not_believed)
{
    bool                 is_exact;
    struct cause_failure f = raised(0, MS(-500, 0), MS(0, 900));

    cr_assert_eq(cause_time(&f, &is_exact), MS(0, 0));
    cr_assert_not(is_exact);
}

Test(cause, a_timestamp_from_outside_the_workers_life_is_not_believed)
{
    struct cause_failure f[] = { seen(MS(0, 0)), seen(MS(0, 100)), seen(MS(0, 100)), seen(MS(0, 100)) };
    bool                 is_exact;

    f[1].file_s = 10;
    f[2].file_s = T + 1000;
    f[3].file_s = INT64_MAX;
    for (int i = 1; i < 4; i++)
        cr_assert_eq(cause_time(&f[i], &is_exact), MS(0, 100));
    cr_assert_eq(cause_first(f, 4), 0);
}

Test(cause, a_worker_that_we_stopped_never_wins)
{
    struct cause_failure f[] = { ours(seen(MS(0, 0))), seen(MS(0, 10)),
                                 ours(raised(0, MS(0, 30), MS(0, 40))) };

    cr_assert_eq(cause_first(f, 3), 1);
}

Test(cause, unless_it_had_raised_before_anything_else_went_wrong)
{
    struct cause_failure exact[] = { seen(MS(3, 500)), ours(raised(1, MS(1, 100), MS(3, 600))) };
    struct cause_failure coarse[] = { seen(MS(3, 500)), ours(raised(1, 0, MS(3, 600))) };
    struct cause_failure same_second[] = { seen(MS(3, 500)), ours(raised(3, 0, MS(3, 600))) };

    cr_assert_eq(cause_first(exact, 2), 1);
    cr_assert_eq(cause_first(coarse, 2), 1);
    cr_assert_eq(cause_first(same_second, 2), 0);
}

Test(cause, when_all_were_stopped_by_us_the_first_of_them_is_named)
{
    struct cause_failure f[] = { ours(seen(MS(0, 20))), ours(seen(MS(0, 10))) };

    cr_assert_eq(cause_first(f, 2), 1);
}

/* Plant one true cause and its victims, in every order of detection and with every kind of knowledge. */
Test(cause, finds_the_planted_one_whatever_the_order)
{
    uint32_t rng = 1;

    for (int round = 0; round < 2000; round++) {
        struct cause_failure f[8];
        size_t               n = 2 + (size_t) round % 7, planted;

        planted = (rng = rng * 1664525 + 1013904223) / 65536 % n;
        for (size_t i = 0; i < n; i++) {
            uint64_t after = 1 + (rng = rng * 1664525 + 1013904223) / 65536 % 900;
            bool     has_file = (rng = rng * 1664525 + 1013904223) / 65536 % 2;
            uint64_t at = i == planted ? MS(0, 40) : MS(0, 40 + after);

            f[i] = has_file ? raised(0, at, at + after) : seen(at);
            if (i != planted && !has_file && after % 3 == 0)
                f[i].is_ours = true;
        }
        cr_assert_eq(cause_first(f, n), planted, "round %d", round);
    }
}
