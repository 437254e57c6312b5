#include <criterion/criterion.h>

#include "launcher/near.h"
#include "store/base/macros.h"

static const char *nearest(const char *word)
{
    static const char *const known[] = { "join_timeout", "close_timeout", "timeout", "rank", "log-dir" };
    struct near              n;
    size_t                   i;

    near_start(&n, word);
    for (i = 0; i < CC_COUNT(known); i++)
        near_try(&n, known[i]);
    return n.best;
}

Test(near, finds_a_typo)
{
    cr_assert_str_eq(nearest("join_timout"), "join_timeout");
    cr_assert_str_eq(nearest("jion_timeout"), "join_timeout");
    cr_assert_str_eq(nearest("LOG_DIR"), "log-dir");
    cr_assert_str_eq(nearest("rnak"), "rank");
    cr_assert_str_eq(nearest("timeouts"), "timeout");
}

Test(near, says_nothing_when_nothing_is_near)
{
    cr_assert_null(nearest("backend"));
    cr_assert_null(nearest(""));
    cr_assert_null(nearest("xy"));
    cr_assert_null(nearest("a_word_that_is_much_too_long_to_be_the_name_of_anything_here"));
}
