#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "launcher/check_words.h"

enum { SIZE = 3 };

static int               places[SIZE], locals[SIZE];
static struct check_plan plan = { .place = places, .local = locals };

Test(check_words, a_number_has_a_limit_and_no_sign)
{
    static const char *const none[] = { "", "-1", "+1", " 1", "x", "256", "99999999999999999999999" };
    const char              *at = "255 4";
    uint64_t                 n = 7;

    cr_assert(check_words_number(&at, 255, &n));
    cr_assert_eq(n, 255);
    cr_assert_str_eq(at, " 4");
    at = "18446744073709551615";
    cr_assert(check_words_number(&at, UINT64_MAX, &n));
    cr_assert_eq(n, UINT64_MAX);
    at = "0";
    cr_assert(check_words_number(&at, 0, &n));
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        at = none[i];
        cr_assert_not(check_words_number(&at, 255, &n), "%s", none[i]);
        cr_assert_eq(at, none[i]);
    }
    at = "18446744073709551616";
    cr_assert_not(check_words_number(&at, UINT64_MAX, &n));
}

Test(check_words, a_plan_says_where_each_rank_is)
{
    struct cc_err err;

    cr_assert_eq(check_words_plan("go 2 0 0.0 0.1 1.0", SIZE, &plan, &err), 0);
    cr_assert_eq(plan.n_nodes, 2);
    cr_assert_not(plan.is_by_rank);
    cr_assert_eq(places[1], 0);
    cr_assert_eq(locals[1], 1);
    cr_assert_eq(places[2], 1);
    cr_assert_eq(check_words_plan("go 3 1 0.0 1.0 2.0", SIZE, &plan, &err), 0);
    cr_assert(plan.is_by_rank);
}

Test(check_words, a_plan_with_numbers_that_are_none_of_a_node_is_refused)
{
    static const char *const bad[] = {
        "",
        "go",
        "go 0 0 0.0 0.1 0.2",
        "go 4 0 0.0 0.1 1.0",
        "go 2 2 0.0 0.1 1.0",
        "go 2 0 0.0 0.1 2.0",
        "go 2 0 0.0 0.1 -1.0",
        "go 2 0 0.0 0.1 1.3",
        "go 2 0 0.0 0.1",
        "go 2 0 0.0 0.1 1.0 1.1",
        "go 2 0 0.0 0.1 99999999999.0",
        "go 99999999999 0 0.0 0.1 1.0",
    };
    struct cc_err err;

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        cr_assert_eq(check_words_plan(bad[i], SIZE, &plan, &err), -EPROTO, "%s", bad[i]);
    (void) check_words_plan("go 4 0\x1b[31m", SIZE, &plan, &err);
    cr_assert_str_eq(err.msg, "the plan that rank 0 announced cannot be read: 'go 4 0\\x1b[31m'");
    (void) check_words_plan("go 2 0 0.0 7.1 1.0", SIZE, &plan, &err);
    cr_assert_str_eq(err.msg, "rank 0 announced a plan that says of rank 1 no place on one of 2 nodes");
}

Test(check_words, a_verdict_is_read_with_who_is_to_blame)
{
    struct check_verdict v;
    struct cc_err        err;

    cr_assert_eq(check_words_verdict("1 00c0ffee 2 1 0,2,; node 2 is slow; and 1 more", SIZE, 2, &v, &err), 0);
    cr_assert_eq(v.status, 1);
    cr_assert_str_eq(v.id, "00c0ffee");
    cr_assert_eq(v.n_left, 2);
    cr_assert(v.is_curable);
    cr_assert(v.is_our_fault);
    cr_assert_str_eq(v.text, "node 2 is slow; and 1 more");
    cr_assert_eq(check_words_verdict("1 00c0ffee 2 1 0,2,; x", SIZE, 1, &v, &err), 0);
    cr_assert_not(v.is_our_fault);
    cr_assert_eq(check_words_verdict("0 00c0ffee 3 0 ; ", SIZE, -1, &v, &err), 0);
    cr_assert_not(v.is_our_fault);
    cr_assert_str_eq(v.text, "");
}

Test(check_words, a_verdict_with_numbers_that_cannot_be_is_refused)
{
    static const char whole[] = "1 00c0ffee 2 1 0,2,; x";
    static const char *const bad[] = {
        "256 id 2 1 0,; x",   "-1 id 2 1 0,; x",  "1 id 4 1 0,; x",  "1 id -1 1 0,; x",   "1 id 2 2 0,; x",
        "1 id 2 1 3,; x",     "1 id 2 1 0; x",    "1 id 2 1 0,x; x", "1  2 1 0,; x",      "1 id 2 1 99999999999,; x",
        "1 id 2 99999999999999999999 0,; x",      "1 an-id-of-more-than-there-is-room-for 2 1 0,; x",
    };
    struct check_verdict v;
    struct cc_err        err;
    char                 cut[sizeof whole];

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        cr_assert_eq(check_words_verdict(bad[i], SIZE, 0, &v, &err), -EPROTO, "%s", bad[i]);
    for (size_t n = 0; n < strlen(whole) - 1; n++) {
        (void) snprintf(cut, sizeof cut, "%.*s", (int) n, whole);
        cr_assert_eq(check_words_verdict(cut, SIZE, 0, &v, &err), -EPROTO, "%s", cut);
    }
}

Test(check_words, rounds_and_pairs_are_of_the_nodes_that_there_are)
{
    const char *at = "go 1 2";
    unsigned    round, node;

    cr_assert_eq(check_words_next(&at), 0);
    cr_assert_str_eq(at, " 1 2");
    at = "stop";
    cr_assert_eq(check_words_next(&at), 1);
    at = "gone";
    cr_assert_eq(check_words_next(&at), -1);
    at = "2.3 0.1 ";
    cr_assert(check_words_pair(&at, 4, &round, &node));
    cr_assert_eq(round, 2);
    cr_assert_eq(node, 3);
    cr_assert_str_eq(at, "0.1 ");
    at = "3.3 ";
    cr_assert_not(check_words_pair(&at, 4, &round, &node));
    at = "2.4 ";
    cr_assert_not(check_words_pair(&at, 4, &round, &node));
    at = "0.0 ";
    cr_assert_not(check_words_pair(&at, 1, &round, &node));
}

Test(check_words, a_measurement_is_two_numbers_and_nothing_else)
{
    uint64_t ns, n_wrong;

    cr_assert(check_words_measured("1500 0\n17 0\n", &ns, &n_wrong));
    cr_assert_eq(ns, 1500);
    cr_assert_eq(n_wrong, 0);
    cr_assert_not(check_words_measured("1500", &ns, &n_wrong));
    cr_assert_not(check_words_measured("1500 0x", &ns, &n_wrong));
    cr_assert_not(check_words_measured("-5 0", &ns, &n_wrong));
    cr_assert_not(check_words_measured("99999999999999999999 0", &ns, &n_wrong));
}
