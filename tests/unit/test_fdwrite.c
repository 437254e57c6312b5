#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
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
