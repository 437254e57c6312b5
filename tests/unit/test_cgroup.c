#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/cgroup.h"
#include "agent/spawn.h"
#include "agent/tree.h"
#include "tests/unit/fake_machine.h"
#include "tests/unit/spawn_one.h"

#define MOUNTS \
    "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n" \
    "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"

static void fake_v2(struct fake_machine *f, const char *own_limit)
{
    fake_init(f, 1);
    fake_file(f, "/proc/self/cgroup", "0::/pod/job\n");
    fake_file(f, "/proc/self/mountinfo", "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
    fake_file(f, "/sys/fs/cgroup/pod/job/memory.events", "low 0\nmax 12\noom 4\noom_kill 3\noom_group_kill 0\n");
    fake_file(f, "/sys/fs/cgroup/pod/job/memory.max", own_limit);
    fake_file(f, "/sys/fs/cgroup/pod/job/memory.peak", "1000\n");
    fake_file(f, "/sys/fs/cgroup/pod/memory.max", "4096\n");
    fake_file(f, "/sys/fs/cgroup/pod/memory.peak", "4000\n");
    fake_file(f, "/sys/fs/cgroup/memory.events", "oom_kill 99\n");
}

Test(cgroup, oom_counts_are_our_groups_and_the_limit_is_the_lowest_above)
{
    struct fake_machine f;
    struct cgroup_oom   oom;

    fake_v2(&f, "max\n");
    cr_assert_eq(cgroup_oom_read(f.root, &oom), 0);
    cr_assert(oom.is_known && oom.oom_kills == 3 && oom.limit == 4096 && oom.peak == 4000);
    fake_file(&f, "/sys/fs/cgroup/pod/job/memory.max", "1024\n");
    cr_assert_eq(cgroup_oom_read(f.root, &oom), 0);
    cr_assert(oom.limit == 1024 && oom.peak == 1000);
    fake_free(&f);
}

Test(cgroup, oom_evidence_of_a_hybrid_comes_from_v1)
{
    struct fake_machine f;
    struct cgroup_oom   oom;

    fake_init(&f, 1);
    fake_file(&f, "/proc/self/cgroup", "4:memory:/slurm/job_7\n0::/\n");
    fake_file(&f, "/proc/self/mountinfo", MOUNTS);
    fake_file(&f, "/sys/fs/cgroup/memory/slurm/job_7/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n");
    fake_file(&f, "/sys/fs/cgroup/memory/slurm/job_7/memory.limit_in_bytes", "67108864\n");
    fake_file(&f, "/sys/fs/cgroup/memory/slurm/job_7/memory.max_usage_in_bytes", "67100672\n");
    fake_file(&f, "/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    cr_assert_eq(cgroup_oom_read(f.root, &oom), 0);
    cr_assert(oom.is_known && oom.oom_kills == 1 && oom.limit == 67108864 && oom.peak == 67100672);
    fake_file(&f, "/sys/fs/cgroup/memory/slurm/job_7/memory.limit_in_bytes", "9223372036854771712\n");
    cr_assert_eq(cgroup_oom_read(f.root, &oom), 0);
    cr_assert_eq(oom.limit, 0);
    fake_free(&f);
}

Test(cgroup, nothing_is_known_where_nothing_is_mounted)
{
    struct fake_machine f;
    struct cgroup_oom   oom, before = { .is_known = true, .oom_kills = 2 }, after = { .is_known = true, .oom_kills = 5 };

    fake_init(&f, 1);
    cr_assert_eq(cgroup_oom_read(f.root, &oom), -ENOENT);
    cr_assert(!oom.is_known);
    cr_assert_eq(cgroup_oom_delta(&before, &after), 3);
    cr_assert_eq(cgroup_oom_delta(&before, &oom), 0);
    cr_assert_eq(cgroup_oom_delta(&after, &before), 0);
    cr_assert_null(cgroup_new(f.root));
    fake_free(&f);
}

static bool is_there(struct fake_machine *f, const char *name)
{
    char path[PATH_MAX];

    (void) snprintf(path, sizeof path, "%s/sys/fs/cgroup/pod/job/%s", f->root, name);
    return access(path, F_OK) == 0;
}

Test(cgroup, a_place_that_takes_no_process_is_left_as_it_was)
{
    struct fake_machine f;
    struct cgroup      *c;
    char                wanted[PATH_MAX];

    fake_v2(&f, "max\n");
    c = cgroup_new(f.root);
    cr_assert_not_null(c);
    (void) snprintf(wanted, sizeof wanted, "%s/sys/fs/cgroup/pod/job/ccrun-%d", f.root, (int) getpid());
    cr_assert_str_eq(cgroup_path(c), wanted);
    fake_dir(&f, "/sys/fs/cgroup/pod/job/ccrun-999999999"); /* no pid reaches that */
    fake_dir(&f, "/sys/fs/cgroup/pod/job/ccrun-1");
    fake_dir(&f, "/sys/fs/cgroup/pod/job/ccrun-999999999x");
    cr_assert_lt(cgroup_renew(c), 0, "a folder that is no cgroup");
    cr_assert_neq(access(wanted, F_OK), 0);
    cr_assert(!is_there(&f, "ccrun-999999999"), "left by a dead one");
    cr_assert(is_there(&f, "ccrun-1") && is_there(&f, "ccrun-999999999x"));
    cr_assert_eq(cgroup_fd(c), -1);
    cr_assert_eq(cgroup_kill(c), -ENOENT);
    cgroup_free(c);
    cr_assert_eq(cgroup_fd(NULL), -1);
    fake_free(&f);
}

static int start(const struct cgroup *c, char *const *argv, const char *program)
{
    char             path[PATH_MAX], *env[] = { NULL };
    struct spawn_req req = { .path = path, .argv = argv, .env = env, .fd = { 0, -1, 2 }, .cgroup_fd = cgroup_fd(c) };
    struct cc_err    err = { 0 };
    pid_t            pid;
    int              ends[2];

    (void) snprintf(path, sizeof path, "%s/tests/%s", getenv("CCRUN_BIN"), program);
    cr_assert_eq(pipe2(ends, O_CLOEXEC), 0);
    req.fd[1] = ends[1];
    cr_assert_geq(req.cgroup_fd, 0);
    cr_assert_eq(spawn_one(&req, &pid, &err), 0, "%s", err.msg);
    (void) close(ends[1]);
    return ends[0];
}

static struct cgroup *real_group(void)
{
    struct cgroup *c = cgroup_new(NULL);

    if (!c || cgroup_renew(c) < 0)
        cr_skip_test("no cgroup v2 group may be made here");
    return c;
}

static void assert_starts_inside(const struct cgroup *c)
{
    char   *argv[] = { (char *) "probe", NULL }, wanted[64], text[8192];
    size_t  len = 0;
    ssize_t n;
    int     fd = start(c, argv, "probe");

    while ((n = read(fd, text + len, sizeof text - 1 - len)) > 0)
        len += (size_t) n;
    text[len] = '\0';
    (void) snprintf(wanted, sizeof wanted, "/ccrun-%d\n", (int) getpid());
    cr_assert_not_null(strstr(text, wanted), "%s", text);
    cr_assert_eq(tree_kill_all(20000, NULL), 0);
}

Test(cgroup, workers_start_inside_their_group_also_after_a_kill)
{
    struct cgroup *c = real_group();
    int            fd = cgroup_fd(c);

    assert_starts_inside(c);
    cr_assert_eq(cgroup_renew(c), 0);
    cr_assert_eq(cgroup_fd(c), fd, "still good");
    (void) cgroup_kill(c);
    cr_assert_eq(cgroup_renew(c), 0);
    assert_starts_inside(c);
    cgroup_free(c);
}

Test(cgroup, a_kill_reaches_daemons)
{
    struct cgroup *c = real_group();
    char          *argv[] = { (char *) "brood", (char *) "daemons", (char *) "20", NULL }, ready;
    int            fd;
    char           path[PATH_MAX];

    cr_assert_eq(tree_adopt(NULL), 0);
    fd = start(c, argv, "brood");
    cr_assert_eq(read(fd, &ready, 1), 1);
    if (cgroup_kill(c) < 0)
        cr_skip_test("a kernel before 5.14");
    cr_assert_eq(read(fd, &ready, 1), 0, "all who held the pipe are gone");
    cr_assert_eq(tree_kill_all(20000, NULL), 0);
    (void) snprintf(path, sizeof path, "%s", cgroup_path(c));
    cgroup_free(c);
    cr_assert_neq(access(path, F_OK), 0);
}
