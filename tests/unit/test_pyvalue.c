#include <criterion/criterion.h>
#include <errno.h>
#include <math.h>
#include <string.h>

#include "store/base/macros.h"
#include "store/base/pyvalue.h"

Test(pyvalue, an_int_is_what_python_takes_for_one)
{
    static const struct {
        const char *text;
        int         r;
        int64_t     n;
    } cases[] = {
        { "0", 0, 0 },
        { "5", 0, 5 },
        { "-10", 0, -10 },
        { "+7", 0, 7 },
        { " 3\n", 0, 3 },
        { "1_0", 0, 10 },
        { "007", 0, 7 },
        { "9223372036854775807", 0, INT64_MAX },
        { "-9223372036854775808", 0, INT64_MIN },
        { "9223372036854775808", -ERANGE, 0 },
        { "-9223372036854775809", -ERANGE, 0 },
        { "99999999999999999999999999", -ERANGE, 0 },
        { "", -EINVAL, 0 },
        { " ", -EINVAL, 0 },
        { "-", -EINVAL, 0 },
        { "- 1", -EINVAL, 0 },
        { "_1", -EINVAL, 0 },
        { "1_", -EINVAL, 0 },
        { "1__0", -EINVAL, 0 },
        { "0x10", -EINVAL, 0 },
        { "1.0", -EINVAL, 0 },
        { "1 0", -EINVAL, 0 },
        { "a", -EINVAL, 0 },
        { "0a", -EINVAL, 0 },
        { "3b", -EINVAL, 0 },
        { "abc", -EINVAL, 0 },
    };
    size_t i;

    for (i = 0; i < CC_COUNT(cases); i++) {
        int64_t n = 0;
        int     r = pyvalue_int(cases[i].text, &n);

        cr_expect_eq(r, cases[i].r, "'%s': %d", cases[i].text, r);
        cr_expect_eq(n, cases[i].n, "'%s'", cases[i].text);
    }
}

Test(pyvalue, a_float_is_what_python_takes_for_one)
{
    static const struct {
        const char *text;
        double      x;
    } good[] = { { "0.1", 0.1 },     { "1e-3", 0.001 }, { " 5 ", 5 },      { "1_0.2_5", 10.25 },
                 { ".5", 0.5 },      { "5.", 5 },       { "-1E+2", -100 }, { "-Infinity", -INFINITY },
                 { "inf", INFINITY } };
    static const char *const bad[] = { "",   ".",  "e1",  "1e",      "1e+", "0x1p3", "1s",    "1._5",
                                       "_1", "1_", "1,5", "infinit", "1 2", "--1",   "nan(1)" };
    double                   x;
    size_t                   i;

    for (i = 0; i < CC_COUNT(good); i++) {
        cr_expect_eq(pyvalue_float(good[i].text, &x), 0, "%s", good[i].text);
        cr_expect_eq(x, good[i].x, "%s: %g", good[i].text, x);
    }
    cr_assert_eq(pyvalue_float("NaN", &x), 0);
    cr_assert(isnan(x));
    for (i = 0; i < CC_COUNT(bad); i++)
        cr_expect_eq(pyvalue_float(bad[i], &x), -EINVAL, "%s", bad[i]);
}

Test(pyvalue, what_is_a_long_int_is_a_float_too)
{
    static char text[4303];
    int64_t     n;
    double      x;

    memset(text, '0', 4299);
    strcpy(text + 4299, "7");
    cr_expect_eq(pyvalue_int(text, &n), 0);
    cr_expect_eq(n, 7);
    cr_expect_eq(pyvalue_float(text, &x), 0);
    cr_expect_eq(x, 7);
    strcat(text, "7");
    cr_expect_eq(pyvalue_int(text, &n), -EINVAL);
    cr_expect_eq(pyvalue_float(text, &x), -EINVAL);
}

Test(pyvalue, quotes_and_escapes_are_those_of_repr)
{
    char buf[32];

    cr_assert_str_eq(pyvalue_repr("x", buf, sizeof buf), "'x'");
    cr_assert_str_eq(pyvalue_repr("it's", buf, sizeof buf), "\"it's\"");
    cr_assert_str_eq(pyvalue_repr("'\"", buf, sizeof buf), "'\\'\"'");
    cr_assert_str_eq(pyvalue_repr("a\nb\\\x01", buf, sizeof buf), "'a\\nb\\\\\\x01'");
    cr_assert_str_eq(pyvalue_repr("0123456789012345678901234567890123456789", buf, sizeof buf),
                     "'01234567890123456789012345...'");
    cr_assert_eq(strlen(buf), sizeof buf - 1);
}
