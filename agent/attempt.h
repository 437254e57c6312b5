/* attempt.h - start all workers of this node for a round: environment, arguments, streams, limits, and where they run. */
#ifndef AGENT_ATTEMPT_H
#define AGENT_ATTEMPT_H

#include <stdbool.h>
#include <sys/resource.h>

#include "agent/agent.h"
#include "agent/cgroup.h"
#include "agent/oomscore.h"
#include "agent/preempt.h"
#include "agent/sentry.h"
#include "agent/shmsweep.h"
#include "agent/terminal.h"
#include "agent/workers.h"

/* Descriptors: two pipes, two log files and a pidfd a worker, and its connections to the store; and our own. */
enum { ATTEMPT_FILES_PER_WORKER = 8, ATTEMPT_FILES_OWN = 64 };

struct attempt { /* the pointers are set by the agent, and borrowed */
    const struct agent_cfg *cfg;
    struct workers   *workers;
    struct logs      *logs;
    struct terminal  *terminal;
    struct sentry    *sentry;
    const struct preempt *preempt;
    struct mpijob    *mpi;    /* NULL: the workers have none */
    void            (*started)(void *ctx); /* one more worker lives */
    void             *ctx;
    struct cgroup    *cgroup; /* NULL: none may be made here */
    struct shmsweep  *shm;    /* NULL: nothing is swept */
    struct oomscore   oomscore;
    struct rlimit     nofile; /* as we were started, when is_nofile_raised */
    bool              is_nofile_raised;
    struct workerenv *env;
    struct rdzv_view  round;  /* as the workers that live, or last lived, were started for it */
    unsigned          number; /* restarts of the job by then: names the directory of the logs */
};

void attempt_raise_nofile(struct attempt *a); /* before anything is opened for many */

/* 0; or the exit status that a shell would give, and err, when not all could be started: those that were live. */
unsigned attempt_start(struct attempt *a, const struct rdzv_view *round, unsigned number, struct cc_err *err);

void attempt_clear(struct attempt *a);

#endif
