#include <criterion/criterion.h>
#include <string.h>

#include "agent/core/prefix.h"

static const struct prefix_vars vars = { .role_name = "trainer", .rank = 13, .local_rank = 5 };

static void expect(const char *template, const char *want)
{
    char got[PREFIX_MAX];

    cr_assert_eq(prefix_expand(got, template, &vars), strlen(want), "%s: '%s'", template, got);
    cr_assert_str_eq(got, want);
}

Test(prefix, knows_torchruns_three_names_with_and_without_braces)
{
    expect("[$role_name$local_rank/$rank]:", "[trainer5/13]:");
    expect("[${role_name}${local_rank}|${rank}] ", "[trainer5|13] ");
}

Test(prefix, leaves_what_it_does_not_know)
{
    expect("${foo} $foo $ranks ${rank $(rank) $9 $", "${foo} $foo $ranks ${rank $(rank) $9 $");
    expect("${} ${9} ${rank}}", "${} ${9} 13}");
}

Test(prefix, two_dollars_are_one)
{
    expect("$$rank $$$rank $$", "$rank $13 $");
}

Test(prefix, a_very_long_one_is_cut)
{
    char template[PREFIX_MAX * 2], got[PREFIX_MAX];

    memset(template, 'x', sizeof template - 1);
    template[sizeof template - 1] = '\0';
    cr_assert_eq(prefix_expand(got, template, &vars), PREFIX_MAX - 1);
}

Test(prefix, the_default_of_a_teed_line_is_torchruns)
{
    char got[PREFIX_MAX];

    (void) prefix_tee(got, NULL, &vars);
    cr_assert_str_eq(got, "[trainer5]:");
    (void) prefix_tee(got, "", &vars);
    cr_assert_str_eq(got, "[trainer5]:");
    (void) prefix_tee(got, "[rank${rank}]: ", &vars);
    cr_assert_str_eq(got, "[rank13]: ");
}

Test(prefix, a_label_is_the_rank)
{
    char got[PREFIX_MAX];

    (void) prefix_label(got, 3);
    cr_assert_str_eq(got, "[3] ");
}
