#include <criterion/criterion.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pty.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/keeper.h"
#include "agent/rmtree.h"
#include "agent/spawn.h"
#include "agent/tree.h"
#include "tests/unit/spawn_one.h"

/* A keeper with an agent, run by a child of the test. The agent writes to `out`, the keeper complains to `err`. */
struct job {
    pid_t keeper;
    int   out, err;
};

typedef void agent_fn(int keeper_fd, int out, const char *arg);

static const int extra[] = { SIGVTALRM, 0 };

static void unblock_all(void)
{
    sigset_t none;

    (void) sigemptyset(&none);
    (void) sigprocmask(SIG_SETMASK, &none, NULL);
}

static void agent_that_is_slow(int keeper_fd, int out, const char *arg);

static struct job start(void (*before)(void), agent_fn *agent, const char *arg)
{
    struct job j;
    int        out[2], err[2], fd;

    cr_assert_eq(pipe2(out, O_CLOEXEC), 0);
    cr_assert_eq(pipe2(err, O_CLOEXEC), 0);
    j.keeper = fork();
    cr_assert_geq(j.keeper, 0);
    if (j.keeper == 0) {
        (void) close(out[0]);
        (void) dup2(err[1], STDERR_FILENO);
        if (before)
            before();
        if (keeper_start(extra, NULL, &fd, NULL) < 0)
            _exit(99);
        if (agent != agent_that_is_slow)
            unblock_all();
        agent(fd, out[1], arg);
        _exit(98);
    }
    (void) close(out[1]);
    (void) close(err[1]);
    j.out = out[0];
    j.err = err[0];
    return j;
}

/* Status of the keeper as waitpid() gives it; *text is what it said. */
static int finish(struct job *j, char *text, size_t size)
{
    size_t  len = 0;
    ssize_t n;
    int     status;

    while (len < size - 1 && (n = read(j->err, text + len, size - 1 - len)) > 0)
        len += (size_t) n;
    text[len] = '\0';
    cr_assert_eq(waitpid(j->keeper, &status, 0), j->keeper);
    (void) close(j->err);
    (void) close(j->out);
    return status;
}

static int read_int(int fd)
{
    int value = -1;

    cr_assert_eq(read(fd, &value, sizeof value), (ssize_t) sizeof value);
    return value;
}

static void write_int(int fd, int value)
{
    (void) !write(fd, &value, sizeof value);
}

static bool is_at_end(int fd)
{
    char c;

    return read(fd, &c, 1) == 0;
}

/* ---- exit */

static void agent_exits(int keeper_fd, int out, const char *arg)
{
    (void) keeper_fd, (void) out;
    _exit(atoi(arg));
}

Test(keeper, passes_the_agents_status_on)
{
    struct job j = start(NULL, agent_exits, "7");
    char       text[256];
    int        status = finish(&j, text, sizeof text);

    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    cr_assert_str_eq(text, "");
}

/* ---- the agent is killed */

static pid_t start_brood(int out, const char *mode, const char *n)
{
    char             path[PATH_MAX];
    char            *argv[] = { (char *) "brood", (char *) mode, (char *) n, NULL }, *env[] = { NULL };
    struct spawn_req req = { .path = path, .argv = argv, .env = env, .fd = { 0, out, 2 }, .cgroup_fd = -1 };
    pid_t            pid = -1;

    (void) snprintf(path, sizeof path, "%s/tests/brood", getenv("CCRUN_BIN"));
    if (spawn_one(&req, &pid, NULL) < 0)
        _exit(97);
    return pid;
}

static void agent_with_brood(int keeper_fd, int out, const char *mode)
{
    (void) keeper_fd;
    write_int(out, getpid());
    (void) start_brood(out, mode, "3");
    (void) start_brood(out, mode, "3");
    for (;;)
        (void) pause();
}

static void await_brood(int out)
{
    char c[2];

    cr_assert_eq(read(out, c, 1), 1);
    cr_assert_eq(read(out, c + 1, 1), 1);
    cr_assert(c[0] == 'r' && c[1] == 'r');
}

static void killed_agent(const char *mode)
{
    struct job j = start(NULL, agent_with_brood, mode);
    pid_t      agent = read_int(j.out);
    char       text[256], wanted[256];
    int        status;

    await_brood(j.out);
    cr_assert_eq(kill(agent, SIGKILL), 0);
    cr_assert(is_at_end(j.out), "all who held the pipe are gone");
    status = finish(&j, text, sizeof text);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 70);
    (void) snprintf(wanted, sizeof wanted,
                    "ccrun: the agent (pid %d) was killed by SIGKILL; all its processes were ended\n", (int) agent);
    cr_assert_str_eq(text, wanted);
}

