#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>

#include "launcher/stopsignals.h"
#include "store/base/macros.h"

Test(stopsignals, names_become_numbers_once_each)
{
    static const int want[] = { SIGTERM, SIGINT, SIGUSR1, 0 };
    int              got[STOPSIGNALS_MAX];
    struct warnings  w = { 0 };
    struct cc_err    err;

    cr_assert_eq(stopsignals_parse("SIGTERM, SIGINT ,SIGUSR1,SIGTERM,", got, &w, &err), 0);
    cr_assert_arr_eq(got, want, sizeof want);
    cr_assert_eq(w.n, 0);
    cr_assert_eq(stopsignals_parse("", got, &w, &err), 0);
    cr_assert_eq(got[0], 0);
}

Test(stopsignals, an_unknown_name_is_a_warning)
{
    int             got[STOPSIGNALS_MAX];
    struct warnings w = { 0 };
    struct cc_err   err;

    cr_assert_eq(stopsignals_parse("TERM,SIGTREM,SIGFOOBAR,SIGHUP", got, &w, &err), 0);
    cr_assert_eq(got[0], SIGHUP);
    cr_assert_eq(w.n, 3);
    cr_assert_str_eq(w.text[0], "Failed to register signal handler for TERM; did you mean SIGTERM?");
    cr_assert_str_eq(w.text[1], "Failed to register signal handler for SIGTREM; did you mean SIGTERM?");
    cr_assert_str_eq(w.text[2], "Failed to register signal handler for SIGFOOBAR");
}

Test(stopsignals, what_nobody_can_handle_is_refused)
{
    static const char *const bad[] = { "SIGKILL", "SIGSTOP", "SIGCHLD", "SIGSEGV" };
    int                      got[STOPSIGNALS_MAX];
    char                     text[64], want[64];
    struct warnings          w = { 0 };
    struct cc_err            err;
    size_t                   i;

    for (i = 0; i < CC_COUNT(bad); i++) {
        (void) snprintf(text, sizeof text, "SIGTERM,%s", bad[i]);
        (void) snprintf(want, sizeof want, "--signals-to-handle: %s cannot be handled", bad[i]);
        cr_expect_eq(stopsignals_parse(text, got, &w, &err), -EINVAL);
        cr_expect_str_eq(err.msg, want);
    }
}
