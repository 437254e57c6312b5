/* farend.h - the other end of a fan-out: an agent whose command line, environment and settings come through a descriptor.
 *
 * farend_start() reads the block (launchdata.h).  The keeper of the agent (agent/keeper.h) holds the rest of the descriptor as
 * a leash: whatever byte comes after the block is the number of a signal for the agent, and end of file, which is what the
 * death of the head looks like, stops it with SIGTERM.
 *
 * Two lines on standard error are for the head, which takes them out: that we are up, and with which status the agent has
 * ended.  Without them the 255 of ssh could not be told from the 255 of a worker.
 */
#ifndef LAUNCHER_FAREND_H
#define LAUNCHER_FAREND_H

#include "agent/keeper.h"
#include "launcher/allocation.h"
#include "launcher/launchdata.h"
#include "launcher/options.h"
#include "store/base/err.h"

enum { FAREND_MARK_MAX = 65 };

struct farend {
    struct launchdata data;
    uint8_t          *block;
    size_t            n_block;
    char              mark[FAREND_MARK_MAX];
    char            **env; /* of the agent */
    int               fd; /* the leash */
    unsigned          node_rank;
    char              group[ALLOCATION_TEXT_MAX]; /* see allocation.h; "" when the head has decided on the order of the nodes */
};

/* `here` as environ.  Descriptor 0 is /dev/null afterwards if `fd` was 0. */
int  farend_start(int fd, char *const *here, struct farend *ret, struct cc_err *err);
void farend_clear(struct farend *f);

/* For keeper_start(); it says how the agent has ended.  farend_ended() does when there is no agent. */
struct keeper_leash farend_leash(struct farend *f);
void farend_ended(const struct farend *f, int status);

/* What the head has settled replaces what was left to it. */
int farend_suggest(const struct farend *f, struct options *o, struct cc_err *err);

/* "\036ccrun MARK up RANK\n", "\036ccrun MARK end RANK STATUS\n": what the head looks for. */
#define FAREND_SIGN "\036ccrun "

#endif
