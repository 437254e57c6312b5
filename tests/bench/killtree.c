/* killtree - the floor of emptying a tree: N children and N daemons of theirs, killed by a subreaper's walk.
 *
 *     killtree N RUNS
 *
 * Prints one line for each run: the milliseconds from the first kill to the last wait().
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now_ms(void)
{
    struct timespec t;

    (void) clock_gettime(CLOCK_MONOTONIC, &t);
    return (double) t.tv_sec * 1e3 + (double) t.tv_nsec * 1e-6;
}

static void wait_to_be_killed(int fd)
{
    char c = 0;

    (void) !write(fd, &c, 1);
    for (;;)
        (void) pause();
}

static void child(int fd) /* leaves a daemon behind, then waits too */
{
    pid_t pid = fork();

    if (pid == 0) {
        (void) setsid();
        if (fork() == 0)
            wait_to_be_killed(fd);
        _exit(0);
    }
    (void) waitpid(pid, NULL, 0);
    wait_to_be_killed(fd);
}

static int kill_children(void)
{
    char  path[64];
    FILE *f;
    int   n = 0, pid;

    (void) snprintf(path, sizeof path, "/proc/self/task/%d/children", (int) getpid());
    f = fopen(path, "re");
    if (!f)
        return 0;
    for (; fscanf(f, "%d", &pid) == 1; n++)
        (void) kill(pid, SIGKILL);
    (void) fclose(f);
    return n;
}

static double run(long n)
{
    int    p[2];
    char   c;
    double begin;

    if (pipe(p) < 0)
        return -1;
    for (long i = 0; i < n; i++) {
        if (fork() == 0)
            child(p[1]);
    }
    for (long i = 0; i < 2 * n; i++) {
        if (read(p[0], &c, 1) != 1)
            return -1;
    }
    begin = now_ms();
    for (int killed; (killed = kill_children()) > 0;) {
        while (killed-- > 0)
            (void) waitpid(-1, NULL, 0);
    }
    begin = now_ms() - begin;
    (void) close(p[0]);
    (void) close(p[1]);
    return begin;
}

int main(int argc, char **argv)
{
    long n    = argc > 2 ? strtol(argv[1], NULL, 10) : 0;
    long runs = argc > 2 ? strtol(argv[2], NULL, 10) : 0;

    if (n <= 0 || prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
        return 2;
    for (long r = 0; r < runs; r++)
        (void) printf("%.3f\n", run(n));
    return 0;
}
