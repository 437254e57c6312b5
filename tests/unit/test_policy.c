#include <criterion/criterion.h>
#include <signal.h>

#include "agent/core/policy.h"

static int exited(int code)
{
    return code << 8;
}

static struct policy make(void)
{
    struct policy p;

    policy_init(&p);
    return p;
}

Test(policy, all_zero_is_no_failure)
{
    struct policy p = make();

    cr_assert_eq(policy_worker_exit(&p, 10, exited(0), false, false), POLICY_OK);
    cr_assert_not(p.has_failure);
}

Test(policy, the_first_failure_gives_the_code_and_its_echoes_do_not)
{
    struct policy p = make();

    cr_assert_eq(policy_worker_exit(&p, 10, exited(7), false, false), POLICY_FAILURE);
    cr_assert_eq(policy_worker_exit(&p, 11, SIGTERM, true, false), POLICY_EXPECTED);
    cr_assert_eq(policy_worker_exit(&p, 12, exited(1), true, false), POLICY_EXPECTED);
    cr_assert_eq(p.failure_code, 7);
}

Test(policy, a_signal_is_128_plus_its_number)
{
    struct policy p = make();

    cr_assert_eq(policy_worker_exit(&p, 10, SIGSEGV | 0x80, false, false), POLICY_FAILURE);
    cr_assert_eq(p.failure_code, 139);
}

Test(policy, the_next_attempt_begins_without_the_failure_of_the_last)
{
    struct policy p = make();

    (void) policy_worker_exit(&p, 10, exited(3), false, false);
    policy_cannot_start(&p, 127);
    policy_ended(&p);
    policy_next(&p);
    cr_assert(!p.has_failure && !p.is_final);
    cr_assert_eq(policy_worker_exit(&p, 20, exited(4), false, false), POLICY_FAILURE);
    cr_assert(p.has_failure && !p.is_final && p.failure_code == 4);
}

Test(policy, a_stop_gives_its_signal_even_if_the_workers_end_well)
{
    static const int signals[] = { SIGINT, SIGHUP, SIGQUIT, SIGTERM };
    size_t           i;

    for (i = 0; i < 4; i++) {
        struct policy p = make();

        cr_assert_eq(policy_signal(&p, 10, signals[i]), POLICY_SIGNAL_STOP);
        cr_assert_eq(policy_worker_exit(&p, 20, exited(0), true, false), POLICY_EXPECTED);
        cr_assert_eq(policy_stop_status(&p), 128u + (unsigned) signals[i]);
    }
}

Test(policy, the_second_interrupt_kills_and_a_doubled_one_does_not)
{
    struct policy p = make();

    cr_assert_eq(policy_signal(&p, 1000, SIGINT), POLICY_SIGNAL_STOP);
    cr_assert_eq(policy_signal(&p, 1000 + POLICY_SAME_PRESS_MS - 1, SIGINT), POLICY_SIGNAL_NOTHING);
    cr_assert_eq(policy_signal(&p, 1400, SIGINT), POLICY_SIGNAL_KILL);
}

Test(policy, sigterm_again_and_again_never_kills)
{
    struct policy p = make();

    cr_assert_eq(policy_signal(&p, 1000, SIGTERM), POLICY_SIGNAL_STOP);
    cr_assert_eq(policy_signal(&p, 2000, SIGTERM), POLICY_SIGNAL_STOP);
    cr_assert_eq(policy_signal(&p, 3000, SIGINT), POLICY_SIGNAL_STOP, "the first ^C is only a first one");
    cr_assert_eq(policy_stop_status(&p), 143);
}

Test(policy, a_worker_that_died_of_sigterm_just_before_our_own_is_a_stop)
{
    struct policy p = make();

    cr_assert_eq(policy_worker_exit(&p, 1000, SIGTERM, false, false), POLICY_HOLD);
    cr_assert_eq(p.hold_until, 1000 + POLICY_TERM_HOLD_MS);
    (void) policy_signal(&p, 1100, SIGTERM);
    cr_assert_eq(policy_hold_over(&p, 1000 + POLICY_TERM_HOLD_MS), POLICY_EXPECTED);
    cr_assert_eq(policy_stop_status(&p), 143);
}

