/* How a job ends, and what a restart cannot help: the rules of the coordinator beyond the rounds themselves. */
#include "tests/unit/rdzv_game.h"

static void pair(struct game *g)
{
    begin(g);
    boot(g, 1);
    boot(g, 2);
    obey_all(g, 2);
    cr_assert_eq(status(g).phase, RDZV_ACTIVE);
}

static void say_first_done(struct game *g, unsigned node, uint64_t at)
{
    struct rdzv_hello h = hello_of(g, node, RDZV_NODE_RUNNING, g->view[node].round);

    h.first_done = at;
    send_hello(g, node, &h);
}

Test(rdzv_end, who_is_not_done_in_time_after_the_first_ends_the_job)
{
    struct game g;

    init(&g, 2, 2);
    g.cfg.finish_timeout = 5000;
    pair(&g);
    say_first_done(&g, 1, g.now);
    live(&g, 1, 2, 2000);
    say(&g, 1, RDZV_NODE_DONE, 1);
    live(&g, 2, 2, 2900);
    cr_expect_eq(status(&g).phase, RDZV_ACTIVE);
    say(&g, 1, RDZV_NODE_DONE, 1);
    pass(&g, 200);
    cr_expect_eq(g.view[2].phase, RDZV_ENDED);
    cr_expect_eq(g.view[2].cause.kind, RDZV_CAUSE_UNFINISHED);
    cr_expect_eq(g.view[2].cause.code, RDZV_EXIT_UNFINISHED);
    cr_expect_str_eq(g.view[2].cause.host, "h2");
    cr_expect_str_eq(g.view[2].cause.text,
                     "workers on 1 of 2 nodes still run 5 s after the first was done (--finish-timeout)");
    rdzv_free(g.r);
}

Test(rdzv_end, the_time_to_finish_is_that_of_one_round)
{
    struct game g;

    init(&g, 2, 2);
    g.cfg.finish_timeout = 5000;
    pair(&g);
    say_first_done(&g, 1, g.now);
    fail(&g, 2, 0, 3);
    obey_all(&g, 2);
    cr_expect_eq(status(&g).phase, RDZV_ACTIVE);
    live(&g, 1, 2, 9000);
    cr_expect_eq(status(&g).phase, RDZV_ACTIVE);
    rdzv_free(g.r);
    init(&g, 2, 2); /* and without the option there is time for ever */
    pair(&g);
    say_first_done(&g, 1, g.now);
    live(&g, 1, 2, 9000);
    cr_expect_eq(status(&g).phase, RDZV_ACTIVE);
    rdzv_free(g.r);
}

Test(rdzv_end, what_a_node_says_last_of_its_failure_counts)
{
    struct game       g;
    struct rdzv_hello h;

    init(&g, 2, 2);
    g.cfg.budget.max_restarts = 0;
    pair(&g);
    fail(&g, 2, 0, 134);
    cr_expect_eq(status(&g).phase, RDZV_GATHER, "more may be known when all workers are gone");
    h = hello_of(&g, 2, RDZV_NODE_READY, 2);
    h.has_cause = true;
    h.cause = (struct rdzv_cause) { .round = 1, .at = g.now, .rank = 4, .code = 7, .text = "exit code 7" };
    send_hello(&g, 2, &h);
    obey(&g, 1);
    cr_expect_eq(g.view[1].phase, RDZV_ENDED);
    cr_expect_eq(g.view[1].cause.code, 7);
    cr_expect_str_eq(g.view[1].cause.text, "exit code 7");
    rdzv_free(g.r);
}

Test(rdzv_end, the_host_takes_the_job_with_it)
{
    struct game g;

    init(&g, 1, 3);
    g.cfg.own = 1001;
    begin(&g);
    for (unsigned i = 1; i <= 3; i++)
        boot(&g, i);
    obey_all(&g, 3);
    say(&g, 2, RDZV_NODE_LEAVING, 1); /* any other may go */
    cr_expect_eq(status(&g).phase, RDZV_GATHER);
    obey_all(&g, 3);
    say(&g, 1, RDZV_NODE_LEAVING, 2);
    for (unsigned i = 1; i <= 3; i += 2) {
        cr_expect_eq(g.view[i].phase, RDZV_ENDED);
        cr_expect_eq(g.view[i].cause.kind, RDZV_CAUSE_STOPPED);
        cr_expect_eq(g.view[i].cause.code, RDZV_EXIT_AGAIN);
        cr_expect_str_eq(g.view[i].cause.text, "the node that hosts the job was stopped");
    }
    rdzv_free(g.r);
}

