/* decline.h - a node that cannot do its part in a job of several nodes tells the job's host so, and leaves.
 *
 * Its program is not there, for instance.  Without a word the others would wait for it until the join timeout.  When this node
 * is the one that hosts the job, it tells the others as they come.
 */
#ifndef AGENT_DECLINE_H
#define AGENT_DECLINE_H

#include "agent/party.h"

struct decline_cfg {
    const struct party_cfg *party;
    unsigned    status;   /* of ccrun, and of the job when it cannot go on without this node */
    const char *why;      /* a sentence */
    int         leash_fd; /* as keeper_leash.fd, or -1 */
    int         verbosity;
    void      (*say)(const char *sentence);
};

/* Returns the exit status: `status`, or 128 + signal. */
unsigned decline_run(const struct decline_cfg *cfg);

#endif
