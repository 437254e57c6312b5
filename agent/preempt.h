/* preempt.h - a pre-emption that was announced: the workers of this node are told, and ours is the last to forget.
 *
 * The announcement reaches one node of the job, as a signal, and all others through the coordinator.  Each worker gets that
 * signal once, and finds the deadline in the file that CCRUN_PREEMPT_FILE names ("1767225600.250\n": seconds since 1970);
 * who starts later finds it in CCRUN_PREEMPT_DEADLINE too.  Nobody is stopped.
 */
#ifndef AGENT_PREEMPT_H
#define AGENT_PREEMPT_H

#include <stdbool.h>
#include <stdint.h>

#include "store/base/err.h"

struct preempt {
    char *file;         /* where the deadline goes; NULL: nowhere */
    char  deadline[32]; /* as text; "": none was announced */
};

/* The first time only: notes that the job ends in ms_left, and writes it down.  False: it was known. -errno in err when the
 * file cannot be written, which changes nothing for the workers' signal. */
bool preempt_announce(struct preempt *p, uint64_t ms_left, struct cc_err *err);
void preempt_clear(struct preempt *p);

#endif
