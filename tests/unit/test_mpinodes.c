#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>

#include "agent/core/mpinodes.h"

static int make(struct mpinodes *m, uint32_t n, const char *const *text, uint32_t world)
{
    struct cc_bytes lines[16];
    struct cc_err   err = { 0 };
    int             r;

    for (uint32_t i = 0; i < n; i++)
        lines[i] = cc_bytes_of(text[i]);
    r = mpinodes_make(m, lines, n, world, &err);
    cr_assert(r == 0 || err.msg[0]);
    return r;
}

#define SAYS(fn, m, wanted) \
    do { \
        struct cc_buf b_ = { .p = NULL }; \
        cr_assert_eq(fn(m, &b_), 0); \
        cr_assert_str_eq((const char *) cc_buf_data(&b_), wanted); \
        cc_buf_free(&b_); \
    } while (0)

Test(mpinodes, tells_who_lives_where)
{
    static const char *const lines[] = { "2 a-0", "2 b-1", "3 c-2", "2 d-3" };
    static const uint32_t    nodes[] = { 0, 0, 1, 1, 2, 2, 2, 3, 3 };
    struct mpinodes          m;

    cr_assert_eq(make(&m, 4, lines, 9), 0);
    for (uint32_t rank = 0; rank < 9; rank++)
        cr_assert_eq(mpinodes_of(&m, rank), nodes[rank]);
    SAYS(mpinodes_vector, &m, "(vector,(0,2,2),(2,1,3),(3,1,2))");
    SAYS(mpinodes_hosts, &m, "a-0,b-1,c-2,d-3");
    SAYS(mpinodes_ranks, &m, "0,1;2,3;4,5,6;7,8");
    mpinodes_clear(&m);
}

Test(mpinodes, reads_what_it_says)
{
    char            line[MPINODES_LINE_MAX];
    const char     *lines[1] = { line };
    struct mpinodes m;

    mpinodes_say(line, "gpu,17;x y.cluster", 3, 8);
    cr_assert_str_eq(line, "8 gpu-17-x-y.cluster-3");
    cr_assert_eq(make(&m, 1, lines, 8), 0);
    mpinodes_clear(&m);
}

Test(mpinodes, refuses_a_world_that_does_not_add_up)
{
    static const char *const bad[][2] = {
        { "2 a", "1 b" }, { "2 a", "3 b" }, { "2 a", "2" }, { "2 a", "x b" }, { "4 a", "0 b" }, { "2 a", "" },
        { "2 a", "2 b,c" }, { "4294967295 a", "5 b" }, { "2 a", "2  b" },
    };
    struct mpinodes m;

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        cr_assert_eq(make(&m, 2, bad[i], 4), -EPROTO, "case %zu", i);
}
