#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/atomicfile.h"

Test(atomicfile, replaces_the_old_one_and_leaves_nothing_beside_it)
{
    char          dir[] = "/tmp/atomicfile-XXXXXX", path[64], cmd[128], buf[16] = "";
    struct cc_err err = { 0 };
    FILE         *f;

    cr_assert(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/f", dir);
    cr_assert_eq(atomicfile_write(path, "one", 3, &err), 0, "%s", err.msg);
    cr_assert_eq(atomicfile_write(path, "two", 3, &err), 0, "%s", err.msg);
    f = fopen(path, "r");
    cr_assert(f && fgets(buf, sizeof buf, f));
    fclose(f);
    cr_assert_str_eq(buf, "two");
    snprintf(cmd, sizeof cmd, "test $(ls -A %s | wc -l) = 1 && rm -r %s", dir, dir);
    cr_assert_eq(system(cmd), 0);
}

Test(atomicfile, has_the_mode_that_the_umask_says)
{
    char          dir[] = "/tmp/atomicfile-XXXXXX", path[64], cmd[64];
    struct cc_err err = { 0 };
    struct stat   st;

    cr_assert(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/f", dir);
    (void) umask(027);
    cr_assert_eq(atomicfile_write(path, "x", 1, &err), 0);
    cr_assert_eq(umask(022), 027);
    cr_assert_eq(stat(path, &st), 0);
    cr_assert_eq(st.st_mode & 0777, 0640);
    snprintf(cmd, sizeof cmd, "rm -r %s", dir);
    cr_assert_eq(system(cmd), 0);
}

Test(atomicfile, a_device_is_written_to_not_replaced)
{
    struct cc_err err = { 0 };
    struct stat   st;

    cr_assert_eq(atomicfile_write("/dev/null", "x", 1, &err), 0);
    cr_assert_eq(stat("/dev/null", &st), 0);
    cr_assert(S_ISCHR(st.st_mode));
    cr_assert_eq(atomicfile_write("/dev/full", "x", 1, &err), -ENOSPC);
    cr_assert(strstr(err.msg, "/dev/full"));
}

Test(atomicfile, names_what_it_could_not_write)
{
    struct cc_err err = { 0 };

    cr_assert_eq(atomicfile_write("/no/such/dir/f", "x", 1, &err), -ENOENT);
    cr_assert_str_eq(err.msg, "write '/no/such/dir/f': No such file or directory");
}

Test(atomicfile, a_write_that_fails_leaves_the_old_file_and_nothing_else)
{
    char          dir[] = "/tmp/atomicfile-XXXXXX", path[64], cmd[128];
    static char   big[8192];
    struct rlimit limit = { 4096, RLIM_INFINITY };
    struct cc_err err = { 0 };

    cr_assert(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/f", dir);
    cr_assert_eq(atomicfile_write(path, "old", 3, &err), 0);
    cr_assert_neq(signal(SIGXFSZ, SIG_IGN), SIG_ERR);
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    cr_assert_eq(atomicfile_write(path, big, sizeof big, &err), -EFBIG);
    snprintf(cmd, sizeof cmd, "test \"$(ls -A %s)\" = f && test $(cat %s) = old && rm -r %s", dir, path, dir);
    cr_assert_eq(system(cmd), 0);
}

Test(atomicfile, in_a_read_only_directory_a_writable_file_is_written_in_place)
{
    char          dir[] = "/tmp/atomicfile-XXXXXX", path[64], other[64], cmd[128];
    struct cc_err err = { 0 };
    bool          is_root = geteuid() == 0;
    int           fd;

    cr_assert(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/f", dir);
    snprintf(other, sizeof other, "%s/g", dir);
    fd = open(path, O_WRONLY | O_CREAT, 0600);
    cr_assert(fd >= 0 && fchmod(fd, 0666) == 0 && close(fd) == 0);
    cr_assert_eq(chmod(dir, 0555), 0);
    if (is_root)
        cr_assert_eq(setresuid(65534, 65534, 0), 0);
    cr_assert_eq(atomicfile_write(path, "new", 3, &err), 0, "%s", err.msg);
    cr_assert_eq(atomicfile_write(other, "new", 3, &err), -EACCES);
    if (is_root)
        cr_assert_eq(setresuid(0, 0, 0), 0);
    cr_assert_eq(chmod(dir, 0700), 0);
    snprintf(cmd, sizeof cmd, "test $(cat %s) = new && rm -r %s", path, dir);
    cr_assert_eq(system(cmd), 0);
}
