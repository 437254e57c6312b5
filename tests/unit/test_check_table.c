#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/check_table.h"

enum { N_NODES = 3 };

static struct check_options options = { .min_busbw = 5, .slow = 0.5, .iters = 20, .warmup = 3, .pair_bytes = 4 << 20 };

static struct check_report *report(void)
{
    struct check_report *r = calloc(1, sizeof *r);

    r->options = &options;
    r->n_ranks = 8;
    r->n_nodes = N_NODES;
    r->nodes = calloc(N_NODES, sizeof *r->nodes);
    r->rows = calloc(2, sizeof *r->rows);
    r->rows[0] = (struct check_row) { .op = CHECK_ALL_REDUCE, .bytes = 8, .ns = 45100 };
    r->rows[1] = (struct check_row) { .op = CHECK_ALL_REDUCE, .bytes = 64 << 20, .ns = 85200000 };
    r->n_rows = 2;
    (void) snprintf(r->backend, sizeof r->backend, "gloo");
    for (int i = 0; i < N_NODES; i++) {
        (void) snprintf(r->nodes[i].host, sizeof r->nodes[i].host, "h%d", i + 1);
        r->nodes[i].is_known = true;
        nodefacts_set(&r->nodes[i].facts, "kernel", i == 1 ? "5.4" : "6.1");
    }
    return r;
}

static char *printed(const struct check_report *r, bool is_utf8, bool is_colour)
{
    const struct check_style style = { is_utf8, is_colour };
    struct cc_buf            text = { .p = NULL };

    cr_assert_eq(check_table(r, &style, &text), 0);
    cr_assert_eq(cc_buf_add(&text, "", 1), 0);
    return (char *) text.p;
}

static void drop(struct check_report *r, char *text)
{
    free(text);
    check_report_clear(r);
    free(r);
}

static size_t widest(const char *text)
{
    size_t max = 0;

    for (; *text; text += strcspn(text, "\n") + 1) {
        size_t n = 0;

        for (const char *c = text; *c != '\n'; c++)
            n += ((unsigned char) *c & 0xc0) != 0x80; /* one for each character of UTF-8 */
        max = n > max ? n : max;
    }
    return max;
}

Test(check_table, numbers_are_short)
{
    char b[CHECK_NUMBER_MAX];

    cr_expect_str_eq(check_size_text(8, b), "8");
    cr_expect_str_eq(check_size_text(65536, b), "64K");
    cr_expect_str_eq(check_size_text(65532, b), "65532");
    cr_expect_str_eq(check_size_text(1ull << 40, b), "1T");
    cr_expect_str_eq(check_time_text(900, b), "0.90 us");
    cr_expect_str_eq(check_time_text(45100, b), "45.1 us");
    cr_expect_str_eq(check_time_text(85200000, b), "85.2 ms");
    cr_expect_str_eq(check_time_text(12345678901, b), "12.3 s");
    cr_expect_str_eq(check_gbs_text(0.7876, b), "0.788");
    cr_expect_str_eq(check_gbs_text(4.5, b), "4.50");
    cr_expect_str_eq(check_gbs_text(387.4, b), "387");
}

Test(check_table, a_bar_is_as_long_as_its_share)
{
    char b[64];

    cr_expect_str_eq(check_bar(1, 2, 10, false, b), "#####");
    cr_expect_str_eq(check_bar(2, 2, 4, false, b), "####");
    cr_expect_str_eq(check_bar(9, 2, 4, false, b), "####");
    cr_expect_str_eq(check_bar(0, 2, 4, false, b), "");
    cr_expect_str_eq(check_bar(-1, 2, 4, false, b), "");
    cr_expect_str_eq(check_bar(1, 0, 4, false, b), "");
    cr_expect_str_eq(check_bar(1, 2, 2, true, b), "█");
    cr_expect_str_eq(check_bar(1, 16, 2, true, b), "▏");
    cr_expect_str_eq(check_bar(15, 16, 2, true, b), "█▉");
}

Test(check_table, rows_have_what_was_measured_and_what_that_means)
{
    struct check_report *r = report();
    struct cc_err        err;
    char                *text;

    cr_assert_eq(check_judge(r, &err), 0);
    text = printed(r, false, false);
    cr_expect(strstr(text, "8 ranks on 3 nodes, gloo, float, median of 20 after 3\n"), "%s", text);
    cr_expect(strstr(text, "all-reduce            8   45.1 us   0.000   0.000\n"), "%s", text);
    cr_expect(strstr(text, "all-reduce          64M   85.2 ms   0.788    1.38  ####################### low\n"), "%s", text);
    cr_expect(strstr(text, "FAULT: all-reduce of 67108864 bytes: bus bandwidth 1.38 GB/s, below --min-busbw\n       5\n"),
              "%s", text);
    cr_expect(strstr(text, "warning: node 1 (h2): kernel is 5.4, on 2 of 3 nodes 6.1\n"), "%s", text);
    cr_expect_null(strstr(text, "all is well"));
    drop(r, text);
}

Test(check_table, fits_80_columns_whatever_is_in_it)
{
    struct check_report *r = report();
    char                *text;

    memset(r->nodes[0].host, 'h', sizeof r->nodes[0].host - 1);
    for (unsigned i = 0; i < FACTS_MAX; i++)
        nodefacts_set(&r->nodes[0].facts, "a fact", "and its value");
    r->rows[1].n_wrong = 1;
    r->rows[1].is_missed = true;
    r->n_rounds = 2;
    r->nodes[0].out = r->nodes[0].in = 1234567;
    check_fault(r, CHECK_FAULT_SLOW_NODE, 0, "a fault that takes more than one line of this page, as some of them will do");
    text = printed(r, true, false);
    cr_expect_leq(widest(text), 80, "%s", text);
    drop(r, text);
}

Test(check_table, colours_only_where_they_are_wanted)
{
    struct check_report *r = report();
    char                *text;

    r->rows[1].n_wrong = 3;
    text = printed(r, true, false);
    cr_expect_null(strchr(text, '\033'));
    free(text);
    text = printed(r, true, true);
    cr_expect(strstr(text, "\033[31mall-reduce"), "%s", text);
    drop(r, text);
}

Test(check_table, the_same_said_twice_is_said_once)
{
    struct check_report *r = report();

    check_fault(r, CHECK_FAULT_FAILED, -1, "no");
    check_fault(r, CHECK_FAULT_FAILED, -1, "no");
    cr_expect_eq(r->n_faults, 1);
    for (int i = 0; i < 2 * CHECK_WARNINGS_MAX; i++)
        check_warn(r, "%d", i);
    cr_expect_eq(r->n_warnings, CHECK_WARNINGS_MAX);
    cr_expect_eq(r->n_more_warnings, CHECK_WARNINGS_MAX);
    drop(r, NULL);
}
