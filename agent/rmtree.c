#include "agent/rmtree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

enum {
    DEPTH_MAX = 64,    /* each level holds a descriptor */
    BUSY_TRIES = 100,  /* of a millisecond: a cgroup is still busy a moment after its last process was reaped */
};

static int remove_at(int at, const char *name, int depth);

static void empty_dir(int at, const char *name, int depth)
{
    int            fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR           *dir = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *e;

    if (!dir) {
        if (fd >= 0)
            (void) close(fd);
        return;
    }
    while ((e = readdir(dir))) {
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            (void) remove_at(fd, e->d_name, depth + 1); /* what stays makes the rmdir fail, which says so */
    }
    (void) closedir(dir);
}

static int remove_dir(int at, const char *name)
{
    int i, r = -EBUSY;

    for (i = 0; i < BUSY_TRIES && r == -EBUSY; i++) {
        if (i > 0)
            (void) poll(NULL, 0, 1);
        r = unlinkat(at, name, AT_REMOVEDIR) < 0 && errno != ENOENT ? -errno : 0;
    }
    return r;
}

static int remove_at(int at, const char *name, int depth)
{
    if (unlinkat(at, name, 0) == 0 || errno == ENOENT)
        return 0;
    if (errno != EISDIR && errno != EPERM) /* POSIX says EPERM where Linux says EISDIR; cgroup files say it as well */
        return -errno;
    if (unlinkat(at, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
        return 0;
    if ((errno != ENOTEMPTY && errno != EEXIST && errno != EBUSY) || depth == DEPTH_MAX)
        return -errno;
    empty_dir(at, name, depth);
    return remove_dir(at, name);
}

int rmtree(const char *path)
{
    return remove_at(AT_FDCWD, path, 0);
}
