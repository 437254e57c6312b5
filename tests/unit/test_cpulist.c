#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "launcher/cpulist.h"

static void round_trip(const char *text, const char *wanted)
{
    cpu_set_t set;
    char      buf[256];

    cr_assert_eq(cpulist_parse(text, &set), 0, "%s", text);
    cr_assert_str_eq(cpulist_format(&set, buf, sizeof buf), wanted);
}

Test(cpulist, reads_and_writes_the_kernel_s_lists)
{
    round_trip("0-3,8,10-11\n", "0-3,8,10-11");
    round_trip("", "");
    round_trip("\n", "");
    round_trip("7", "7");
    round_trip("3,1,2", "1-3");
    round_trip(" 0 , 2 ", "0,2");
    round_trip("0-1023", "0-1023");
    round_trip("1022-4000000", "1022-1023"); /* what the set cannot hold is left out */
    round_trip("0,", "0");
}

Test(cpulist, anything_else_is_refused)
{
    static const char *const bad[] = { "x", "-", "1-", "-1", "3-1", "1,,2", "1 2", "1-2-3", "0x3", "1;2" };
    cpu_set_t                set;

    for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        cr_assert_eq(cpulist_parse(bad[i], &set), -EINVAL, "%s", bad[i]);
        cr_assert_eq(CPU_COUNT(&set), 0);
    }
}

Test(cpulist, a_short_buffer_ends_in_dots_at_an_item)
{
    cpu_set_t set;
    char      buf[256];

    cr_assert_eq(cpulist_parse("0,2,4,6,8", &set), 0);
    for (size_t size = sizeof ",..."; size < 16; size++) {
        cpulist_format(&set, buf, size);
        cr_assert_lt(strlen(buf), size);
    }
    cr_assert_str_eq(cpulist_format(&set, buf, 9), "0,2,...");
}

Test(cpulist, next_walks_the_set)
{
    cpu_set_t set;

    cr_assert_eq(cpulist_parse("2,5,1023", &set), 0);
    cr_assert_eq(cpulist_next(&set, -1), 2);
    cr_assert_eq(cpulist_next(&set, 2), 5);
    cr_assert_eq(cpulist_next(&set, 5), 1023);
    cr_assert_eq(cpulist_next(&set, 1023), -1);
}
