#include <criterion/criterion.h>
#include <signal.h>

#include "agent/core/node.h"

enum { CODE_3 = 3 << 8 };

struct log {
    struct node   node;
    unsigned      n, n_starts, n_signals, n_stuck, n_ended;
    int           signum;
    unsigned      code_by_clock; /* what attempt_ended says */
    bool          is_unstartable;
    enum node_end how; /* the last attempt ended */
};

static void on_start(void *ctx)
{
    struct log *l = ctx;
    unsigned    i;

    l->n_starts++;
    for (i = 0; i < l->n; i++)
        node_started(&l->node);
    if (l->is_unstartable)
        node_cannot_start(&l->node, 1000, 127);
}

static void on_signal(void *ctx, int signum)
{
    struct log *l = ctx;

    l->n_signals++;
    l->signum = signum;
}

static void on_sweep(void *ctx, int signum)
{
    (void) ctx, (void) signum;
}

static unsigned on_attempt_ended(void *ctx)
{
    return ((struct log *) ctx)->code_by_clock;
}

static void on_news(void *ctx, enum node_news news, int arg)
{
    (void) arg;
    ((struct log *) ctx)->n_stuck += news == NODE_STUCK;
}

static void on_ended(void *ctx, enum node_end how)
{
    struct log *l = ctx;

    l->n_ended++;
    l->how = how;
}

static const struct node_ops ops = { on_start, on_signal, on_sweep, on_attempt_ended, on_news, on_ended };

static void start(struct log *l, unsigned n)
{
    const struct node_cfg cfg = { .term_grace = 30000, .kill_grace = 5000, .sweep_grace = 2000 };

    l->n = n;
    node_init(&l->node, &cfg, &ops, l);
    node_next(&l->node, 1000);
}

static bool has_ended(const struct log *l, enum node_end how)
{
    return l->n_ended == 1 && l->how == how;
}

static void exit_all(struct log *l, uint64_t now, int status)
{
    unsigned i;

    for (i = 0; i < l->n; i++)
        (void) node_exited(&l->node, now, status, false);
}

Test(node, is_done_when_all_have_ended_well_and_nothing_is_left)
{
    struct log l = { 0 };

    start(&l, 2);
    exit_all(&l, 2000, 0);
    node_settle(&l.node, 2000, false, true);
    cr_assert_eq(l.n_ended, 0, "a daemon lives");
    node_settle(&l.node, 2100, true, true);
    cr_assert(has_ended(&l, NODE_END_DONE) && l.n_starts == 1);
}

Test(node, starts_again_when_it_is_told_to_and_forgets_the_failure_of_before)
{
    struct log l = { 0 };

    start(&l, 1);
    exit_all(&l, 2000, CODE_3);
    node_settle(&l.node, 2000, true, true);
    cr_assert(has_ended(&l, NODE_END_FAILED) && l.n_starts == 1);
    node_next(&l.node, 2500);
    cr_assert_eq(l.n_starts, 2);
    exit_all(&l, 3000, 0);
    node_settle(&l.node, 3000, true, true);
    cr_assert(l.n_ended == 2 && l.how == NODE_END_DONE && l.n_starts == 2);
}

Test(node, takes_the_code_of_the_failure_that_was_first_by_its_own_clock)
{
    struct log l = { .code_by_clock = 9 };

    start(&l, 2);
    (void) node_exited(&l.node, 2000, CODE_3, false);
    cr_assert_eq(l.signum, SIGTERM);
    (void) node_exited(&l.node, 2010, 9 << 8, false);
    cr_assert_eq(l.node.policy.failure_code, 3);
    node_settle(&l.node, 2010, true, true);
    cr_assert(has_ended(&l, NODE_END_FAILED) && l.node.policy.failure_code == 9);
}

Test(node, ends_when_not_one_worker_could_be_started)
{
    struct log l = { .is_unstartable = true, .code_by_clock = 9 };

    start(&l, 0);
    node_settle(&l.node, 1000, true, true);
    cr_assert(has_ended(&l, NODE_END_FAILED) && l.n_starts == 1);
    cr_assert(l.node.policy.failure_code == 127 && l.node.policy.is_final);
}

Test(node, ends_when_not_one_worker_of_a_later_attempt_could_be_started)
{
    struct log l = { 0 };

    start(&l, 1);
    exit_all(&l, 2000, CODE_3);
    node_settle(&l.node, 2000, true, true);
    l.n = 0;
    l.is_unstartable = true;
    node_next(&l.node, 2500);
    node_settle(&l.node, 2500, true, true);
    cr_assert(l.n_ended == 2 && l.how == NODE_END_FAILED && l.node.policy.failure_code == 127);
}

Test(node, halts_once_and_takes_what_fails_of_it_for_no_failure)
{
    struct log l = { 0 };

    start(&l, 2);
    node_halt(&l.node, 2000);
    node_halt(&l.node, 2001);
    cr_assert(l.n_signals == 1 && l.signum == SIGTERM);
    exit_all(&l, 2010, CODE_3);
    node_settle(&l.node, 2010, true, true);
    cr_assert(has_ended(&l, NODE_END_HALTED));
    node_next(&l.node, 3000);
    exit_all(&l, 4000, 0);
    node_settle(&l.node, 4000, true, true);
    cr_assert(l.n_ended == 2 && l.how == NODE_END_DONE, "the next attempt was not halted");
}

