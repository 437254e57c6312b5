#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/macros.h"

static const struct macros_values values = {
    .local_rank = 3,
    .rank = 11,
    .world_size = 16,
    .local_world_size = 8,
    .group_rank = 1,
    .group_world_size = 2,
    .restart_count = 4,
    .run_id = "job-$7",
    .role = "trainer",
    .master_addr = "10.0.0.1",
    .master_port = 29500,
};

static void expect(const char *arg, const char *wanted)
{
    char *got = NULL;

    cr_assert_eq(macros_expand(arg, &values, &got), 0);
    cr_assert_str_eq(got, wanted, "'%s' became '%s', not '%s'", arg, got, wanted);
    free(got);
}

Test(macros, both_spellings_become_the_value)
{
    expect("--dev=$local_rank", "--dev=3");
    expect("out-${rank}-of-${world_size}.log", "out-11-of-16.log");
    expect("${local_rank}${local_rank}$rank", "3311");
    expect("$group_rank/$group_world_size/$local_world_size/$restart_count", "1/2/8/4");
    expect("$role@$master_addr:$master_port", "trainer@10.0.0.1:29500");
}

Test(macros, two_dollars_are_one_and_are_not_read_again)
{
    expect("ps -p $$", "ps -p $");
    expect("$$local_rank", "$local_rank");
    expect("$$$local_rank", "$3");
    expect("$run_id", "job-$7");
}

Test(macros, what_is_no_macro_stays_byte_for_byte)
{
    static const char *const same[] = {
        "",      "plain",  "$",        "a$",          "$1",           "${",
        "${}",   "$-",     "${1a}",    "$LOCAL_RANK", "$nothing",     "${nothing}",
        "$ {x}", "${rank", "${rank }", "$rankx",      "$local_rank_", "\xff$\xc3\xa4\n"
    };

    for (unsigned i = 0; i < sizeof same / sizeof same[0]; i++)
        expect(same[i], same[i]);
}

Test(macros, the_longest_name_counts)
{
    expect("$rank-", "11-");
    expect("$rank1", "$rank1");
    expect("${rank}1", "111");
    expect("$rank\xc3\xa4", "11\xc3\xa4"); /* only ASCII letters belong to a name */
}

Test(macros, a_long_argument_keeps_its_length)
{
    size_t size = 100 * 1024;
    char  *arg = malloc(size + 1);

    cr_assert_not_null(arg);
    memset(arg, 'x', size);
    arg[size] = '\0';
    expect(arg, arg);
    free(arg);
}
