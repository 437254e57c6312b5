#include "store/base/fdwrite.h"

#include <errno.h>
#include <unistd.h>

int cc_write_all(int fd, const char *p, size_t n, size_t *ret_done)
{
    size_t done = 0;
    int    r = 0;

    while (done < n && r == 0) {
        ssize_t k = write(fd, p + done, n - done);

        if (k > 0)
            done += (size_t) k;
        else if (k == 0)
            r = -EIO;
        else if (errno != EINTR)
            r = -errno;
    }
    if (ret_done)
        *ret_done = done;
    return r;
}
