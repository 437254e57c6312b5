/* mpi_which.h - for which MPI library a process was started: what its environment says.
 *
 * Pure: the environment is a function that the caller passes in.
 */
#ifndef BACKENDS_MPI_WHICH_H
#define BACKENDS_MPI_WHICH_H

#include "store/base/err.h"

enum mpi_which {
    MPI_WHICH_UNKNOWN, /* nothing is said */
    MPI_WHICH_OPENMPI,
    MPI_WHICH_MPICH, /* and all that have its binary interface: Intel MPI, MVAPICH, Cray */
};

struct mpi_wish {
    enum mpi_which which;
    const char    *path; /* of the library, which then tells what it is; NULL: found by its name */
    const char    *from; /* the variable that says it, or NULL */
};

typedef const char *mpi_which_env(void *ctx, const char *name); /* NULL: not set */

const char *mpi_which_name(enum mpi_which which); /* "openmpi" */

/* CCRUN_MPI (openmpi, mpich or an absolute path), else what PMIx or PMI-1 set for their ranks.  -EINVAL:
 * CCRUN_MPI is something else. */
int mpi_which_read(struct mpi_wish *ret, mpi_which_env *env, void *ctx, struct cc_err *err);

#endif
