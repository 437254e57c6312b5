/* workerenv.h - the environment block of a worker: what the launcher inherited, and torchrun's variables on top.
 *
 * Pure.  One block serves all workers of an attempt, one after the other: the strings that differ are rewritten in
 * place, which is enough because a spawn has copied them when it returns.  Which variables: torchrun 2.13, see
 * ENVIRONMENT in ccrun.1.
 */
#ifndef WORKERENV_H
#define WORKERENV_H

#include <stdbool.h>
#include <stdint.h>

#include "store/base/err.h"

struct workerenv_job { /* the same for all workers of a node in one attempt */
    unsigned    base_rank, world_size, local_world_size;
    unsigned    group_rank, group_world_size;
    unsigned    base_role_rank, role_world_size;
    const char *role, *run_id, *master_addr;
    uint16_t    master_port;
    unsigned    restart_count, max_restarts;
    unsigned    omp_threads;       /* when OMP_NUM_THREADS is not inherited; 0: leave it unset */
    const char *signals_to_handle; /* TORCHELASTIC_SIGNALS_TO_HANDLE */
    const char *preempt_file;      /* CCRUN_PREEMPT_FILE: there once a pre-emption was announced; NULL: unset */
    const char *preempt_deadline;  /* CCRUN_PREEMPT_DEADLINE: one was, before the start; NULL: unset */
    bool        is_virtual_local_rank;
};

struct workerenv_rank {
    unsigned    local_rank;
    const char *error_file;      /* "" when there is none */
    const char *visible_devices; /* NULL: as inherited */
    char *const *more;           /* NAME=VALUE, NULL-terminated; a name that is inherited stays as it is.  NULL: none */
};

struct workerenv;

/* `base` is borrowed for the life of the block, NULL-terminated. -ENOMEM only. */
int workerenv_new(struct workerenv **ret, char *const *base, const struct workerenv_job *job, struct cc_err *err);
/* The block for one worker, NULL-terminated, valid until the next call. NULL: out of memory. */
char *const *workerenv_for(struct workerenv *e, const struct workerenv_rank *r);
struct workerenv *workerenv_free(struct workerenv *e);

#endif
