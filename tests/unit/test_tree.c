#include <criterion/criterion.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/spawn.h"
#include "agent/tree.h"
#include "tests/unit/spawn_one.h"

enum { LIMIT_MS = 20000 };

static uint64_t now_us(void)
{
    struct timespec t;

    (void) clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t) t.tv_sec * 1000000 + (uint64_t) t.tv_nsec / 1000;
}

/* n workers `brood MODE ARG` that share one pipe as standard output; returns its read end once all are up. */
static int brood(unsigned n, const char *mode, const char *arg, unsigned n_ready)
{
    char             path[PATH_MAX];
    char            *argv[] = { (char *) "brood", (char *) mode, (char *) arg, NULL }, *env[] = { NULL };
    struct spawn_req req = { .path = path, .argv = argv, .env = env, .fd = { 0, -1, 2 }, .cgroup_fd = -1 };
    struct cc_err    err = { 0 };
    char             c;
    int              ends[2];
    pid_t            pid;

    cr_assert_eq(tree_adopt(&err), 0, "%s", err.msg);
    cr_assert_not_null(getenv("CCRUN_BIN"));
    (void) snprintf(path, sizeof path, "%s/tests/brood", getenv("CCRUN_BIN"));
    cr_assert_eq(pipe2(ends, O_CLOEXEC), 0);
    req.fd[1] = ends[1];
    while (n-- > 0)
        cr_assert_eq(spawn_one(&req, &pid, &err), 0, "%s", err.msg);
    (void) close(ends[1]);
    while (n_ready-- > 0)
        cr_assert_eq(read(ends[0], &c, 1), 1);
    return ends[0];
}

/* No process holds the pipe any more: none is left, wherever it hid. */
static void assert_nobody_left(int fd)
{
    struct pollfd p = { .fd = fd, .events = POLLIN };
    char          c[64];

    cr_assert(tree_is_empty());
    cr_assert_eq(poll(&p, 1, 0), 1, "somebody lives");
    while (read(fd, c, sizeof c) > 0)
        cr_assert_eq(poll(&p, 1, 0), 1, "somebody lives");
    (void) close(fd);
}

Test(tree, kills_workers_and_what_they_daemonised)
{
    int      fd = brood(256, "daemons", "1", 256);
    uint64_t t = now_us();

    cr_assert_eq(tree_kill_all(LIMIT_MS, NULL), 0);
    cr_log_info("256 workers and 256 daemons: killed and reaped in %.1f ms", (double) (now_us() - t) / 1000);
    assert_nobody_left(fd);
}

Test(tree, reaches_the_end_of_a_long_chain)
{
    int fd = brood(1, "depth", "200", 1);

    cr_assert_eq(tree_kill_all(LIMIT_MS, NULL), 0);
    assert_nobody_left(fd);
}

Test(tree, catches_processes_that_never_stay)
{
    int fd = brood(1, "runner", "4", 1);

    cr_assert_eq(tree_kill_all(LIMIT_MS, NULL), 0);
    assert_nobody_left(fd);
}

static size_t count(enum tree_source source)
{
    struct tree_list l;
    size_t           n;

    tree_list(&l, source);
    n = l.n;
    tree_list_free(&l);
    return n;
}

Test(tree, finds_the_children_of_every_thread_both_ways)
{
    int fd = brood(2, "threads", "3", 6);

    cr_assert_eq(count(TREE_FROM_LISTS), 8);
    cr_assert_eq(count(TREE_FROM_MACHINE), 8);
    cr_assert_eq(tree_signal(0), 8);
    cr_assert_eq(tree_kill_all(LIMIT_MS, NULL), 0);
    assert_nobody_left(fd);
}

Test(tree, signals_every_level)
{
    int fd = brood(2, "depth", "3", 2);

    cr_assert_eq(count(TREE_FROM_LISTS), 8);
    cr_assert_eq(tree_signal(SIGKILL), 8);
    cr_assert_eq(tree_kill_all(LIMIT_MS, NULL), 0); /* whoever moved up meanwhile is ours to reap */
    assert_nobody_left(fd);
}

