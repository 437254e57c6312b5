#include "tests/unit/rdzv_game.h"

Test(rdzv, refuses_a_range_that_cannot_be)
{
    struct game   g;
    struct cc_err err;

    init(&g, 3, 2);
    cr_expect_null(rdzv_new(&g.cfg, 0, &ops, &g, &err));
    cr_expect_eq(err.code, -EINVAL);
    init(&g, 0, 2);
    cr_expect_null(rdzv_new(&g.cfg, 0, &ops, &g, &err));
    init(&g, 1, 10);
    cr_expect_null(rdzv_new(&g.cfg, 0, &ops, &g, &err));
}

Test(rdzv, starts_at_once_when_all_are_there)
{
    struct game g;

    form(&g, 2, 2, 2);
    cr_expect_eq(g.now, 1000);
    cr_expect(g.view[2].group_rank == 1 && g.view[2].base_rank == 2);
    cr_expect_eq(g.view[2].world, 4);
    cr_expect_str_eq(g.view[2].master, "10.0.0.1");
    cr_expect_eq(g.view[2].port, 29501);
    rdzv_free(g.r);
}

Test(rdzv, nobody_starts_before_the_store_has_changed)
{
    struct game g;

    init(&g, 2, 2);
    begin(&g);
    boot(&g, 1);
    boot(&g, 2);
    say(&g, 1, RDZV_NODE_READY, 1);
    say(&g, 2, RDZV_NODE_READY, 1);
    cr_expect_eq(status(&g).phase, RDZV_SWITCH);
    cr_expect(g.view[1].hosts_store && !g.view[2].hosts_store);
    say(&g, 1, RDZV_NODE_READY, 1); /* a heartbeat that knows nothing of it yet */
    cr_expect_eq(status(&g).phase, RDZV_SWITCH);
    obey(&g, 1);
    cr_expect_eq(g.view[2].phase, RDZV_ACTIVE);
    rdzv_free(g.r);
}

Test(rdzv, min_and_a_last_call_are_enough)
{
    struct game g;

    form(&g, 2, 4, 2);
    cr_expect_geq(g.now, 31000);
    cr_expect_eq(g.view[1].group_world, 2);
    rdzv_free(g.r);
}

Test(rdzv, the_schedulers_count_needs_no_last_call)
{
    struct game g;

    init(&g, 1, 4);
    g.cfg.expected = 2;
    begin(&g);
    boot(&g, 1);
    boot(&g, 2);
    obey_all(&g, 2);
    cr_expect_eq(g.view[2].phase, RDZV_ACTIVE);
    rdzv_free(g.r);
}

Test(rdzv, says_who_is_there_who_is_missing_and_for_how_long)
{
    struct game g;

    init(&g, 6, 6);
    g.host = "a-host-in-a-rack-far-away-";
    g.wish[1] = 0;
    g.wish[2] = 2;
    begin(&g);
    for (unsigned i = 1; i <= 5; i++)
        boot(&g, i);
    pass(&g, 1500);
    obey_all(&g, 5);
    cr_expect(g.view[1].n_ready == 5 && g.view[1].n_wanted == 6 && g.view[1].wait_ms == 598500);
    cr_expect_str_eq(g.view[1].have,
                     "a-host-in-a-rack-far-away-1, a-host-in-a-rack-far-away-2, a-host-in-a-rack-far-away-3 and 2 more");
    cr_expect_str_eq(g.view[1].missing, "1, 3, 4, 5");
    rdzv_free(g.r);
}

Test(rdzv, too_few_nodes_end_the_job_after_the_join_timeout)
{
    struct game g;

    init(&g, 2, 2);
    begin(&g);
    boot(&g, 1);
    live(&g, 1, 1, 600001);
    cr_expect_eq(g.view[1].phase, RDZV_ENDED);
    cr_expect_eq(g.view[1].cause.kind, RDZV_CAUSE_TIMEOUT);
    cr_expect_str_eq(g.view[1].cause.text, "1 of at least 2 nodes came in 600 s: compare --rdzv-endpoint (or --master-addr) "
                                              "on all nodes, and ask if a firewall closes its port");
    rdzv_free(g.r);
}

