/* cpulist.h - the kernel's way to write sets of numbers: "0-3,8,10-11".
 *
 * Pure.  Used for CPUs and for NUMA nodes; numbers of CPU_SETSIZE and above are left out of the set.
 */
#ifndef LAUNCHER_CPULIST_H
#define LAUNCHER_CPULIST_H

#include <sched.h>
#include <stddef.h>

/* -EINVAL: not such a list; then *ret is empty.  An empty list is an empty set. */
int cpulist_parse(const char *text, cpu_set_t *ret);

/* Writes the list into buf, cut at an item's end with "..." when it does not fit. Returns buf. */
const char *cpulist_format(const cpu_set_t *set, char *buf, size_t size);

/* The lowest number above `after`, -1: there is none.  Start with after = -1. */
int cpulist_next(const cpu_set_t *set, int after);

#endif