/* The others would start workers, and start them again as soon as the successor is there. */
Test(rdzv_end, a_host_with_a_successor_may_go_and_begins_no_round_before)
{
    struct game g;

    init(&g, 1, 3);
    g.cfg.own = 1001;
    g.cfg.has_successor = true;
    begin(&g);
    for (unsigned i = 1; i <= 3; i++)
        boot(&g, i);
    obey_all(&g, 3);
    say(&g, 1, RDZV_NODE_LEAVING, 1);
    cr_expect_eq(status(&g).phase, RDZV_GATHER);
    say(&g, 2, RDZV_NODE_READY, 2);
    say(&g, 3, RDZV_NODE_READY, 2);
    cr_expect_eq(status(&g).n_ready, 2);
    cr_expect_eq(status(&g).phase, RDZV_GATHER, "its own workers still end");
    cr_expect_gt(rdzv_deadline(g.r), g.now, "it does not ask again and again");
    say(&g, 1, RDZV_NODE_GONE, 1);
    cr_expect_eq(status(&g).phase, RDZV_GATHER);
    rdzv_free(g.r);
}

Test(rdzv_end, a_failure_that_was_the_end_comes_before_a_stop_of_the_host)
{
    struct game g;

    init(&g, 1, 1);
    g.cfg.own = 1001;
    g.cfg.budget.max_restarts = 0;
    begin(&g);
    boot(&g, 1);
    obey_all(&g, 1);
    fail(&g, 1, 0, 3);
    say(&g, 1, RDZV_NODE_LEAVING, 1);
    cr_expect_eq(g.view[1].cause.kind, RDZV_CAUSE_WORKER);
    cr_expect_eq(g.view[1].cause.code, 3);
    rdzv_free(g.r);
}

Test(rdzv_end, who_stopped_the_job_is_named_though_a_worker_had_failed_before)
{
    struct game g;

    form(&g, 1, 1, 1);
    fail(&g, 1, 0, 3); /* would have been restarted */
    say(&g, 1, RDZV_NODE_LEAVING, 1);
    cr_expect_eq(g.view[1].phase, RDZV_ENDED);
    cr_expect_eq(g.view[1].cause.kind, RDZV_CAUSE_STOPPED);
    cr_expect_str_eq(g.view[1].cause.host, "h1");
    cr_expect_str_eq(g.view[1].cause.text, "the node was stopped");
    cr_expect_eq(g.view[1].cause.code, RDZV_EXIT_AGAIN);
    rdzv_free(g.r);
}

Test(rdzv_end, a_node_that_cannot_end_its_workers_is_named_when_too_few_are_left)
{
    struct game g;

    init(&g, 2, 2);
    g.cfg.replace_timeout = 0;
    pair(&g);
    say(&g, 2, RDZV_NODE_STUCK, 1);
    obey_all(&g, 1);
    cr_expect_eq(g.view[1].phase, RDZV_ENDED);
    cr_expect_eq(g.view[1].cause.kind, RDZV_CAUSE_LOST);
    cr_expect_str_eq(g.view[1].cause.host, "h2");
    cr_expect_str_eq(g.view[1].cause.text, "a process outlived SIGKILL; 1 of at least 2 nodes are left");
    rdzv_free(g.r);
}

/* A spare that is there takes the rank of who is lost as soon as the survivors are ready: nobody waits for another. */
Test(rdzv_end, a_spare_takes_over_as_soon_as_the_loss_is_seen)
{
    struct game g;
    uint64_t    from;

    form(&g, 2, 2, 2);
    boot(&g, 3);
    obey_all(&g, 3);
    cr_expect_eq(g.view[3].group_rank, RDZV_NO_RANK);
    from = g.now;
    crash(&g, 2);
    pass(&g, g.cfg.reset_grace);
    obey_all(&g, 3);
    cr_expect_eq(g.view[3].phase, RDZV_ACTIVE);
    cr_expect_eq(g.view[3].group_rank, 1);
    cr_expect_eq(g.view[1].group_rank, 0);
    cr_expect_leq(g.now - from, 2000);
    rdzv_free(g.r);
}

Test(rdzv_end, a_worker_of_an_older_round_does_not_start_the_time_to_finish)
{
    struct game       g;
    struct rdzv_hello h;

    init(&g, 2, 2);
    g.cfg.finish_timeout = 5000;
    pair(&g);
    h = hello_of(&g, 1, RDZV_NODE_READY, 1); /* said before it saw that the round is active */
    h.first_done = g.now - 50;
    send_hello(&g, 1, &h);
    live(&g, 1, 2, 9000);
    cr_expect_eq(status(&g).phase, RDZV_ACTIVE);
    rdzv_free(g.r);
}

Test(rdzv_end, what_is_told_after_the_end_does_not_change_its_cause)
{
    struct game       g;
    struct rdzv_hello h;

    init(&g, 2, 2);
    g.cfg.own = 1001;
    pair(&g);
    fail(&g, 2, 0, 3);
    say(&g, 1, RDZV_NODE_LEAVING, 1); /* before it is known whether that was the first failure */
    cr_assert_eq(status(&g).phase, RDZV_ENDED);
    h = hello_of(&g, 2, RDZV_NODE_LEAVING, 1);
    h.has_cause = true;
    h.cause = (struct rdzv_cause) { .round = 1, .at = g.now, .code = 7, .text = "exit code 7" };
    send_hello(&g, 2, &h);
    cr_expect_eq(status(&g).cause.kind, RDZV_CAUSE_STOPPED);
    cr_expect_eq(status(&g).cause.code, RDZV_EXIT_AGAIN);
    rdzv_free(g.r);
}
