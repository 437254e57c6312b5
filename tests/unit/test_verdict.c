#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "agent/core/verdict.h"

static struct verdict of(const char *a, const char *b)
{
    struct verdict v = { .n_lines = 0 };

    verdict_take(&v, a);
    if (b)
        verdict_take(&v, b);
    return v;
}

static enum verdict_act act(struct verdict v, enum verdict_policy policy)
{
    return verdict_act(&v, policy, 1, 2, false);
}

Test(verdict, a_line_is_read)
{
    struct verdict v = of("others 0123abc 3 node 2 (h3) is slow: 1 GB/s", NULL);

    cr_expect(v.n_lines == 1 && v.word == VERDICT_OTHERS && v.n_left == 3);
    cr_expect_str_eq(v.id, "0123abc");
    cr_expect_str_eq(v.text, "node 2 (h3) is slow: 1 GB/s");
}

Test(verdict, what_is_no_such_line_is_left_out)
{
    static const char *const lines[] = { "", "ok", "ok 1", "ok 1 2", "ok  2 x", "good 1 2 x", "okay 1 2 x", "ok 1 x y",
                                         "ok 1 99999999999 x", "ok 0123456789012345678901234 2 x" };

    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        cr_expect_eq(of(lines[i], NULL).n_lines, 0, "'%s'", lines[i]);
    cr_expect_eq(of("ok 1 2 ", NULL).n_lines, 1);
}

Test(verdict, the_worst_line_counts)
{
    cr_expect_eq(of("ok a 2 ", "bad - 0 rank 1: no").word, VERDICT_BAD);
    cr_expect_eq(of("bad - 0 rank 1: no", "ok a 2 ").word, VERDICT_BAD);
    cr_expect_str_eq(of("bad - 0 rank 1: no", "ok a 2 ").text, "rank 1: no");
    cr_expect_eq(of("ok a 2 ", "ok a 2 ").n_lines, 2);
}

Test(verdict, well_is_well_under_every_policy)
{
    for (enum verdict_policy p = VERDICT_REFUSE; p <= VERDICT_WARN; p++) {
        cr_expect_eq(act(of("ok a 3 ", NULL), p), VERDICT_GO);
        cr_expect_eq(act(of("passed a 3 ", NULL), p), VERDICT_GO);
    }
}

Test(verdict, refuse_ends_the_job_whoever_is_to_blame)
{
    cr_expect_eq(act(of("out a 2 x", NULL), VERDICT_REFUSE), VERDICT_STOP);
    cr_expect_eq(act(of("others a 2 x", NULL), VERDICT_REFUSE), VERDICT_STOP);
    cr_expect_eq(act(of("bad a 2 x", NULL), VERDICT_REFUSE), VERDICT_STOP);
    cr_expect_eq(act(of("others a 2 x", NULL), VERDICT_WARN), VERDICT_GO);
}

Test(verdict, exclude_leaves_out_who_is_to_blame_if_enough_are_left)
{
    struct verdict few = of("others a 1 x", NULL), bad = of("bad a 3 x", NULL);

    cr_expect_eq(act(of("out a 2 x", NULL), VERDICT_EXCLUDE), VERDICT_LEAVE);
    cr_expect_eq(act(of("others a 2 x", NULL), VERDICT_EXCLUDE), VERDICT_WAIT);
    cr_expect_eq(act(of("out a 1 x", NULL), VERDICT_EXCLUDE), VERDICT_STOP);
    cr_expect_eq(verdict_act(&few, VERDICT_EXCLUDE, 1, 2, false), VERDICT_STOP);
    cr_expect_str_eq(few.text, "x; too few nodes would be left");
    cr_expect_eq(verdict_act(&bad, VERDICT_EXCLUDE, 1, 2, false), VERDICT_STOP);
    cr_expect_str_eq(bad.text, "x; no node can be left out for that");
}

Test(verdict, a_check_that_says_nothing_is_a_node_that_is_not_well)
{
    struct verdict none = { .n_lines = 0 }, half = of("ok a 2 ", NULL), told = of("bad - 0 rank 1: why", NULL);

    cr_expect_eq(verdict_act(&none, VERDICT_REFUSE, 1, 1, false), VERDICT_STOP);
    cr_expect_str_eq(none.text, "the check ended without a verdict on this node");
    cr_expect_eq(verdict_act(&half, VERDICT_REFUSE, 2, 1, false), VERDICT_STOP);
    cr_expect_eq(half.word, VERDICT_BAD, "it has not passed");
    cr_expect_eq(verdict_act(&told, VERDICT_EXCLUDE, 2, 1, false), VERDICT_LEAVE, "the others name it, and wait for that");
    cr_expect_str_eq(told.text, "rank 1: why");
    cr_expect_eq(verdict_act(&told, VERDICT_EXCLUDE, 2, 1, true), VERDICT_STOP);
    cr_expect_eq(verdict_act(&told, VERDICT_WARN, 2, 1, true), VERDICT_GO);
}
