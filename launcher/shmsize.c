#include "launcher/shmsize.h"

#include <inttypes.h>
#include <stdint.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { FLOOR_MB = 64, WORKER_MB = 32, ENOUGH_MB = 1024 }; /* NCCL takes about 10 to 30 MB for each worker */

static bool has_gpu(const struct machine *m)
{
    char path[PATH_MAX];

    return machine_path(m, path, "/dev/nvidiactl") == 0 && access(path, F_OK) == 0;
}

static uint64_t wanted_mb(unsigned nproc)
{
    uint64_t mb = (uint64_t) nproc * WORKER_MB;

    return mb < FLOOR_MB ? FLOOR_MB : mb < ENOUGH_MB ? mb : ENOUGH_MB;
}

bool shmsize_is_small(const struct machine *m, unsigned nproc, char ret[SHMSIZE_TEXT_MAX])
{
    char           path[PATH_MAX];
    struct statvfs fs;
    uint64_t       mb;

    if (machine_path(m, path, "/dev/shm") < 0 || statvfs(path, &fs) < 0 || fs.f_blocks == 0)
        return false;
    mb = ((uint64_t) fs.f_blocks * fs.f_frsize) >> 20;
    if (mb > wanted_mb(nproc) || (nproc < 2 && !has_gpu(m)))
        return false;
    (void) snprintf(ret, SHMSIZE_TEXT_MAX, "/dev/shm has only %" PRIu64 " MB for %u worker%s: NCCL and data loaders may fail "
                    "(docker run --shm-size=8g; in Kubernetes mount an emptyDir with medium: Memory there)",
                    mb, nproc, nproc == 1 ? "" : "s");
    return true;
}
