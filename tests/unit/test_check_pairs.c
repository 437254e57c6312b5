#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/check_pairs.h"

enum { MAX = 64, BLAMES = 32 };

struct world {
    unsigned n;
    double   cells[MAX * MAX];
};

/* Each unit sends and receives at its own speed, and a pair goes as fast as the slower end, give or take a tenth. */
static void make(struct world *w, unsigned n, const double *speed)
{
    unsigned noise = 7;

    w->n = n;
    for (unsigned a = 0; a < n; a++)
        for (unsigned b = 0; b < n; b++) {
            double v = speed[a] < speed[b] ? speed[a] : speed[b];

            noise = noise * 1103515245u + 12345u;
            w->cells[a * n + b] = a == b ? CHECK_UNTRIED : v * (0.9 + 0.2 * (noise >> 16 & 1023) / 1024);
        }
}

static void all_at(struct world *w, unsigned n, double speed)
{
    double speeds[MAX];

    for (unsigned i = 0; i < n; i++)
        speeds[i] = speed;
    make(w, n, speeds);
}

static void both(struct world *w, unsigned a, unsigned b, double v)
{
    w->cells[a * w->n + b] = w->cells[b * w->n + a] = v;
}

static const char *verdict(const struct world *w, double ratio)
{
    static char        line[512];
    static const char *names[] = { "broken", "broken way", "slow", "slow way" };
    struct check_blame blames[BLAMES];
    int                n = check_pairs_blame(w->cells, w->n, ratio, blames, BLAMES);
    size_t             at = 0;

    line[0] = '\0';
    for (int i = 0; i < n; i++) {
        at += (size_t) snprintf(line + at, sizeof line - at, "%s%s %u", i ? ", " : "", names[blames[i].kind], blames[i].a);
        if (blames[i].kind == CHECK_SLOW_WAY || blames[i].kind == CHECK_BROKEN_WAY)
            at += (size_t) snprintf(line + at, sizeof line - at, "%s%u", blames[i].is_both ? "<>" : ">", blames[i].b);
    }
    return line;
}

Test(check_pairs, in_a_tournament_everyone_meets_everyone_once)
{
    for (unsigned n = 0; n <= MAX; n++) {
        unsigned met[MAX][MAX] = { { 0 } };

        cr_assert_eq(check_pairs_rounds(n), n < 2 ? 0 : n % 2 == 0 ? n - 1 : n);
        for (unsigned r = 0; r < check_pairs_rounds(n); r++)
            for (unsigned u = 0; u < n; u++) {
                int v = check_pairs_partner(n, r, u);

                cr_assert(v != (int) u && v < (int) n);
                cr_assert(v >= 0 || n % 2 == 1, "somebody rests only where the number is odd");
                if (v < 0)
                    continue;
                cr_assert_eq(check_pairs_partner(n, r, (unsigned) v), (int) u);
                met[u][v]++;
            }
        for (unsigned u = 0; u < n; u++)
            for (unsigned v = 0; v < n; v++)
                cr_assert_eq(met[u][v], u != v, "%u and %u of %u", u, v, n);
    }
    cr_expect_eq(check_pairs_partner(4, 3, 0), -1);
    cr_expect_eq(check_pairs_partner(4, 0, 4), -1);
    cr_expect_eq(check_pairs_partner(1, 0, 0), -1);
}

Test(check_pairs, nobody_is_blamed_for_noise)
{
    struct world w;

    for (unsigned n = 1; n <= MAX; n++) {
        all_at(&w, n, 10);
        cr_expect_str_eq(verdict(&w, 0.5), "", "of %u", n);
    }
}

Test(check_pairs, a_slow_unit_is_named_and_its_partners_are_not)
{
    struct world w;

    for (unsigned n = 3; n <= MAX; n++)
        for (unsigned slow = 0; slow < n; slow += n / 3) {
            double speed[MAX];
            char   want[32];

            for (unsigned i = 0; i < n; i++)
                speed[i] = i == slow ? 2 : 10;
            make(&w, n, speed);
            (void) snprintf(want, sizeof want, "slow %u", slow);
            cr_expect_str_eq(verdict(&w, 0.5), want, "of %u", n);
            cr_expect_str_eq(verdict(&w, 0.1), "", "of %u, and a fifth is good enough", n);
        }
}

Test(check_pairs, what_a_slow_unit_did_and_what_is_usual_are_told)
{
    struct check_blame b;
    struct world       w;
    double             speed[] = { 10, 10, 1, 10 };

    make(&w, 4, speed);
    cr_assert_eq(check_pairs_blame(w.cells, 4, 0.5, &b, 1), 1);
    cr_expect(b.kind == CHECK_SLOW_UNIT && b.a == 2);
    cr_expect(b.value > 0.8 && b.value < 1.2);
    cr_expect(b.reference > 8 && b.reference < 12);
}

Test(check_pairs, several_slow_units_are_all_named)
{
    struct world w;
    double       speed[] = { 10, 1, 10, 10, 1, 10, 2, 10 };

    make(&w, 8, speed);
    cr_expect_str_eq(verdict(&w, 0.5), "slow 1, slow 4, slow 6");
}

Test(check_pairs, a_unit_that_only_sends_slowly_is_named_too)
{
    struct world w;

    all_at(&w, 6, 10);
    for (unsigned v = 0; v < 6; v++)
        if (v != 4)
            w.cells[4 * 6 + v] = 1;
    cr_expect_str_eq(verdict(&w, 0.5), "slow 4");
    all_at(&w, 6, 10);
    for (unsigned v = 0; v < 6; v++)
        if (v != 1)
            w.cells[v * 6 + 1] = 1;
    cr_expect_str_eq(verdict(&w, 0.5), "slow 1");
}

