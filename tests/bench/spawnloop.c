/* spawnloop - the floor of every launcher: start N processes and reap them, with nothing else around.
 *
 *     spawnloop N RUNS PROGRAM
 *
 * Prints one line for each run: the milliseconds from the first vfork() to the last wait().
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static double now_ms(void)
{
    struct timespec t;

    (void) clock_gettime(CLOCK_MONOTONIC, &t);
    return (double) t.tv_sec * 1e3 + (double) t.tv_nsec * 1e-6;
}

static pid_t start(char **argv)
{
    pid_t pid = vfork(); /* NOLINT(clang-analyzer-security.insecureAPI.vfork): what is measured is vfork */

    if (pid == 0) {
        (void) execve(argv[0], argv, environ);
        _exit(127);
    }
    return pid;
}

int main(int argc, char **argv)
{
    long n    = argc > 3 ? strtol(argv[1], NULL, 10) : 0;
    long runs = argc > 3 ? strtol(argv[2], NULL, 10) : 0;

    if (n <= 0 || runs <= 0) {
        (void) fprintf(stderr, "usage: spawnloop N RUNS PROGRAM\n");
        return 2;
    }
    for (long r = 0; r < runs; r++) {
        double begin = now_ms();
        int    status;

        for (long i = 0; i < n; i++) {
            if (start(argv + 3) < 0) {
                perror("spawnloop: vfork");
                return 1;
            }
        }
        for (long i = 0; i < n; i++) {
            if (wait(&status) < 0 || status != 0) {
                (void) fprintf(stderr, "spawnloop: '%s' failed\n", argv[3]);
                return 1;
            }
        }
        (void) printf("%.3f\n", now_ms() - begin);
    }
    return 0;
}