Test(rdzv, a_failure_restarts_all_when_their_workers_are_gone)
{
    struct game g;

    form(&g, 3, 3, 3);
    fail(&g, 2, 0, 1);
    for (unsigned i = 1; i <= 3; i++)
        cr_expect(g.view[i].phase == RDZV_GATHER && g.view[i].round == 2);
    say(&g, 1, RDZV_NODE_READY, 2);
    say(&g, 2, RDZV_NODE_READY, 2);
    live(&g, 1, 2, 2000);
    cr_expect_eq(status(&g).phase, RDZV_GATHER, "node 3 still has workers");
    say(&g, 3, RDZV_NODE_READY, 2);
    obey_all(&g, 3);
    for (unsigned i = 1; i <= 3; i++)
        cr_expect(g.view[i].phase == RDZV_ACTIVE && g.view[i].restarts == 1);
    rdzv_free(g.r);
}

Test(rdzv, ready_for_the_last_round_is_not_ready_for_this_one)
{
    struct game g;

    form(&g, 2, 2, 2);
    fail(&g, 1, 0, 1);
    say(&g, 2, RDZV_NODE_READY, 1); /* said before it heard that round 1 is active */
    say(&g, 1, RDZV_NODE_READY, 2);
    cr_expect_eq(status(&g).phase, RDZV_GATHER);
    cr_expect_eq(status(&g).n_ready, 1);
    rdzv_free(g.r);
}

Test(rdzv, a_late_word_does_not_make_a_node_alive)
{
    struct game       g;
    struct rdzv_hello old;

    form(&g, 1, 2, 2);
    old = hello_of(&g, 2, RDZV_NODE_RUNNING, 1);
    say(&g, 2, RDZV_NODE_RUNNING, 1);
    live(&g, 1, 1, 2000);
    send_hello(&g, 2, &old);
    live(&g, 1, 1, 1500);
    cr_expect_eq(status(&g).n_known, 1);
    rdzv_free(g.r);
}

Test(rdzv, the_first_failure_is_the_cause_whoever_tells_first)
{
    struct game g;

    form(&g, 3, 3, 3);
    g.now += 500;
    fail(&g, 1, 10, 134);
    fail(&g, 3, 20, 1);
    cr_expect_str_eq(status(&g).cause.host, "h3");
    rdzv_free(g.r);
}

Test(rdzv, without_a_restart_left_all_hear_the_same_cause)
{
    struct game g;

    init(&g, 2, 2);
    g.cfg.budget.max_restarts = 0;
    begin(&g);
    boot(&g, 1);
    boot(&g, 2);
    obey_all(&g, 2);
    g.now += 100;
    fail(&g, 1, 5, 134);
    fail(&g, 2, 50, 7);
    obey_all(&g, 2);
    for (unsigned i = 1; i <= 2; i++) {
        cr_expect_eq(g.view[i].phase, RDZV_ENDED);
        cr_expect_eq(g.view[i].cause.kind, RDZV_CAUSE_WORKER);
        cr_expect_eq(g.view[i].cause.code, 7);
        cr_expect_str_eq(g.view[i].cause.host, "h2");
    }
    rdzv_free(g.r);
}

Test(rdzv, a_node_that_cannot_stop_does_not_hide_the_end)
{
    struct game g;

    init(&g, 2, 2);
    g.cfg.budget.max_restarts = 0;
    begin(&g);
    boot(&g, 1);
    boot(&g, 2);
    obey_all(&g, 2);
    fail(&g, 1, 0, 7);
    for (unsigned i = 0; i < 5; i++) {
        say(&g, 1, RDZV_NODE_READY, 2);
        say(&g, 2, RDZV_NODE_RUNNING, 1);
        pass(&g, 1000);
    }
    cr_expect_eq(g.view[1].phase, RDZV_ENDED);
    rdzv_free(g.r);
}

