/* signals.h - the signals of the agent, read from the loop instead of in handlers.
 *
 * They are blocked from signals_start() on; the spawned workers get an empty mask (spawn.h).  A signal that was ignored
 * when ccrun started (nohup) stays ignored.  One per process.
 */
#ifndef AGENT_SIGNALS_H
#define AGENT_SIGNALS_H

#include <signal.h>
#include <stdbool.h>
#include <sys/signalfd.h>
#include <uv.h>

#include "store/base/err.h"

typedef void signals_fn(void *ctx, const struct signalfd_siginfo *info);

struct signals {
    uv_poll_t   poll;
    int         fd;
    sigset_t    set; /* what is read */
    signals_fn *on_signal;
    void       *ctx;
};

/* `extra`: more signals to read, 0-terminated, or NULL. */
int  signals_start(struct signals *s, uv_loop_t *loop, const int *extra, signals_fn *on_signal, void *ctx,
                   struct cc_err *err);
/* From here on a signal that ends us is not read by the loop, but interrupts a ppoll() that is given *ret_mask: for the
 * last writes. */
void signals_let_through(struct signals *s, sigset_t *ret_mask);
void signals_close(struct signals *s);

#endif
