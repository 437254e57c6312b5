#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/mpidir.h"

static char *make(int keeper_fd)
{
    struct cc_err err = { 0 };
    char         *path = NULL;

    cr_assert_eq(mpidir_make(&path, keeper_fd, &err), 0, "%s", err.msg);
    return path;
}

Test(mpidir, makes_an_empty_directory_for_us_alone)
{
    char         *path = make(-1);
    struct stat   st;
    DIR          *d = opendir(path);
    struct dirent *e;

    cr_assert_eq(stat(path, &st), 0);
    cr_assert(S_ISDIR(st.st_mode));
    cr_assert_eq(st.st_mode & 07777, 0700);
    cr_assert_eq(st.st_uid, geteuid());
    cr_assert_not_null(d);
    while ((e = readdir(d)))
        cr_assert_eq(e->d_name[0], '.', "%s", e->d_name);
    (void) closedir(d);
    cr_assert_eq(rmdir(path), 0);
    free(path);
}

Test(mpidir, no_two_are_one)
{
    char *a = make(-1), *b = make(-1);

    cr_assert_str_neq(a, b);
    cr_assert_eq(rmdir(a), 0);
    cr_assert_eq(rmdir(b), 0);
    free(a);
    free(b);
}

/* What is told after it is there is lost when we are killed in between. */
Test(mpidir, tells_the_keeper_the_path)
{
    int     fd[2];
    char    said[4096], *path;
    ssize_t n;

    cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fd), 0);
    path = make(fd[0]);
    n = recv(fd[1], said, sizeof said, MSG_DONTWAIT);
    cr_assert_gt(n, 0);
    cr_assert_not_null(memmem(said, (size_t) n, path, strlen(path)));
    cr_assert_eq(rmdir(path), 0);
    free(path);
    (void) close(fd[0]);
    (void) close(fd[1]);
}