Test(rdzv, the_same_failure_three_times_is_the_end)
{
    struct game g;

    init(&g, 2, 2);
    g.cfg.budget = (struct budget_cfg) { .max_restarts = 10, .quick = 5000, .same_max = 3 };
    begin(&g);
    boot(&g, 1);
    boot(&g, 2);
    obey_all(&g, 2);
    for (unsigned i = 0; i < 3; i++) {
        cr_expect_eq(g.view[1].phase, RDZV_ACTIVE);
        g.now += 100;
        fail(&g, 2, 0, 3);
        obey_all(&g, 2);
    }
    cr_expect_eq(g.view[1].cause.kind, RDZV_CAUSE_SAME);
    rdzv_free(g.r);
}

Test(rdzv, what_a_restart_cannot_help_is_not_tried_again)
{
    struct game       g;
    struct rdzv_hello h;

    form(&g, 2, 2, 2);
    h = hello_of(&g, 1, RDZV_NODE_FAILED, 1);
    h.has_cause = true;
    h.cause = (struct rdzv_cause) { .kind = RDZV_CAUSE_WORKER, .round = 1, .at = g.now, .code = 127, .is_final = true };
    send_hello(&g, 1, &h);
    obey_all(&g, 2);
    cr_expect_eq(g.view[2].phase, RDZV_ENDED);
    cr_expect_eq(g.view[2].cause.code, 127);
    rdzv_free(g.r);
}

Test(rdzv, a_backoff_holds_the_restart_back)
{
    struct game g;

    init(&g, 2, 2);
    g.cfg.budget.backoff_min = g.cfg.budget.backoff_max = 2000;
    begin(&g);
    boot(&g, 1);
    boot(&g, 2);
    obey_all(&g, 2);
    fail(&g, 2, 0, 3);
    obey_all(&g, 2);
    live(&g, 1, 2, 1900);
    cr_expect_eq(status(&g).phase, RDZV_GATHER);
    live(&g, 1, 2, 200);
    obey_all(&g, 2);
    cr_expect_eq(status(&g).phase, RDZV_ACTIVE);
    rdzv_free(g.r);
}

Test(rdzv, a_long_list_of_the_missing_is_cut_between_two_of_them)
{
    struct game g;

    init(&g, 6, 6);
    g.host = "a-rather-long-name-of-a-host-in-a-rack-";
    begin(&g);
    for (unsigned i = 1; i <= 6; i++)
        boot(&g, i);
    obey_all(&g, 6);
    for (unsigned i = 2; i <= 6; i++)
        crash(&g, i);
    pass(&g, 300);
    obey(&g, 1);
    cr_expect_str_eq(g.view[1].missing, "1 (a-rather-long-name-of-a-host-in-a-rack-2), "
                                        "2 (a-rather-long-name-of-a-host-in-a-rack-3) and 3 more");
    rdzv_free(g.r);
}

Test(rdzv, a_broken_connection_is_a_loss_after_a_short_grace)
{
    struct game g;

    form(&g, 1, 3, 3);
    crash(&g, 2);
    pass(&g, 299);
    cr_expect_eq(status(&g).phase, RDZV_ACTIVE);
    pass(&g, 1);
    cr_expect_eq(g.view[1].phase, RDZV_GATHER);
    cr_expect_eq(g.view[1].cause.kind, RDZV_CAUSE_LOST);
    cr_expect_str_eq(g.view[1].cause.host, "h2");
    cr_expect_str_eq(g.view[1].missing, "1 (h2)");
    obey(&g, 1);
    obey(&g, 3);
    obey(&g, 1);
    cr_expect(g.view[3].phase == RDZV_ACTIVE && g.view[3].group_rank == 1 && g.view[3].restarts == 0);
    rdzv_free(g.r);
}

Test(rdzv, who_reconnects_in_time_is_not_lost)
{
    struct game g;

    form(&g, 1, 2, 2);
    crash(&g, 2);
    pass(&g, 200);
    g.link[2] += 10;
    say(&g, 2, RDZV_NODE_RUNNING, 1);
    event(&g, (struct rdzv_event) { .kind = RDZV_EV_BROKEN, .link = g.link[2] - 10, .incarnation = g.incarnation[2] });
    pass(&g, 1000);
    cr_expect_eq(status(&g).phase, RDZV_ACTIVE);
    rdzv_free(g.r);
}

