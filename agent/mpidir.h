/* mpidir.h - a private directory for what an MPI library leaves behind when its process is killed: memory segments, sockets.
 *
 * In /dev/shm where that is, because segments that are shared must not be written to a disk; else in $TMPDIR or /tmp.
 */
#ifndef AGENT_MPIDIR_H
#define AGENT_MPIDIR_H

#include "store/base/err.h"

/* Makes one that nobody else can read; the caller frees the path, and removes the directory (rmtree.h).  The keeper does that
 * when we cannot (keeper.h). */
int mpidir_make(char **ret, int keeper_fd, struct cc_err *err);

#endif
