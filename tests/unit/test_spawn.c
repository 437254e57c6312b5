#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pty.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/spawn.h"
#include "tests/unit/spawn_one.h"

extern char **environ;

static char *const no_env[] = { NULL };

static const char *helper(const char *name, char *buf, size_t size)
{
    const char *bin = getenv("CCRUN_BIN");

    cr_assert_not_null(bin, "CCRUN_BIN: the folder of the built programs");
    (void) snprintf(buf, size, "%s/tests/%s", bin, name);
    return buf;
}

static struct spawn_req request(const char *path, char *const *argv, int out)
{
    return (struct spawn_req) { .path = path, .argv = argv, .env = no_env, .fd = { STDIN_FILENO, out, STDERR_FILENO },
                                .cgroup_fd = -1 };
}

/* Starts `req` with a pipe as its output, reads that to its end, and reaps. The output is NUL-terminated. */
static int run(struct spawn_req *req, char *text, size_t size)
{
    struct cc_err err = { 0 };
    pid_t         pid;
    size_t        len = 0;
    ssize_t       n;
    int           ends[2], status;

    cr_assert_eq(pipe2(ends, O_CLOEXEC), 0);
    req->fd[1] = ends[1];
    cr_assert_eq(spawn_one(req, &pid, &err), 0, "%s", err.msg);
    (void) close(ends[1]);
    while (len < size - 1 && (n = read(ends[0], text + len, size - 1 - len)) > 0)
        len += (size_t) n;
    text[len] = '\0';
    (void) close(ends[0]);
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    return status;
}

static void probe_with(struct spawn_req *req, char *text, size_t size)
{
    char  path[PATH_MAX];
    char *argv[] = { (char *) "probe", NULL };

    *req = request(helper("probe", path, sizeof path), argv, -1);
    cr_assert_eq(run(req, text, size), 0);
}

static void assert_line(const char *text, const char *line)
{
    char        wanted[256];
    const char *at;

    (void) snprintf(wanted, sizeof wanted, "%s\n", line);
    at = strstr(text, wanted);
    cr_assert(at && (at == text || at[-1] == '\n'), "no line '%s' in:\n%s", line, text);
}

static void on_signal(int signum)
{
    (void) signum;
}

/* As a sandbox, or a kernel before 5.9, answers it. */
static void forbid_close_range(void)
{
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_close_range, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = { .len = sizeof rules / sizeof rules[0], .filter = rules };

    cr_assert_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    cr_assert_eq(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter), 0);
    cr_assert_eq(close_range(1000, 1000, 0), -1);
}

static void check_passed(void)
{
    const int       pass[] = { 101, 103, 104 };
    const mode_t    umask = 0125;
    struct spawn_req req;
    char            path[PATH_MAX], text[8192];
    char           *argv[] = { (char *) "probe", NULL };
    int             fd;

    for (fd = 100; fd < 106; fd++)
        cr_assert_eq(dup2(STDIN_FILENO, fd), fd);
    req = request(helper("probe", path, sizeof path), argv, -1);
    req.pass = pass;
    req.n_pass = 3;
    req.umask = &umask;
    cr_assert_eq(run(&req, text, sizeof text), 0);
    assert_line(text, "fds=0 1 2 101 103 104 ");
    assert_line(text, "umask=125");
}

Test(spawn, descriptors_and_a_umask_that_the_child_is_given)
{
    check_passed();
}

Test(spawn, descriptors_are_closed_where_close_range_is_forbidden)
{
    forbid_close_range();
    check_passed();
}

