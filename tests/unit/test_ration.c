#include <criterion/criterion.h>

#include "store/base/ration.h"

Test(ration, says_so_many_in_a_window_and_then_how_many_it_kept)
{
    struct cc_ration r = { 0 };
    unsigned         kept, n = 0;

    for (uint64_t now = 5000; now < 5000 + CC_RATION_WINDOW_MS; now += 100) {
        n += cc_ration_take(&r, now, &kept);
        cr_assert_eq(kept, 0);
    }
    cr_expect_eq(n, CC_RATION_MAX);
    cr_expect(cc_ration_take(&r, 5000 + CC_RATION_WINDOW_MS, &kept));
    cr_expect_eq(kept, CC_RATION_WINDOW_MS / 100 - CC_RATION_MAX);
}

Test(ration, what_was_said_long_ago_does_not_count)
{
    struct cc_ration r = { 0 };
    unsigned         kept;

    for (uint64_t now = 0; now < 100; now++) {
        cr_assert(cc_ration_take(&r, now * CC_RATION_WINDOW_MS / 10, &kept));
        cr_assert_eq(kept, 0);
    }
}
