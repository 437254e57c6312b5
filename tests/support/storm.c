/* storm - a worker under process 1: N orphans end at the same moment, and process 1 has to reap them.
 *
 *   storm N [LIMIT_MS]
 *
 * Prints `left=0 ms=12 cpu_us=3400`: how many processes beside process 1 and itself there were LIMIT_MS (100) later, or 0 and
 * when that was seen, and the CPU time that process 1 took for it.  Ends with 1 when some were left, with 2 when it could not
 * be tried.  Needs a PID namespace and its /proc.
 */
#include <dirent.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "store/base/clock.h"

enum { LIMIT_MS = 100 };

static uint64_t init_cpu_us(void)
{
    FILE    *f = fopen("/proc/1/schedstat", "re");
    uint64_t ns = 0;

    if (f) {
        if (fscanf(f, "%" SCNu64, &ns) != 1)
            ns = 0;
        (void) fclose(f);
    }
    return ns / 1000;
}

/* Processes beside process 1 and us, dead ones that nobody has reaped included. */
static unsigned others(void)
{
    DIR           *d = opendir("/proc");
    struct dirent *e;
    unsigned       n = 0;

    while (d && (e = readdir(d))) {
        long pid = strtol(e->d_name, NULL, 10);

        if (pid > 1 && pid != getpid())
            n++;
    }
    if (d)
        (void) closedir(d);
    return n;
}

static _Noreturn void be_orphan(const int gate[2])
{
    char byte;

    (void) close(gate[1]);
    (void) !read(gate[0], &byte, 1); /* until all may go */
    _exit(0);
}

/* Through a process in between, whose end makes them orphans. */
static int make_orphans(unsigned n, const int gate[2])
{
    int   status = 0;
    pid_t pid = fork();

    if (pid == 0) {
        for (unsigned i = 0; i < n; i++) {
            pid_t child = fork();

            if (child == 0)
                be_orphan(gate);
            if (child < 0)
                _exit(1);
        }
        _exit(0);
    }
    return pid < 0 || waitpid(pid, &status, 0) < 0 || status != 0 ? -1 : 0;
}

int main(int argc, char **argv)
{
    const struct timespec pause = { .tv_nsec = 1000000 };
    unsigned              n = argc > 1 ? (unsigned) strtoul(argv[1], NULL, 10) : 0, left;
    uint64_t              limit = argc > 2 ? strtoull(argv[2], NULL, 10) : LIMIT_MS, start, cpu;
    int                   gate[2];

    if (n == 0 || pipe(gate) < 0 || make_orphans(n, gate) < 0 || others() != n)
        return 2;
    (void) close(gate[0]);
    cpu = init_cpu_us();
    start = cc_monotonic_ms();
    (void) close(gate[1]);
    while ((left = others()) > 0 && cc_monotonic_ms() - start < limit)
        (void) nanosleep(&pause, NULL);
    (void) printf("left=%u ms=%" PRIu64 " cpu_us=%" PRIu64 "\n", left, cc_monotonic_ms() - start, init_cpu_us() - cpu);
    return left > 0;
}
