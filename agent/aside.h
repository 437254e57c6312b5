/* aside.h - one thread beside the loop, for calls that may hang: those on files of a server that does not answer.
 *
 * One job at a time.  While it runs it is the thread's alone; `done` comes on the loop's thread when it is back.  A thread
 * that hangs is left behind when we close: it releases what it has when it comes back, or ends with the process.
 */
#ifndef AGENT_ASIDE_H
#define AGENT_ASIDE_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "store/base/err.h"

struct aside;

struct aside_cbs {
    void (*run)(void *job);             /* in the thread; signals are blocked there */
    void (*done)(void *ctx, void *job); /* on the loop */
    void (*free)(void *job);            /* of a job that nobody waits for any more; in the thread */
};

/* NULL and err. */
struct aside *aside_new(uv_loop_t *loop, const struct aside_cbs *cbs, void *ctx, struct cc_err *err);

void aside_start(struct aside *a, void *job); /* only while it is not busy */
bool aside_is_busy(const struct aside *a);    /* until done() */

/* Waits up to `ms` here, where no loop runs yet: true when the job is back, and no done() comes for it. */
bool aside_wait(struct aside *a, uint64_t ms);

/* No done() comes any more; a job that runs is free()d when it is back.  The loop lets go of it in a later turn. */
void aside_close(struct aside *a);

#endif
