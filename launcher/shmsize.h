/* shmsize.h - is /dev/shm, through which the workers of one machine pass data, too small for them?
 *
 * A container has 64 MB of it unless told otherwise: NCCL fails when it is full, data loaders die of SIGBUS.
 */
#ifndef LAUNCHER_SHMSIZE_H
#define LAUNCHER_SHMSIZE_H

#include <stdbool.h>

#include "launcher/machine.h"

enum { SHMSIZE_TEXT_MAX = 256 };

/* True: one sentence for the user is in `ret`.  One worker without a GPU has nobody to share memory with. */
bool shmsize_is_small(const struct machine *m, unsigned nproc, char ret[SHMSIZE_TEXT_MAX]);

#endif
