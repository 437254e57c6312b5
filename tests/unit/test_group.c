#include <criterion/criterion.h>
#include <signal.h>

#include "agent/core/group.h"

struct log {
    int  signum, swept, n_signals, n_sweeps, n_ended;
    bool is_clean;
};

static void on_signal(void *ctx, int signum)
{
    struct log *l = ctx;

    l->signum = signum;
    l->n_signals++;
}

static void on_sweep(void *ctx, int signum)
{
    struct log *l = ctx;

    l->swept = signum;
    l->n_sweeps++;
}

static void on_ended(void *ctx, bool is_clean)
{
    struct log *l = ctx;

    l->n_ended++;
    l->is_clean = is_clean;
}

static const struct group_ops ops = { on_signal, on_sweep, on_ended };

static void start(struct group *g, struct log *l)
{
    *l = (struct log) { 0 };
    group_init(g, &ops, l);
    group_event(g, 1000, GROUP_START);
}

Test(group, a_normal_end_sweeps_what_is_left_before_it_is_over)
{
    struct log   l;
    struct group g;

    start(&g, &l);
    group_event(&g, 2000, GROUP_GONE);
    cr_assert_eq(l.swept, SIGTERM);
    cr_assert_eq(l.n_ended, 0);
    cr_assert_eq(g.deadline, 4000);
    group_event(&g, 2100, GROUP_EMPTY);
    cr_assert(l.n_ended == 1 && l.is_clean);
    cr_assert_eq(l.n_signals, 0);
    cr_assert_eq(g.deadline, UINT64_MAX);
}

Test(group, a_failure_stops_the_others_with_sigterm_and_then_sigkill)
{
    struct log   l;
    struct group g;

    start(&g, &l);
    group_event(&g, 2000, GROUP_FAILED);
    cr_assert_eq(l.signum, SIGTERM);
    group_event(&g, 2500, GROUP_FAILED); /* an echo */
    cr_assert_eq(l.n_signals, 1);
    cr_assert_eq(g.deadline, 32000);
    group_event(&g, 32000, GROUP_TIMEOUT);
    cr_assert_eq(l.swept, SIGKILL);
    group_event(&g, 32010, GROUP_GONE);
    cr_assert_eq(l.n_sweeps, 2, "what the dying left behind is killed too");
    group_event(&g, 32020, GROUP_EMPTY);
    cr_assert(l.n_ended == 1 && l.is_clean);
}

Test(group, escalates_and_never_waits_for_a_worker_in_d_state)
{
    struct log   l;
    struct group g;

    start(&g, &l);
    group_event(&g, 2000, GROUP_FAILED);
    group_event(&g, g.deadline, GROUP_TIMEOUT);
    cr_assert_eq(g.deadline, 37000);
    group_event(&g, g.deadline, GROUP_TIMEOUT);
    cr_assert(l.n_ended == 1 && !l.is_clean);
}

Test(group, a_second_stop_signal_is_passed_on_and_does_not_restart_the_grace_time)
{
    struct log   l;
    struct group g;

    start(&g, &l);
    g.stop_signal = SIGINT;
    group_event(&g, 2000, GROUP_STOP);
    cr_assert_eq(l.signum, SIGINT);
    g.stop_signal = SIGTERM;
    group_event(&g, 9000, GROUP_STOP);
    cr_assert_eq(l.signum, SIGTERM);
    cr_assert_eq(g.deadline, 32000);
}

Test(group, kill_does_not_wait_for_the_grace_time)
{
    struct log   l;
    struct group g;

    start(&g, &l);
    group_event(&g, 2000, GROUP_STOP);
    group_event(&g, 2100, GROUP_KILL);
    cr_assert_eq(l.swept, SIGKILL);
    cr_assert_eq(g.deadline, 7100);
}

Test(group, a_daemon_that_ignores_sigterm_is_killed_after_the_sweep_grace)
{
    struct log   l;
    struct group g;

    start(&g, &l);
    group_event(&g, 2000, GROUP_GONE);
    group_event(&g, 4000, GROUP_TIMEOUT);
    cr_assert_eq(l.swept, SIGKILL);
    cr_assert_eq(l.n_ended, 0);
    group_event(&g, 4010, GROUP_EMPTY);
    cr_assert(l.is_clean);
}

Test(group, starts_again_after_its_end_and_stops_with_sigterm_then)
{
    struct log   l;
    struct group g;

    start(&g, &l);
    g.stop_signal = SIGINT;
    group_event(&g, 2000, GROUP_STOP);
    group_event(&g, 2000, GROUP_GONE);
    group_event(&g, 2000, GROUP_EMPTY);
    group_event(&g, 3000, GROUP_START);
    group_event(&g, 4000, GROUP_FAILED);
    cr_assert_eq(l.signum, SIGTERM);
}

Test(group, a_stop_before_the_start_ends_at_once)
{
    struct log   l = { 0 };
    struct group g;

    group_init(&g, &ops, &l);
    group_event(&g, 1000, GROUP_STOP);
    cr_assert(l.n_ended == 1 && l.is_clean);
}

Test(group, every_state_has_a_name)
{
    cr_assert_str_eq(group_state_name(GROUP_SWEEPING), "sweeping");
    cr_assert_str_eq(group_state_name(GROUP_N_STATES), "?");
}
