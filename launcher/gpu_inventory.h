/* gpu_inventory.h - every NVIDIA GPU and MIG device that the machine shows, visible to CUDA or not. */
#ifndef LAUNCHER_GPU_INVENTORY_H
#define LAUNCHER_GPU_INVENTORY_H

#include "launcher/gpus.h"

struct gpu_inventory {
    enum gpus_source source;
    unsigned         n_gpus, n_mig;
    bool             is_uuid_known; /* of every GPU */
    bool             is_mig_known;
    struct gpu       gpu[GPUS_MAX], mig[GPUS_MAX];
    unsigned         mig_parent[GPUS_MAX]; /* index into gpu */
};

/* The first source that answers. Sets every field that has a meaning; ids are the indices. */
void gpu_inventory_read(const struct machine *m, bool is_quick, struct gpu_inventory *ret);

#endif
