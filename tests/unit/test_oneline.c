#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "launcher/oneline.h"

Test(oneline, no_control_character_reaches_a_person)
{
    char          text[16] = "a\nb\x1b[c";
    struct cc_err err;

    oneline_text(text, sizeof text);
    cr_assert_str_eq(text, "a\\nb\\x1b[c");
    (void) cc_fail(&err, -EINVAL, "bad: '%s'", "x\ry");
    cr_assert_eq(oneline_err(&err, -EINVAL), -EINVAL);
    cr_assert_str_eq(err.msg, "bad: 'x\\ry'");
}

Test(oneline, what_grows_too_long_is_cut)
{
    char text[16] = "\n\n\n\n\n\n\n\n\n\n";

    oneline_text(text, sizeof text);
    cr_assert_lt(strlen(text), sizeof text);
    cr_assert_not_null(strstr(text, "..."));
}