Test(spawn, child_starts_clean_whatever_we_inherited)
{
    struct spawn_req req;
    struct sigaction ign = { .sa_handler = SIG_IGN }, caught = { .sa_handler = on_signal };
    uint64_t         raw[8] = { 1 }; /* SIG_IGN for the kernel: the C library refuses its own two signals */
    sigset_t         blocked;
    char             text[8192];
    int              i;

    for (i = 1; i <= 64; i++) {
        if (i != SIGCHLD)
            (void) sigaction(i, &ign, NULL);
    }
    (void) syscall(SYS_rt_sigaction, 33, raw, NULL, sizeof(uint64_t));
    (void) sigaction(SIGUSR2, &caught, NULL);
    (void) sigemptyset(&blocked);
    (void) sigaddset(&blocked, SIGTERM);
    (void) sigaddset(&blocked, SIGUSR1);
    (void) sigprocmask(SIG_SETMASK, &blocked, NULL);
    cr_assert_geq(dup2(2, 9), 0);  /* without O_CLOEXEC, as a shell leaves them */
    cr_assert_geq(dup2(2, 77), 0);
    probe_with(&req, text, sizeof text);
    assert_line(text, "SigBlk=0000000000000000");
    assert_line(text, "SigIgn=0000000000000000");
    assert_line(text, "fds=0 1 2 ");
    assert_line(text, "pdeathsig=9");
    assert_line(text, "own_sid=1");
    assert_line(text, "own_pgrp=1");
}

Test(spawn, limits_umask_and_our_own_mask_stay_as_they_are)
{
    struct spawn_req req;
    struct rlimit    lim;
    sigset_t         mine, after;
    char             text[8192];

    (void) umask(0026);
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &lim), 0);
    lim.rlim_cur = 333;
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &lim), 0);
    (void) sigemptyset(&mine);
    (void) sigaddset(&mine, SIGUSR1);
    (void) sigprocmask(SIG_SETMASK, &mine, NULL);
    probe_with(&req, text, sizeof text);
    assert_line(text, "umask=026");
    assert_line(text, "nofile=333");
    (void) sigprocmask(SIG_SETMASK, NULL, &after);
    cr_assert(sigismember(&after, SIGUSR1) && !sigismember(&after, SIGTERM));
}

Test(spawn, a_raised_limit_of_open_files_is_not_passed_on)
{
    struct spawn_req req;
    struct rlimit    lim;
    char             path[PATH_MAX], text[8192], *argv[] = { (char *) "probe", NULL };

    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &lim), 0);
    lim.rlim_cur = 222;
    req = request(helper("probe", path, sizeof path), argv, -1);
    req.nofile = &lim;
    cr_assert_eq(run(&req, text, sizeof text), 0);
    assert_line(text, "nofile=222");
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &lim), 0);
    cr_assert_neq(lim.rlim_cur, 222);
}

Test(spawn, descriptors_may_overlap_their_targets)
{
    static const int orders[][4] = { { 0, 1, 2, -1 }, { 1, 2, 0, -1 }, { 2, 0, 1, -1 }, { 1, 0, 2, -1 }, { 2, 2, 2, -1 },
                                     { 0, 5, 0, -1 }, { 0, 1, 2, 5 },  { 1, 2, 5, 0 },  { 5, 5, 1, 2 } };
    char            *argv[] = { (char *) "sh", (char *) "-c",
                                (char *) "echo $(readlink /proc/$$/fd/0 /proc/$$/fd/1 /proc/$$/fd/2 "
                                         "$([ ! -e /proc/$$/fd/3 ] || echo /proc/$$/fd/3) | sed 's/.*-//' | tr '\\n' ' ') > $R",
                                NULL };
    char             dir[] = "/tmp/ccrun-test-XXXXXX", path[4][64], result[96], line[64];
    size_t           k;
    int              i;

    cr_assert_not_null(mkdtemp(dir));
    (void) snprintf(result, sizeof result, "R=%s/result", dir);
    for (i = 0; i < 3; i++)
        (void) snprintf(path[i], sizeof path[i], "%s/f-%d", dir, i);
    (void) snprintf(path[3], sizeof path[3], "%s/f-5", dir);
    for (k = 0; k < sizeof orders / sizeof *orders; k++) {
        char *env[] = { result, (char *) "PATH=/usr/bin:/bin", NULL };
        pid_t pid = fork();
        FILE *f;
        int   status, a, b, c, d = -1;

        if (pid == 0) { /* a process of its own: the test needs its 0, 1 and 2 */
            struct spawn_req req = request("/bin/sh", argv, -1);
            pid_t            worker;

            for (i = 0; i < 4; i++) {
                int to = i == 3 ? 5 : i, fd = open(path[i], O_RDWR | O_CREAT | O_CLOEXEC, 0600);

                if (fd != to)
                    (void) dup3(fd, to, O_CLOEXEC);
            }
            req.env = env;
            memcpy(req.fd, orders[k], sizeof req.fd);
            req.has_fd3 = orders[k][3] >= 0;
            if (spawn_one(&req, &worker, NULL) < 0 || waitpid(worker, &status, 0) != worker)
                _exit(1);
            _exit(status != 0);
        }
        cr_assert_eq(waitpid(pid, &status, 0), pid);
        cr_assert_eq(status, 0);
        f = fopen(result + 2, "r");
        cr_assert_not_null(f);
        cr_assert_not_null(fgets(line, sizeof line, f));
        (void) fclose(f);
        cr_assert_geq(sscanf(line, "%d %d %d %d", &a, &b, &c, &d), 3, "%s", line);
        cr_assert(a == orders[k][0] && b == orders[k][1] && c == orders[k][2] && d == orders[k][3], "case %zu: %s", k, line);
    }
    for (i = 0; i < 4; i++)
        (void) unlink(path[i]);
    (void) unlink(result + 2);
    (void) rmdir(dir);
}

