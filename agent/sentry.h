/* sentry.h - notices that Ctrl-C was pressed while a worker has the terminal.
 *
 * A terminal sends its signals to the process group in its foreground.  While that is a worker's, they do not reach us: a
 * worker that saves its work and exits 0 would look like one that is done, and one that hears nothing could not be stopped
 * from the keyboard.  So a process of ours stands in the worker's group, and tells.  It does nothing else.
 */
#ifndef AGENT_SENTRY_H
#define AGENT_SENTRY_H

#include <sys/types.h>
#include <uv.h>

#include "store/base/err.h"

typedef void sentry_fn(void *ctx); /* Ctrl-C was pressed */

struct sentry {
    uv_poll_t  poll;
    int        fd[2];  /* what the process writes, we read */
    int        pidfd;  /* -1: nobody stands guard */
    sentry_fn *on_press;
    void      *ctx;
};

int  sentry_open(struct sentry *s, uv_loop_t *loop, sentry_fn *on_press, void *ctx, struct cc_err *err);
void sentry_post(struct sentry *s, pid_t group); /* best effort: the job is right without it */
void sentry_recall(struct sentry *s);            /* returns when it is gone: the group can be empty now */
void sentry_close(struct sentry *s);             /* the loop must run once more */

#endif
