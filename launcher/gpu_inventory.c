#include "launcher/gpu_inventory.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launcher/nvml.h"

enum { VENDOR_NVIDIA = 0x10de, CLASS_VGA = 0x0300, CLASS_3D = 0x0302 };

static struct gpu *add(struct gpu *list, unsigned *n)
{
    struct gpu *g = *n < GPUS_MAX ? &list[(*n)++] : NULL;

    if (g)
        *g = (struct gpu){ .numa_node = -1 };
    return g;
}

/* ---- NVML */

static void read_mig(const struct nvml *nvml, void *device, struct gpu_inventory *inv, unsigned parent)
{
    unsigned current = 0, pending = 0, max = 0;

    if (!nvml->mig_mode || !nvml->mig_max || !nvml->mig_handle || !nvml->uuid ||
        nvml->mig_mode(device, &current, &pending) != 0 || current != NVML_MIG_ENABLED ||
        nvml->mig_max(device, &max) != 0)
        return;
    for (unsigned i = 0; i < max; i++) { /* the slots need not be filled from the first */
        char        uuid[GPU_ID_MAX] = "";
        void       *part;
        struct gpu *g;

        if (nvml->mig_handle(device, i, &part) != 0 || nvml->uuid(part, uuid, sizeof uuid) != 0)
            continue;
        g = add(inv->mig, &inv->n_mig);
        if (!g)
            return;
        inv->mig_parent[inv->n_mig - 1] = parent;
        *g = inv->gpu[parent];
        g->is_mig = true;
        (void) snprintf(g->uuid, sizeof g->uuid, "%s", uuid);
        (void) snprintf(g->id, sizeof g->id, "%s", uuid);
    }
}

static void read_device(const struct nvml *nvml, unsigned index, struct gpu_inventory *inv)
{
    struct gpu     *g = add(inv->gpu, &inv->n_gpus);
    struct nvml_pci pci = { .domain = 0 };
    void           *device;

    if (!g || nvml->handle(index, &device) != 0) /* fell off the bus: it keeps its index */
        return;
    if (nvml->uuid && nvml->uuid(device, g->uuid, sizeof g->uuid) != 0)
        g->uuid[0] = '\0';
    if (nvml->pci && nvml->pci(device, &pci) == 0)
        (void) snprintf(g->pci, sizeof g->pci, "%04x:%02x:%02x.0", pci.domain & 0xffffff, pci.bus & 0xff,
                        pci.device & 0xff);
    read_mig(nvml, device, inv, inv->n_gpus - 1);
}

static bool read_nvml(const struct machine *m, struct gpu_inventory *inv)
{
    struct nvml        loaded = { .library = NULL };
    const struct nvml *nvml = m->nvml;
    unsigned           n = 0;
    bool               is_read = false;

    if (!nvml && m->root[0] == '\0' && nvml_load(&loaded) == 0)
        nvml = &loaded;
    if (nvml && nvml->init() == 0) {
        is_read = nvml->count(&n) == 0;
        for (unsigned i = 0; is_read && i < n && i < GPUS_MAX; i++)
            read_device(nvml, i, inv);
        (void) nvml->shutdown();
    }
    nvml_unload(&loaded);
    inv->is_mig_known = is_read;
    return is_read;
}

/* ---- files */

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int is_pci_address(const struct dirent *d)
{
    unsigned domain, bus, device, function;
    int      end = 0;

    return sscanf(d->d_name, "%8x:%2x:%2x.%1x%n", &domain, &bus, &device, &function, &end) == 4 &&
           d->d_name[end] == '\0' && end < (int) sizeof((struct gpu *) 0)->pci;
}

static int is_gpu_node(const struct dirent *d)
{
    size_t digits = strncmp(d->d_name, "nvidia", 6) == 0 ? strspn(d->d_name + 6, "0123456789") : 0;

    return digits > 0 && d->d_name[6 + digits] == '\0';
}

/* The sorted names of a directory; how many, 0 when it is not there. */
static unsigned list_dir(const struct machine *m, const char *dir, int (*filter)(const struct dirent *),
                         struct dirent ***ret)
{
    char path[PATH_MAX];
    int  n;

    *ret = NULL;
    if (machine_path(m, path, "%s", dir) < 0)
        return 0;
    n = scandir(path, ret, filter, by_name);
    return n < 0 ? 0 : (unsigned) n;
}

static void free_dir(struct dirent **names, unsigned n)
{
    while (n > 0)
        free(names[--n]);
    free(names);
}