Test(rdzv, silence_is_a_loss)
{
    struct game g;

    form(&g, 1, 2, 2);
    live(&g, 1, 1, 2999);
    cr_expect_eq(g.view[1].phase, RDZV_ACTIVE);
    live(&g, 1, 1, 2);
    cr_expect_eq(g.view[1].phase, RDZV_GATHER);
    rdzv_free(g.r);
}

Test(rdzv, nobody_is_lost_because_we_were_away)
{
    struct game g;

    form(&g, 1, 2, 2);
    g.now += 60000; /* stopped; and what they said is read one by one */
    event(&g, (struct rdzv_event) { .kind = RDZV_EV_TICK });
    say(&g, 1, RDZV_NODE_RUNNING, 1);
    event(&g, (struct rdzv_event) { .kind = RDZV_EV_TICK });
    say(&g, 2, RDZV_NODE_RUNNING, 1);
    cr_expect_eq(status(&g).phase, RDZV_ACTIVE);
    cr_expect_eq(status(&g).n_known, 2);
    pass(&g, 4000);
    cr_expect_eq(status(&g).n_known, 0);
    rdzv_free(g.r);
}

Test(rdzv, what_fails_because_of_a_loss_costs_no_restart)
{
    struct game g;

    form(&g, 1, 3, 3);
    live(&g, 1, 3, 2000);
    g.now += 400; /* node 2 loses its power, and node 1 its connection to it */
    fail(&g, 1, 0, 1);
    for (unsigned i = 0; i < 2; i++) {
        obey(&g, 1);
        obey(&g, 3);
        pass(&g, 1000);
    }
    obey(&g, 1);
    cr_expect_eq(status(&g).phase, RDZV_ACTIVE);
    cr_expect_eq(status(&g).restarts, 0);
    cr_expect_eq(status(&g).rejoins, 1);
    rdzv_free(g.r);
}

Test(rdzv, a_loss_has_a_budget_of_its_own)
{
    struct game g;

    init(&g, 1, 3);
    g.cfg.max_rejoins = 0;
    begin(&g);
    for (unsigned i = 1; i <= 3; i++)
        boot(&g, i);
    obey_all(&g, 3);
    crash(&g, 2);
    pass(&g, 300);
    obey(&g, 1);
    obey(&g, 3);
    cr_expect_eq(g.view[1].phase, RDZV_ENDED);
    cr_expect_eq(g.view[1].cause.kind, RDZV_CAUSE_LOST);
    cr_expect_str_eq(g.view[1].cause.text, "node 1 was lost; --max-rejoins 0 is spent");
    rdzv_free(g.r);
}

Test(rdzv, a_replacement_takes_the_hole)
{
    struct game g;

    form(&g, 3, 3, 3);
    crash(&g, 2);
    pass(&g, 300);
    obey(&g, 1);
    obey(&g, 3);
    cr_expect_eq(status(&g).phase, RDZV_GATHER, "two of three");
    boot(&g, 4);
    g.view[2] = (struct rdzv_view) { .group_rank = RDZV_NO_RANK };
    obey_all(&g, 4);
    check_ranks(&g, "0 -1 2 1");
    rdzv_free(g.r);
}

Test(rdzv, a_fixed_set_does_not_wait_for_a_replacement)
{
    struct game g;

    init(&g, 2, 2);
    g.cfg.replace_timeout = 0;
    begin(&g);
    boot(&g, 1);
    boot(&g, 2);
    obey_all(&g, 2);
    crash(&g, 2);
    pass(&g, 300);
    obey(&g, 1);
    cr_expect_eq(g.view[1].phase, RDZV_ENDED);
    cr_expect_str_eq(g.view[1].cause.text, "node 1 was lost; 1 of at least 2 nodes are left");
    rdzv_free(g.r);
}