/* Whoever is not seen in one round is our child when its parent is dead, which SIGCHLD would tell. */
Test(tree, kills_round_by_round_as_they_die)
{
    int fd = brood(8, "daemons", "2", 8);

    while (!tree_is_empty()) {
        siginfo_t si;

        tree_kill();
        cr_assert_eq(waitid(P_ALL, 0, &si, WEXITED), 0);
    }
    assert_nobody_left(fd);
}

Test(tree, zombies_are_children_but_reached_by_no_signal)
{
    pid_t     pid = fork();
    siginfo_t si;

    if (pid == 0)
        _exit(0);
    cr_assert_eq(waitid(P_PID, (id_t) pid, &si, WEXITED | WNOWAIT), 0);
    cr_assert_not(tree_is_empty());
    cr_assert_eq(tree_signal(SIGTERM), 0);
    cr_assert_eq(tree_kill_all(LIMIT_MS, NULL), 0);
    cr_assert(tree_is_empty());
}

Test(tree, leaves_what_is_spared_alone)
{
    int       ends[2], fd;
    pid_t     foreign = 0, child = 0;
    siginfo_t si;

    cr_assert_eq(pipe(ends), 0);
    foreign = fork();
    if (foreign == 0) { /* with a child of its own */
        (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
        child = fork();
        if (child == 0)
            (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (child != 0)
            (void) !write(ends[1], &child, sizeof child);
        for (;;)
            (void) pause();
    }
    cr_assert_eq(read(ends[0], &child, sizeof child), (ssize_t) sizeof child);
    fd = brood(2, "daemons", "2", 2);
    cr_assert_eq(tree_kill_all_but(&(struct tree_spare) { &foreign, 1 }, LIMIT_MS, NULL), 0);
    cr_assert_eq(kill(child, 0), 0);
    si.si_pid = 0;
    cr_assert_eq(waitid(P_ALL, 0, &si, WEXITED | WNOHANG | WNOWAIT), 0);
    cr_assert_eq(si.si_pid, 0, "the spared one lives and no other child is left");
    cr_assert_eq(tree_kill_all(LIMIT_MS, NULL), 0);
    assert_nobody_left(fd);
}

/* A process that SIGKILL ends but nobody can reap, as one in D state: its tracer, which is no descendant of ours, keeps
 * the zombie. Returns its pid; closing *ret_end lets the tracer go. */
static pid_t unreapable(int *ret_end)
{
    int   up[2], end[2];
    char  c;
    pid_t child, middle;

    cr_assert_eq(pipe(up), 0);
    cr_assert_eq(pipe2(end, O_CLOEXEC), 0);
    child = fork();
    if (child == 0) {
        (void) prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
        (void) !write(up[1], "c", 1);
        for (;;)
            (void) pause();
    }
    cr_assert_eq(read(up[0], &c, 1), 1);
    middle = fork();
    if (middle == 0) {
        if (fork() > 0)
            _exit(0);
        (void) close(end[1]);
        c = ptrace(PTRACE_SEIZE, child, NULL, NULL) == 0 ? 't' : 'x';
        (void) !write(up[1], &c, 1);
        (void) !read(end[0], &c, 1);
        _exit(0);
    }
    (void) waitpid(middle, NULL, 0);
    cr_assert_eq(read(up[0], &c, 1), 1);
    cr_assert_eq(c, 't', "the tracer cannot attach");
    (void) close(end[0]);
    *ret_end = end[1];
    return child;
}

Test(tree, gives_up_in_time_and_names_who_is_left)
{
    int      end;
    pid_t    child = unreapable(&end), stuck = 0;
    uint64_t t = now_us();

    cr_assert_eq(tree_adopt(NULL), 0); /* only now: the tracer went to init */
    cr_assert_eq(tree_kill_all(100, &stuck), 1);
    cr_assert_eq(stuck, child);
    t = now_us() - t;
    cr_assert(t >= 90000 && t < 2000000, "%llu us", (unsigned long long) t);
    (void) close(end);
    cr_assert_eq(tree_kill_all(LIMIT_MS, NULL), 0);
}
