/* agentspawn - a spawn_batch out of an agent with so many megabytes resident: the cost may not grow with them.
 *
 *     agentspawn N MEGABYTES RUNS PROGRAM
 *
 * Prints one line for each run: the milliseconds from the first spawn to the last wait().
 */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/spawn.h"

extern char **environ;

static double now_ms(void)
{
    struct timespec t;

    (void) clock_gettime(CLOCK_MONOTONIC, &t);
    return (double) t.tv_sec * 1e3 + (double) t.tv_nsec * 1e-6;
}

/* Small pages, every one touched: what log buffers and store contents look like. */
static int fill(size_t bytes)
{
    char *p;

    if (bytes == 0)
        return 0;
    p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return -1;
    (void) madvise(p, bytes, MADV_NOHUGEPAGE);
    for (size_t i = 0; i < bytes; i += 4096)
        p[i] = 1;
    return 0;
}

static int spawn_all(const struct spawn_req *req, long n)
{
    struct cc_err       err = { 0 };
    struct spawn_batch *b   = spawn_batch_new();
    pid_t               pid;
    int                 status, r = b ? 0 : -1;

    for (long i = 0; i < n && r == 0; i++)
        r = spawn_begin(b, req, &pid, &err);
    while (b && r == 0 && (r = spawn_next(b, &pid, &err)) > 0)
        r = 0;
    if (r < 0) {
        (void) fprintf(stderr, "agentspawn: %s\n", err.msg);
        return -1;
    }
    (void) spawn_batch_free(b);
    for (long i = 0; i < n; i++) {
        if (wait(&status) < 0)
            return -1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    long             n    = argc > 4 ? strtol(argv[1], NULL, 10) : 0;
    long             mb   = argc > 4 ? strtol(argv[2], NULL, 10) : 0;
    long             runs = argc > 4 ? strtol(argv[3], NULL, 10) : 0;
    int              null = open("/dev/null", O_RDWR | O_CLOEXEC);
    struct spawn_req req  = { .fd = { null, null, null }, .cgroup_fd = -1 };

    if (n <= 0 || mb < 0 || runs <= 0) {
        (void) fprintf(stderr, "usage: agentspawn N MEGABYTES RUNS PROGRAM\n");
        return 2;
    }
    if (null < 0 || fill((size_t) mb << 20) < 0) {
        perror("agentspawn");
        return 1;
    }
    req.path = argv[4];
    req.argv = argv + 4;
    req.env  = environ;
    for (long r = 0; r < runs; r++) {
        double begin = now_ms();

        if (spawn_all(&req, n) < 0)
            return 1;
        (void) printf("%.3f\n", now_ms() - begin);
    }
    return 0;
}
