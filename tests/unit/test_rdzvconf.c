#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "launcher/rdzvconf.h"
#include "store/base/macros.h"

static struct cc_err   err;
static struct warnings warnings;

static int check(const char *text)
{
    struct rdzvconf c;
    int             r = rdzvconf_parse(&c, text, &err);

    warnings.n = 0;
    return r < 0 ? r : rdzvconf_check(&c, &warnings, &err);
}

Test(rdzvconf, pairs_are_trimmed_and_values_may_hold_an_equals_sign)
{
    struct rdzvconf c;

    cr_assert_eq(rdzvconf_parse(&c, " b= dummy2  ,c=dummy3=dummy4,  a =dummy1,d=dummy5/dummy6", &err), 0);
    cr_assert_eq(c.n, 4);
    cr_assert_str_eq(rdzvconf_get(&c, "a"), "dummy1");
    cr_assert_str_eq(rdzvconf_get(&c, "b"), "dummy2");
    cr_assert_str_eq(rdzvconf_get(&c, "c"), "dummy3=dummy4");
    cr_assert_str_eq(rdzvconf_get(&c, "d"), "dummy5/dummy6");
    cr_assert_null(rdzvconf_get(&c, "e"));
    cr_assert_eq(rdzvconf_parse(&c, "a=1,a=2", &err), 0);
    cr_assert_str_eq(rdzvconf_get(&c, "a"), "2");
}

Test(rdzvconf, empty_and_blank_are_no_settings)
{
    static const char *const texts[] = { "", "   ", "''", " \" \" " };
    struct rdzvconf          c;
    size_t                   i;

    for (i = 0; i < CC_COUNT(texts); i++) {
        cr_expect_eq(rdzvconf_parse(&c, texts[i], &err), 0, "'%s'", texts[i]);
        cr_expect_eq(c.n, 0, "'%s'", texts[i]);
    }
}

Test(rdzvconf, quotes_around_the_whole_are_taken_off)
{
    struct rdzvconf c;

    cr_assert_eq(rdzvconf_parse(&c, " 'join_timeout=5,last_call_timeout=1,timeout=5' ", &err), 0);
    cr_assert_str_eq(rdzvconf_get(&c, "join_timeout"), "5");
    cr_assert_str_eq(rdzvconf_get(&c, "timeout"), "5");
    cr_assert_eq(check("\"join_timeout=5\""), 0);
    cr_assert_eq(warnings.n, 0);
}

Test(rdzvconf, a_missing_key_or_value_has_torchruns_sentence)
{
    static const char *const no_key[] = { "a=1,", "a=1,,c=2", "a=1,   ,c=2", "a=1,= ,c=2", " ,  ", "=" };
    static const char *const no_value[] = { "b=1,a,c=2", "b=1,a=,c=2", "  a ", "a= ,b=1" };
    size_t                   i;

    for (i = 0; i < CC_COUNT(no_key); i++) {
        cr_expect_eq(check(no_key[i]), -EINVAL, "%s", no_key[i]);
        cr_expect_str_eq(
            err.msg,
            "The rendezvous configuration string must be in format <key1>=<value1>,...,<keyN>=<valueN>.");
    }
    for (i = 0; i < CC_COUNT(no_value); i++) {
        cr_expect_eq(check(no_value[i]), -EINVAL, "%s", no_value[i]);
        cr_expect_str_eq(err.msg, "The rendezvous configuration option 'a' must have a value specified.");
    }
}

