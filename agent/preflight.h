/* preflight.h - --preflight: ccrun-check runs on all nodes of a round before the workers of the round start.
 *
 * It is no round of its own: the agents of a round start it where they would start the workers, with the workers' ranks and on
 * their store, and go on when its processes have ended; so nothing of it has to be agreed upon between nodes, and a restart, a
 * newcomer and a lost node are what they are without it.  Each node remembers the check that it has passed.  Where all nodes of
 * a round have passed the same one, as after a restart, ccrun-check ends at once.
 *
 * Up to PREFLIGHT_RANKS workers a node, on the average, each has a process of the check, with its CPUs and GPUs; otherwise there
 * is one a node.  The view says which: it is the same for all.
 */
#ifndef AGENT_PREFLIGHT_H
#define AGENT_PREFLIGHT_H

#include <uv.h>

#include "agent/agent.h"
#include "agent/core/rdzv_msg.h"
#include "store/base/err.h"

enum { PREFLIGHT_RANKS = 16 };

struct preflight_cbs { /* after preflight_begin() one of the first three, unless there was an end before */
    void (*go)(void *ctx);
    void (*stop)(void *ctx, const char *why);  /* the job */
    void (*leave)(void *ctx, const char *why); /* this node is left out */
    void (*say)(void *ctx, int verbosity, const char *sentence);
};

struct preflight;

/* NULL and err: no memory. `cfg` is borrowed. */
struct preflight *preflight_new(uv_loop_t *loop, const struct agent_cfg *cfg, const struct preflight_cbs *cbs, void *ctx,
                                struct cc_err *err);

/* is_needed: the job ends with this node.  Not once the nodes of a round are told to wait: the next round comes by itself. */
int preflight_begin(struct preflight *p, const struct rdzv_view *round, bool is_needed, struct cc_err *err);

/* Nobody waits any more: whoever ends the round ends its processes, too.  NULL is fine. */
void preflight_end(struct preflight *p);

struct preflight *preflight_free(struct preflight *p); /* the loop lets go of what is open in later turns */

#endif
