#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "launcher/taskcount.h"
#include "store/base/macros.h"

static void expect(const char *text, const char *numbers)
{
    struct cc_err err = { 0 };
    unsigned      got[8];
    size_t        n = (strlen(numbers) + 1) / 2;
    bool          is_longer = true;

    cr_assert_eq(taskcount_parse("TASKS", text, got, n, &is_longer, &err), 0, "'%s': %s", text, err.msg);
    cr_assert_not(is_longer, "%s", text);
    for (size_t i = 0; i < n; i++)
        cr_assert_eq(got[i], (unsigned) (numbers[2 * i] - '0'), "'%s', node %zu", text, i);
}

static void refuse(const char *text, size_t n, const char *sentence)
{
    struct cc_err err = { 0 };
    unsigned      got[8];
    bool          is_longer;

    cr_expect_eq(taskcount_parse("TASKS", text, got, n, &is_longer, &err), -EINVAL, "'%s'", text);
    cr_expect_str_eq(err.msg, sentence, "'%s': %s", text, err.msg);
}

Test(taskcount, repeats_stand_for_nodes)
{
    expect("4(x2),3", "4 4 3");
    expect("2(x3),1", "2 2 2 1");
    expect("8", "8");
    expect("4(x2),3,2,1", "4 4 3 2 1");
}

Test(taskcount, a_list_for_more_nodes_is_taken_from_its_front)
{
    struct cc_err err = { 0 };
    unsigned      got[3];
    bool          is_longer = false;

    cr_assert_eq(taskcount_parse("TASKS", "4(x30)", got, 1, &is_longer, &err), 0);
    cr_assert_eq(got[0], 4);
    cr_assert(is_longer);
    cr_assert_eq(taskcount_parse("TASKS", "1,2,3,4", got, 3, &is_longer, &err), 0);
    cr_assert(is_longer);
    cr_assert_eq(got[2], 3);
}

Test(taskcount, anything_else_is_refused_at_its_position)
{
    refuse("4", 2, "TASKS '4' is for 1 node; there are 2");
    refuse("1(x4294967296)", 1, "TASKS '1(x4294967296)': position 4: a number of nodes, 1 to 65536, is wanted");
    refuse("4(x2", 2, "TASKS '4(x2': position 5: ')' is wanted");
    refuse("4(2)", 2, "TASKS '4(2)': position 3: 'x' is wanted, as in 4(x2)");
    refuse("4(x0)", 2, "TASKS '4(x0)': position 4: a number of nodes, 1 to 65536, is wanted");
    refuse("4,", 1, "TASKS '4,': position 3: a number is wanted");
    refuse("-1", 1, "TASKS '-1': position 1: a number is wanted");
    refuse("4 (x2)", 1, "TASKS '4 (x2)': position 2: ',' is wanted");
    refuse("x", 1, "TASKS 'x': position 1: a number is wanted");
    refuse("", 1, "TASKS '': position 1: a number is wanted");
    refuse("99999999999999999999999", 1, "TASKS '99999999999999999999999': position 1: the number is above 65536");
}

Test(taskcount, gpus_of_all_kinds_are_added_up)
{
    cr_assert_eq(taskcount_gpus("8"), 8);
    cr_assert_eq(taskcount_gpus("a100:8"), 8);
    cr_assert_eq(taskcount_gpus("a100:4,v100:2"), 6);
    cr_assert_eq(taskcount_gpus("gpu:a100:8"), 8);
    cr_assert_eq(taskcount_gpus(NULL), 0);
    cr_assert_eq(taskcount_gpus(""), 0);
    cr_assert_eq(taskcount_gpus("x"), 0);
    cr_assert_eq(taskcount_gpus("a100:4,x"), 0);
    cr_assert_eq(taskcount_gpus("99999999999"), 0);
}