Test(keeper, ends_everything_when_the_agent_is_killed)
{
    killed_agent("daemons");
}

Test(keeper, ends_a_chain_and_runaways_too)
{
    killed_agent("depth");
    killed_agent("runner");
}

static void agent_leaves_an_estate(int keeper_fd, int out, const char *dir)
{
    char path[PATH_MAX];
    int  ends[2][2], files[2], i;

    for (i = 0; i < 2; i++) {
        (void) snprintf(path, sizeof path, "%s/log%d", dir, i);
        files[i] = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        if (pipe2(ends[i], O_CLOEXEC) < 0 || write(ends[i][1], "last words", 10) != 10)
            _exit(97);
        if (write(files[i], "first, ", 7) != 7 || keeper_hand_over(keeper_fd, (uint32_t) i, ends[i][0], files[i], NULL) < 0)
            _exit(97);
    }
    keeper_take_back(keeper_fd, 1);
    (void) snprintf(path, sizeof path, "%s/never", dir);
    keeper_remove_later(keeper_fd, path);
    keeper_remove_later(keeper_fd, NULL);
    (void) snprintf(path, sizeof path, "%s/job", dir);
    keeper_remove_later(keeper_fd, path);
    write_int(out, 1);
    (void) raise(SIGKILL);
}

static void make_tree(const char *dir)
{
    static const char *const names[] = { "/job", "/job/sub", "/never" };
    char                     path[PATH_MAX];
    size_t                   i;

    for (i = 0; i < sizeof names / sizeof *names; i++) {
        (void) snprintf(path, sizeof path, "%s%s", dir, names[i]);
        cr_assert_eq(mkdir(path, 0700), 0);
    }
    (void) snprintf(path, sizeof path, "%s/job/sub/link", dir);
    cr_assert_eq(symlink("../../never", path), 0);
    (void) snprintf(path, sizeof path, "%s/never/file", dir);
    (void) close(open(path, O_WRONLY | O_CREAT, 0600));
}

static void assert_content(const char *dir, const char *name, const char *wanted)
{
    char    path[PATH_MAX], text[64] = "";
    int     fd;
    ssize_t n;

    (void) snprintf(path, sizeof path, "%s/%s", dir, name);
    fd = open(path, O_RDONLY);
    cr_assert_geq(fd, 0, "%s", path);
    n = read(fd, text, sizeof text - 1);
    cr_assert_geq(n, 0);
    (void) close(fd);
    cr_assert_str_eq(text, wanted);
}

Test(keeper, completes_logs_and_removes_files_of_a_killed_agent)
{
    char       dir[] = "/tmp/ccrun-test-XXXXXX", path[PATH_MAX], text[256];
    struct job j;

    cr_assert_not_null(mkdtemp(dir));
    make_tree(dir);
    j = start(NULL, agent_leaves_an_estate, dir);
    (void) read_int(j.out);
    (void) finish(&j, text, sizeof text);
    assert_content(dir, "log0", "first, last words");
    assert_content(dir, "log1", "first, ");
    (void) snprintf(path, sizeof path, "%s/job", dir);
    cr_assert_eq(access(path, F_OK), -1);
    assert_content(dir, "never/file", "");
    cr_assert_eq(rmtree(dir), 0);
}

static void agent_with_a_stopped_keeper(int keeper_fd, int out, const char *arg)
{
    uint32_t i;

    (void) arg;
    (void) kill(getppid(), SIGSTOP);
    while (tree_state(getppid()) != 'T')
        ;
    (void) alarm(20);
    for (i = 0; i < 10000; i++)
        keeper_take_back(keeper_fd, i);
    write_int(out, 1);
    (void) kill(getppid(), SIGCONT);
    _exit(0);
}

Test(keeper, one_that_is_stopped_holds_nobody)
{
    struct job j = start(NULL, agent_with_a_stopped_keeper, NULL);
    char       text[256];

    cr_assert_eq(read_int(j.out), 1);
    cr_assert_eq(finish(&j, text, sizeof text), 0);
}

static void agent_dies_of_term(int keeper_fd, int out, const char *arg)
{
    (void) keeper_fd, (void) arg;
    write_int(out, 1);
    for (;;)
        (void) pause();
}

Test(keeper, agent_that_dies_of_a_forwarded_signal_was_stopped)
{
    struct job j = start(NULL, agent_dies_of_term, NULL);
    char       text[256];
    int        status;

    (void) read_int(j.out);
    cr_assert_eq(kill(j.keeper, SIGTERM), 0);
    status = finish(&j, text, sizeof text);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 128 + SIGTERM);
    cr_assert_str_eq(text, "");
}

