#include <criterion/criterion.h>
#include <signal.h>

#include "agent/core/node.h"

enum { CODE_3 = 3 << 8 };

struct log {
    struct node node;
    unsigned    n, n_starts, n_stuck, status;
    int         signum;
    unsigned    code_by_clock; /* what attempt_ended says */
    bool        is_unstartable, is_finished;
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
    ((struct log *) ctx)->signum = signum;
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

static void on_finish(void *ctx, unsigned status)
{
    struct log *l = ctx;

    l->is_finished = true;
    l->status = status;
}

static const struct node_ops ops = { on_start, on_signal, on_sweep, on_attempt_ended, on_news, on_finish, NULL };

static void start(struct log *l, unsigned n, unsigned max_restarts)
{
    const struct node_cfg cfg = {
        .max_restarts = max_restarts, .term_grace = 30000, .kill_grace = 5000, .sweep_grace = 2000
    };

    l->n = n;
    node_init(&l->node, &cfg, &ops, l);
    node_start(&l->node, 1000);
}

static void exit_all(struct log *l, uint64_t now, int status)
{
    unsigned i;

    for (i = 0; i < l->n; i++)
        (void) node_exited(&l->node, now, status, false);
}

Test(node, ends_with_0_when_all_have_and_nothing_is_left)
{
    struct log l = { 0 };

    start(&l, 2, 3);
    exit_all(&l, 2000, 0);
    node_settle(&l.node, 2000, false, true);
    cr_assert(!l.is_finished, "a daemon lives");
    node_settle(&l.node, 2100, true, true);
    cr_assert(l.is_finished && l.status == 0 && l.n_starts == 1);
}

Test(node, restarts_after_a_failure_while_the_budget_lasts)
{
    struct log l = { 0 };

    start(&l, 1, 1);
    exit_all(&l, 2000, CODE_3);
    node_settle(&l.node, 2000, true, true);
    cr_assert(l.n_starts == 2 && !l.is_finished);
    exit_all(&l, 3000, CODE_3);
    node_settle(&l.node, 3000, true, true);
    cr_assert(l.n_starts == 2 && l.is_finished && l.status == 3);
}

Test(node, takes_the_code_of_the_failure_that_was_first_by_its_own_clock)
{
    struct log l = { .code_by_clock = 9 };

    start(&l, 2, 0);
    (void) node_exited(&l.node, 2000, CODE_3, false);
    cr_assert_eq(l.signum, SIGTERM);
    (void) node_exited(&l.node, 2010, 9 << 8, false);
    node_settle(&l.node, 2010, true, true);
    cr_assert_eq(l.status, 9);
}

Test(node, ends_when_not_one_worker_could_be_started)
{
    struct log l = { .is_unstartable = true };

    start(&l, 0, 3);
    node_settle(&l.node, 1000, true, true);
    cr_assert(l.is_finished && l.status == 127 && l.n_starts == 1);
}

Test(node, waits_for_a_console_that_nobody_reads_and_calls_nobody_stuck)
{
    struct log l = { 0 };

    start(&l, 1, 0);
    exit_all(&l, 2000, 0);
    node_settle(&l.node, 2000, true, false);
    cr_assert_eq(node_deadline(&l.node), UINT64_MAX);
    cr_assert(!l.is_finished);
    node_settle(&l.node, 90000, true, true);
    cr_assert(l.is_finished && l.status == 0 && l.n_stuck == 0);
}

Test(node, does_not_wait_for_such_a_console_once_it_shall_stop)
{
    struct log l = { 0 };

    start(&l, 1, 0);
    node_signal(&l.node, 2000, SIGTERM);
    exit_all(&l, 2010, SIGTERM);
    node_settle(&l.node, 2010, true, false);
    cr_assert_eq(node_deadline(&l.node), 4010);
    cr_assert(!l.is_finished);
    (void) node_tick(&l.node, 4010);
    node_settle(&l.node, 4010, true, false);
    cr_assert(l.is_finished && l.status == 128 + SIGTERM && l.n_stuck == 0);
}

Test(node, says_what_outlived_sigkill_and_starts_nothing_beside_it)
{
    struct log l = { 0 };

    start(&l, 2, 3);
    (void) node_exited(&l.node, 2000, CODE_3, false);
    (void) node_tick(&l.node, 32000);
    (void) node_tick(&l.node, 37000);
    node_settle(&l.node, 37000, false, true);
    cr_assert(l.is_finished && l.status == 3 && l.n_stuck == 1 && l.n_starts == 1);
}

Test(node, moves_its_deadline_by_the_time_for_which_everything_was_suspended)
{
    struct log l = { 0 };

    start(&l, 1, 0);
    node_signal(&l.node, 2000, SIGTERM);
    node_paused(&l.node, 60000);
    cr_assert_eq(node_deadline(&l.node), 92000);
}
