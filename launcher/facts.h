/* facts.h - what this machine is like, read once, for --dry-run and -v: no name is looked up, nothing can
 * hang.
 *
 * What cannot be read is left out, so there is no failure.  GPUs are not here: they are counted only when
 * they matter.
 */
#ifndef LAUNCHER_FACTS_H
#define LAUNCHER_FACTS_H

#include <stdbool.h>
#include <stdint.h>

#include "launcher/cpus.h"
#include "launcher/machine.h"
#include "launcher/scheduler.h"

enum { FACTS_HOST_MAX = 256, FACTS_TEXT_MAX = 2048 };

struct facts {
    char             host[FACTS_HOST_MAX]; /* as the kernel knows it, whether or not it resolves */
    bool             is_pid1;              /* nobody above us reaps or ends our children: we do */
    struct cpus      cpus;                 /* n is 1 when it cannot be read, and why is empty */
    uint64_t         memory_total;         /* bytes; 0: unknown */
    uint64_t         memory_limit;         /* bytes, the lowest of our control groups; 0: none */
    char             memory_file[256];     /* which file said so */
    uint64_t         shm_size;             /* bytes of /dev/shm; 0: there is none */
    struct scheduler scheduler;            /* borrows from the environment */
};

void facts_read(const struct machine *m, struct facts *ret);

/* A line a fact but the host, "cpus      2 CPUs ...\n"; cut when buf is shorter than FACTS_TEXT_MAX.  Returns buf. */
const char *facts_text(const struct facts *f, char *buf, size_t size);

#endif
