/* scheduler.h - who started us: the batch system or cluster manager, by its environment variables.
 *
 * The first row that matches wins.  What a system says about workers per node is used only where it counts
 * GPUs or task slots: a number of CPU cores is no number of workers.
 */
#ifndef LAUNCHER_SCHEDULER_H
#define LAUNCHER_SCHEDULER_H

#include <stdbool.h>

#include "launcher/machine.h"

enum scheduler_kind {
    SCHEDULER_NONE, /* or one that says nothing of other nodes */
    SCHEDULER_SLURM,
    SCHEDULER_PBS,
    SCHEDULER_LSF,
    SCHEDULER_SGE,
    SCHEDULER_OAR,
    SCHEDULER_COBALT,
    SCHEDULER_FLUX,
    SCHEDULER_PALS,
    SCHEDULER_OPEN_MPI,
    SCHEDULER_MPI,
    SCHEDULER_SAGEMAKER,
    SCHEDULER_AZURE,
    SCHEDULER_AWS_BATCH,
    SCHEDULER_VERTEX,
    SCHEDULER_SKYPILOT,
    SCHEDULER_DLROVER,
    SCHEDULER_PODS, /* RANK and WORLD_SIZE mean pods */
    SCHEDULER_INDEXED_JOB,
    SCHEDULER_N
};

struct scheduler {
    enum scheduler_kind kind;
    const char *name;         /* "Slurm", ...; NULL: none */
    const char *job_id;       /* borrowed from the environment; NULL: it has none */
    const char *job_id_from;  /* the variable */
    unsigned    nproc;        /* workers on this node, 0: it does not say */
    const char *nproc_from;   /* the variable that said so */
    bool        is_gpu_count; /* nproc counts GPUs */
};

/* `host` is our own host name, for the lists that have a line per host. */
void scheduler_detect(const struct machine *m, const char *host, struct scheduler *ret);

/* SLURM_STEP_ID: does srun start us as a task?  NULL: no. */
bool scheduler_is_slurm_step(const char *id);

#endif
