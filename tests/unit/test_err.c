#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "store/base/err.h"

Test(err, wrap_puts_the_context_first)
{
    struct cc_err err = { 0 };

    cr_assert_eq(cc_fail(&err, -ENOENT, "exec '%s'", "train"), -ENOENT);
    cr_assert_eq(cc_wrap(&err, "start rank %d", 3), -ENOENT);
    cr_assert_str_eq(err.msg, "start rank 3: exec 'train'");
}

Test(err, a_long_sentence_is_cut_in_the_middle_and_stays_a_string)
{
    struct cc_err err = { 0 };
    char          word[2 * CC_ERR_MSG_MAX];

    memset(word, 'x', sizeof word - 1);
    word[sizeof word - 1] = '\0';
    cr_assert_eq(cc_fail(&err, -EINVAL, "'%s': no such file", word), -EINVAL);
    cr_assert_eq(strlen(err.msg), CC_ERR_MSG_MAX - 1);
    cr_assert_eq(strncmp(err.msg, "'xx", 3), 0);
    cr_assert_str_eq(err.msg + strlen(err.msg) - strlen("xx': no such file"), "xx': no such file");
    cr_assert_not_null(strstr(err.msg, "xx ... xx"));
}
