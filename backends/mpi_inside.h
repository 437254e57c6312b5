/* mpi_inside.h - inside the backend on MPI: what is shared by its three parts, which are built together for
 * each binary interface of MPI.
 *
 *   mpi_process.c  the process has one MPI: its beginning and end, who may call it, types and operations
 *   mpi_calls.c    calls: begun, asked for, given up
 *   mpi_shim.c     groups, and the table of the backend
 */
#ifndef BACKENDS_MPI_INSIDE_H
#define BACKENDS_MPI_INSIDE_H

#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "backends/backend.h"

enum {
    TAG_GIVEN_UP = 32768, /* above every tag of a user: from a rank that has left the group in the middle */
    TAG_HELLO,            /* to the first one of a new group, and back */
    TAG_GO,
    TAG_GROUP,
    N_HALF_OPS = CCRUN_MAX + 1,
};

struct pending;

struct group {
    MPI_Comm         comm;
    int              rank, size;
    char             name[64];
    pthread_mutex_t  own;
    pthread_mutex_t *lock; /* of this group's MPI calls and all below: own, or that of all groups */
    struct pending  *first;
    int              given_up_by; /* a rank; -1: none */
    bool             is_told;     /* the peers were, that somebody has given up */
    atomic_bool      is_aborted;
    MPI_Request     *begun; /* of one that could not be made, with what MPI may still write: */
    uint64_t        *said;
    struct group    *next; /* of those */
};

static inline void group_lock(struct group *g)
{
    (void) pthread_mutex_lock(g->lock);
}

static inline void group_unlock(struct group *g)
{
    (void) pthread_mutex_unlock(g->lock);
}

/* ---- mpi_process.c */

struct process {
    pthread_mutex_t
        turn; /* of MPI's calls, when MPI has not been told that several threads may make them at a time */
    pthread_mutex_t lock;              /* of all below */
    bool            is_ready, is_ours; /* we have initialised it */
    pid_t           owner;             /* then, not a fork of it */
    int             level;             /* of threads */
    MPI_Op          half_ops[2][N_HALF_OPS];
    unsigned        n_groups;
    bool            is_unclean; /* a group has failed: the others cannot be expected in MPI_Finalize() */
    atomic_bool     is_spoiled; /* no call of MPI may be made any more */
    char            spoiled_by[64];
    struct pending *given_up; /* what MPI may still know of */
    struct group   *unborn;
};

struct process *shim_process(void);
/* Initialises MPI if nobody has. */
int  shim_prepare(struct cc_err *err);
void shim_set_unclean(void);
void shim_spoil(const struct group *g); /* no call of MPI from here on */
/* MPI may be called, from this thread. */
int          shim_check_usable(struct cc_err *err);
bool         shim_may_call(void);
int          shim_failed(int code, const char *what, struct cc_err *err); /* MPI's code, as one of ours */
MPI_Datatype shim_type(enum ccrun_type type);
MPI_Op       shim_op(enum ccrun_op op, enum ccrun_type type);

/* ---- mpi_calls.c */

int shim_start(void *g, const struct ccrun_call *c, uint64_t timeout_ms, void **ret_handle,
               struct cc_err *err);
int shim_poll(void *g, void *handle, uint64_t wait_ms, struct cc_err *err);
int shim_run(void *g, const struct ccrun_call *c, uint64_t timeout_ms, struct cc_err *err);

/* The rest is called with the lock of the group. */

/* Tells the others in the group, who would wait for us until their deadline. */
void shim_tell_peers(struct group *g);
/* Has a peer given up, or this rank?  And is it too late?  0: no reason not to wait longer. */
int shim_reason_to_end(struct group *g, uint64_t deadline, uint64_t timeout_ms, struct cc_err *err);
/* As MPI_Testall(), but those that are done are MPI_REQUEST_NULL also while others are not. */
int shim_test_all(MPI_Request *q, int n, int *ret_are_over);
/* A receive: true if nothing will be written to its buffer any more. */
bool shim_take_back(MPI_Request *q);

#endif
