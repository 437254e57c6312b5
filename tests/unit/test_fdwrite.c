#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "store/base/fdwrite.h"

Test(fdwrite, writes_all_and_tells_how_much_that_was)
{
    char   got[8] = "";
    int    fds[2];
    size_t done = 0;

    cr_assert_eq(pipe2(fds, O_CLOEXEC), 0);
    cr_assert_eq(cc_write_all(fds[1], "hello", 5, &done), 0);
    cr_assert_eq(done, 5);
    cr_assert_eq(read(fds[0], got, sizeof got), 5);
    cr_assert_str_eq(got, "hello");
}

Test(fdwrite, a_full_disk_is_its_errno)
{
    int    fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
    size_t done = 1;

    cr_assert_eq(cc_write_all(fd, "hello", 5, &done), -ENOSPC);
    cr_assert_eq(done, 0);
}

Test(fdwrite, a_socket_takes_what_it_can_and_the_rest_waits)
{
    enum { MUCH = 8 << 20 };
    struct cc_buf b = { 0 };
    size_t        left, got = 0;
    char         *piece = malloc(MUCH);
    int           fds[2];

    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    cr_assert(piece && cc_buf_grow(&b, MUCH));
    memset(b.p, 'x', MUCH);
    cr_assert_eq(cc_send_some(fds[0], &b), 0);
    left = cc_buf_len(&b);
    cr_assert(left > 0 && left < MUCH);
    while (got < MUCH) {
        ssize_t n = read(fds[1], piece, MUCH);

        cr_assert_gt(n, 0);
        got += (size_t) n;
        cr_assert_eq(cc_send_some(fds[0], &b), 0);
    }
    cr_expect_eq(cc_buf_len(&b), 0);
    cr_assert_eq(cc_buf_add(&b, "y", 1), 0);
    (void) close(fds[1]);
    cr_expect_eq(cc_send_some(fds[0], &b), -EPIPE);
    cc_buf_free(&b);
    (void) close(fds[0]);
    free(piece);
}
