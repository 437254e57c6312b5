/* hetgroups.h - a heterogeneous job of Slurm: parts with resources of their own that were given to one batch script.
 *
 * Pure.  The plain variables of the script (SLURM_JOB_NODELIST and others) are those of the first part alone; each part has
 * its own with _HET_GROUP_ and its number behind the name.  Inside a step Slurm merges them, and nothing is to be done.
 */
#ifndef LAUNCHER_HETGROUPS_H
#define LAUNCHER_HETGROUPS_H

#include "launcher/hostlist.h"
#include "launcher/machine.h"
#include "store/base/err.h"

enum { HETGROUPS_MAX = 128 }; /* as many as Slurm takes */

/* 0: no such job.  -EINVAL: SLURM_HET_SIZE is none. */
int hetgroups_count(const struct machine *m, struct cc_err *err);

/* The value of `name` of a part; NULL: it is not set. */
const char *hetgroups_env(const struct machine *m, const char *name, unsigned group);

/* The hosts of all n parts in their order, which is that of SLURM_NODEID in a step of all of them; ret_n[i]: how many part i
 * has.  -EINVAL: a part without a list, and a host in two parts, where two agents would take the same CPUs and GPUs. */
int hetgroups_hosts(const struct machine *m, unsigned n, struct hostlist *ret, size_t *ret_n, struct cc_err *err);

#endif