/* "GPU UUID: GPU-..."; before the first use of a GPU the driver shows question marks. */
static void read_proc_uuid(const struct machine *m, struct gpu *g)
{
    char        text[2048];
    const char *at;

    if (machine_read(m, text, sizeof text, "/proc/driver/nvidia/gpus/%s/information", g->pci) < 0)
        return;
    at = strstr(text, "GPU UUID:");
    if (!at)
        return;
    at += strlen("GPU UUID:");
    at += strspn(at, " \t");
    (void) snprintf(g->uuid, sizeof g->uuid, "%.*s", (int) strcspn(at, " \t\n"), at);
    if (strncmp(g->uuid, "GPU-", 4) != 0 || strchr(g->uuid, '?'))
        g->uuid[0] = '\0';
}

static bool read_proc(const struct machine *m, bool is_quick, struct gpu_inventory *inv)
{
    struct dirent **names;
    unsigned        n = list_dir(m, "/proc/driver/nvidia/gpus", is_pci_address, &names);

    for (unsigned i = 0; i < n; i++) {
        struct gpu *g = add(inv->gpu, &inv->n_gpus);

        if (!g)
            break;
        (void) snprintf(g->pci, sizeof g->pci, "%.15s", names[i]->d_name);
        if (!is_quick) /* the driver may have to wake the GPU for it */
            read_proc_uuid(m, g);
    }
    free_dir(names, n);
    return n > 0;
}

/* A GPU that another driver holds (nouveau, vfio for a guest) is none of CUDA's. */
static bool is_usable_pci(const struct machine *m, const char *address)
{
    char    path[PATH_MAX], target[PATH_MAX];
    long    vendor = 0, class = 0;
    ssize_t n;

    if (machine_read_int(m, &vendor, "/sys/bus/pci/devices/%s/vendor", address) < 0 ||
        vendor != VENDOR_NVIDIA ||
        machine_read_int(m, &class, "/sys/bus/pci/devices/%s/class", address) < 0 ||
        (class >> 8 != CLASS_VGA && class >> 8 != CLASS_3D) ||
        machine_path(m, path, "/sys/bus/pci/devices/%s/driver", address) < 0)
        return false;
    n = readlink(path, target, sizeof target - 1);
    if (n < 0)
        return true; /* not bound yet: the driver may load at the first use */
    target[n] = '\0';
    return strcmp(strrchr(target, '/') ? strrchr(target, '/') + 1 : target, "nvidia") == 0;
}

static bool read_pci(const struct machine *m, struct gpu_inventory *inv)
{
    struct dirent **names;
    unsigned        n = list_dir(m, "/sys/bus/pci/devices", is_pci_address, &names);

    for (unsigned i = 0; i < n; i++) {
        struct gpu *g = is_usable_pci(m, names[i]->d_name) ? add(inv->gpu, &inv->n_gpus) : NULL;

        if (g)
            (void) snprintf(g->pci, sizeof g->pci, "%.15s", names[i]->d_name);
    }
    free_dir(names, n);
    return inv->n_gpus > 0;
}

/* The device nodes say how many, the bus says which, when the two agree. */
static bool read_dev(const struct machine *m, bool is_quick, struct gpu_inventory *inv)
{
    struct dirent **names;
    unsigned        n = list_dir(m, "/dev", is_gpu_node, &names);

    free_dir(names, n);
    if (n == 0)
        return false;
    if (!is_quick)
        (void) read_pci(m, inv);
    if (inv->n_gpus != n) {
        inv->n_gpus = 0;
        while (inv->n_gpus < n && add(inv->gpu, &inv->n_gpus))
            continue;
    }
    return true;
}

static void finish(const struct machine *m, struct gpu_inventory *inv)
{
    inv->is_uuid_known = inv->n_gpus > 0;
    for (unsigned i = 0; i < inv->n_gpus; i++) {
        struct gpu *g = &inv->gpu[i];
        long        node;

        (void) snprintf(g->id, sizeof g->id, "%u", i);
        if (g->pci[0] && machine_read_int(m, &node, "/sys/bus/pci/devices/%s/numa_node", g->pci) == 0)
            g->numa_node = (int) node;
        inv->is_uuid_known = inv->is_uuid_known && g->uuid[0];
    }
    for (unsigned i = 0; i < inv->n_mig; i++)
        inv->mig[i].numa_node = inv->gpu[inv->mig_parent[i]].numa_node;
}

void gpu_inventory_read(const struct machine *m, bool is_quick, struct gpu_inventory *ret)
{
    ret->n_gpus = ret->n_mig = 0;
    ret->is_mig_known = false;
    if (!is_quick && read_nvml(m, ret)) {
        ret->source = GPUS_NVML;
    } else {
        ret->n_gpus = ret->n_mig = 0;
        ret->source = read_proc(m, is_quick, ret)     ? GPUS_PROC
                      : read_dev(m, is_quick, ret)    ? GPUS_DEV
                      : !is_quick && read_pci(m, ret) ? GPUS_PCI
                                                      : GPUS_NONE;
    }
    finish(m, ret);
}
