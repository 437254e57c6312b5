/* gpus.h - the GPUs that this process may use, counted without creating a CUDA context.
 *
 * What there is comes from NVML (loaded at first use), else /proc/driver/nvidia, else /dev/nvidia*, else the
 * PCI bus; what of it is visible from CUDA_VISIBLE_DEVICES.  A GPU that is cut into MIG devices counts as
 * those.  Indices are in PCI order, which is CUDA's when the GPUs of a machine are alike.
 */
#ifndef LAUNCHER_GPUS_H
#define LAUNCHER_GPUS_H

#include <stdbool.h>

#include "launcher/machine.h"
#include "store/base/err.h"

enum { GPUS_MAX = 1024, GPU_ID_MAX = 96 };

enum gpus_source {
    GPUS_NONE, /* nothing of NVIDIA's was found; a CUDA_VISIBLE_DEVICES that is set is believed all the same
                */
    GPUS_NVML,
    GPUS_PROC,
    GPUS_DEV,
    GPUS_PCI,
};

struct gpu {
    char id[GPU_ID_MAX];   /* its item in CUDA_VISIBLE_DEVICES: as the user wrote it, else the index, MIG: the
                              UUID */
    char uuid[GPU_ID_MAX]; /* "" when unknown */
    char pci[16];          /* "0000:3b:00.0", "" when unknown */
    int  numa_node;        /* -1: unknown, or the machine has one node only */
    bool is_mig;
};

struct gpus {
    struct gpu      *list; /* n visible ones, in CUDA's order */
    unsigned         n;
    unsigned         n_cuda;  /* what one process can use at a time: n, but of MIG devices only the first */
    unsigned         n_total; /* on the machine, hidden ones too; MIG devices counted singly */
    enum gpus_source source;
    bool             is_limited; /* CUDA_VISIBLE_DEVICES is set */
    char             why[256];   /* "2 of 8 GPUs (NVML): CUDA_VISIBLE_DEVICES=4,5" */
};

/* is_quick: only how many there are, and only by what costs microseconds: no NVML, whose start can take
 * longer than ccrun's own, no bus, no names.  Good enough for a hint. No GPU is no failure: n is 0.  Release
 * with gpus_clear(). */
int  gpus_count(const struct machine *m, bool is_quick, struct gpus *ret, struct cc_err *err);
void gpus_clear(struct gpus *g);
void gpus_recount(struct gpus *g); /* sets n_cuda after the list was changed */

/* --gpus LIST: keeps those that the list names, in its order: positions 0..n-1 among the visible ones, ranges
 * "0-3", identifiers or unambiguous beginnings of one.  -EINVAL names the item; then g is unchanged. */
int gpus_select(struct gpus *g, const char *list, struct cc_err *err);

/* What CUDA_VISIBLE_DEVICES is for the workers, as new NULL-terminated lists of nproc strings. */
int gpus_mask(const struct gpus *g, unsigned nproc, char ***ret,
              struct cc_err *err); /* --mask-gpus: one GPU each */
int gpus_share(const struct gpus *g, unsigned nproc, char ***ret,
               struct cc_err *err); /* --gpus alone: all of them */
/* --virtual-local-rank: the local_rank-th item of `visible` (CUDA_VISIBLE_DEVICES as it is now), else the
 * rank. */
int  gpus_virtual(const char *visible, unsigned nproc, char ***ret, struct cc_err *err);
void gpus_strings_free(char **list);

#endif