Test(rdzv, a_spare_is_told_and_takes_over)
{
    struct game g;

    form(&g, 2, 2, 3);
    cr_expect_eq(g.view[3].group_rank, RDZV_NO_RANK);
    crash(&g, 1);
    pass(&g, 300);
    obey(&g, 2);
    obey(&g, 3);
    obey(&g, 2);
    obey(&g, 3);
    cr_expect_eq(g.view[3].phase, RDZV_ACTIVE);
    cr_expect_eq(g.view[3].group_rank, 0);
    cr_expect_eq(g.view[2].group_rank, 1);
    cr_expect_str_eq(g.view[2].master, "10.0.0.3");
    rdzv_free(g.r);
}

Test(rdzv, newcomers_start_one_new_round)
{
    struct game g;

    form(&g, 1, 4, 2);
    boot(&g, 3);
    obey(&g, 3);
    say(&g, 3, RDZV_NODE_READY, 1);
    pass(&g, 200);
    boot(&g, 4);
    say(&g, 4, RDZV_NODE_READY, 1);
    pass(&g, 299);
    cr_expect_eq(g.view[1].round, 1);
    pass(&g, 1);
    cr_expect_eq(g.view[1].round, 2);
    obey_all(&g, 4);
    check_ranks(&g, "0 1 2 3");
    cr_expect_eq(g.view[1].restarts, 0);
    rdzv_free(g.r);
}

Test(rdzv, newcomers_wait_for_a_restart_when_told_so)
{
    struct game g;

    init(&g, 1, 3);
    g.cfg.scales_on_restart_only = true;
    g.cfg.expected = 2;
    begin(&g);
    boot(&g, 1);
    boot(&g, 2);
    obey_all(&g, 2);
    boot(&g, 3);
    say(&g, 3, RDZV_NODE_READY, 1);
    live(&g, 1, 3, 5000);
    cr_expect_eq(g.view[1].round, 1);
    fail(&g, 1, 0, 1);
    obey_all(&g, 3);
    check_ranks(&g, "0 1 2");
    rdzv_free(g.r);
}

Test(rdzv, the_job_ends_when_all_are_done)
{
    struct game g;

    form(&g, 2, 2, 2);
    say(&g, 1, RDZV_NODE_DONE, 1);
    say(&g, 1, RDZV_NODE_DONE, 1);
    cr_expect_eq(g.view[1].phase, RDZV_ACTIVE);
    say(&g, 2, RDZV_NODE_DONE, 1);
    for (unsigned i = 1; i <= 2; i++)
        cr_expect(g.view[i].phase == RDZV_ENDED && g.view[i].cause.kind == RDZV_CAUSE_NONE && g.view[i].cause.code == 0);
    rdzv_free(g.r);
}

Test(rdzv, the_job_ends_when_the_rest_is_lost)
{
    struct game g;

    form(&g, 1, 2, 2);
    say(&g, 1, RDZV_NODE_DONE, 1);
    crash(&g, 2);
    pass(&g, 300);
    cr_expect_eq(g.view[1].phase, RDZV_ENDED);
    cr_expect_eq(g.view[1].cause.kind, RDZV_CAUSE_NONE);
    rdzv_free(g.r);
    form(&g, 2, 2, 2); /* the same, where one alone is no job */
    say(&g, 1, RDZV_NODE_DONE, 1);
    crash(&g, 2);
    pass(&g, 300);
    cr_expect_eq(g.view[1].cause.kind, RDZV_CAUSE_LOST);
    cr_expect_eq(g.view[1].cause.code, RDZV_EXIT_AGAIN);
    rdzv_free(g.r);
}

Test(rdzv, who_is_done_works_again_after_a_failure_elsewhere)
{
    struct game g;

    form(&g, 2, 2, 2);
    say(&g, 1, RDZV_NODE_DONE, 1);
    fail(&g, 2, 0, 1);
    obey_all(&g, 2);
    cr_expect(g.view[1].phase == RDZV_ACTIVE && g.view[1].round == 2);
    rdzv_free(g.r);
}

