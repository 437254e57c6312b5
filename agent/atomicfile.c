#include "agent/atomicfile.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/base/cleanup.h"
#include "store/base/fdwrite.h"

/* A file on NFS, or over quota, may report its failure only when it is closed. */
static int write_and_close(int *fd, const char *data, size_t len)
{
    int r = cc_write_all(*fd, data, len, NULL), one = cc_steal_fd(fd);

    if (close(one) < 0 && r == 0)
        r = -errno;
    return r;
}

static int write_in_place(const char *path, const char *data, size_t len, struct cc_err *err)
{
    CC_AUTO_FD int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    int            r;

    if (fd < 0)
        return cc_fail(err, -errno, "write '%s': %s", path, strerror(errno));
    r = write_and_close(&fd, data, len);
    return r < 0 ? cc_fail(err, r, "write '%s': %s", path, strerror(-r)) : 0;
}

/* /dev/stdout, /dev/fd/3, a FIFO: things that must be written to, and never replaced by a file. */
static bool is_special(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && !S_ISREG(st.st_mode);
}

/* mkostemp() makes a file for its owner only; this one is to be as the user's other files. */
static mode_t current_umask(void)
{
    mode_t mask = umask(077);

    (void) umask(mask);
    return mask;
}

int atomicfile_write(const char *path, const char *data, size_t len, struct cc_err *err)
{
    char           tmp[PATH_MAX];
    CC_AUTO_FD int fd = -1;
    int            n, r;

    if (is_special(path))
        return write_in_place(path, data, len, err);
    n = snprintf(tmp, sizeof tmp, "%s.XXXXXX", path);
    if (n < 0 || (size_t) n >= sizeof tmp)
        return cc_fail(err, -ENAMETOOLONG, "write '%s': the name is too long", path);
    fd = mkostemp(tmp, O_CLOEXEC);
    r = fd < 0 ? -errno : 0;
    if ((r == -EACCES || r == -EROFS || r == -EPERM) && access(path, W_OK) == 0)
        return write_in_place(path, data, len, err);
    if (r < 0)
        return cc_fail(err, r, "write '%s': %s", path, strerror(-r));
    (void) fchmod(fd, 0666 & ~current_umask());
    r = write_and_close(&fd, data, len);
    if (r == 0 && rename(tmp, path) < 0)
        r = -errno;
    if (r < 0)
        (void) unlink(tmp);
    return r < 0 ? cc_fail(err, r, "write '%s': %s", path, strerror(-r)) : 0;
}