Test(policy, a_worker_that_died_of_somebodys_sigterm_is_a_failure_after_the_hold)
{
    struct policy p = make();

    (void) policy_worker_exit(&p, 1000, SIGTERM, false, false);
    cr_assert_eq(policy_hold_over(&p, 1000 + POLICY_TERM_HOLD_MS - 1), POLICY_EXPECTED);
    cr_assert_eq(policy_hold_over(&p, 1000 + POLICY_TERM_HOLD_MS), POLICY_FAILURE);
    cr_assert(p.has_failure && p.failure_code == 128 + SIGTERM);
}

Test(policy, a_real_failure_does_not_wait_for_a_held_one)
{
    struct policy p = make();

    (void) policy_worker_exit(&p, 1000, SIGTERM, false, false);
    cr_assert_eq(policy_worker_exit(&p, 1010, exited(9), false, false), POLICY_FAILURE);
    cr_assert_eq(p.hold_until, UINT64_MAX);
    cr_assert_eq(p.failure_code, 9);
}

Test(policy, interrupt_at_the_workers_terminal_is_a_stop)
{
    struct policy p = make();

    cr_assert_eq(policy_worker_exit(&p, 1000, SIGINT, false, true), POLICY_STOPPED);
    cr_assert_eq(policy_stop_status(&p), 130);
}

Test(policy, interrupt_elsewhere_is_a_failure)
{
    struct policy p = make();

    cr_assert_eq(policy_worker_exit(&p, 1000, SIGINT, false, false), POLICY_FAILURE);
}

Test(policy, a_program_that_cannot_be_executed_is_the_end_even_before_a_stop)
{
    struct policy p = make();

    policy_cannot_start(&p, 127);
    cr_assert(p.has_failure && p.is_final && p.failure_code == 127);
    (void) policy_signal(&p, 1001, SIGTERM);
    cr_assert_eq(policy_stop_status(&p), 127);
}

Test(policy, a_stop_between_failure_and_restart_is_a_stop)
{
    struct policy p = make();

    (void) policy_worker_exit(&p, 1000, exited(3), false, false);
    (void) policy_signal(&p, 1001, SIGTERM);
    cr_assert_eq(policy_stop_status(&p), 143);
}

Test(policy, nothing_is_held_once_the_attempt_has_ended)
{
    struct policy p = make();

    (void) policy_worker_exit(&p, 1000, SIGTERM, false, false);
    policy_ended(&p);
    cr_assert_eq(p.hold_until, UINT64_MAX);
    cr_assert_not(p.has_failure);
}

Test(policy, a_press_that_the_worker_with_the_terminal_heard_makes_its_end_a_stop)
{
    static const int ends[] = { 0, 1 << 8, SIGINT, SIGTERM };
    unsigned         i;

    for (i = 0; i < sizeof ends / sizeof *ends; i++) {
        struct policy p = make();

        cr_assert_eq(policy_pressed(&p, 1000), POLICY_SIGNAL_NOTHING);
        cr_assert_eq(policy_worker_exit(&p, 1000 + p.press_grace - 1, ends[i], false, true), POLICY_STOPPED);
        cr_assert_eq(policy_stop_status(&p), 130);
    }
}

Test(policy, a_press_long_ago_or_somebody_elses_is_no_stop)
{
    struct policy p = make();

    (void) policy_pressed(&p, 1000);
    cr_assert_eq(policy_worker_exit(&p, 1001, exited(0), false, false), POLICY_OK);
    cr_assert_eq(policy_worker_exit(&p, 1000 + p.press_grace, exited(0), false, true), POLICY_OK);
    cr_assert_eq(policy_worker_exit(&p, 1000 + p.press_grace, exited(4), false, true), POLICY_FAILURE);
    cr_assert_eq(p.failure_code, 4);
}

Test(policy, only_two_presses_in_a_row_are_meant_for_us)
{
    struct policy p = make();

    cr_assert_eq(policy_pressed(&p, 1000), POLICY_SIGNAL_NOTHING);
    cr_assert_eq(policy_pressed(&p, 1000 + POLICY_TWICE_MS), POLICY_SIGNAL_STOP);
    cr_assert_not(p.is_stopped);
    cr_assert_eq(policy_pressed(&p, 1000 + 2 * POLICY_TWICE_MS - 1), POLICY_SIGNAL_KILL);
    cr_assert_eq(policy_stop_status(&p), 130);
}
