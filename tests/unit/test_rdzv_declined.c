#include "tests/unit/rdzv_game.h"

/* Its first word, and its last: with why. */
static void say_no(struct game *g, unsigned node)
{
    struct rdzv_hello h;

    g->incarnation[node] += 1000;
    g->link[node] += 10;
    h = hello_of(g, node, RDZV_NODE_GONE, 0);
    h.has_cause = true;
    h.cause = (struct rdzv_cause) { .kind = RDZV_CAUSE_LOST, .rank = RDZV_NO_RANK, .code = 127, .text = "no x.py" };
    send_hello(g, node, &h);
}

Test(rdzv_declined, a_node_that_cannot_take_part_ends_a_job_that_needs_it)
{
    struct game g;

    init(&g, 3, 3);
    begin(&g);
    boot(&g, 1);
    say_no(&g, 2);
    cr_expect_eq(g.view[1].phase, RDZV_ENDED);
    cr_expect_eq(g.view[1].cause.code, 127);
    cr_expect_str_eq(g.view[1].cause.host, "h2");
    cr_expect_str_eq(g.view[1].cause.text, "no x.py");
    boot(&g, 3); /* it comes late, and is told the same */
    cr_expect_eq(g.view[3].phase, RDZV_ENDED);
    cr_expect_eq(g.view[3].cause.code, 127);
    cr_expect_eq(status(&g).n_over, 2);
    (void) rdzv_free(g.r);
}

Test(rdzv_declined, a_job_that_can_go_on_without_a_node_does_not_wait_for_it)
{
    struct game g;

    init(&g, 2, 3);
    begin(&g);
    boot(&g, 1);
    say_no(&g, 3);
    cr_expect_eq(g.view[1].phase, RDZV_GATHER);
    boot(&g, 2);
    obey_all(&g, 2);
    cr_expect_eq(g.view[1].phase, RDZV_ACTIVE);
    cr_expect_eq(g.view[1].group_world, 2);
    say_no(&g, 4); /* an active job does not care */
    cr_expect_eq(status(&g).n_over, 1);
    cr_expect_eq(g.view[1].phase, RDZV_ACTIVE);
    (void) rdzv_free(g.r);
}

Test(rdzv_declined, a_spare_makes_up_for_a_node_that_cannot_take_part)
{
    struct game g;

    init(&g, 2, 2);
    g.cfg.n_spares = 1;
    begin(&g);
    boot(&g, 1);
    say_no(&g, 2);
    cr_expect_eq(g.view[1].phase, RDZV_GATHER);
    say_no(&g, 3);
    cr_expect_eq(g.view[1].phase, RDZV_ENDED);
    (void) rdzv_free(g.r);
}

Test(rdzv_declined, the_host_of_a_job_cannot_leave_it_to_the_others)
{
    struct game g;

    init(&g, 1, 3);
    g.cfg.own = 1001;
    begin(&g);
    say_no(&g, 1);
    boot(&g, 2);
    cr_expect_eq(g.view[2].phase, RDZV_ENDED);
    cr_expect_eq(g.view[2].cause.code, 127);
    (void) rdzv_free(g.r);
}

Test(rdzv_declined, whoever_has_another_plan_has_no_say_in_this_job)
{
    struct game g;

    init(&g, 2, 2);
    begin(&g);
    boot(&g, 1);
    g.cfg.plan.arguments++;
    say_no(&g, 2);
    cr_expect_eq(g.view[1].phase, RDZV_GATHER);
    cr_expect_eq(g.refused[2].why, RDZV_REFUSED_PLAN);
    (void) rdzv_free(g.r);
}

Test(rdzv_declined, a_node_that_is_started_again_and_again_is_one)
{
    struct game g;

    init(&g, 2, 4);
    begin(&g);
    boot(&g, 1);
    g.wish[2] = 3;
    say_no(&g, 2);
    say_no(&g, 2);
    say_no(&g, 2);
    cr_expect_eq(g.view[1].phase, RDZV_GATHER);
    cr_expect_eq(status(&g).n_over, 1);
    g.wish[3] = 2;
    say_no(&g, 3);
    g.wish[4] = 1;
    say_no(&g, 4);
    cr_expect_eq(g.view[1].phase, RDZV_ENDED);
    (void) rdzv_free(g.r);
}

Test(rdzv_declined, what_comes_twice_counts_once)
{
    struct game g;

    init(&g, 2, 3);
    begin(&g);
    boot(&g, 1);
    say_no(&g, 2);
    g.incarnation[2] -= 1000; /* the same message again */
    say_no(&g, 2);
    cr_expect_eq(g.view[1].phase, RDZV_GATHER);
    (void) rdzv_free(g.r);
}

Test(rdzv_declined, who_comes_after_all_is_expected_again)
{
    struct game g;

    init(&g, 2, 3);
    begin(&g);
    boot(&g, 1);
    g.wish[2] = 1;
    say_no(&g, 2);
    g.wish[3] = 2;
    boot(&g, 2);
    say_no(&g, 3);
    obey_all(&g, 2);
    cr_expect_eq(g.view[1].phase, RDZV_ACTIVE);
    (void) rdzv_free(g.r);
}

Test(rdzv_declined, too_few_are_left_when_one_of_the_others_goes)
{
    struct game g;

    init(&g, 2, 4);
    g.cfg.expected = 2;
    begin(&g);
    boot(&g, 1);
    boot(&g, 2);
    say_no(&g, 3);
    cr_expect_neq(g.view[1].phase, RDZV_ENDED, "two are there, and two are enough");
    (void) rdzv_free(g.r);
    init(&g, 3, 4);
    g.cfg.expected = 4;
    begin(&g);
    for (unsigned i = 1; i <= 3; i++)
        boot(&g, i);
    obey_all(&g, 3);
    say_no(&g, 4);
    say_no(&g, 5);
    cr_expect_eq(g.view[1].phase, RDZV_SWITCH, "the three are all that are left");
    crash(&g, 1);
    pass(&g, g.cfg.reset_grace);
    cr_expect_eq(g.view[2].phase, RDZV_ENDED);
    cr_expect_eq(g.view[2].cause.code, 127);
    (void) rdzv_free(g.r);
}
