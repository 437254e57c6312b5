#include <criterion/criterion.h>
#include <string.h>

#include "agent/core/ranklist.h"

Test(ranklist, joins_neighbours)
{
    unsigned ranks[] = { 0, 1, 2, 5, 7, 8 };
    char     buf[64];

    ranklist_format(ranks, 6, buf, sizeof buf);
    cr_assert_str_eq(buf, "0-2,5,7-8");
    ranklist_format(ranks, 1, buf, sizeof buf);
    cr_assert_str_eq(buf, "0");
    cr_assert_eq(ranklist_format(ranks, 0, buf, sizeof buf), 0);
    cr_assert_str_eq(buf, "");
}

Test(ranklist, cuts_between_ranges)
{
    unsigned ranks[500];
    char     buf[32];

    for (unsigned i = 0; i < 500; i++)
        ranks[i] = 2 * i;
    for (size_t n = 0; n <= 500; n++)
        cr_assert_eq(ranklist_format(ranks, n, buf, sizeof buf), strlen(buf));
    cr_assert_str_eq(buf, "0,2,4,6,8,10,12,14,16,18,20,...");
}
