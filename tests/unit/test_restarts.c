#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <string.h>

#include "launcher/duration.h"
#include "launcher/restarts.h"
#include "store/base/macros.h"

Test(duration, has_units)
{
    static const struct {
        const char *text;
        uint64_t    ms;
    } good[] = { { "0", 0 },       { "90", 90000 },    { "1.5", 1500 },    { "30s", 30000 },      { "10m", 600000 },
                 { "2h", 7200000 }, { "1d", 86400000 }, { "0.0001", 1 }, { "1_0s", 10000 } };
    static const struct {
        const char *text;
        int         r;
    } bad[] = { { "", -EINVAL },  { "s", -EINVAL },   { "x", -EINVAL },     { "1w", -EINVAL }, { "nan", -EINVAL },
                { "-1", -ERANGE }, { "inf", -ERANGE }, { "99999d", -ERANGE }, { "1 h x", -EINVAL } };
    uint64_t ms = 7;
    size_t   i;

    for (i = 0; i < CC_COUNT(good); i++) {
        cr_expect_eq(duration_parse(good[i].text, &ms), 0, "%s", good[i].text);
        cr_expect_eq(ms, good[i].ms, "%s: %llu", good[i].text, (unsigned long long) ms);
    }
    for (i = 0; i < CC_COUNT(bad); i++)
        cr_expect_eq(duration_parse(bad[i].text, &ms), bad[i].r, "%s", bad[i].text);
}

Test(restarts, a_rate_is_a_number_and_perhaps_a_window)
{
    static const struct {
        const char *text;
        int         r;
        int64_t     n;
        uint64_t    window;
    } cases[] = {
        { "3", 0, 3, 0 },       { " 3 ", 0, 3, 0 },     { "-1", 0, -1, 0 },       { "1_0/1h", 0, 10, 3600000 },
        { "3/90", 0, 3, 90000 }, { "x", -EINVAL, 0, 0 }, { "0x10", -EINVAL, 0, 0 }, { "/1h", -EINVAL, 0, 0 },
        { "3/", -EDOM, 0, 0 },  { "3/0", -EDOM, 0, 0 }, { "3/x", -EDOM, 0, 0 },   { "3000000000", -ERANGE, 0, 0 },
        { "3/-1", -EDOM, 0, 0 },
    };
    size_t i;

    for (i = 0; i < CC_COUNT(cases); i++) {
        struct restarts_rate rate = { 0 };

        cr_expect_eq(restarts_rate(cases[i].text, &rate), cases[i].r, "%s", cases[i].text);
        cr_expect(rate.n == cases[i].n && rate.window == cases[i].window, "%s", cases[i].text);
    }
}

Test(restarts, a_backoff_doubles_from_one_duration_to_another)
{
    static const struct {
        const char *text, *message;
        uint64_t    min, max;
    } cases[] = {
        { "0", NULL, 0, 0 },
        { "1s:5m", NULL, 1000, 300000 },
        { "2", NULL, 2000, 2000 },
        { "5:1", "--restart-backoff 5:1: MIN is more than MAX", 7, 7 },
        { "0:1", "--restart-backoff 0:1: MIN doubles up to MAX, so it cannot be 0", 7, 7 },
        { "1:", "--restart-backoff: '1:' is not MIN:MAX, two durations such as 1s:5m", 7, 7 },
        { "1:2:3", "--restart-backoff: '1:2:3' is not MIN:MAX, two durations such as 1s:5m", 7, 7 },
    };
    size_t i;

    for (i = 0; i < CC_COUNT(cases); i++) {
        struct cc_err err = { 0 };
        uint64_t      min = 7, max = 7;
        int           r = restarts_backoff(cases[i].text, &min, &max, &err);

        cr_expect_eq(r, cases[i].message ? -EINVAL : 0, "%s", cases[i].text);
        cr_expect(min == cases[i].min && max == cases[i].max, "%s", cases[i].text);
        cr_expect_str_eq(err.msg, cases[i].message ? cases[i].message : "", "%s", err.msg);
    }
}

Test(restarts, codes_are_numbers_ranges_and_signals)
{
    static const char *const bad[] = { "0", "256", "x", "3-1", "1,,2", "", "1-", "-1", "SIGFOO", "1-SIGFOO" };
    struct cc_err            err = { 0 };
    bool                     codes[RESTARTS_CODES] = { false };
    unsigned                 n = 0;
    size_t                   i;

    cr_assert_eq(restarts_codes("2,64-66,SIGSEGV,SIGRTMAX-1", codes, &err), 0, "%s", err.msg);
    for (i = 0; i < RESTARTS_CODES; i++)
        n += codes[i];
    cr_assert_eq(n, 6);
    cr_assert(codes[2] && codes[64] && codes[65] && codes[66] && codes[128 + SIGSEGV] && codes[128 + 63]);
    for (i = 0; i < CC_COUNT(bad); i++)
        cr_expect_eq(restarts_codes(bad[i], codes, &err), -EINVAL, "%s", bad[i]);
    (void) restarts_codes("1,x", codes, &err);
    cr_assert_str_eq(err.msg, "--no-restart-codes: 'x' is no exit status (1 to 255), range (3-5) or signal (SIGSEGV)");
}