Test(node, has_failed_all_the_same_when_it_is_halted_later)
{
    struct log l = { 0 };

    start(&l, 2);
    (void) node_exited(&l.node, 2000, CODE_3, false);
    node_halt(&l.node, 2001);
    cr_assert_eq(l.n_signals, 1, "the signal is out already");
    (void) node_exited(&l.node, 2010, SIGTERM, false);
    node_settle(&l.node, 2010, true, true);
    cr_assert(has_ended(&l, NODE_END_FAILED) && l.node.policy.failure_code == 3);
}

Test(node, has_nothing_to_halt_before_the_first_attempt_and_after_one)
{
    struct log            l = { .n = 1 };
    const struct node_cfg cfg = { .term_grace = 30000, .kill_grace = 5000, .sweep_grace = 2000 };

    node_init(&l.node, &cfg, &ops, &l);
    node_halt(&l.node, 900);
    node_next(&l.node, 1000);
    exit_all(&l, 2000, 0);
    node_settle(&l.node, 2000, true, true);
    node_halt(&l.node, 2100);
    cr_assert(has_ended(&l, NODE_END_DONE) && l.n_signals == 0);
}

Test(node, waits_with_the_end_while_a_death_by_sigterm_is_held)
{
    struct log l = { 0 };

    start(&l, 1);
    exit_all(&l, 2000, SIGTERM);
    node_settle(&l.node, 2000, true, true);
    cr_assert(l.n_ended == 0 && node_deadline(&l.node) == 2000 + POLICY_TERM_HOLD_MS);
    cr_assert(node_tick(&l.node, 2000 + POLICY_TERM_HOLD_MS));
    node_settle(&l.node, 2000 + POLICY_TERM_HOLD_MS, true, true);
    cr_assert(has_ended(&l, NODE_END_FAILED) && l.node.policy.failure_code == 128 + SIGTERM);
}

Test(node, holds_no_death_of_an_attempt_against_the_next)
{
    const struct node_cfg cfg = { .kill_grace = 5000, .sweep_grace = 2000 };
    struct log            l = { .n = 2 };

    node_init(&l.node, &cfg, &ops, &l);
    node_next(&l.node, 1000);
    (void) node_exited(&l.node, 2000, SIGTERM, false);
    node_halt(&l.node, 2010);
    (void) node_tick(&l.node, 2010); /* there is no time to end by SIGTERM */
    (void) node_exited(&l.node, 2011, SIGKILL, false);
    node_settle(&l.node, 2011, true, true);
    cr_assert(has_ended(&l, NODE_END_HALTED));
    node_next(&l.node, 2020);
    cr_assert_eq(node_deadline(&l.node), UINT64_MAX);
    cr_assert_not(node_tick(&l.node, 2000 + POLICY_TERM_HOLD_MS));
}

Test(node, waits_for_a_console_that_nobody_reads_and_calls_nobody_stuck)
{
    struct log l = { 0 };

    start(&l, 1);
    exit_all(&l, 2000, 0);
    node_settle(&l.node, 2000, true, false);
    cr_assert_eq(node_deadline(&l.node), UINT64_MAX);
    cr_assert_eq(l.n_ended, 0);
    node_settle(&l.node, 90000, true, true);
    cr_assert(has_ended(&l, NODE_END_DONE) && l.n_stuck == 0);
}

Test(node, does_not_wait_for_such_a_console_once_it_shall_stop)
{
    struct log l = { 0 };

    start(&l, 1);
    node_signal(&l.node, 2000, SIGTERM);
    exit_all(&l, 2010, SIGTERM);
    node_settle(&l.node, 2010, true, false);
    cr_assert_eq(node_deadline(&l.node), 4010);
    cr_assert_eq(l.n_ended, 0);
    (void) node_tick(&l.node, 4010);
    node_settle(&l.node, 4010, true, false);
    cr_assert(has_ended(&l, NODE_END_STOPPED) && l.n_stuck == 0);
    cr_assert_eq(policy_stop_status(&l.node.policy), 128 + SIGTERM);
}

Test(node, says_what_outlived_sigkill_and_ends_stuck_whatever_else_was)
{
    struct log l = { 0 };

    start(&l, 2);
    (void) node_exited(&l.node, 2000, CODE_3, false);
    (void) node_tick(&l.node, 32000);
    (void) node_tick(&l.node, 37000);
    node_settle(&l.node, 37000, false, true);
    cr_assert(has_ended(&l, NODE_END_STUCK) && l.n_stuck == 1 && l.n_starts == 1);
    cr_assert_eq(l.node.policy.failure_code, 3);
}

Test(node, moves_its_deadline_by_the_time_for_which_everything_was_suspended)
{
    struct log l = { 0 };

    start(&l, 1);
    node_signal(&l.node, 2000, SIGTERM);
    node_paused(&l.node, 60000);
    cr_assert_eq(node_deadline(&l.node), 92000);
}
