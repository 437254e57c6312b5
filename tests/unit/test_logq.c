#include <criterion/criterion.h>
#include <string.h>

#include "agent/core/logq.h"

Test(logq, gives_back_the_bytes_in_order_however_they_are_taken)
{
    char        buf[16], out[1000];
    size_t      n_in = 0, n_out = 0, n;
    struct logq q;

    logq_init(&q, buf, sizeof buf);
    for (unsigned i = 0; n_in < sizeof out; i++) {
        size_t      add = i % 7, take = i % 5;
        const char *p;

        for (; add > 0 && logq_room(&q) > 0 && n_in < sizeof out; add--, n_in++)
            logq_put(&q, &(char){ (char) n_in }, 1);
        p = logq_peek(&q, &n);
        if (take > n)
            take = n;
        memcpy(out + n_out, p, take);
        n_out += take;
        logq_consume(&q, take);
    }
    memcpy(out + n_out, logq_peek(&q, &n), logq_used(&q));
    cr_assert_eq(n_out + n, sizeof out);
    for (size_t i = 0; i < sizeof out; i++)
        cr_assert_eq(out[i], (char) i);
}

Test(logq, an_empty_one_starts_at_the_front_again)
{
    char        buf[16];
    struct logq q;

    logq_init(&q, buf, sizeof buf);
    logq_put(&q, "0123456789", 10);
    logq_consume(&q, 10);
    cr_assert_eq(q.tail, 0);
    cr_assert_eq(logq_room(&q), sizeof buf);
}

Test(logq, moves_what_is_queued_to_make_room)
{
    char        buf[16];
    size_t      n;
    struct logq q;

    logq_init(&q, buf, sizeof buf);
    logq_put(&q, "0123456789", 10);
    logq_consume(&q, 8);
    logq_fill(&q, 'x', 14);
    cr_assert_eq(memcmp(logq_peek(&q, &n), "89xxxxxxxxxxxxxx", 16), 0);
    cr_assert_eq(n, 16);
}
