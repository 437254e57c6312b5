#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/rmtree.h"
#include "agent/shmsweep.h"

enum { SIZE = 8192 };

static char dir[] = "/dev/shm/ccrun-sweep-XXXXXX"; /* tmpfs: leases and block counts are those of the real thing */

static void path_of(const char *name, char path[128])
{
    (void) snprintf(path, 128, "%s/%s", dir, name);
}

static int make(const char *name)
{
    static const char bytes[SIZE];
    char              path[128];
    int               fd;

    path_of(name, path);
    fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
    cr_assert(fd >= 0);
    cr_assert_eq(write(fd, bytes, SIZE), SIZE);
    return fd;
}

static bool is_there(const char *name)
{
    char path[128];

    path_of(name, path);
    return access(path, F_OK) == 0;
}

static void leave(const char *name)
{
    (void) close(make(name));
}

static pid_t dead_child(void)
{
    pid_t pid = fork();

    if (pid == 0)
        _exit(0);
    cr_assert_eq(waitpid(pid, NULL, 0), pid);
    return pid;
}

static void start(void)
{
    cr_assert_not_null(mkdtemp(dir));
}

static void end(void)
{
    (void) rmtree(dir);
}

static unsigned sweep(struct shmsweep *s, bool is_alone)
{
    uint64_t bytes;
    unsigned n = shmsweep_end(s, is_alone, &bytes);

    cr_assert_eq(bytes, n * SIZE);
    return n;
}

TestSuite(shmsweep, .init = start, .fini = end);

Test(shmsweep, goes_by_the_pid_in_the_name)
{
    struct shmsweep *s = shmsweep_new(dir, false);
    pid_t            ours = dead_child(), other = dead_child();
    char             mine[64], theirs[64], alive[64];

    (void) snprintf(mine, sizeof mine, "torch_%d_77_0", (int) ours);
    (void) snprintf(theirs, sizeof theirs, "torch_%d_77_0", (int) other);
    (void) snprintf(alive, sizeof alive, "torch_%d_77_0", (int) getpid());
    shmsweep_begin(s);
    leave(mine);
    leave(theirs);
    leave(alive);
    leave("nccl-abc");
    leave("torch_x");
    shmsweep_reaped(s, ours);
    shmsweep_reaped(s, getpid());
    cr_assert_eq(sweep(s, false), 1);
    cr_assert(!is_there(mine) && is_there(theirs) && is_there(alive) && is_there("nccl-abc") && is_there("torch_x"));
    shmsweep_free(s);
}

Test(shmsweep, alone_it_goes_by_the_kind_of_name)
{
    struct shmsweep *s = shmsweep_new(dir, false);

    shmsweep_begin(s);
    leave("nccl-abc");
    leave("psm_12");
    leave("torch_1_2_3");
    leave("data");
    cr_assert_eq(sweep(s, true), 3);
    cr_assert(is_there("data"));
    shmsweep_free(s);
}

Test(shmsweep, of_a_job_of_mpich_what_nobody_uses_goes)
{
    struct shmsweep *s = shmsweep_new(dir, true), *other = shmsweep_new(dir, false);
    int              in_use;

    leave("mpich_shm_1_0");
    shmsweep_begin(s);
    shmsweep_begin(other);
    leave("mpich_shm_2_0");
    leave("nccl-abc");
    in_use = make("mpich_shm_3_0"); /* of another job, which is in its MPI_Init() */
    cr_assert_eq(sweep(other, false), 0);
    cr_assert_eq(sweep(s, false), 1);
    cr_assert(!is_there("mpich_shm_2_0"));
    cr_assert(is_there("mpich_shm_1_0") && is_there("mpich_shm_3_0") && is_there("nccl-abc"));
    (void) close(in_use);
    shmsweep_free(s);
    shmsweep_free(other);
}

Test(shmsweep, spares_what_was_there_before)
{
    struct shmsweep *s = shmsweep_new(dir, false);

    leave("nccl-before");
    shmsweep_begin(s);
    leave("nccl-after");
    cr_assert_eq(sweep(s, true), 1);
    cr_assert(is_there("nccl-before"));
    shmsweep_free(s);
}

Test(shmsweep, spares_what_somebody_has_open_or_mapped)
{
    struct shmsweep *s = shmsweep_new(dir, false);
    int              open_fd, mapped_fd;
    void            *p;

    shmsweep_begin(s);
    open_fd = make("nccl-open");
    mapped_fd = make("nccl-mapped");
    p = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, mapped_fd, 0);
    cr_assert(p != MAP_FAILED);
    (void) close(mapped_fd);
    cr_assert_eq(sweep(s, true), 0);
    (void) munmap(p, SIZE);
    (void) close(open_fd);
    cr_assert_eq(sweep(s, true), 2);
    shmsweep_free(s);
}

Test(shmsweep, spares_links_and_directories)
{
    struct shmsweep *s = shmsweep_new(dir, false);
    char             path[128];

    leave("target");
    shmsweep_begin(s);
    path_of("nccl-link", path);
    cr_assert_eq(symlink("target", path), 0);
    path_of("nccl-pipe", path);
    cr_assert_eq(mkfifo(path, 0600), 0);
    cr_assert_eq(sweep(s, true), 0);
    cr_assert(is_there("target") && is_there("nccl-link") && is_there("nccl-pipe"));
    shmsweep_free(s);
}

Test(shmsweep, does_nothing_without_a_beginning_or_a_directory)
{
    struct shmsweep *s = shmsweep_new(dir, false), *none = shmsweep_new("/no/such/folder", false);

    leave("nccl-a");
    cr_assert_eq(sweep(s, true), 0);
    shmsweep_begin(none);
    cr_assert_eq(sweep(none, true), 0);
    shmsweep_begin(NULL);
    shmsweep_reaped(NULL, 1);
    cr_assert_eq(sweep(NULL, true), 0);
    cr_assert(is_there("nccl-a"));
    shmsweep_free(s);
    shmsweep_free(none);
}
