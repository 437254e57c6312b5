/* mpilib.h - which MPI library a program would load, and so which protocol it speaks to whoever starts it.
 *
 * Looks where the dynamic linker looks: what the program asks for, and what these libraries ask for.  A Python script counts
 * when it names mpi4py; then it is the library that mpi4py looks for.  Files are read, nothing is run.
 */
#ifndef LAUNCHER_MPILIB_H
#define LAUNCHER_MPILIB_H

#include <stdbool.h>
#include <stddef.h>

#include "agent/mpijob.h"
#include "launcher/machine.h"

enum { MPILIB_WHY_MAX = 256 };

struct mpilib_req {
    const struct machine *machine; /* its environment is the workers' */
    const char *program;           /* what is executed */
    const char *script;            /* what a Python interpreter runs, or NULL: it is not Python */
    bool        is_module;         /* script is the name of a module */
};

const char *mpilib_name(enum mpi_kind kind); /* as --mpi has it */

/* MPI_NONE when there is none.  `why` says what was seen, for people. */
enum mpi_kind mpilib_find(const struct mpilib_req *req, char why[MPILIB_WHY_MAX]);

#endif
