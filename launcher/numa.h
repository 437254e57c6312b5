/* numa.h - --numa-binding: which CPUs each worker gets, near its GPU, or spread over the nodes where there is
 * none.
 *
 * The same sets as torchrun computes, from sysfs, but set before the exec and without the numactl program.  A
 * worker belongs to the NUMA node of its GPU: the visible GPU of its local rank.  Without GPUs worker k of n
 * belongs to the k*nodes/n-th of the nodes that have CPUs for us.  No set reaches beyond the inherited mask.
 */
#ifndef LAUNCHER_NUMA_H
#define LAUNCHER_NUMA_H

#include <sched.h>

#include "launcher/gpus.h"
#include "launcher/machine.h"
#include "store/base/err.h"

enum numa_mode {
    NUMA_OFF,
    NUMA_NODE,         /* all CPUs of the node */
    NUMA_SOCKET,       /* of all nodes of its socket */
    NUMA_EXCLUSIVE,    /* an equal share of the node's physical cores, nobody else's */
    NUMA_CORE_COMPLEX, /* CPUs of the node that share its largest cache */
};

/* "node", "socket", "exclusive", "core-complex"; -EINVAL names the value. */
int numa_parse(const char *text, enum numa_mode *ret, struct cc_err *err);

/* Sets ret[0..nproc-1].  `gpus` may be NULL or empty.  A failure says which worker cannot be bound and why.
 */
int numa_bind(const struct machine *m, enum numa_mode mode, const struct gpus *gpus, unsigned nproc,
              cpu_set_t *ret, struct cc_err *err);

#endif
