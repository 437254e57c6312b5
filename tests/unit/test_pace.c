#include <criterion/criterion.h>

#include "store/core/pace.h"

#define US ((uint64_t) 1000)

/* One turn: n events, all answered at once. */
static void turn(struct pace *p, uint64_t now, unsigned n)
{
    pace_events(p, now, n);
    (void) pace_is_held(p, now, n, 256);
    pace_done(p, now, n);
}

Test(pace, a_lone_answer_is_never_held)
{
    struct pace p = { 0 };

    for (uint64_t now = 1; now < 1000 * US; now += 10 * US) {
        pace_events(&p, now, 1);
        cr_assert_not(pace_is_held(&p, now, 1, 256));
        pace_done(&p, now, 1);
    }
}

Test(pace, in_a_crowd_answers_wait_until_nothing_more_comes)
{
    struct pace p = { 0 };

    turn(&p, 1, 40);
    pace_events(&p, 100 * US, 3);
    cr_assert(pace_is_held(&p, 100 * US, 3, 256));
    pace_events(&p, 107 * US, 3);
    cr_assert(pace_is_held(&p, 107 * US, 6, 256));
    cr_assert(pace_is_held(&p, 114 * US, 6, 256));
    cr_assert_not(pace_is_held(&p, 116 * US, 6, 256), "it is quiet");
}

Test(pace, a_hold_ends_however_much_comes)
{
    struct pace p = { 0 };
    uint64_t    now, start = 100 * US;

    turn(&p, 1, 40);
    for (now = start; now < start + 1000 * US; now += 5 * US) {
        pace_events(&p, now, 1);
        if (!pace_is_held(&p, now, 20, 256))
            break;
    }
    cr_assert_leq(now, start + 300 * US);
    pace_events(&p, now, 1);
    cr_assert_not(pace_is_held(&p, now, 64, 256), "a quarter of all is enough");
}

Test(pace, a_few_clients_are_no_crowd)
{
    struct pace p = { 0 };

    turn(&p, 1, 30);
    pace_events(&p, 10 * US, 8);
    cr_assert_not(pace_is_held(&p, 10 * US, 8, 32));
}

Test(pace, a_crowd_is_forgotten)
{
    struct pace p = { 0 };

    turn(&p, 1, 40);
    for (uint64_t i = 1; i <= 8; i++)
        turn(&p, i * 1000 * US, 1);
    pace_events(&p, 9000 * US, 1);
    cr_assert_not(pace_is_held(&p, 9000 * US, 1, 256));
}

Test(pace, after_quick_questions_it_looks_again_for_a_moment)
{
    struct pace p = { 0 };
    uint64_t    now = 1;

    for (unsigned i = 0; i < 4; i++, now += 30 * US) {
        turn(&p, now, 1);
        cr_assert_eq(pace_looks_again(&p, now), i == 3);
    }
    now -= 30 * US;
    cr_assert(pace_looks_again(&p, now + 49 * US));
    cr_assert_not(pace_looks_again(&p, now + 50 * US));
    cr_assert_not(pace_looks_again(&p, now + 51 * US));
}

Test(pace, slow_questions_are_slept_for)
{
    struct pace p = { 0 };

    for (uint64_t now = 1; now < 100000 * US; now += 60 * US) {
        turn(&p, now, 1);
        cr_assert_not(pace_looks_again(&p, now));
    }
}

/* A client that runs only when we sleep: its question comes right after each look in vain. */
Test(pace, looks_in_vain_become_rare)
{
    struct pace p = { 0 };
    uint64_t    now = 1;
    unsigned    n_vain = 0;

    for (unsigned i = 0; i < 20000; i++) {
        turn(&p, now, 1);
        if (pace_looks_again(&p, now)) {
            n_vain++;
            now += 50 * US;
            cr_assert_not(pace_looks_again(&p, now));
        }
        now += 14 * US;
    }
    cr_assert_leq(n_vain, 20);
}