/* ---- the keeper is killed */

static void agent_waits_for_the_keeper(int keeper_fd, int out, const char *arg)
{
    struct pollfd p = { .fd = keeper_fd, .events = POLLIN };
    char          c;

    (void) arg;
    write_int(out, 1);
    (void) poll(&p, 1, -1);
    write_int(out, read(keeper_fd, &c, 1) == 0 ? 42 : 0);
    _exit(0);
}

Test(keeper, its_end_is_end_of_file_for_the_agent)
{
    struct job j = start(NULL, agent_waits_for_the_keeper, NULL);
    char       text[256];
    int        status;

    (void) read_int(j.out);
    cr_assert_eq(kill(j.keeper, SIGKILL), 0);
    cr_assert_eq(read_int(j.out), 42);
    status = finish(&j, text, sizeof text);
    cr_assert(WIFSIGNALED(status));
}

/* ---- signals */

/* Says which signals arrive, one after the other, until USR2. */
static void agent_reports_signals(int keeper_fd, int out, const char *arg)
{
    sigset_t all;
    int      signum;

    (void) keeper_fd, (void) arg;
    (void) sigfillset(&all);
    (void) sigdelset(&all, SIGTTOU);
    (void) sigprocmask(SIG_SETMASK, &all, NULL);
    write_int(out, 0);
    do {
        signum = sigwaitinfo(&all, NULL);
        write_int(out, signum);
        if (signum == SIGTSTP)
            (void) kill(getpid(), SIGSTOP);
    } while (signum != SIGUSR2);
    _exit(0);
}

static void end_reports(struct job *j)
{
    char text[256];

    cr_assert_eq(kill(j->keeper, SIGUSR2), 0);
    cr_assert_eq(read_int(j->out), SIGUSR2);
    cr_assert_eq(finish(j, text, sizeof text), 0);
}

Test(keeper, forwards_what_workers_and_users_send)
{
    const int  signals[] = { SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGVTALRM, SIGWINCH, SIGCONT, SIGRTMIN, SIGRTMAX };
    struct job j = start(NULL, agent_reports_signals, NULL);
    size_t     i;

    (void) read_int(j.out);
    for (i = 0; i < sizeof signals / sizeof *signals; i++) {
        cr_assert_eq(kill(j.keeper, signals[i]), 0);
        cr_assert_eq(read_int(j.out), signals[i]);
    }
    cr_assert_eq(kill(j.keeper, SIGALRM), 0); /* not forwarded, and not deadly either */
    end_reports(&j);
}

static void agent_that_is_slow(int keeper_fd, int out, const char *arg)
{
    sigset_t pending;

    write_int(out, 0);
    do
        (void) sigpending(&pending);
    while (sigismember(&pending, SIGUSR1) == 0);
    agent_reports_signals(keeper_fd, out, arg);
}

Test(keeper, a_signal_before_the_agent_is_ready_is_neither_lost_nor_deadly)
{
    struct job j = start(NULL, agent_that_is_slow, NULL);

    (void) read_int(j.out);
    cr_assert_eq(kill(j.keeper, SIGUSR1), 0);
    (void) read_int(j.out);
    cr_assert_eq(read_int(j.out), SIGUSR1);
    end_reports(&j);
}

Test(keeper, the_same_stop_signal_twice_at_once_is_one)
{
    struct timespec pause_ms = { 0, 60 * 1000000 }; /* longer than what counts as "at once" */
    struct job      j = start(NULL, agent_reports_signals, NULL);

    (void) read_int(j.out);
    cr_assert_eq(kill(j.keeper, SIGINT), 0);
    cr_assert_eq(read_int(j.out), SIGINT);
    cr_assert_eq(kill(j.keeper, SIGINT), 0); /* on a machine that stands still for 50 ms this may count as a second */
    cr_assert_eq(kill(j.keeper, SIGTERM), 0);
    cr_assert_eq(read_int(j.out), SIGTERM);
    (void) nanosleep(&pause_ms, NULL);
    cr_assert_eq(kill(j.keeper, SIGINT), 0);
    cr_assert_eq(read_int(j.out), SIGINT);
    end_reports(&j);
}

static void as_nohup(void)
{
    struct sigaction ign = { .sa_handler = SIG_IGN };
    sigset_t         blocked;

    (void) sigaction(SIGHUP, &ign, NULL);
    (void) sigaction(SIGQUIT, &ign, NULL);
    (void) sigaction(SIGTERM, &ign, NULL);
    (void) sigaction(SIGCHLD, &ign, NULL);
    (void) sigemptyset(&blocked);
    (void) sigaddset(&blocked, SIGUSR1);
    (void) sigprocmask(SIG_SETMASK, &blocked, NULL);
}

