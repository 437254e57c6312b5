#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "launcher/check_sizes.h"
#include "store/base/macros.h"

static const char *parsed(const char *text)
{
    static char        line[1024];
    struct check_sizes s = { .n = 0 };
    struct cc_err      err = { 0 };
    size_t             n = 0;

    if (check_sizes_parse(text, &s, &err) < 0) {
        cr_expect_eq(s.n, 0, "a refused list leaves the old one");
        (void) snprintf(line, sizeof line, "%s", err.msg);
        return line;
    }
    line[0] = '\0';
    for (unsigned i = 0; i < s.n; i++)
        n += (size_t) snprintf(line + n, sizeof line - n, "%s%llu", i ? " " : "", (unsigned long long) s.bytes[i]);
    return line;
}

Test(check_sizes, reads_sizes_and_ranges)
{
    cr_expect_str_eq(parsed("8"), "8");
    cr_expect_str_eq(parsed("8:64"), "8 16 32 64");
    cr_expect_str_eq(parsed("8:64:8"), "8 64");
    cr_expect_str_eq(parsed("8:100:4"), "8 32 100");
    cr_expect_str_eq(parsed("1K,1M"), "1024 1048576");
    cr_expect_str_eq(parsed("8:32,32:64,1M"), "8 16 32 64 1048576");
    cr_expect_str_eq(parsed("1023"), "1020");
    cr_expect_str_eq(parsed("1T"), "1099511627776");
}

Test(check_sizes, names_what_is_wrong)
{
    cr_expect_str_eq(parsed("x"), "'x' is not a size such as 8, 64K or 1G");
    cr_expect_str_eq(parsed("8:y"), "'y' is not a size such as 8, 64K or 1G");
    cr_expect_str_eq(parsed("8:64:1"), "'1' is not a factor from 2 to 1024 between sizes");
    cr_expect_str_eq(parsed("8:64:2:2"), "'2:2' is not a factor from 2 to 1024 between sizes");
    cr_expect_str_eq(parsed("64:8"), "the range '64:8' falls");
    cr_expect_str_eq(parsed("64,8"), "sizes must rise, and 8 comes after 64");
    cr_expect_str_eq(parsed("0"), "a message of '0' bytes is not within 4 bytes and 1T");
    cr_expect_str_eq(parsed("2T"), "a message of '2T' bytes is not within 4 bytes and 1T");
    cr_expect_str_eq(parsed(""), "a size is missing; it is SIZE, MIN:MAX or MIN:MAX:FACTOR,...");
    cr_expect_str_eq(parsed("8,"), "a size is missing; it is SIZE, MIN:MAX or MIN:MAX:FACTOR,...");
    cr_expect(strstr(parsed("4444444444444444444444444444444444444444444444444444444444444444444444444444"),
                     "too long") != NULL);
}

Test(check_sizes, has_a_bound)
{
    char   text[1024];
    size_t n = 0;

    for (unsigned i = 1; i <= CHECK_SIZES_MAX + 1; i++)
        n += (size_t) snprintf(text + n, sizeof text - n, "%s%u", i > 1 ? "," : "", 4 * i);
    cr_expect_str_eq(parsed(text), "more than 64 sizes");
}
