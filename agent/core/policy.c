#include "agent/core/policy.h"

#include <signal.h>
#include <sys/wait.h>

void policy_init(struct policy *p)
{
    *p = (struct policy) {
        .last_int_at = UINT64_MAX,
        .pressed_at = UINT64_MAX,
        .press_grace = 30000,
        .hold_until = UINT64_MAX,
    };
}

unsigned policy_status_code(int status)
{
    return WIFSIGNALED(status) ? 128u + (unsigned) WTERMSIG(status) : (unsigned) WEXITSTATUS(status);
}

static enum policy_exit note_failure(struct policy *p, unsigned code)
{
    if (!p->has_failure)
        p->failure_code = code;
    p->has_failure = true;
    return POLICY_FAILURE;
}

/* Whatever status it ended with: it may have caught the signal and saved its work. */
static bool is_end_by_press(const struct policy *p, uint64_t now)
{
    return p->pressed_at != UINT64_MAX && now - p->pressed_at < p->press_grace;
}

enum policy_exit policy_worker_exit(struct policy *p, uint64_t now, int status, bool is_stopping, bool is_terminal)
{
    int signum = WIFSIGNALED(status) ? WTERMSIG(status) : 0;

    if (is_stopping || p->is_stopped)
        return POLICY_EXPECTED;
    if (is_terminal && (signum == SIGINT || signum == SIGQUIT || is_end_by_press(p, now))) {
        (void) policy_signal(p, now, signum == SIGQUIT ? SIGQUIT : SIGINT);
        return POLICY_STOPPED;
    }
    if (status == 0)
        return POLICY_OK;
    if (signum == SIGTERM) {
        if (p->hold_until == UINT64_MAX)
            p->hold_until = now + POLICY_TERM_HOLD_MS;
        return POLICY_HOLD;
    }
    p->hold_until = UINT64_MAX; /* a real failure beside it: the worker that died of TERM was no stop */
    return note_failure(p, policy_status_code(status));
}

enum policy_exit policy_hold_over(struct policy *p, uint64_t now)
{
    if (p->hold_until == UINT64_MAX || now < p->hold_until)
        return POLICY_EXPECTED;
    p->hold_until = UINT64_MAX;
    return p->is_stopped ? POLICY_EXPECTED : note_failure(p, 128u + SIGTERM);
}

enum policy_signal policy_signal(struct policy *p, uint64_t now, int signum)
{
    if (signum == SIGINT) {
        bool is_first = p->last_int_at == UINT64_MAX;

        if (!is_first && now - p->last_int_at < POLICY_SAME_PRESS_MS)
            return POLICY_SIGNAL_NOTHING;
        p->last_int_at = now;
        if (!is_first)
            return POLICY_SIGNAL_KILL;
    }
    if (!p->is_stopped) {
        p->is_stopped = true;
        p->stop_signal = signum;
        p->hold_until = UINT64_MAX;
    }
    return POLICY_SIGNAL_STOP;
}

enum policy_signal policy_pressed(struct policy *p, uint64_t now)
{
    bool is_first = p->pressed_at == UINT64_MAX, is_twice = !is_first && now - p->pressed_at < POLICY_TWICE_MS;

    p->pressed_at = now;
    if (!is_twice)
        return is_first ? POLICY_SIGNAL_NOTHING : POLICY_SIGNAL_STOP;
    if (!p->is_stopped) {
        p->is_stopped = true;
        p->stop_signal = SIGINT;
    }
    return POLICY_SIGNAL_KILL;
}

void policy_cannot_start(struct policy *p, unsigned code)
{
    p->is_final = true;
    p->hold_until = UINT64_MAX;
    (void) note_failure(p, code);
}

void policy_ended(struct policy *p)
{
    p->hold_until = UINT64_MAX;
}

void policy_next(struct policy *p)
{
    p->has_failure = p->is_final = false;
}

/* A program that cannot be executed was the end before the stop; after another failure there might have been a restart. */
unsigned policy_stop_status(const struct policy *p)
{
    return p->is_final ? p->failure_code : 128u + (unsigned) p->stop_signal;
}
