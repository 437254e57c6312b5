#include <criterion/criterion.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher/stdstreams.h"

Test(stdstreams, opens_what_is_closed_and_leaves_the_rest)
{
    struct stat   null, was, st;
    unsigned      fd;
    static const int closed[] = { 0, 2 };

    cr_assert_eq(stat("/dev/null", &null), 0);
    cr_assert_eq(fstat(1, &was), 0);
    for (fd = 0; fd < 2; fd++)
        (void) close(closed[fd]);
    cr_assert_eq(stdstreams_open(), 0);
    for (fd = 0; fd < 2; fd++) {
        cr_assert_eq(fstat(closed[fd], &st), 0);
        cr_assert_eq(st.st_rdev, null.st_rdev);
        cr_assert_eq(fcntl(closed[fd], F_GETFD), 0, "a worker gets it");
    }
    cr_assert_eq(fstat(1, &st), 0);
    cr_assert_eq(st.st_ino, was.st_ino);
}
