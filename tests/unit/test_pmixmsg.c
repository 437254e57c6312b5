#include <criterion/criterion.h>
#include <errno.h>

#include "store/base/pmixmsg.h"

static bool is(struct cc_bytes b, const char *text)
{
    return b.n == strlen(text) && memcmp(b.p, text, b.n) == 0;
}

Test(pmixmsg, says_what_was_put_and_no_sooner)
{
    const struct pmixmsg m = {
        .type = PMIXMSG_FENCE, .id = 70000, .number = -7, .text = cc_bytes_of("all-3"), .blob = cc_bytes_of("data"),
    };
    struct pmixmsg got;
    struct cc_buf  b = { .p = NULL };

    cr_assert_eq(pmixmsg_put(&b, &m), 0);
    cr_assert_eq(pmixmsg_put(&b, &m), 0);
    for (size_t n = 0; n < cc_buf_len(&b) / 2; n++)
        cr_assert_eq(pmixmsg_take(cc_buf_data(&b), n, &got), 0, "%zu bytes", n);
    cr_assert_eq(pmixmsg_take(cc_buf_data(&b), cc_buf_len(&b), &got), (ssize_t) cc_buf_len(&b) / 2);
    cr_assert(got.type == PMIXMSG_FENCE && got.id == 70000 && got.number == -7 && is(got.text, "all-3") && is(got.blob, "data"));
    cc_buf_free(&b);
}

Test(pmixmsg, refuses_what_is_no_message)
{
    static const uint8_t bad[][24] = {
        { 0 },                                     /* shorter than any */
        { 0xff, 0xff, 0xff, 0xff },                /* longer than any */
        { 13, 0, 0, 0, 0 },                        /* no type */
        { 13, 0, 0, 0, PMIXMSG_N_TYPES },
        { 13, 0, 0, 0, PMIXMSG_ENV, 0, 0, 0, 0, 0, 0, 0, 0, 1 }, /* a text that is longer than the message */
    };
    struct pmixmsg got;

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        cr_assert_eq(pmixmsg_take(bad[i], sizeof bad[i], &got), -EPROTO, "case %zu", i);
}
