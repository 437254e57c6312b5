#include "agent/core/group.h"

#include <assert.h>
#include <signal.h>
#include <stddef.h>

#include "store/base/macros.h"

static void do_start(struct group *g, uint64_t now)
{
    (void) now;
    g->deadline = UINT64_MAX;
    g->stop_signal = SIGTERM;
}

static void do_stop(struct group *g, uint64_t now)
{
    g->deadline = now + g->term_grace;
    g->ops->signal(g->ctx, g->stop_signal);
}

static void do_signal_again(struct group *g, uint64_t now)
{
    (void) now; /* the grace time runs from the first signal */
    g->ops->signal(g->ctx, g->stop_signal);
}

static void do_kill(struct group *g, uint64_t now)
{
    g->deadline = now + g->kill_grace;
    g->ops->sweep(g->ctx, SIGKILL);
}

static void do_kill_again(struct group *g, uint64_t now)
{
    (void) now; /* what the dying left behind has a new parent now */
    g->ops->sweep(g->ctx, SIGKILL);
}

static void do_sweep(struct group *g, uint64_t now)
{
    g->deadline = now + g->sweep_grace;
    g->ops->sweep(g->ctx, SIGTERM);
}

static void do_end(struct group *g, uint64_t now)
{
    (void) now;
    g->deadline = UINT64_MAX;
    g->ops->ended(g->ctx, true);
}

static void do_abandon(struct group *g, uint64_t now)
{
    (void) now;
    g->deadline = UINT64_MAX;
    g->ops->ended(g->ctx, false);
}

/* Every transition there is. A pair that is not listed is a bug in the driver. */
static const struct step {
    enum group_state next;
    void (*act)(struct group *g, uint64_t now);
} steps[GROUP_N_STATES][GROUP_N_EVS] = {
    [GROUP_IDLE] = {
        [GROUP_START] = { GROUP_RUNNING, do_start },
        [GROUP_STOP]  = { GROUP_ENDED, do_end },
        [GROUP_KILL]  = { GROUP_ENDED, do_end },
    },
    [GROUP_RUNNING] = {
        [GROUP_FAILED] = { GROUP_STOPPING, do_stop },
        [GROUP_STOP]   = { GROUP_STOPPING, do_stop },
        [GROUP_KILL]   = { GROUP_KILLING, do_kill },
        [GROUP_GONE]   = { GROUP_SWEEPING, do_sweep },
    },
    [GROUP_STOPPING] = {
        [GROUP_FAILED]  = { GROUP_STOPPING, NULL }, /* the rest fall over: expected */
        [GROUP_STOP]    = { GROUP_STOPPING, do_signal_again },
        [GROUP_KILL]    = { GROUP_KILLING, do_kill },
        [GROUP_TIMEOUT] = { GROUP_KILLING, do_kill },
        [GROUP_GONE]    = { GROUP_SWEEPING, do_sweep },
    },
    [GROUP_KILLING] = {
        [GROUP_FAILED]  = { GROUP_KILLING, NULL },
        [GROUP_STOP]    = { GROUP_KILLING, NULL },
        [GROUP_KILL]    = { GROUP_KILLING, do_kill_again },
        [GROUP_TIMEOUT] = { GROUP_ENDED, do_abandon }, /* D state: never wait for it forever */
        [GROUP_GONE]    = { GROUP_KILLING, do_kill_again },
        [GROUP_EMPTY]   = { GROUP_ENDED, do_end },
    },
    [GROUP_SWEEPING] = {
        [GROUP_FAILED]  = { GROUP_SWEEPING, NULL },
        [GROUP_STOP]    = { GROUP_SWEEPING, NULL },
        [GROUP_KILL]    = { GROUP_KILLING, do_kill },
        [GROUP_TIMEOUT] = { GROUP_KILLING, do_kill },
        [GROUP_EMPTY]   = { GROUP_ENDED, do_end },
    },
    [GROUP_ENDED] = {
        [GROUP_START] = { GROUP_RUNNING, do_start }, /* the next attempt */
        [GROUP_STOP]  = { GROUP_ENDED, NULL },
        [GROUP_KILL]  = { GROUP_ENDED, NULL },
    },
};

void group_init(struct group *g, const struct group_ops *ops, void *ctx)
{
    *g = (struct group) {
        .ops = ops,
        .ctx = ctx,
        .state = GROUP_IDLE,
        .deadline = UINT64_MAX,
        .term_grace = 30000,
        .kill_grace = 5000,
        .sweep_grace = 2000,
        .stop_signal = SIGTERM,
    };
}

void group_event(struct group *g, uint64_t now, enum group_ev ev)
{
    const struct step *s = &steps[g->state][ev];

    assert(s->next != GROUP_BAD); /* GROUP_BAD is 0: what the table leaves out */
    g->state = s->next;
    if (s->act)
        s->act(g, now);
}

bool group_is_stopping(const struct group *g)
{
    return g->state != GROUP_RUNNING;
}

const char *group_state_name(enum group_state s)
{
    static const char *const names[GROUP_N_STATES] = {
        "bad", "idle", "running", "stopping", "killing", "sweeping", "ended",
    };

    return (unsigned) s < CC_COUNT(names) ? names[s] : "?";
}
