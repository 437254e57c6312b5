#include "agent/core/node.h"

#include <assert.h>
#include <signal.h>

static void op_signal(void *ctx, int signum)
{
    struct node *n = ctx;

    n->ops->signal(n->ctx, signum);
}

static void op_sweep(void *ctx, int signum)
{
    struct node *n = ctx;

    n->ops->sweep(n->ctx, signum);
}

static void op_ended(void *ctx, bool is_clean)
{
    struct node *n = ctx;

    n->has_ended = true;
    n->is_stuck = !is_clean;
}

static const struct group_ops group_ops = { op_signal, op_sweep, op_ended };

void node_init(struct node *n, const struct node_cfg *cfg, const struct node_ops *ops, void *ctx)
{
    *n = (struct node) { .ops = ops, .ctx = ctx };
    group_init(&n->group, &group_ops, n);
    n->group.term_grace = cfg->term_grace;
    n->group.kill_grace = cfg->kill_grace;
    n->group.sweep_grace = n->drain_grace = cfg->sweep_grace;
    n->give_up_at = UINT64_MAX;
    policy_init(&n->policy);
    n->policy.press_grace = cfg->term_grace;
}

void node_next(struct node *n, uint64_t now)
{
    assert(!n->policy.is_stopped && !n->is_stuck);
    policy_next(&n->policy);
    n->is_halted = false;
    group_event(&n->group, now, GROUP_START);
    n->ops->start(n->ctx);
}

void node_halt(struct node *n, uint64_t now)
{
    if (n->is_halted || n->group.state == GROUP_IDLE || n->group.state == GROUP_ENDED)
        return;
    n->is_halted = true;
    if (n->group.state == GROUP_RUNNING) /* else the signal is out already */
        group_event(&n->group, now, GROUP_STOP);
}

void node_started(struct node *n)
{
    n->n_alive++;
}

void node_cannot_start(struct node *n, uint64_t now, unsigned code)
{
    policy_cannot_start(&n->policy, code);
    group_event(&n->group, now, GROUP_FAILED);
}

enum policy_exit node_exited(struct node *n, uint64_t now, int status, bool is_terminal)
{
    enum policy_exit how = policy_worker_exit(&n->policy, now, status, group_is_stopping(&n->group), is_terminal);

    n->n_alive--;
    if (how == POLICY_FAILURE) {
        group_event(&n->group, now, GROUP_FAILED);
    } else if (how == POLICY_STOPPED) {
        n->group.stop_signal = n->policy.stop_signal;
        group_event(&n->group, now, GROUP_STOP);
    }
    return how;
}

void node_signal(struct node *n, uint64_t now, int signum)
{
    switch (policy_signal(&n->policy, now, signum)) {
    case POLICY_SIGNAL_NOTHING:
        break;
    case POLICY_SIGNAL_STOP:
        n->ops->news(n->ctx, NODE_STOPPING, signum);
        n->group.stop_signal = signum;
        group_event(&n->group, now, GROUP_STOP);
        break;
    case POLICY_SIGNAL_KILL:
        n->ops->news(n->ctx, NODE_KILLING, signum);
        group_event(&n->group, now, GROUP_KILL);
        break;
    }
}

void node_pressed(struct node *n, uint64_t now)
{
    switch (policy_pressed(&n->policy, now)) {
    case POLICY_SIGNAL_NOTHING:
        break;
    case POLICY_SIGNAL_STOP:
        n->ops->news(n->ctx, NODE_PRESSED, 0);
        break;
    case POLICY_SIGNAL_KILL:
        n->ops->news(n->ctx, NODE_KILLING, SIGINT);
        group_event(&n->group, now, GROUP_KILL);
        break;
    }
}

bool node_tick(struct node *n, uint64_t now)
{
    bool is_failure = policy_hold_over(&n->policy, now) == POLICY_FAILURE;

    if (is_failure)
        group_event(&n->group, now, GROUP_FAILED);
    if (now >= n->group.deadline) {
        if (n->group.state == GROUP_STOPPING)
            n->ops->news(n->ctx, NODE_OUT_OF_TIME, 0);
        group_event(&n->group, now, GROUP_TIMEOUT);
    }
    return is_failure;
}

static enum node_end how_ended(const struct node *n)
{
    if (n->is_stuck)
        return NODE_END_STUCK;
    if (n->policy.is_stopped)
        return NODE_END_STOPPED;
    if (n->policy.has_failure)
        return NODE_END_FAILED;
    return n->is_halted ? NODE_END_HALTED : NODE_END_DONE;
}

static void end_attempt(struct node *n)
{
    unsigned code = n->ops->attempt_ended(n->ctx);

    n->has_ended = false;
    n->give_up_at = UINT64_MAX;
    if (n->policy.has_failure && !n->policy.is_final && code > 0)
        n->policy.failure_code = code;
    policy_ended(&n->policy);
    if (n->is_stuck)
        n->ops->news(n->ctx, NODE_STUCK, 0);
    n->ops->ended(n->ctx, how_ended(n));
}

/* Every process is gone: there is nobody to be killed, and no time to be kept but for the output. */
static void settle_empty(struct node *n, uint64_t now, bool is_drained)
{
    n->group.deadline = UINT64_MAX;
    if (n->policy.is_stopped && n->give_up_at == UINT64_MAX)
        n->give_up_at = now + n->drain_grace;
    if (is_drained || now >= n->give_up_at)
        group_event(&n->group, now, GROUP_EMPTY);
}

void node_settle(struct node *n, uint64_t now, bool is_empty, bool is_drained)
{
    struct group *g = &n->group;

    if (n->n_alive == 0 && !n->has_ended) {
        bool is_held = n->policy.hold_until != UINT64_MAX;

        if ((g->state == GROUP_RUNNING || g->state == GROUP_STOPPING) && !is_held)
            group_event(g, now, GROUP_GONE);
        if ((g->state == GROUP_SWEEPING || g->state == GROUP_KILLING) && is_empty)
            settle_empty(n, now, is_drained);
    }
    if (g->state == GROUP_KILLING && !is_empty)
        n->ops->sweep(n->ctx, SIGKILL); /* what was forked while we killed */
    if (n->has_ended)
        end_attempt(n);
}

void node_paused(struct node *n, uint64_t ms)
{
    if (n->group.deadline != UINT64_MAX)
        n->group.deadline += ms;
    if (n->policy.hold_until != UINT64_MAX)
        n->policy.hold_until += ms;
    if (n->give_up_at != UINT64_MAX)
        n->give_up_at += ms;
}

uint64_t node_deadline(const struct node *n)
{
    uint64_t at = n->group.deadline < n->policy.hold_until ? n->group.deadline : n->policy.hold_until;

    return at < n->give_up_at ? at : n->give_up_at;
}