Test(spawn, a_failed_exec_is_an_error_and_leaves_no_process)
{
    char            *argv[] = { (char *) "x", NULL };
    struct spawn_req req = request("/nonexistent/x", argv, 1);
    struct cc_err    err = { 0 };
    pid_t            pid = 0;

    cr_assert_eq(spawn_one(&req, &pid, &err), -ENOENT);
    cr_assert_str_eq(err.msg, "start '/nonexistent/x': exec: No such file or directory");
    cr_assert_eq(pid, 0);
    cr_assert_eq(waitpid(-1, NULL, WNOHANG), -1);
    req.path = "/etc/passwd";
    cr_assert_eq(spawn_one(&req, &pid, NULL), -EACCES);
    req.path = "/bin/true";
    req.fd[0] = 999;
    cr_assert_eq(spawn_one(&req, &pid, &err), -EBADF);
    cr_assert_str_eq(err.msg, "start '/bin/true': duplicate its standard streams: Bad file descriptor");
}

Test(spawn, binds_to_the_cpus_that_are_asked_for)
{
    struct spawn_req req;
    char             path[PATH_MAX], text[8192];
    char            *argv[] = { (char *) "probe", NULL };
    cpu_set_t        all, one;
    int              cpu;

    cr_assert_eq(sched_getaffinity(0, sizeof all, &all), 0);
    for (cpu = 0; !CPU_ISSET(cpu, &all); cpu++)
        ;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    req = request(helper("probe", path, sizeof path), argv, -1);
    req.mask = &one;
    cr_assert_eq(run(&req, text, sizeof text), 0);
    assert_line(text, "ncpus=1");
    CPU_ZERO(&one);
    req.mask = &one;
    cr_assert_eq(spawn_one(&req, &(pid_t) { 0 }, NULL), -EINVAL);
}

Test(spawn, a_batch_copies_what_it_needs_and_tells_of_each)
{
    enum { N = 150 }; /* more than are ever under way at once */
    struct spawn_batch *b = spawn_batch_new();
    char                text[16], *argv[] = { (char *) "sh", (char *) "-c", (char *) "exit $CODE", NULL };
    char               *env[] = { text, NULL };
    struct spawn_req    req = request("/bin/sh", argv, 1);
    pid_t               begun[N], pid;
    int                 i, status;

    cr_assert_not_null(b);
    req.env = env;
    for (i = 0; i < N; i++) {
        (void) snprintf(text, sizeof text, "CODE=%d", i % 100); /* in place, as the agent does */
        cr_assert_eq(spawn_begin(b, &req, &begun[i], NULL), 0);
    }
    while (spawn_next(b, &pid, NULL) > 0)
        ;
    spawn_batch_free(b);
    for (i = 0; i < N; i++) {
        cr_assert_eq(waitpid(begun[i], &status, 0), begun[i]);
        cr_assert_eq(WEXITSTATUS(status), i % 100);
    }
}

