#include "launcher/nvml.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "store/base/macros.h"
#include "store/base/shared.h"

/* Where NVIDIA's own header is installed, ours is held against it. */
#if __has_include(<nvml.h>)
#include <nvml.h>
#define SAME(ours, theirs)                                                                                   \
    (offsetof(struct nvml_pci, ours) == offsetof(nvmlPciInfo_t, theirs) &&                                   \
     sizeof((struct nvml_pci *) 0)->ours == sizeof((nvmlPciInfo_t *) 0)->theirs)
_Static_assert(SAME(bus_id_legacy, busIdLegacy) && SAME(domain, domain) && SAME(bus, bus) && SAME(device, device) &&
                   SAME(bus_id, busId) && sizeof(struct nvml_pci) == sizeof(nvmlPciInfo_t),
               "struct nvml_pci is nvmlPciInfo_t");
_Static_assert(NVML_DEVICE_MIG_ENABLE == NVML_MIG_ENABLED && NVML_SUCCESS == 0 &&
                   sizeof(nvmlReturn_t) == sizeof(int) && sizeof(nvmlDevice_t) == sizeof(void *),
               "values and sizes are those of nvml.h");
#undef SAME
#endif

int nvml_load(struct nvml *ret)
{
    struct nvml n = { .library = cc_shared_open("libnvidia-ml.so.1") };

    static const struct {
        const char *name;
        size_t      at;
        int         is_needed;
    } symbols[] = {
        { "nvmlInit_v2", offsetof(struct nvml, init), 1 },
        { "nvmlShutdown", offsetof(struct nvml, shutdown), 1 },
        { "nvmlDeviceGetCount_v2", offsetof(struct nvml, count), 1 },
        { "nvmlDeviceGetHandleByIndex_v2", offsetof(struct nvml, handle), 1 },
        { "nvmlDeviceGetUUID", offsetof(struct nvml, uuid), 0 },
        { "nvmlDeviceGetPciInfo_v3", offsetof(struct nvml, pci), 0 },
        { "nvmlDeviceGetMigMode", offsetof(struct nvml, mig_mode), 0 },
        { "nvmlDeviceGetMaxMigDeviceCount", offsetof(struct nvml, mig_max), 0 },
        { "nvmlDeviceGetMigDeviceHandleByIndex", offsetof(struct nvml, mig_handle), 0 },
    };

    if (!n.library)
        return -ENOENT;
    for (unsigned i = 0; i < CC_COUNT(symbols); i++) {
        void *symbol = cc_shared_symbol(n.library, symbols[i].name);

        if (!symbol && symbols[i].is_needed) {
            nvml_unload(&n);
            return -ENOENT;
        }
        memcpy((char *) &n + symbols[i].at, &symbol, sizeof symbol); /* ISO C has no cast for this */
    }
    *ret = n;
    return 0;
}

void nvml_unload(struct nvml *n)
{
    if (n->library)
        cc_shared_close(n->library);
    n->library = NULL;
}
