#include <criterion/criterion.h>

#include "launcher/fanout_tree.h"

Test(fanout_tree, as_many_connections_as_hosts_up_to_a_number)
{
    cr_expect_eq(fanout_tree_share(0, 64), 1);
    cr_expect_eq(fanout_tree_share(1, 64), 1);
    cr_expect_eq(fanout_tree_share(64, 64), 1);
    cr_expect_eq(fanout_tree_share(2, 1), 2);
}

/* Never more connections than were wanted, and no more levels than it takes. */
Test(fanout_tree, above_it_stretches_are_about_as_long_as_there_are)
{
    for (unsigned n = 65; n <= 100000; n += n < 200 ? 1 : 97) {
        unsigned share = fanout_tree_share(n, 64), n_lines = (n + share - 1) / share;

        cr_assert_leq(n_lines, 64, "%u hosts: %u stretches of %u", n, n_lines, share);
        cr_assert(n > 64 * 64 || share <= 65, "%u hosts: %u stretches of %u", n, n_lines, share);
    }
    cr_expect_eq(fanout_tree_share(100, 64), 10);
    cr_expect_eq(fanout_tree_share(10000, 64), 157);
}
