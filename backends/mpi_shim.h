/* mpi_shim.h - what libccrun-mpi-openmpi.so and libccrun-mpi-mpich.so export: the backend, built with that
 * library's mpi.h.
 *
 * They link no libmpi: the one that is to be used must be in the global scope of the process before they are
 * loaded, so that one file serves every library with the same binary interface.
 */
#ifndef BACKENDS_MPI_SHIM_H
#define BACKENDS_MPI_SHIM_H

#include "backends/backend.h"

#define MPI_SHIM_VERSION 2 /* of this file and of backend.h */

struct mpi_shim {
    int            version;
    struct backend backend; /* store is not looked at, parent is one of its own */
};

extern const struct mpi_shim ccrun_mpi_shim;

#endif
