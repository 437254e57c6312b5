#include "agent/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
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
    int  dir;
    bool is_killed;
    char path[PATH_MAX];
};

struct cgroup *cgroup_new(const char *root)
{
    struct cgroup_dir own;
    struct cgroup    *c;

    if (!root)
        root = "";
    if (!cgroup_find_v2(root, &own))
        return NULL;
    c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->dir = -1;
    if (snprintf(c->path, sizeof c->path, "%s%s/ccrun-%d", root, own.path, (int) getpid()) < (int) sizeof c->path)
        return c;
    free(c);
    return NULL;
}

const char *cgroup_path(const struct cgroup *c)
{
    return c->path;
}

/* Start a child in it, and see it live.  Kernels since 6.14 (and what was ported back) compare the count of kills of the
 * wrong group when a process is started in another than its parent's, and kill it at once when they differ: whatever is
 * started in a group that was killed once, or out of one that was. */
static int try_start(int dir)
{
    struct clone_args args = { .flags = CLONE_INTO_CGROUP, .exit_signal = SIGCHLD, .cgroup = (unsigned) dir };
    long              pid = syscall(SYS_clone3, &args, sizeof args);
    int               status;

    if (pid == 0)
        _exit(0);
    if (pid < 0)
        return -errno;
    while (waitpid((pid_t) pid, &status, 0) < 0 && errno == EINTR)
        ;
    return status == 0 ? 0 : -EOPNOTSUPP;
}

static void drop(struct cgroup *c)
{
    if (c->dir < 0)
        return;
    (void) close(c->dir);
    c->dir = -1;
    (void) rmtree(c->path);
}

/* Groups beside ours whose ccrun was killed together with its keeper, or left a process in D state. Only an empty group
 * can be removed; if one was just made by a ccrun of another PID namespace, that one starts its workers without. */
static void remove_stale(const char *own)
{
    char           parent[PATH_MAX];
    char          *slash;
    struct dirent *e;
    DIR           *dir;
    int            pid, end;

    (void) memcpy(parent, own, strlen(own) + 1);
    slash = strrchr(parent, '/');
    *slash = '\0';
    dir = opendir(parent);
    while (dir && (e = readdir(dir))) {
        end = 0;
        if (sscanf(e->d_name, "ccrun-%d%n", &pid, &end) == 1 && !e->d_name[end] && kill(pid, 0) < 0 && errno == ESRCH)
            (void) unlinkat(dirfd(dir), e->d_name, AT_REMOVEDIR);
    }
    if (dir)
        (void) closedir(dir);
}

/* A group of this name is left from a ccrun that was killed and had our pid, or it is ours and holds a process in D
 * state: then it does not go, and there is no new one. */
int cgroup_renew(struct cgroup *c)
{
    int r;

    if (c->dir >= 0 && !c->is_killed)
        return 0;
    drop(c);
    if (!c->is_killed)
        remove_stale(c->path);
    if (mkdir(c->path, 0755) < 0 && (errno != EEXIST || rmtree(c->path) < 0 || mkdir(c->path, 0755) < 0))
        return -errno;
    c->is_killed = false;
    c->dir = open(c->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    r = c->dir < 0 ? -errno : try_start(c->dir);
    if (r < 0)
        drop(c);
    return r;
}

int cgroup_fd(const struct cgroup *c)
{
    return c ? c->dir : -1;
}

int cgroup_kill(struct cgroup *c)
{
    CC_AUTO_FD int fd = c->dir < 0 ? -1 : openat(c->dir, "cgroup.kill", O_WRONLY | O_CLOEXEC);

    if (c->dir < 0)
        return -ENOENT;
    c->is_killed = true;
    return fd < 0 || write(fd, "1", 1) < 0 ? -errno : 0;
}

struct cgroup *cgroup_free(struct cgroup *c)
{
    if (!c)
        return NULL;
    drop(c);
    free(c);
    return NULL;
}
