/* nproc.h - how many workers this node starts: --nproc-per-node, else what the scheduler gave us, else one.
 */
#ifndef LAUNCHER_NPROC_H
#define LAUNCHER_NPROC_H

#include <stdbool.h>

#include "launcher/gpus.h"
#include "launcher/machine.h"
#include "store/base/err.h"

enum { NPROC_MAX = 65536 };

struct nproc_req {
    const char        *text;      /* the option or its PET_ variable; NULL: neither was given */
    const struct gpus *gpus;      /* after --gpus; NULL: counted here, when they matter */
    bool               is_chosen; /* --gpus was given */
    bool               is_masked; /* each worker gets a GPU of its own, so that every MIG device counts */
    const char        *host;      /* our host name, for the schedulers' host lists */
};

struct nproc {
    unsigned    n;
    const char *from;      /* the variable that said so when it was not the option, or NULL */
    char        why[512];  /* "gpu: 8 GPUs (NVML)", for -v and --dry-run */
    char        hint[128]; /* one sentence for the user when more was to be had, else "" */
};

/* -EINVAL with a sentence for the user: an unknown word, no GPU, a number out of 1..NPROC_MAX. */
int nproc_resolve(const struct machine *m, const struct nproc_req *req, struct nproc *ret,
                  struct cc_err *err);

#endif