static void agent_with_ignored(int keeper_fd, int out, const char *arg)
{
    struct sigaction now;

    (void) sigaction(SIGHUP, NULL, &now);
    write_int(out, now.sa_handler == SIG_IGN && getpgrp() == getpid());
    agent_reports_signals(keeper_fd, out, arg);
}

Test(keeper, ignored_signals_stay_ignored_but_not_term)
{
    struct job j = start(as_nohup, agent_with_ignored, NULL);

    cr_assert_eq(read_int(j.out), 1);
    (void) read_int(j.out);
    cr_assert_eq(kill(j.keeper, SIGHUP), 0);
    cr_assert_eq(kill(j.keeper, SIGQUIT), 0);
    cr_assert_eq(kill(j.keeper, SIGTERM), 0);
    cr_assert_eq(read_int(j.out), SIGTERM);
    cr_assert_eq(kill(j.keeper, SIGUSR1), 0); /* blocked by our parent: forwarded all the same */
    cr_assert_eq(read_int(j.out), SIGUSR1);
    end_reports(&j);
}

Test(keeper, stops_after_the_agent_and_goes_on_with_it)
{
    struct job j = start(NULL, agent_reports_signals, NULL);
    int        status, i;

    (void) read_int(j.out);
    for (i = 0; i < 2; i++) {
        cr_assert_eq(kill(j.keeper, SIGTSTP), 0);
        cr_assert_eq(read_int(j.out), SIGTSTP);
        cr_assert_eq(waitpid(j.keeper, &status, WUNTRACED), j.keeper);
        cr_assert(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
        cr_assert_eq(kill(j.keeper, SIGCONT), 0);
        cr_assert_eq(read_int(j.out), SIGCONT);
    }
    end_reports(&j);
}

/* ---- who is not ours */

static pid_t foreigner;

static void leave_a_child(void)
{
    foreigner = fork();
    if (foreigner == 0) {
        (void) prctl(PR_SET_PDEATHSIG, SIGTERM); /* of the keeper's end only */
        (void) alarm(30);
        for (;;)
            (void) pause();
    }
}

static void agent_with_foreigner(int keeper_fd, int out, const char *mode)
{
    write_int(out, foreigner);
    agent_with_brood(keeper_fd, out, mode);
}

Test(keeper, children_of_the_shell_that_execd_us_are_left_alone)
{
    struct job j = start(leave_a_child, agent_with_foreigner, "daemons");
    pid_t      foreign = read_int(j.out), agent = read_int(j.out);
    char       text[256];
    siginfo_t  si;

    await_brood(j.out);
    cr_assert_eq(tree_adopt(NULL), 0); /* the foreigner comes to us when the keeper ends: see what it died of */
    cr_assert_eq(kill(agent, SIGKILL), 0);
    cr_assert_eq(WEXITSTATUS(finish(&j, text, sizeof text)), 70);
    cr_assert_eq(waitid(P_PID, (id_t) foreign, &si, WEXITED), 0);
    cr_assert(si.si_code == CLD_KILLED && si.si_status == SIGTERM);
}

static void agent_says_its_fd(int keeper_fd, int out, const char *arg)
{
    (void) arg;
    write_int(out, keeper_fd);
    write_int(out, getpid());
    _exit(0);
}

enum { EXIT_SKIP = 77 };

/* The parent of a PID 1 that starts a keeper. */
static _Noreturn void run_pid1(int out)
{
    int   fd, status;
    pid_t pid;

    if (unshare(CLONE_NEWPID) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWPID) < 0)
        _exit(EXIT_SKIP);
    pid = fork();
    if (pid == 0) {
        if (keeper_start(NULL, NULL, &fd, NULL) < 0)
            _exit(99);
        agent_says_its_fd(fd, out, NULL);
    }
    _exit(waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : 96);
}

Test(keeper, pid_1_needs_no_second_process)
{
    int   ends[2], status;
    pid_t pid;

    cr_assert_eq(pipe2(ends, O_CLOEXEC), 0);
    pid = fork();
    if (pid == 0)
        run_pid1(ends[1]);
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    if (WEXITSTATUS(status) == EXIT_SKIP)
        cr_skip_test("no PID namespaces here");
    cr_assert_eq(status, 0);
    cr_assert_eq(read_int(ends[0]), -1);
    cr_assert_eq(read_int(ends[0]), 1);
}

/* ---- the leash */

