#include "store/base/fdwrite.h"

#include <errno.h>
#include <sys/socket.h>
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

int cc_send_some(int fd, struct cc_buf *b)
{
    while (cc_buf_len(b) > 0) {
        ssize_t n = send(fd, cc_buf_data(b), cc_buf_len(b), MSG_DONTWAIT | MSG_NOSIGNAL);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : -errno;
        cc_buf_drop(b, (size_t) n);
    }
    return 0;
}