Test(spawn, a_batch_tells_which_exec_failed_and_starts_no_more)
{
    struct spawn_batch *b = spawn_batch_new();
    char               *argv[] = { (char *) "x", NULL };
    struct spawn_req    req = request("/bin/true", argv, 1);
    struct cc_err       err = { 0 };
    pid_t               good, bad, later, pid;
    int                 i, r;

    cr_assert_eq(spawn_begin(b, &req, &good, NULL), 0);
    req.path = "/nonexistent/x";
    cr_assert_eq(spawn_begin(b, &req, &bad, NULL), 0);
    req.path = "/bin/true";
    for (i = 0, r = 0; i < 100 && r == 0; i++)
        r = spawn_begin(b, &req, &later, &err);
    cr_assert_eq(r, -ENOENT);
    cr_assert_str_eq(err.msg, "start '/nonexistent/x': exec: No such file or directory");
    cr_assert_lt(i, 100);
    cr_assert_eq(spawn_next(b, &pid, &err), -ENOENT);
    cr_assert_eq(pid, bad);
    while (spawn_next(b, &pid, NULL) > 0)
        ;
    spawn_batch_free(b);
    while (waitpid(-1, &r, 0) > 0)
        ;
}

/* The test is a child that leads a session with a terminal, and is not in its foreground group. */
static void foreground_case(int report)
{
    struct spawn_req req;
    char             path[PATH_MAX], text[8192];
    char            *argv[] = { (char *) "probe", NULL };
    struct sigaction dfl = { .sa_handler = SIG_DFL };
    pid_t            other;

    (void) sigaction(SIGTTOU, &dfl, NULL); /* the default stops who touches the terminal from the background */
    other = fork();
    if (other == 0) {
        (void) setpgid(0, 0);
        for (;;)
            (void) pause();
    }
    (void) setpgid(other, other);
    (void) tcsetpgrp(0, other);
    req = request(helper("probe", path, sizeof path), argv, -1);
    req.is_foreground = true;
    cr_assert_eq(run(&req, text, sizeof text), 0);
    (void) kill(other, SIGKILL);
    cr_assert_geq(dprintf(report, "%s", text), 0);
    _exit(0);
}

Test(spawn, foreground_worker_owns_the_terminal)
{
    char    text[8192];
    size_t  len = 0;
    ssize_t n;
    int     ends[2], tty, status;
    pid_t   pid;

    cr_assert_eq(pipe(ends), 0);
    pid = forkpty(&tty, NULL, NULL, NULL);
    cr_assert_geq(pid, 0);
    if (pid == 0)
        foreground_case(ends[1]);
    (void) close(ends[1]);
    while (len < sizeof text - 1 && (n = read(ends[0], text + len, sizeof text - 1 - len)) > 0)
        len += (size_t) n;
    text[len] = '\0';
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_assert_eq(status, 0);
    assert_line(text, "foreground=1");
    assert_line(text, "own_pgrp=1");
    assert_line(text, "own_sid=0");
    (void) close(tty);
    (void) close(ends[0]);
}

/* The worker dies with the thread that started it: with the process here, which is killed while the worker sleeps. */
Test(spawn, worker_dies_with_us)
{
    char *argv[] = { (char *) "sleep", (char *) "1000", NULL };
    char  c;
    int   ends[2];
    pid_t pid;

    cr_assert_eq(pipe2(ends, O_CLOEXEC), 0);
    pid = fork();
    if (pid == 0) {
        struct spawn_req req = request("/bin/sleep", argv, ends[1]);
        pid_t            worker;

        if (spawn_one(&req, &worker, NULL) < 0)
            _exit(1);
        (void) raise(SIGKILL);
    }
    (void) close(ends[1]);
    cr_assert_eq(read(ends[0], &c, 1), 0); /* end of file: the worker, too, is gone; a live one would outlast the limit */
    cr_assert_eq(waitpid(pid, NULL, 0), pid);
    (void) close(ends[0]);
}
