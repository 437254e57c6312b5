/* ranklist.h - many ranks in few characters: "0-7,9,12-15".
 *
 * Pure.  What does not fit into the buffer is cut between two ranges and ",..." takes its place.
 */
#ifndef AGENT_CORE_RANKLIST_H
#define AGENT_CORE_RANKLIST_H

#include <stddef.h>

/* ranks: ascending, none twice.  size is at least 32.  Returns the length of buf. */
size_t ranklist_format(const unsigned *ranks, size_t n, char *buf, size_t size);

#endif
