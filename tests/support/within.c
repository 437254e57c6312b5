/* within - run a command for at most so many seconds, and see that it leaves no process behind.
 *
 *     within SECONDS COMMAND [ARGUMENT...]
 *
 * Exits with the command's status (128 + n for a signal); with 124 when the time was up; with 125 when the command
 * ended well but a process that it started was still there a second later: a launcher's tests must not leak.
 * Whatever is left is killed, also when within itself is to stop or its parent has died: an interrupted test run
 * leaves nothing.  It is a subreaper, so nothing escapes it by daemonising.  The command starts with the
 * signals that a user's has, also where the tests run in the background of a shell, which makes them ignore INT and QUIT.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { TIME_UP = 124, LEFT_BEHIND = 125, CANNOT_RUN = 126, LEAVE_MS = 1000, STEP_MS = 10 };

static long long now_ms(void)
{
    struct timespec t;

    (void) clock_gettime(CLOCK_MONOTONIC, &t);
    return (long long) t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* The ms in which somebody on this machine has waited for a CPU; 0 where the kernel does not count them. */
static long long stalled_ms(void)
{
    char        text[128] = "";
    const char *at;
    int         fd = open("/proc/pressure/cpu", O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return 0;
    if (read(fd, text, sizeof text - 1) < 0)
        text[0] = '\0';
    (void) close(fd);
    at = strstr(text, "total=");
    return at ? strtoll(at + strlen("total="), NULL, 10) / 1000 : 0;
}

/* A limit is one of a machine that has a CPU for us: this clock runs at a quarter of the speed while others want it too. */
static long long fair_ms(void)
{
    return now_ms() - stalled_ms() * 3 / 4;
}

static const int stops[] = { SIGHUP, SIGINT, SIGQUIT, SIGTERM };

static void waited_for(sigset_t *set)
{
    (void) sigemptyset(set);
    (void) sigaddset(set, SIGCHLD);
    for (size_t i = 0; i < sizeof stops / sizeof *stops; i++)
        (void) sigaddset(set, stops[i]);
}

/* Returns the signal that told us to stop, or 0. */
static int wait_a_moment(void)
{
    struct timespec step = { 0, STEP_MS * 1000000L };
    sigset_t        set;
    int             signum;

    waited_for(&set);
    signum = sigtimedwait(&set, NULL, &step);
    return signum > 0 && signum != SIGCHLD ? signum : 0;
}

/* Reaps what has ended. True while a child is left; *ret_status is set when `pid` was among the dead. */
static int reap(pid_t pid, int *ret_status, int *ret_is_over)
{
    for (;;) {
        int   status;
        pid_t p = waitpid(-1, &status, WNOHANG);

        if (p == 0)
            return 1;
        if (p < 0)
            return 0;
        if (p == pid) {
            *ret_status  = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
            *ret_is_over = 1;
        }
    }
}

static void describe(FILE *to, int pid)
{
    char    path[64], line[256];
    ssize_t n;
    int     fd;

    (void) snprintf(path, sizeof path, "/proc/%d/cmdline", pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    n = read(fd, line, sizeof line - 1);
    (void) close(fd);
    for (ssize_t i = 0; i + 1 < n; i++) {
        if (line[i] == '\0')
            line[i] = ' ';
    }
    line[n > 0 ? n : 0] = '\0';
    (void) fprintf(to, "within: process %d is left: %s\n", pid, line);
}

/* Kills every child, and so, round by round, every descendant: the dead hand theirs on to us. */
static void kill_children(int is_told)
{
    char  path[64];
    FILE *f;
    int   pid;

    (void) snprintf(path, sizeof path, "/proc/self/task/%d/children", (int) getpid());
    f = fopen(path, "re");
    if (!f)
        return;
    while (fscanf(f, "%d", &pid) == 1) {
        if (is_told)
            describe(stderr, pid);
        (void) kill(pid, SIGKILL);
    }
    (void) fclose(f);
}

static pid_t start(char **argv, const sigset_t *old_mask)
{
    const struct sigaction dfl = { .sa_handler = SIG_DFL };
    pid_t                  pid = fork();

    if (pid != 0)
        return pid;
    for (size_t i = 0; i < sizeof stops / sizeof *stops; i++)
        (void) sigaction(stops[i], &dfl, NULL);
    (void) setpgid(0, 0);
    (void) sigprocmask(SIG_SETMASK, old_mask, NULL);
    (void) execvp(argv[0], argv);
    (void) fprintf(stderr, "within: cannot run '%s': %s\n", argv[0], strerror(errno));
    _exit(CANNOT_RUN);
}

/* Waits for the command, then a moment for what it has left. Returns the status; *ret_is_left: something is still there. */
static int watch(pid_t pid, const char *seconds, int *ret_is_left)
{
    long long deadline = fair_ms() + strtol(seconds, NULL, 10) * 1000;
    int       status = 0, is_over = 0, stop = 0;

    while ((*ret_is_left = reap(pid, &status, &is_over)) && !is_over && !stop && fair_ms() < deadline)
        stop = wait_a_moment();
    if (stop) {
        status = 128 + stop;
    } else if (!is_over) {
        (void) fprintf(stderr, "within: the time is up: %s s\n", seconds);
        status = TIME_UP;
    }
    deadline = fair_ms() + (is_over ? LEAVE_MS : 0);
    while (*ret_is_left && (*ret_is_left = reap(pid, &status, &is_over)) && !stop && fair_ms() < deadline)
        stop = wait_a_moment();
    return *ret_is_left && !status ? LEFT_BEHIND : status;
}

int main(int argc, char **argv)
{
    sigset_t block, old_mask;
    pid_t    pid, parent = getppid();
    int      status, is_left = 1;

    if (argc < 3 || strtol(argv[1], NULL, 10) <= 0) {
        (void) fprintf(stderr, "usage: within SECONDS COMMAND [ARGUMENT...]\n");
        return 2;
    }
    waited_for(&block);
    (void) sigprocmask(SIG_BLOCK, &block, &old_mask);
    (void) prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        return 128 + SIGTERM;
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0 || (pid = start(argv + 2, &old_mask)) < 0) {
        (void) fprintf(stderr, "within: %s\n", strerror(errno));
        return CANNOT_RUN;
    }
    status = watch(pid, argv[1], &is_left);
    for (int is_first = 1; is_left; is_first = 0) {
        int ignored = 0;

        kill_children(is_first);
        (void) wait_a_moment();
        is_left = reap(pid, &ignored, &ignored);
    }
    return status;
}
