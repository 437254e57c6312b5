#include "launcher/facts.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "store/base/cgroupdir.h"
#include "store/base/macros.h"

/* v1 writes the largest multiple of a page for "no limit". */
static const uint64_t no_limit = UINT64_C(1) << 60;

/* Bytes that this one group may have, 0: no limit here. */
static uint64_t group_limit(const struct machine *m, const struct cgroup_dir *d, const char *file)
{
    char     text[64], *end;
    uint64_t v;

    if (machine_read(m, text, sizeof text, "%s/%s", d->path, file) <= 0)
        return 0;
    v = strtoull(text, &end, 10); /* "max" is no number */
    return end == text || *end || v >= no_limit ? 0 : v;
}

static void read_memory(const struct machine *m, struct facts *f)
{
    struct cgroup_dir dir[CGROUP_MAX_DIRS];
    unsigned          n = cgroup_find(m->root, "memory", dir);
    char              text[4096];
    const char       *total;

    for (unsigned i = 0; i < n; i++) {
        const char *file = dir[i].is_v2 ? "memory.max" : "memory.limit_in_bytes";

        do {
            uint64_t v = group_limit(m, &dir[i], file);

            if (v == 0 || (f->memory_limit != 0 && f->memory_limit <= v))
                continue;
            f->memory_limit = v;
            (void) snprintf(f->memory_file, sizeof f->memory_file, "%.200s/%s", dir[i].path, file);
        } while (cgroup_up(&dir[i]));
    }
    if (machine_read(m, text, sizeof text, "/proc/meminfo") > 0 && (total = strstr(text, "MemTotal:")))
        f->memory_total = strtoull(total + strlen("MemTotal:"), NULL, 10) * 1024;
}

static void read_shm(const struct machine *m, struct facts *f)
{
    char           path[PATH_MAX];
    struct statvfs fs;

    if (machine_path(m, path, "/dev/shm") == 0 && statvfs(path, &fs) == 0)
        f->shm_size = (uint64_t) fs.f_blocks * fs.f_frsize;
}

void facts_read(const struct machine *m, struct facts *ret)
{
    *ret = (struct facts){ .is_pid1 = getpid() == 1, .cpus = { .n = 1 } };
    if (machine_read(m, ret->host, sizeof ret->host, "/proc/sys/kernel/hostname") <= 0)
        if (gethostname(ret->host, sizeof ret->host - 1) < 0)
            (void) snprintf(ret->host, sizeof ret->host, "localhost");
    (void) cpus_count(m, &ret->cpus, NULL);
    read_memory(m, ret);
    read_shm(m, ret);
    scheduler_detect(m, ret->host, &ret->scheduler);
}

struct text {
    char  *buf;
    size_t size, n;
};

static void put(struct text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void put(struct text *t, const char *fmt, ...)
{
    va_list ap;
    int     n;

    va_start(ap, fmt);
    n = vsnprintf(t->buf + t->n, t->size - t->n, fmt, ap);
    va_end(ap);
    if (n > 0)
        t->n = t->n + (size_t) n < t->size ? t->n + (size_t) n : t->size - 1;
}

/* "512 MiB", "1.5 GiB": three digits are enough to recognise a limit. */
static void put_size(struct text *t, uint64_t bytes)
{
    static const char *const units[] = { "bytes", "KiB", "MiB", "GiB", "TiB", "PiB" };
    unsigned                 u = 0;
    uint64_t                 tenths = bytes * 10;

    if (bytes < 1024) {
        put(t, "%" PRIu64 " bytes", bytes);
        return;
    }
    while (tenths >= 10240 && u + 1 < CC_COUNT(units)) {
        tenths /= 1024;
        u++;
    }
    if (tenths % 10 == 0 || tenths >= 1000)
        put(t, "%" PRIu64 " %s", tenths / 10, units[u]);
    else
        put(t, "%" PRIu64 ".%" PRIu64 " %s", tenths / 10, tenths % 10, units[u]);
}

const char *facts_text(const struct facts *f, char *buf, size_t size)
{
    struct text             t = { .buf = buf, .size = size };
    const struct scheduler *s = &f->scheduler;

    buf[0] = '\0';
    if (f->cpus.why[0])
        put(&t, "cpus      %s\n", f->cpus.why);
    if (f->memory_limit > 0 || f->memory_total > 0) {
        put(&t, "memory    ");
        put_size(&t, f->memory_limit > 0 ? f->memory_limit : f->memory_total);
        if (f->memory_limit > 0)
            put(&t, ", the limit in %s", f->memory_file);
        put(&t, "\n");
    }
    put(&t, "/dev/shm  ");
    if (f->shm_size > 0)
        put_size(&t, f->shm_size);
    else
        put(&t, "there is none");
    put(&t, "\nscheduler %s", s->name ? s->name : "none");
    if (s->job_id)
        put(&t, ", job %.128s", s->job_id);
    if (s->nproc_from)
        put(&t, ", %s says %u", s->nproc_from, s->nproc);
    put(&t, "\n%s", f->is_pid1 ? "init      PID 1 of its container: orphans are reaped here\n" : "");
    return buf;
}