static const char *volatile secret;
static int                  keeper_says = -1;

static void on_began(void *ctx)
{
    (void) ctx;
    secret = NULL;
}

static void on_ended(void *ctx, int status)
{
    (void) ctx;
    write_int(keeper_says, secret ? -1 : status);
}

static volatile sig_atomic_t got_signal;

static void note_signal(int signum)
{
    got_signal = signum;
}

/* It says when it is ready, and then which signals come, until a TERM. */
static _Noreturn void led_agent(int leash, int out)
{
    struct sigaction act = { .sa_handler = note_signal };
    sigset_t         all, none;

    (void) sigaction(SIGUSR1, &act, NULL);
    (void) sigaction(SIGTERM, &act, NULL);
    (void) sigfillset(&all);
    (void) sigemptyset(&none);
    write_int(out, fcntl(leash, F_GETFD) < 0 && secret ? 0 : -1);
    while (got_signal != SIGTERM) {
        (void) sigsuspend(&none);
        write_int(out, got_signal);
    }
    _exit(9);
}

Test(keeper, is_led_by_a_leash_and_says_at_its_end_how_it_was)
{
    const uint8_t orders[] = { 0, SIGUSR1, 200 };
    int           way[2], out[2], said[2], fd, status;
    pid_t         pid;

    cr_assert_eq(pipe2(way, O_CLOEXEC), 0);
    cr_assert_eq(pipe2(out, O_CLOEXEC), 0);
    cr_assert_eq(pipe2(said, O_CLOEXEC), 0);
    secret = "sesame";
    pid = fork();
    if (pid == 0) {
        const struct keeper_leash leash = { .fd = way[0], .began = on_began, .ended = on_ended };

        keeper_says = said[1];
        (void) close(way[1]);
        if (keeper_start(NULL, &leash, &fd, NULL) < 0)
            _exit(99);
        led_agent(way[0], out[1]);
    }
    (void) close(said[1]);
    cr_assert_eq(read_int(out[0]), 0, "the agent has the leash, or lacks the secret");
    cr_assert_eq(write(way[1], orders, sizeof orders), (ssize_t) sizeof orders);
    cr_assert_eq(read_int(out[0]), SIGUSR1);
    (void) close(way[1]);
    (void) close(way[0]);
    cr_assert_eq(read_int(out[0]), SIGTERM);
    cr_assert_eq(read_int(said[0]), 9, "the keeper kept the secret, or the status");
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 9);
}

/* ---- the terminal */

static void agent_with_foreground_worker(int keeper_fd, int out, const char *arg)
{
    char             *argv[] = { (char *) "true", NULL }, *env[] = { NULL };
    struct spawn_req req = { .path = "/bin/true", .argv = argv, .env = env, .fd = { 0, 1, 2 }, .cgroup_fd = -1,
                             .is_foreground = true };
    pid_t            pid;

    (void) keeper_fd, (void) arg;
    if (spawn_one(&req, &pid, NULL) < 0 || waitpid(pid, NULL, 0) != pid)
        _exit(97);
    write_int(out, tcgetpgrp(0) == getpgrp() || tcgetpgrp(0) == getpgid(getppid()));
    _exit(0);
}

/* The leader of a session with a terminal, as a shell: its job is in the foreground, and must have given it back. */
static _Noreturn void shell(int report)
{
    pid_t job = fork();
    int   fd, status;

    if (job == 0) {
        struct sigaction dfl = { .sa_handler = SIG_DFL }, ign = { .sa_handler = SIG_IGN };

        (void) setpgid(0, 0);
        (void) sigaction(SIGTTOU, &ign, NULL);
        (void) tcsetpgrp(0, getpgrp());
        (void) sigaction(SIGTTOU, &dfl, NULL);
        if (keeper_start(NULL, NULL, &fd, NULL) < 0)
            _exit(99);
        agent_with_foreground_worker(fd, report, NULL);
    }
    (void) waitpid(job, &status, 0);
    write_int(report, status);
    write_int(report, tcgetpgrp(0) == job);
    _exit(0);
}

Test(keeper, takes_the_terminal_back_from_a_worker_that_has_gone)
{
    int   ends[2], tty, status;
    pid_t pid;

    cr_assert_eq(pipe(ends), 0);
    pid = forkpty(&tty, NULL, NULL, NULL);
    cr_assert_geq(pid, 0);
    if (pid == 0)
        shell(ends[1]);
    cr_assert_eq(read_int(ends[0]), 0, "the worker had the terminal");
    cr_assert_eq(read_int(ends[0]), 0);
    cr_assert_eq(read_int(ends[0]), 1);
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    (void) close(tty);
}
