/* brood - a worker that leaves processes everywhere, for the tests of tree killing.  All hold standard output open, so
 * that its end of file means that none is left; all ignore TERM, INT and HUP.  After one byte 'r' on standard output
 * everything is up.  Whatever goes wrong with the test, each ends by itself after LIFE_S.
 *
 *   brood daemons N   N daemonised grandchildren (double fork, own session), then sleeps
 *   brood depth N     a chain of N processes, each the parent of the next, each in a session of its own
 *   brood runner N    N processes that never stay: each forks a successor in a new session, and exits
 *   brood threads N   N children, each forked by a thread of its own
 *   brood fail N      as daemons, but exits with status 3 then
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LIFE_S = 30 };

static _Noreturn void rest(void)
{
    (void) alarm(LIFE_S);
    for (;;)
        (void) pause();
}

static void ready(void)
{
    (void) !write(STDOUT_FILENO, "r", 1);
}

static void daemons(int n)
{
    int i;

    for (i = 0; i < n; i++) {
        pid_t pid = fork();

        if (pid == 0) {
            (void) setsid();
            if (fork() == 0)
                rest();
            _exit(0);
        }
        (void) waitpid(pid, NULL, 0);
    }
    ready();
}

static void depth(int n)
{
    while (n-- > 0) {
        if (fork() != 0)
            rest();
        (void) setsid();
    }
    ready();
}

static _Noreturn void run_away(void)
{
    time_t end = time(NULL) + LIFE_S;

    while (time(NULL) < end) {
        if (fork() != 0)
            _exit(0);
        (void) setsid();
    }
    _exit(0);
}

static void runners(int n)
{
    while (n-- > 0) {
        if (fork() == 0)
            run_away();
    }
    ready();
}

static void *fork_and_stay(void *arg)
{
    (void) arg;
    if (fork() == 0)
        rest();
    ready();
    rest();
}

static void threads(int n)
{
    pthread_t t;

    while (n-- > 0)
        (void) pthread_create(&t, NULL, fork_and_stay, NULL);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(int);
    } modes[] = { { "daemons", daemons }, { "depth", depth }, { "runner", runners }, { "threads", threads },
                  { "fail", daemons } };
    struct sigaction ign = { .sa_handler = SIG_IGN };
    size_t           i;

    (void) sigaction(SIGTERM, &ign, NULL);
    (void) sigaction(SIGINT, &ign, NULL);
    (void) sigaction(SIGHUP, &ign, NULL);
    for (i = 0; argc == 3 && i < sizeof modes / sizeof *modes; i++) {
        if (strcmp(argv[1], modes[i].name) != 0)
            continue;
        modes[i].run((int) strtol(argv[2], NULL, 10));
        if (strcmp(argv[1], "fail") == 0)
            return 3;
        rest();
    }
    (void) fprintf(stderr, "usage: brood daemons|depth|runner|threads|fail N\n");
    return 2;
}
