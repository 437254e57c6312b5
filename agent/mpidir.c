#include "agent/mpidir.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/keeper.h"
#include "store/base/macros.h"

static int make_in(const char *base, char **ret, int keeper_fd)
{
    uint64_t name;
    char    *path;

    if (getrandom(&name, sizeof name, 0) != sizeof name || access(base, W_OK | X_OK) < 0)
        return -errno;
    if (asprintf(&path, "%s/ccrun-mpi-%016llx", base, (unsigned long long) name) < 0)
        return -ENOMEM;
    keeper_remove_later(keeper_fd, path); /* before it is there: we may be killed any time */
    if (mkdir(path, 0700) < 0) {
        int r = -errno;

        free(path);
        return r;
    }
    *ret = path;
    return 0;
}

int mpidir_make(char **ret, int keeper_fd, struct cc_err *err)
{
    const char *const bases[] = { "/dev/shm", getenv("TMPDIR"), "/tmp" };
    size_t            i;
    int               r = -ENOENT;

    for (i = 0; i < CC_COUNT(bases) && r < 0; i++)
        if (bases[i] && bases[i][0] == '/')
            r = make_in(bases[i], ret, keeper_fd);
    return r < 0 ? cc_fail(err, r, "make a directory for MPI in /dev/shm or /tmp: %s", strerror(-r)) : 0;
}
