#include <criterion/criterion.h>
#include <string.h>

#include "agent/core/plaintext.h"

static const char *line(const char *text, size_t size)
{
    static char buf[256];

    plaintext_line(buf, size, text, strlen(text));
    return buf;
}

Test(plaintext, printable_text_passes)
{
    cr_assert_str_eq(line("a\tb \xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", 256),
                     "a\tb \xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80");
    cr_assert_str_eq(line("", 8), "");
}

Test(plaintext, control_characters_and_bad_bytes_are_spelled_out)
{
    cr_assert_str_eq(line("\x1b[31mred\nx\r\x7f", 256), "\\x1b[31mred\\nx\\r\\x7f");
    cr_assert_str_eq(line("\xff\xc3", 256), "\\xff\\xc3");
    cr_assert_str_eq(line("\xc2\x9b"
                          "2J",
                          256),
                     "\\xc2\\x9b2J"); /* C1's CSI */
}

Test(plaintext, overlong_forms_surrogates_and_the_beyond_are_no_utf8)
{
    cr_assert_eq(plaintext_utf8("\xc0\x80", 2), 0);
    cr_assert_eq(plaintext_utf8("\xe0\x80\x80", 3), 0);
    cr_assert_eq(plaintext_utf8("\xed\xa0\x80", 3), 0);
    cr_assert_eq(plaintext_utf8("\xf4\x90\x80\x80", 4), 0);
    cr_assert_eq(plaintext_utf8("\xf0\x9f\x98", 3), 0);
    cr_assert_eq(plaintext_utf8("", 0), 0);
}

Test(plaintext, what_does_not_fit_is_cut_at_a_character_and_marked)
{
    cr_assert_str_eq(line("1234567", 8), "1234567");
    cr_assert_str_eq(line("12345678", 8), "1234...");
    cr_assert_str_eq(line("123\xc3\xa9\xc3\xa9", 8), "123\xc3\xa9\xc3\xa9");
    cr_assert_str_eq(line("123\xc3\xa9\xc3\xa9.", 8), "123...");
}

Test(plaintext, tail_counts_a_last_line_without_newline)
{
    unsigned n;

    cr_assert_str_eq(plaintext_tail("a\nb\nc\n", 2, &n), "b\nc\n");
    cr_assert_eq(n, 2);
    cr_assert_str_eq(plaintext_tail("a\nb\nc", 2, &n), "b\nc");
    cr_assert_str_eq(plaintext_tail("a\nb", 5, &n), "a\nb");
    cr_assert_eq(n, 2);
    cr_assert_str_eq(plaintext_tail("", 5, &n), "");
    cr_assert_eq(n, 0);
    cr_assert_str_eq(plaintext_tail("\n\n", 1, &n), "\n");
    cr_assert_eq(n, 1);
}

Test(plaintext, of_a_progress_bar_only_its_last_state_is_shown)
{
    const char *bar = " 1%\r 2%\r 3%\r";
    size_t      len = strlen(bar);
    const char *p = plaintext_after_cr(bar, &len);

    cr_assert_eq(len, 3);
    cr_assert(strncmp(p, " 3%", 3) == 0);
}
