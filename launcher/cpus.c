#include "launcher/cpus.h"

#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "store/base/cgroupdir.h"

enum { MAX_CPUS = 65536 }; /* bits of the mask that we ask the kernel for; Linux stops at 8,192 */

static int count_affinity(const struct machine *m, unsigned *ret)
{
    size_t     size = CPU_ALLOC_SIZE(MAX_CPUS);
    cpu_set_t *set;

    if (m->affinity) {
        *ret = (unsigned) CPU_COUNT(m->affinity);
        return 0;
    }
    set = CPU_ALLOC(MAX_CPUS);
    if (!set)
        return -ENOMEM;
    if (sched_getaffinity(0, size, set) < 0) {
        int r = -errno;

        CPU_FREE(set);
        return r;
    }
    *ret = (unsigned) CPU_COUNT_S(size, set);
    CPU_FREE(set);
    return 0;
}

/* Thousandths of a CPU that this one group allows, or 0: no limit here. */
static uint64_t group_quota(const struct machine *m, const struct cgroup_dir *d)
{
    char text[64], *end;
    long quota = 0, period = 0;

    if (d->is_v2) { /* "max 100000" or "200000 100000" */
        if (machine_read(m, text, sizeof text, "%s/cpu.max", d->path) <= 0)
            return 0;
        quota = strtol(text, &end, 10);
        period = end == text ? 0 : strtol(end, NULL, 10);
    } else if (machine_read_int(m, &quota, "%s/cpu.cfs_quota_us", d->path) < 0 ||
               machine_read_int(m, &period, "%s/cpu.cfs_period_us", d->path) < 0) {
        return 0;
    }
    if (quota <= 0 || period <= 0 || quota > LONG_MAX / 1000) /* v1 writes -1 for no limit */
        return 0;
    return ((uint64_t) quota * 1000 + (uint64_t) period - 1) / (uint64_t) period;
}

struct lowest {
    uint64_t milli; /* thousandths of a CPU; 0: none found yet */
    char     file[PATH_MAX];
};

static void find_lowest(const struct machine *m, struct lowest *ret)
{
    struct cgroup_dir dir[CGROUP_MAX_DIRS];
    unsigned          n = cgroup_find(m->root, "cpu", dir);

    ret->milli = 0;
    for (unsigned i = 0; i < n; i++) {
        do {
            uint64_t milli = group_quota(m, &dir[i]);

            if (milli == 0 || (ret->milli != 0 && ret->milli <= milli))
                continue;
            ret->milli = milli;
            (void) snprintf(ret->file, sizeof ret->file, "%.*s/%s", PATH_MAX - 32, dir[i].path,
                            dir[i].is_v2 ? "cpu.max" : "cpu.cfs_quota_us");
        } while (cgroup_up(&dir[i]));
    }
}

int cpus_count(const struct machine *m, struct cpus *ret, struct cc_err *err)
{
    struct cpus   c = { 0 };
    struct lowest low;
    uint64_t      whole;
    int           r = count_affinity(m, &c.n_affinity);

    if (r < 0)
        return cc_fail(err, r, "cannot read the CPU affinity mask: %s", strerror(-r));
    find_lowest(m, &low);
    whole = (low.milli + 999) / 1000;
    c.n_quota = whole > UINT_MAX ? UINT_MAX : (unsigned) whole;
    c.n = c.n_affinity > 0 ? c.n_affinity : 1;
    if (c.n_quota > 0 && c.n_quota < c.n) {
        c.n = c.n_quota;
        (void) snprintf(c.why, sizeof c.why,
                        "%u of %u CPUs: the quota in %.160s is %" PRIu64 ".%02" PRIu64 " CPUs", c.n,
                        c.n_affinity, low.file, low.milli / 1000, low.milli % 1000 / 10);
    } else {
        (void) snprintf(c.why, sizeof c.why, "%u CPU%s in the affinity mask", c.n, c.n == 1 ? "" : "s");
    }
    *ret = c;
    return 0;
}

unsigned cpus_omp_threads(const struct cpus *c, unsigned nproc)
{
    return nproc == 0 || c->n / nproc == 0 ? 1 : c->n / nproc;
}