Test(rdzv, a_node_that_leaves_is_not_waited_for)
{
    struct game g;

    form(&g, 1, 3, 3);
    say(&g, 2, RDZV_NODE_LEAVING, 1);
    obey(&g, 1);
    obey(&g, 3);
    obey(&g, 1);
    cr_expect(g.view[3].phase == RDZV_ACTIVE && g.view[3].group_rank == 1);
    cr_expect_eq(status(&g).restarts, 0);
    say(&g, 2, RDZV_NODE_GONE, 1);
    cr_expect_eq(status(&g).n_known, 2);
    rdzv_free(g.r);
}

Test(rdzv, the_job_ends_when_all_leave)
{
    struct game g;

    form(&g, 2, 2, 2);
    say(&g, 1, RDZV_NODE_LEAVING, 1);
    say(&g, 2, RDZV_NODE_LEAVING, 1);
    cr_expect_eq(g.view[2].phase, RDZV_ENDED);
    cr_expect_eq(g.view[2].cause.kind, RDZV_CAUSE_STOPPED);
    rdzv_free(g.r);
}

Test(rdzv, a_stuck_node_takes_no_further_part)
{
    struct game g;

    form(&g, 1, 2, 2);
    fail(&g, 2, 0, 137);
    obey(&g, 1);
    say(&g, 2, RDZV_NODE_STUCK, 1);
    obey(&g, 1);
    cr_expect(g.view[1].phase == RDZV_ACTIVE && g.view[1].group_world == 1);
    say(&g, 2, RDZV_NODE_STUCK, 1);
    live(&g, 1, 1, 5000);
    cr_expect_eq(g.view[1].round, 2);
    rdzv_free(g.r);
}

Test(rdzv, a_job_that_has_ended_refuses_everyone)
{
    struct game g;

    init(&g, 1, 3);
    g.cfg.own = 1001;
    begin(&g);
    boot(&g, 1);
    boot(&g, 2);
    obey_all(&g, 2);
    live(&g, 1, 2, g.cfg.last_call + 1);
    obey_all(&g, 2);
    boot(&g, 4);
    say(&g, 4, RDZV_NODE_READY, 1); /* a new round is due soon */
    say(&g, 1, RDZV_NODE_LEAVING, 1);
    cr_expect_eq(g.view[2].phase, RDZV_ENDED);
    boot(&g, 3);
    cr_expect_eq(g.refused[3].why, RDZV_REFUSED_ENDED);
    cr_expect_str_eq(g.refused[3].sentence, "the job has ended: the node that hosts the job was stopped");
    fail(&g, 1, 0, 1);
    pass(&g, 1000);
    cr_expect_eq(status(&g).phase, RDZV_ENDED);
    rdzv_free(g.r);
}

Test(rdzv, a_plan_that_differs_is_refused_with_both_values)
{
    struct game       g;
    struct rdzv_hello h;

    form(&g, 2, 2, 2);
    h = hello_of(&g, 3, RDZV_NODE_READY, 0);
    h.about.plan.max_nodes = 4;
    send_hello(&g, 3, &h);
    cr_expect_str_eq(g.refused[3].sentence, "--nnodes is 2 in the job and 2:4 on h3: give all nodes the same");
    h.about.plan.min_nodes = 4;
    send_hello(&g, 3, &h);
    cr_expect_str_eq(g.refused[3].sentence, "--nnodes is 2 in the job and 4 on h3: give all nodes the same");
    h.about.plan = g.cfg.plan;
    (void) snprintf(h.about.plan.program, sizeof h.about.plan.program, "eval.py");
    send_hello(&g, 3, &h);
    cr_expect_str_eq(g.refused[3].sentence,
                     "the program is 'train.py' in the job and 'eval.py' on h3: give all nodes the same");
    h.about.plan = g.cfg.plan;
    (void) snprintf(h.about.plan.version, sizeof h.about.plan.version, "2");
    send_hello(&g, 3, &h);
    cr_expect_str_eq(g.refused[3].sentence, "ccrun is 1 in the job and 2 on h3: use the same on all nodes");
    h.about.plan = g.cfg.plan;
    h.about.plan.arguments = 5;
    send_hello(&g, 3, &h);
    cr_expect(strstr(g.refused[3].sentence, "0000000000000005 on h3"));
    cr_expect_eq(status(&g).n_known, 2);
    rdzv_free(g.r);
}