Test(rdzvconf, numbers_and_truth_are_those_of_torchrun)
{
    static const char *const yes[] = { "1", "True", "tRue", "T", "t", "yEs", "Y" };
    static const char *const no[] = { "0", "False", "F", "f", "nO", "N" };
    static const char *const bad[] = { "01", "Flse", "Ture", "g", "4", "_", "truefalse", "2", "-1" };
    struct rdzvconf          c = { .n = 2, .items = { { "a", NULL }, { "n", " 5 " } } };
    int64_t                  n;
    bool                     is_on;
    size_t                   i;

    for (i = 0; i < CC_COUNT(yes); i++) {
        c.items[0].value = yes[i];
        cr_expect(rdzvconf_bool(&c, "a", false, &is_on, &err) == 0 && is_on, "%s", yes[i]);
    }
    for (i = 0; i < CC_COUNT(no); i++) {
        c.items[0].value = no[i];
        cr_expect(rdzvconf_bool(&c, "a", true, &is_on, &err) == 0 && !is_on, "%s", no[i]);
    }
    for (i = 0; i < CC_COUNT(bad); i++) {
        c.items[0].value = bad[i];
        cr_expect_eq(rdzvconf_bool(&c, "a", true, &is_on, &err), -EINVAL, "%s", bad[i]);
        cr_expect_str_eq(err.msg,
                         "The rendezvous configuration option 'a' does not represent a valid boolean value.");
    }
    cr_assert(rdzvconf_bool(&c, "missing", true, &is_on, &err) == 0 && is_on);
    cr_assert(rdzvconf_int(&c, "n", 0, &n, &err) == 0 && n == 5);
    cr_assert(rdzvconf_int(&c, "missing", 7, &n, &err) == 0 && n == 7);
    c.items[0].value = "3b";
    cr_assert_eq(rdzvconf_int(&c, "a", 0, &n, &err), -EINVAL);
    cr_assert_str_eq(err.msg,
                     "The rendezvous configuration option 'a' does not represent a valid integer value.");
}

Test(rdzvconf, bad_values_of_known_keys_are_refused)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        { "last_call_timeout=0", "The last_call timeout (0:00:00) must be positive." },
        { "join_timeout=-5", "The join timeout (-1 day, 23:59:55) must be positive." },
        { "close_timeout=-86400", "The close timeout (-1 day, 0:00:00) must be positive." },
        { "heartbeat_timeout=-90000", "The heartbeat timeout (-2 days, 23:00:00) must be positive." },
        { "join_timeout=1.5",
          "The rendezvous configuration option 'join_timeout' does not represent a valid integer value." },
        { "read_timeout=0", "The read timeout must be a positive integer." },
        { "read_timeout=-10", "The read timeout must be a positive integer." },
        { "store_type=bad", "Invalid store type given. Currently only supports file and tcp." },
        { "is_host=maybe",
          "The rendezvous configuration option 'is_host' does not represent a valid boolean value." },
        { "protocol=ftp", "The protocol must be HTTP or HTTPS." },
        { "backend=c10d", "--rdzv-conf: 'backend' is set with --rdzv-backend, not here" },
        { "run_id=7", "--rdzv-conf: 'run_id' is set with --rdzv-id, not here" },
    };
    size_t i;

    for (i = 0; i < CC_COUNT(cases); i++) {
        cr_expect_eq(check(cases[i].text), -EINVAL, "%s", cases[i].text);
        cr_expect_str_eq(err.msg, cases[i].message, "%s: %s", cases[i].text, err.msg);
    }
    cr_assert_eq(check("store_type=fIlE,is_host=Y,protocol=hTTp,timeout=900,keep_alive_interval=1_0"), 0,
                 "%s", err.msg);
    cr_assert_eq(warnings.n, 0);
}

Test(rdzvconf, unknown_keys_are_warnings_with_a_guess)
{
    cr_assert_eq(check("join_timout=5,'timeout=1,zzz=1"), 0);
    cr_assert_eq(warnings.n, 3);
    cr_assert_str_eq(warnings.text[0],
                     "--rdzv-conf: unknown key 'join_timout' is ignored; did you mean join_timeout?");
    cr_assert_str_eq(warnings.text[1],
                     "--rdzv-conf: unknown key ''timeout' is ignored; did you mean timeout?");
    cr_assert_str_eq(warnings.text[2], "--rdzv-conf: unknown key 'zzz' is ignored");
}

Test(rdzvconf, has_limits_that_are_said)
{
    char text[2 * RDZVCONF_TEXT_MAX];
    int  i;

    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    cr_assert_eq(check(text), -EINVAL);
    cr_assert_str_eq(err.msg, "--rdzv-conf is 4095 bytes long; the limit is 2047");
    text[0] = '\0';
    for (i = 0; i <= RDZVCONF_MAX; i++)
        (void) snprintf(text + strlen(text), 16, "%sk%d=1", i ? "," : "", i);
    cr_assert_eq(check(text), -EINVAL);
    cr_assert_str_eq(err.msg, "--rdzv-conf has more than 32 settings");
}
