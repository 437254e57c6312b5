/* mpijob.h - what the MPI library of the workers asks of whoever started them: who they are, and how they find each other.
 *
 * A round is MPI_COMM_WORLD.  The agent says when a round begins and ends and which workers exit; in between the library's own
 * protocol runs: PMI-1 over a descriptor of each worker (pmi1.h), or PMIx by a process of its own (pmix.h).  Several nodes
 * meet on the store of the round (meeting.h).  Each round is new to the library: other processes, another name.
 */
#ifndef AGENT_MPIJOB_H
#define AGENT_MPIJOB_H

#include <uv.h>

#include "agent/core/rdzv_msg.h"
#include "store/base/err.h"

enum { MPIJOB_FD = 3 }; /* where a worker finds its server of PMI-1 */

enum mpi_kind {
    MPI_NONE,
    MPI_PMI1, /* MPICH and its relatives */
    MPI_PMIX, /* Open MPI */
};

struct mpijob_cfg { /* borrowed */
    enum mpi_kind kind;
    unsigned      nproc;
    const char   *run_id;
    const char   *host;
    const char   *helper;    /* PMIX: path of ccrun-pmix */
    char *const  *env;       /* PMIX: its environment */
    int           keeper_fd; /* PMIX: whom to tell what is to be removed */
};

struct mpijob_cbs { /* none may call mpijob_*() back, but ready() */
    /* After mpijob_begin() has returned 1: workers may start; or not, because of `why`. */
    void (*ready)(void *ctx, const char *why);
    void (*say)(void *ctx, int verbosity, const char *sentence);
    void (*kill)(void *ctx, unsigned local_rank); /* it has aborted and did not go, or cannot go on */
};

struct mpijob_worker { /* what a worker is started with */
    char *const *env;  /* NAME=VALUE, NULL-terminated; good until the next call */
    int          fd;   /* becomes its descriptor MPIJOB_FD; -1: none */
};

struct mpijob;

/* NULL and err: no memory, or no directory. */
struct mpijob *mpijob_new(uv_loop_t *loop, const struct mpijob_cfg *cfg, const struct mpijob_cbs *cbs, void *ctx,
                          struct cc_err *err);

/* Before the first worker of the round is started. 0: they may start; 1: when ready() says so. */
int mpijob_begin(struct mpijob *m, const struct rdzv_view *round, struct cc_err *err);

/* For each worker, around its start. */
int  mpijob_worker(struct mpijob *m, unsigned local_rank, struct mpijob_worker *ret, struct cc_err *err);
void mpijob_started(struct mpijob *m, unsigned local_rank); /* or it could not be */

/* It has exited with this status, as waitpid() gives it.  The status to count: that of MPI_Abort(), or a failure when it ended
 * well in the middle of MPI without being told to (is_told). */
int mpijob_exited(struct mpijob *m, unsigned local_rank, int status, bool is_told);

void mpijob_end(struct mpijob *m); /* of the round: no worker lives, or will be started.  Again is harmless */

/* The loop lets go of what is open in later turns. */
struct mpijob *mpijob_free(struct mpijob *m);

#endif