Test(check_pairs, one_slow_way_between_good_units_is_nobodys_fault)
{
    struct world w;

    all_at(&w, 6, 10);
    both(&w, 1, 4, 2);
    cr_expect_str_eq(verdict(&w, 0.5), "slow way 1<>4");
    all_at(&w, 6, 10);
    w.cells[4 * 6 + 1] = 2;
    cr_expect_str_eq(verdict(&w, 0.5), "slow way 4>1");
}

Test(check_pairs, of_two_only_the_direction_can_be_told)
{
    struct world w;

    all_at(&w, 2, 10);
    w.cells[1] = 1;
    cr_expect_str_eq(verdict(&w, 0.5), "slow way 0>1");
    both(&w, 0, 1, 1);
    cr_expect_str_eq(verdict(&w, 0.5), "");
}

Test(check_pairs, a_wide_spread_is_a_property_of_the_network)
{
    struct world w;
    double       speed[] = { 2, 3, 4, 5, 6, 7, 8, 9 };

    make(&w, 8, speed);
    cr_expect(strstr(verdict(&w, 0.5), "slow 1") == NULL);
}

Test(check_pairs, who_cannot_be_reached_is_named_once)
{
    struct world w;

    all_at(&w, 5, 10);
    for (unsigned v = 0; v < 5; v++)
        if (v != 3)
            both(&w, 3, v, CHECK_BROKEN);
    cr_expect_str_eq(verdict(&w, 0.5), "broken 3");
    both(&w, 0, 1, CHECK_BROKEN);
    cr_expect_str_eq(verdict(&w, 0.5), "broken 3, broken way 0>1");
}

Test(check_pairs, few_units_have_no_usual_spread)
{
    struct world w = { .n = 3, .cells = { CHECK_UNTRIED, 0.3, 0.72, 0.41, CHECK_UNTRIED, 0.4, 0.013, 0.013, CHECK_UNTRIED } };

    cr_expect_str_eq(verdict(&w, 0.2), "slow 2");
}

Test(check_pairs, the_worse_of_sending_and_receiving_is_told)
{
    struct check_blame b;
    struct world       w;

    all_at(&w, 5, 10);
    for (unsigned v = 0; v < 5; v++)
        if (v != 2) {
            w.cells[2 * 5 + v] = 1;
            w.cells[v * 5 + 2] = 2;
        }
    cr_assert_eq(check_pairs_blame(w.cells, 5, 0.5, &b, 1), 1);
    cr_expect(b.a == 2 && b.value < 1.5);
    for (unsigned v = 0; v < 5; v++)
        if (v != 2)
            w.cells[2 * 5 + v] = 3;
    cr_assert_eq(check_pairs_blame(w.cells, 5, 0.5, &b, 1), 1);
    cr_expect(b.value > 1.5 && b.value < 2.5);
}

Test(check_pairs, the_ways_of_a_slow_unit_are_explained)
{
    struct world w;
    double       speed[] = { 10, 10, 2, 10, 10 };

    make(&w, 5, speed);
    both(&w, 2, 4, 0.2);
    cr_expect_str_eq(verdict(&w, 0.5), "slow 2");
}

Test(check_pairs, a_unit_that_reaches_most_others_is_not_broken)
{
    struct world w;

    all_at(&w, 6, 10);
    both(&w, 0, 1, CHECK_BROKEN);
    w.cells[2 * 6 + 0] = CHECK_BROKEN; /* one end has noticed */
    cr_expect_str_eq(verdict(&w, 0.5), "broken way 0>1, broken way 0>2");
}

Test(check_pairs, one_way_that_is_cut_blames_no_unit)
{
    struct world w;

    all_at(&w, 3, 10);
    both(&w, 0, 2, CHECK_BROKEN);
    cr_expect_str_eq(verdict(&w, 0.5), "broken way 0>2");
    all_at(&w, 2, 10);
    both(&w, 0, 1, CHECK_BROKEN);
    cr_expect_str_eq(verdict(&w, 0.5), "broken way 0>1");
}

Test(check_pairs, a_few_rounds_of_many_are_enough)
{
    static struct world all, some;
    double              speed[MAX];

    for (unsigned i = 0; i < MAX; i++)
        speed[i] = i == 17 || i == 40 ? 3 : 10;
    make(&all, MAX, speed);
    some.n = MAX;
    for (unsigned i = 0; i < MAX * MAX; i++)
        some.cells[i] = CHECK_UNTRIED;
    for (unsigned r = 0; r < 4; r++)
        for (unsigned u = 0; u < MAX; u++) {
            unsigned v = (unsigned) check_pairs_partner(MAX, r, u);

            some.cells[u * MAX + v] = all.cells[u * MAX + v];
        }
    cr_expect_str_eq(verdict(&some, 0.5), "slow 17, slow 40");
}

Test(check_pairs, there_is_a_bound_on_what_is_told)
{
    struct check_blame b[2];
    struct world       w;

    all_at(&w, 6, 10);
    both(&w, 0, 1, CHECK_BROKEN);
    both(&w, 2, 3, CHECK_BROKEN);
    both(&w, 4, 5, CHECK_BROKEN);
    cr_expect_eq(check_pairs_blame(w.cells, 6, 0.5, b, 2), 2);
}