Test(rdzv, a_node_rank_that_is_taken_names_its_holder)
{
    struct game g;

    init(&g, 2, 2);
    g.wish[1] = g.wish[3] = 0;
    g.wish[2] = 1;
    begin(&g);
    boot(&g, 1);
    boot(&g, 2);
    obey_all(&g, 2);
    boot(&g, 3);
    cr_expect_str_eq(g.refused[3].sentence, "", "the holder may be dead");
    live(&g, 1, 2, 2000);
    say(&g, 3, RDZV_NODE_READY, 0);
    cr_expect_eq(g.refused[3].why, RDZV_REFUSED_RANK);
    cr_expect_str_eq(g.refused[3].sentence, "node rank 0 is taken by h1 (process 4001), which is alive");
    rdzv_free(g.r);
}

Test(rdzv, a_node_that_comes_back_gets_its_rank_from_its_dead_self)
{
    struct game g;

    init(&g, 2, 2);
    g.wish[1] = 0;
    g.wish[2] = 1;
    begin(&g);
    boot(&g, 1);
    boot(&g, 2);
    obey_all(&g, 2);
    live(&g, 1, 1, 1000); /* the power of node 2 is gone */
    for (unsigned i = 0; i < 4; i++) {
        if (i == 0)
            boot(&g, 2);
        else
            say(&g, 2, RDZV_NODE_READY, g.view[2].round);
        obey(&g, 1);
        live(&g, 1, 1, 1000);
    }
    obey_all(&g, 2);
    cr_expect_str_eq(g.refused[2].sentence, "");
    check_ranks(&g, "0 1");
    cr_expect_eq(g.view[2].phase, RDZV_ACTIVE);
    rdzv_free(g.r);
}

Test(rdzv, who_is_forgotten_is_asked_who_it_is)
{
    struct game       g;
    struct rdzv_hello h;

    form(&g, 1, 2, 2);
    live(&g, 1, 1, 4000);
    h = hello_of(&g, 2, RDZV_NODE_RUNNING, 1);
    h.has_about = false;
    send_hello(&g, 2, &h);
    cr_expect(g.view[2].is_unknown);
    say(&g, 2, RDZV_NODE_RUNNING, 1);
    cr_expect(!g.view[2].is_unknown);
    cr_expect_eq(g.view[2].round, 2);
    rdzv_free(g.r);
}

Test(rdzv, what_comes_late_or_twice_changes_nothing)
{
    struct game       g;
    struct rdzv_hello old, twice;

    form(&g, 2, 2, 2);
    old = hello_of(&g, 1, RDZV_NODE_READY, 1);
    say(&g, 1, RDZV_NODE_RUNNING, 1);
    twice = hello_of(&g, 1, RDZV_NODE_DONE, 1);
    send_hello(&g, 1, &twice);
    send_hello(&g, 1, &twice);
    send_hello(&g, 1, &old);
    cr_expect_eq(status(&g).phase, RDZV_ACTIVE);
    rdzv_free(g.r);
}

Test(rdzv, a_preemption_notice_reaches_all)
{
    struct game       g;
    struct rdzv_hello h;

    form(&g, 2, 2, 2);
    h = hello_of(&g, 2, RDZV_NODE_RUNNING, 1);
    h.notice_ms = 60000;
    send_hello(&g, 2, &h);
    cr_expect_eq(g.view[1].notice_at, g.now + 60000);
    rdzv_free(g.r);
}

Test(rdzv, a_heartbeat_costs_one_view_however_many_nodes_there_are)
{
    struct game g;

    form(&g, 2, 9, 9);
    g.n_views = 0;
    say(&g, 4, RDZV_NODE_RUNNING, 1);
    cr_expect_eq(g.n_views, 1);
    g.n_views = 0;
    fail(&g, 4, 0, 1);
    cr_expect_eq(g.n_views, 9);
    rdzv_free(g.r);
}
