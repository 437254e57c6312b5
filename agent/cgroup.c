#include "agent/cgroup.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/rmtree.h"
#include "store/base/cgroupdir.h"
#include "store/base/cleanup.h"

/* ---- the out-of-memory killer */

/* "NAME value" in a file of such lines, or the file's only number when name is NULL. */
static bool read_number(int dir, const char *file, const char *name, uint64_t *ret)
{
    int   fd = openat(dir, file, O_RDONLY | O_CLOEXEC);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "r");
    char  line[128];
    bool  is_found = false;

    while (f && !is_found && fgets(line, sizeof line, f)) {
        size_t n = name ? strlen(name) : 0;
        char  *end;

        if (name && (strncmp(line, name, n) != 0 || line[n] != ' '))
            continue;
        errno = 0;
        *ret = strtoull(line + n, &end, 10);
        is_found = end > line + n && errno == 0;
        if (!name)
            break;
    }
    if (f)
        (void) fclose(f);
    else if (fd >= 0)
        (void) close(fd);
    return is_found;
}

static int open_dir(const char *root, const char *path)
{
    char full[PATH_MAX];

    if (snprintf(full, sizeof full, "%s%s", root, path) >= (int) sizeof full)
        return -1;
    return open(full, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

struct layout {
    const char *kills, *limit, *peak;
};

/* The limit may be a pod's or a slice's, above our group; the kills are counted where the victim was. */
static bool read_oom(const char *root, struct cgroup_dir *dir, struct cgroup_oom *ret)
{
    static const struct layout layouts[] = {
        { "memory.oom_control", "memory.limit_in_bytes", "memory.max_usage_in_bytes" },
        { "memory.events", "memory.max", "memory.peak" },
    };
    const struct layout *l = &layouts[dir->is_v2];
    struct cgroup_oom    oom = { .is_known = true, .limit = UINT64_MAX };
    bool                 is_own = true;

    do {
        CC_AUTO_FD int fd = open_dir(root, dir->path);
        uint64_t       limit;

        if (is_own && !read_number(fd, l->kills, "oom_kill", &oom.oom_kills))
            return false;
        if (!read_number(fd, l->limit, NULL, &limit))
            limit = UINT64_MAX;
        if ((is_own || limit < oom.limit) && !read_number(fd, l->peak, NULL, &oom.peak))
            oom.peak = 0;
        if (limit < oom.limit)
            oom.limit = limit;
        is_own = false;
    } while (cgroup_up(dir));
    if (oom.limit > INT64_MAX / 2) /* how v1 writes "none" */
        oom.limit = 0;
    *ret = oom;
    return true;
}

int cgroup_oom_read(const char *root, struct cgroup_oom *ret)
{
    struct cgroup_dir dirs[CGROUP_MAX_DIRS];
    unsigned          n = cgroup_find(root ? root : "", "memory", dirs), i;

    *ret = (struct cgroup_oom) { 0 };
    for (i = 0; i < n; i++) {
        if (read_oom(root ? root : "", &dirs[i], ret))
            return 0;
    }
    return -ENOENT;
}

uint64_t cgroup_oom_delta(const struct cgroup_oom *before, const struct cgroup_oom *after)
{
    bool is_known = before->is_known && after->is_known && after->oom_kills > before->oom_kills;

    return is_known ? after->oom_kills - before->oom_kills : 0;
}

/* ---- groups */

struct cgroup {
    char     path[PATH_MAX];
    int      dir;
    unsigned n;
    int      fds[]; /* of the workers' groups, -1: not made yet */
};

/* One of this name is left from a ccrun that was killed and had our pid. It can only be empty, or not go. */
static int make_dir(const char *path)
{
    if (mkdir(path, 0755) == 0)
        return 0;
    if (errno != EEXIST || rmtree(path) < 0)
        return -1;
    return mkdir(path, 0755);
}

struct cgroup *cgroup_new(const char *root, unsigned n)
{
    struct cgroup_dir own;
    struct cgroup    *c;
    unsigned          i;

    if (!cgroup_find_v2(root ? root : "", &own))
        return NULL;
    c = malloc(sizeof *c + n * sizeof *c->fds);
    if (!c)
        return NULL;
    c->n = n;
    c->dir = -1;
    for (i = 0; i < n; i++)
        c->fds[i] = -1;
    if (snprintf(c->path, sizeof c->path, "%s%s/ccrun-%d", root ? root : "", own.path, (int) getpid()) <
            (int) sizeof c->path &&
        make_dir(c->path) == 0) {
        c->dir = open(c->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (c->dir >= 0)
            return c;
        (void) rmdir(c->path);
    }
    free(c);
    return NULL;
}

int cgroup_fd(struct cgroup *c, unsigned k)
{
    char name[16];

    assert(k < c->n);
    if (c->fds[k] < 0) {
        (void) snprintf(name, sizeof name, "w%u", k);
        if (mkdirat(c->dir, name, 0755) == 0 || errno == EEXIST)
            c->fds[k] = openat(c->dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    }
    return c->fds[k];
}

static int dir_of(const struct cgroup *c, int k)
{
    assert(k == CGROUP_ALL || (k >= 0 && (unsigned) k < c->n));
    return k == CGROUP_ALL ? c->dir : c->fds[k];
}

int cgroup_kill(struct cgroup *c, int k)
{
    CC_AUTO_FD int fd = openat(dir_of(c, k), "cgroup.kill", O_WRONLY | O_CLOEXEC);

    return fd < 0 || write(fd, "1", 1) < 0 ? -errno : 0;
}

bool cgroup_is_empty(struct cgroup *c, int k)
{
    uint64_t n;

    return !read_number(dir_of(c, k), "cgroup.events", "populated", &n) || n == 0;
}

const char *cgroup_path(const struct cgroup *c)
{
    return c->path;
}

struct cgroup *cgroup_free(struct cgroup *c)
{
    unsigned i;

    if (!c)
        return NULL;
    for (i = 0; i < c->n; i++) {
        if (c->fds[i] >= 0)
            (void) close(c->fds[i]);
    }
    (void) close(c->dir);
    (void) rmtree(c->path);
    free(c);
    return NULL;
}
