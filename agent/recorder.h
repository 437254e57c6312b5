/* recorder.h - writes the inputs of a job's cores to a file while they run, for sim_replay to play them again.
 *
 * It stands between the cores and their drivers: an input is noted before the core gets it, and the ops of the cores pass
 * through here on their way, so that what was decided enters the sums (agent/core/record.h).  Every entry is written at
 * once: what a killed process had done is there.
 */
#ifndef AGENT_RECORDER_H
#define AGENT_RECORDER_H

#include "agent/core/record.h"

struct recorder;

/* path: the file, emptied if it is there; in a directory it gets a name by our host and process.  NULL and err. */
struct recorder *recorder_open(const char *path, const char *our_host, struct cc_err *err);
struct recorder *recorder_close(struct recorder *r); /* accepts NULL, returns NULL */

/* NULL for r in what follows: nothing is recorded, and the ops are the caller's own. */
void recorder_note(struct recorder *r, const struct record *e); /* its sum is filled in here */

/* What the core is to get in place of these ops and of *ctx, their context. */
const struct member_ops *recorder_member_ops(struct recorder *r, const struct member_ops *ops, void **ctx);
const struct rdzv_ops *recorder_rdzv_ops(struct recorder *r, const struct rdzv_ops *ops, void **ctx);

/* An event as rdzv_event() gets it. */
void recorder_note_event(struct recorder *r, const struct rdzv_event *ev);

/* What a coordinator is to load, before it does. */
void recorder_note_state(struct recorder *r, uint64_t now, const uint8_t *state, size_t n);

/* Once, why nothing is written any more; NULL: nothing went wrong, or it was asked before. */
const char *recorder_trouble(struct recorder *r);

#endif
