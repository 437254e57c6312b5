/* group.h - the life of one node's worker group in one attempt: up, down, swept, ended.
 *
 * Pure: the driver owns processes and timers.  It reports what happened with group_event() and does what the ops ask.
 * Ops must not call group_*() back; report through a later event instead.  Times are ms of a monotonic clock.
 *
 * "Gone" is said when no worker lives any more, "empty" when no process of the job is left, daemonised grandchildren
 * included, and every stream is read to its end.  Only then the group has ended: a next attempt never meets the old one.
 */
#ifndef GROUP_H
#define GROUP_H

#include <stdbool.h>
#include <stdint.h>

enum group_state {
    GROUP_BAD,
    GROUP_IDLE,
    GROUP_RUNNING,
    GROUP_STOPPING, /* the stop signal is out, the grace time runs */
    GROUP_KILLING,  /* SIGKILL is out to the whole tree */
    GROUP_SWEEPING, /* the workers are gone; what they left behind has SIGTERM and a short grace */
    GROUP_ENDED,
    GROUP_N_STATES
};

enum group_ev {
    GROUP_START,
    GROUP_FAILED,  /* a worker failed */
    GROUP_STOP,    /* stop them: stop_signal says how */
    GROUP_KILL,    /* no more patience */
    GROUP_TIMEOUT, /* the deadline has passed */
    GROUP_GONE,
    GROUP_EMPTY,
    GROUP_N_EVS
};

struct group_ops {
    void (*signal)(void *ctx, int signum);   /* to the process group of each worker */
    void (*sweep)(void *ctx, int signum);    /* to every process of the job, whichever group it is in */
    void (*ended)(void *ctx, bool is_clean); /* not clean: something outlived SIGKILL (D state) */
};

struct group {
    const struct group_ops *ops;
    void            *ctx;
    enum group_state state;
    uint64_t         deadline;    /* when to report GROUP_TIMEOUT; UINT64_MAX: never */
    uint64_t         term_grace;  /* stop signal to SIGKILL */
    uint64_t         kill_grace;  /* SIGKILL to giving up */
    uint64_t         sweep_grace; /* SIGTERM to SIGKILL for what the workers left behind */
    int              stop_signal; /* SIGTERM unless the driver sets another before GROUP_STOP */
};

void        group_init(struct group *g, const struct group_ops *ops, void *ctx);
void        group_event(struct group *g, uint64_t now, enum group_ev ev);
bool        group_is_stopping(const struct group *g); /* an exit now is no news */
const char *group_state_name(enum group_state s);

#endif
