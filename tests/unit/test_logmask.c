#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "launcher/logmask.h"
#include "store/base/macros.h"

Test(logmask, one_digit_is_for_all_and_a_map_for_those_it_names)
{
    static const struct {
        const char *text;
        uint8_t     masks[4];
    } cases[] = {
        { "0", { 0, 0, 0, 0 } },
        { "3", { 3, 3, 3, 3 } },
        { "0:1", { 1, 0, 0, 0 } },
        { "0:1,1:1", { 1, 1, 0, 0 } },
        { "3:2,0:3,0:1", { 1, 0, 0, 2 } },
        { "12:3,1:2,9:1", { 0, 2, 0, 0 } },
        { "99999999999:3,2:1", { 0, 0, 1, 0 } },
    };
    struct cc_err err;
    size_t        i;

    for (i = 0; i < CC_COUNT(cases); i++) {
        uint8_t masks[4] = { 9, 9, 9, 9 };

        cr_expect_eq(logmask_parse("--tee", cases[i].text, masks, 4, &err), 0, "%s: %s", cases[i].text,
                     err.msg);
        cr_expect_arr_eq(masks, cases[i].masks, 4, "%s", cases[i].text);
    }
}

Test(logmask, ranks_above_nine_have_names_too)
{
    uint8_t       masks[16];
    struct cc_err err;

    cr_assert_eq(logmask_parse("--tee", "15:2,10:1", masks, 16, &err), 0);
    cr_assert_eq(masks[15], 2);
    cr_assert_eq(masks[10], 1);
    cr_assert_eq(masks[1], 0);
}

Test(logmask, anything_else_is_refused_as_by_torchrun)
{
    static const char *const bad[] = { "0:1,", "11", "0:1,1", "1,0:1", "",     "4",   "0:4",
                                       "0:",   ":1", "a",     "0:1 ",  "-1:1", "0:11" };
    char                     want[192];
    struct cc_err            err;
    size_t                   i;

    for (i = 0; i < CC_COUNT(bad); i++) {
        (void) snprintf(want, sizeof want,
                        "--redirects: %s does not match: <^[0123]$> or <^(\\d:[0123],)*(\\d:[0123])$> "
                        "(0 none, 1 stdout, 2 stderr, 3 both, for all workers or as RANK:WHAT,...)",
                        bad[i]);
        cr_expect_eq(logmask_parse("--redirects", bad[i], NULL, 0, &err), -EINVAL, "'%s'", bad[i]);
        cr_expect_str_eq(err.msg, want);
    }
}

Test(logmask, a_filter_names_the_ranks_that_may_speak)
{
    static const struct {
        const char *text;
        bool        is_on[4];
    } cases[] = {
        { "", { true, true, true, true } },
        { "1", { false, true, false, false } },
        { "0, 3,7", { true, false, false, true } },
        { "-1,2", { false, false, true, false } },
    };
    struct cc_err err;
    size_t        i;

    for (i = 0; i < CC_COUNT(cases); i++) {
        bool is_on[4];

        cr_expect_eq(logmask_filter(cases[i].text, is_on, 4, &err), 0, "%s", cases[i].text);
        cr_expect_arr_eq(is_on, cases[i].is_on, sizeof is_on, "%s", cases[i].text);
    }
}

Test(logmask, a_filter_of_other_things_is_refused_as_by_torchrun)
{
    static const char *const bad[] = { "a",   "0,",  ",0",  "0,,1",
                                       "0;1", "1.0", "0-3", "                                         1" };
    struct cc_err            err;
    char                     want[256];
    size_t                   i;

    for (i = 0; i < CC_COUNT(bad); i++) {
        cr_expect_eq(logmask_filter(bad[i], NULL, 0, &err), -EINVAL, "'%s'", bad[i]);
        (void) snprintf(want, sizeof want,
                        "--local_ranks_filter must be a comma-separated list of integers e.g. "
                        "--local_ranks_filter=0,1,2; got '%s'",
                        bad[i]);
        cr_expect_str_eq(err.msg, want);
    }
}
