#include <criterion/criterion.h>
#include <string.h>

#include "agent/core/tail.h"

static void expect(const char *in, size_t len, size_t step, unsigned max_lines, const char *want)
{
    char        buf[32], out[34];
    struct tail t;

    tail_init(&t, buf, sizeof buf);
    for (size_t i = 0; i < len; i += step)
        tail_put(&t, in + i, len - i < step ? len - i : step);
    cr_assert_eq(tail_text(&t, out, max_lines), strlen(want), "step %zu: '%s'", step, out);
    cr_assert_str_eq(out, want, "step %zu: '%s'", step, out);
}

Test(tail, keeps_the_last_whole_lines_however_they_come)
{
    static const char in[] = "line one\nline two\nline three\nline four\nline five";

    for (size_t step = 1; step <= sizeof in; step++) {
        expect(in, sizeof in - 1, step, 20, "line three\nline four\nline five\n");
        expect(in, sizeof in - 1, step, 1, "line five\n");
    }
}

Test(tail, what_fits_is_whole)
{
    for (size_t step = 1; step <= 4; step++) {
        expect("a\nb\n", 4, step, 20, "a\nb\n");
        expect("", 0, step, 20, "");
        expect("12345678901234567890123456789\nz\n", 32, step, 20, "12345678901234567890123456789\nz\n");
    }
}

Test(tail, a_line_longer_than_the_memory_is_shown_from_its_middle)
{
    expect("123456789012345678901234567890123456789012345678901234567890", 60, 7, 20,
           "90123456789012345678901234567890\n");
}

Test(tail, of_a_progress_bar_the_last_state_stays)
{
    expect("\r10%\r20%\r\nbad\r\n", 15, 3, 20, "20%\nbad\n");
}

Test(tail, is_a_string_whatever_the_worker_wrote)
{
    expect("a\0b\n", 4, 2, 20, "a b\n");
}
