/* cpus.h - how many CPUs we may really use: the affinity mask, and what the control group's quota allows. */
#ifndef LAUNCHER_CPUS_H
#define LAUNCHER_CPUS_H

#include "launcher/machine.h"
#include "store/base/err.h"

struct cpus {
    unsigned n;          /* usable: min of the two below, at least 1 */
    unsigned n_affinity; /* in the inherited mask */
    unsigned n_quota;    /* the lowest CPU quota from our group up to the top, rounded up; 0: none */
    char     why[256];   /* "2 of 8 CPUs: cpu.max of /sys/fs/cgroup/x allows 2.00", for -v and --dry-run */
};

int cpus_count(const struct machine *m, struct cpus *ret, struct cc_err *err);

/* OMP_NUM_THREADS for each of nproc workers on the same CPUs: at least 1. */
unsigned cpus_omp_threads(const struct cpus *c, unsigned nproc);

#endif
