#include <criterion/criterion.h>

#include "store/base/buf.h"

Test(buf, what_is_taken_from_the_front_leaves_the_rest_in_order)
{
    struct cc_buf b = { 0 };

    for (unsigned i = 0; i < 1000; i++) {
        uint8_t byte = (uint8_t) i;

        cr_assert_eq(cc_buf_add(&b, &byte, 1), 0);
        if (i % 3 == 2)
            cc_buf_drop(&b, 2);
    }
    cr_assert_eq(cc_buf_len(&b), 1000 - 2 * 333);
    for (unsigned i = 0; i < cc_buf_len(&b); i++)
        cr_assert_eq(cc_buf_data(&b)[i], (uint8_t) (666 + i));
    cr_assert_leq(b.cap, 1024);
    cc_buf_free(&b);
    cr_assert_null(b.p);
}

Test(buf, an_emptied_buffer_starts_over_in_the_same_memory)
{
    struct cc_buf b = { 0 };

    cr_assert_eq(cc_buf_add(&b, "abc", 3), 0);
    cc_buf_drop(&b, 3);
    cr_assert_eq(b.off, 0);
    cr_assert_eq(b.len, 0);
    cr_assert_gt(b.cap, 0);
    cc_buf_free(&b);
}
