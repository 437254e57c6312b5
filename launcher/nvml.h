/* nvml.h - the few functions of libnvidia-ml.so.1 that count GPUs, loaded at run time: no driver, no library.
 *
 * Types and values are those of NVIDIA's nvml.h, whose functions return 0 on success.  Functions that old
 * drivers lack are NULL.
 */
#ifndef LAUNCHER_NVML_H
#define LAUNCHER_NVML_H

enum { NVML_BUS_ID_LEGACY = 16, NVML_BUS_ID = 32, NVML_MIG_ENABLED = 1 };

struct nvml_pci { /* nvmlPciInfo_t as of nvmlDeviceGetPciInfo_v3 */
    char     bus_id_legacy[NVML_BUS_ID_LEGACY];
    unsigned domain, bus, device, device_id, subsystem_id;
    char     bus_id[NVML_BUS_ID];
};

struct nvml {
    int (*init)(void);
    int (*shutdown)(void);
    int (*count)(unsigned *ret);
    int (*handle)(unsigned index, void **ret);
    int (*uuid)(void *device, char *ret, unsigned size);
    int (*pci)(void *device, struct nvml_pci *ret);
    int (*mig_mode)(void *device, unsigned *ret_current, unsigned *ret_pending);
    int (*mig_max)(void *device, unsigned *ret);
    int (*mig_handle)(void *device, unsigned index, void **ret);
    void *library;
};

/* 0, or -ENOENT: there is no such library, or it lacks what is needed. */
int  nvml_load(struct nvml *ret);
void nvml_unload(struct nvml *n);

#endif
