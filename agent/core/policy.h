/* policy.h - what an exit or a signal means for the workers of this node: go on, or stop.
 *
 * Pure.  The driver reports each worker's end and each signal to the agent; the policy answers with what to do.
 * It knows nothing of processes, nor of restarts (budget.h).  Times are ms of a monotonic clock.
 */
#ifndef POLICY_H
#define POLICY_H

#include <stdbool.h>
#include <stdint.h>

/* A worker that dies of SIGTERM may be the first sign that the whole step is being stopped: scancel and pre-emption send
 * TERM to every process at once, in any order.  For this long its death is not yet a failure. */
enum { POLICY_TERM_HOLD_MS = 250 };

/* One key press can reach us twice (a signal to a process group and to its leader). */
enum { POLICY_SAME_PRESS_MS = 50 };

/* A worker that has the terminal hears ^C itself and may have its own idea of it, as a debugger has: only two in so short a
 * time are meant for us. */
enum { POLICY_TWICE_MS = 2000 };

enum policy_exit {   /* how to take a worker's end */
    POLICY_OK,       /* done */
    POLICY_FAILURE,  /* stop the others */
    POLICY_HOLD,     /* not decided: ask policy_hold_over() at hold_until */
    POLICY_EXPECTED, /* we are stopping anyway */
    POLICY_STOPPED,  /* the terminal's ^C reached the worker, which ended: take it as a stop by that signal */
};

enum policy_signal {
    POLICY_SIGNAL_NOTHING,
    POLICY_SIGNAL_STOP, /* forward it to the workers, then grace time */
    POLICY_SIGNAL_KILL, /* the second ^C: now */
};

struct policy {
    bool     is_stopped;  /* somebody asked for the end: no further attempt */
    int      stop_signal; /* the first signal that did */
    uint64_t last_int_at; /* UINT64_MAX: none came */
    uint64_t pressed_at;  /* ^C that went to the worker with the terminal; UINT64_MAX: never */
    uint64_t press_grace; /* ms: an end that comes so soon after it is a stop */
    bool     has_failure; /* in this attempt */
    bool     is_final;    /* and no restart can help: the program could not be executed */
    uint64_t hold_until;  /* UINT64_MAX: nothing is held */
    unsigned failure_code; /* of the first failure of this attempt */
};

void policy_init(struct policy *p);
void policy_next(struct policy *p); /* another attempt begins */
/* ^C was pressed, and a worker had the terminal. POLICY_SIGNAL_STOP: not the first time, but not twice in a row either. */
enum policy_signal policy_pressed(struct policy *p, uint64_t now);
/* `is_terminal`: that worker has the terminal, so ^C goes to it and not to us. `status` as waitpid() gives it. */
enum policy_exit policy_worker_exit(struct policy *p, uint64_t now, int status, bool is_stopping, bool is_terminal);
enum policy_exit policy_hold_over(struct policy *p, uint64_t now); /* POLICY_FAILURE, or POLICY_EXPECTED after a stop */
enum policy_signal policy_signal(struct policy *p, uint64_t now, int signum);
void policy_cannot_start(struct policy *p, unsigned code); /* exec failed: 126, 127, or 70 */
void policy_ended(struct policy *p); /* the attempt has: whatever death was held, nobody asks any more */
unsigned policy_stop_status(const struct policy *p); /* of ccrun, when is_stopped and no end of the job decides */
unsigned policy_status_code(int status);             /* a worker's code, or 128 + signal */

#endif
