/* shmsweep.h - what dead workers left in /dev/shm, removed before it is full: a container has 64 MB of it, and when that is
 * gone every restart fails.
 *
 * Shared memory says who owns it, but not who made it.  So only that goes which, beyond doubt, a dead process of ours has made
 * and nobody uses: a regular file of our user, with a name as NCCL, PyTorch, Python, OpenMP and MPI give them, that was not there
 * when the attempt began, that no process of this kernel holds open or mapped; and
 *   - its name tells the pid of its maker (torch_PID_...), who was a process of ours and is dead; or
 *   - it is MPICH's and so are our workers: who makes such a file has it mapped until he removes it, in MPI_Init() or at the end.
 *     Unused it is of the dead, and nobody can need it.  (Those of Open MPI are in the folder of the round, and go with it.); or
 *   - we are process 1 and alone: whoever else lived in this container was our descendant, and is gone.
 */
#ifndef AGENT_SHMSWEEP_H
#define AGENT_SHMSWEEP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct shmsweep;

/* "/dev/shm"; borrowed.  has_mpich: the workers are programs of MPICH.  NULL: no memory, and nothing is swept. */
struct shmsweep *shmsweep_new(const char *dir, bool has_mpich);
void             shmsweep_begin(struct shmsweep *s); /* an attempt: what is there by now is not its workers' */
void             shmsweep_reaped(struct shmsweep *s, pid_t pid); /* it was ours, and is dead */
/* The attempt is over and its processes are gone. How many files were removed, and how large they were together.
 * All three accept NULL and do nothing. */
unsigned         shmsweep_end(struct shmsweep *s, bool is_alone, uint64_t *ret_bytes);
struct shmsweep *shmsweep_free(struct shmsweep *s); /* accepts NULL, returns NULL */

bool shmsweep_is_alone(void); /* we are process 1, and /proc shows no other process */

#endif
