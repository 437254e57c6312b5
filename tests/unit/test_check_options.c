#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "launcher/check_options.h"

static struct check_options o;
static struct cc_err        err;

static int parse(const char *line)
{
    static char copy[512];
    char       *argv[32] = { (char *) "ccrun-check" };
    int         argc = 1;

    (void) snprintf(copy, sizeof copy, "%s", line);
    for (char *at = copy; *at && argc < 31;) {
        argv[argc++] = at;
        at += strcspn(at, " ");
        if (*at)
            *at++ = '\0';
    }
    err.msg[0] = '\0';
    return check_options_parse(&o, argc, argv, &err);
}

Test(check_options, have_defaults)
{
    cr_assert_eq(parse(""), 0);
    cr_expect_str_eq(o.backend, "auto");
    cr_expect_eq(o.sizes.n, 9);
    cr_expect_eq(o.sizes.bytes[8], 64 << 20);
    cr_expect(o.is_wanted[CHECK_ALL_REDUCE] && o.is_wanted[CHECK_SENDRECV] && !o.has_pairs);
    cr_expect(o.iters == 20 && o.warmup == 3 && o.timeout_ms == 60000 && o.agent_fd == -1);
}

Test(check_options, are_read_again_from_the_beginning)
{
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(parse("--pairs --ops all_gather,send-recv --min-busbw 1.5 --timeout 2m --agent-fd 3 --passed x --needed"), 0,
                     "%s", err.msg);
        cr_expect(o.has_pairs && o.is_wanted[CHECK_ALL_GATHER] && !o.is_wanted[CHECK_ALL_REDUCE]);
        cr_expect(o.min_busbw > 1.4 && o.min_busbw < 1.6);
        cr_expect(o.timeout_ms == 120000 && o.agent_fd == 3 && o.is_needed);
        cr_expect_str_eq(o.passed, "x");
        cr_assert_eq(parse("--ops none"), 0);
        cr_expect(!o.is_wanted[CHECK_ALL_GATHER] && !o.has_pairs);
    }
}

Test(check_options, what_is_wrong_changes_nothing)
{
    cr_assert_eq(parse("--iters 7"), 0);
    cr_expect_lt(parse("--iters 8 --sizes 1:"), 0);
    cr_expect_eq(o.iters, 7);
    cr_expect_str_eq(err.msg, "--sizes: a message of '1' bytes is not within 4 bytes and 1T");
    cr_expect_lt(parse("--slow nan"), 0);
    cr_expect_str_eq(err.msg, "--slow: 'nan' is not a number above 0 and up to 1");
    cr_expect_lt(parse("--pair-size 1"), 0);
    cr_expect_lt(parse("--ops all-reduce,"), 0);
    cr_expect_lt(parse("--agent-fd -1"), 0);
    cr_expect_lt(parse("-x"), 0);
}
