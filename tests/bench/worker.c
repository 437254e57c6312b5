/* worker - what the benchmarks start as a job.
 *
 *     worker lines BYTES             numbered lines of 80 bytes on stdout, so many bytes in all
 *     worker bytes BYTES             so many bytes on stdout
 *     worker stamp DIR RANK CODE     note when it starts; RANK of attempt 0 notes when it exits with CODE, the others
 *                                    of attempt 0 sleep, those of later attempts exit with 0
 *     worker exec DIR PROGRAM...     note when it starts, and become that program
 *     worker hold DIR                note when it starts, and exit with 0 when somebody opens the FIFO DIR/go for writing
 *     worker sleep                   sleep until a signal comes
 *     worker deaf                    the same, ignoring TERM, INT and HUP
 *     worker parent                  leave a daemon behind, then as sleep
 *     worker family                  leave a daemon behind that ignores TERM, then as deaf
 * Notes are files DIR/start.ATTEMPT.RANK and DIR/exit.ATTEMPT.RANK with the nanoseconds of CLOCK_MONOTONIC.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LINE = 80, LOT = LINE * 800 };

static long long now_ns(void)
{
    struct timespec t;

    (void) clock_gettime(CLOCK_MONOTONIC, &t);
    return (long long) t.tv_sec * 1000000000 + t.tv_nsec;
}

static const char *env_or_0(const char *name)
{
    const char *value = getenv(name);

    if (!value && strcmp(name, "RANK") == 0)
        value = getenv("PMI_RANK"); /* Hydra's name for it */
    return value ? value : "0";
}

static int note(const char *dir, const char *what, long long ns)
{
    char path[4096], text[32];
    int  len, fd;

    (void) snprintf(path, sizeof path, "%s/%s.%s.%s", dir, what, env_or_0("TORCHELASTIC_RESTART_COUNT"), env_or_0("RANK"));
    len = snprintf(text, sizeof text, "%lld\n", ns);
    fd  = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0 || write(fd, text, (size_t) len) != len || close(fd) < 0) {
        perror(path);
        return 1;
    }
    return 0;
}

static int write_all(const char *p, size_t n)
{
    while (n > 0) {
        ssize_t r = write(STDOUT_FILENO, p, n);

        if (r < 0 && errno == EINTR)
            continue;
        if (r <= 0)
            return 1;
        p += r;
        n -= (size_t) r;
    }
    return 0;
}

/* Adds to the decimal number that ends at `last`; faster than printing it, and the producer must not be the limit. */
static void add(char *last, unsigned n)
{
    for (; n > 0; last--) {
        n += (unsigned) (*last - '0');
        *last = (char) ('0' + n % 10);
        n /= 10;
    }
}

static int lines(long long bytes)
{
    static char lot[LOT + 1];
    size_t      digits_end = strlen(env_or_0("RANK")) + 12;

    for (unsigned i = 0; i < LOT / LINE; i++) {
        char  *line = lot + (size_t) i * LINE;
        size_t n;

        (void) snprintf(line, LINE + 1, "%s %012u ", env_or_0("RANK"), i);
        n = strlen(line);
        (void) memset(line + n, 'x', LINE - 1 - n);
        line[LINE - 1] = '\n';
    }
    for (bytes = (bytes + LINE - 1) / LINE * LINE; bytes > 0; bytes -= LOT) {
        if (write_all(lot, bytes < LOT ? (size_t) bytes : LOT))
            return 1;
        for (size_t i = 0; i < LOT / LINE; i++)
            add(lot + i * LINE + digits_end, LOT / LINE);
    }
    return 0;
}

static int some_bytes(long long bytes)
{
    static char lot[LOT];

    (void) memset(lot, 'b', sizeof lot);
    for (; bytes > 0; bytes -= LOT) {
        if (write_all(lot, bytes < LOT ? (size_t) bytes : LOT))
            return 1;
    }
    return 0;
}

_Noreturn static void sleep_for_ever(void)
{
    for (;;)
        (void) pause();
}

_Noreturn static void deaf(void)
{
    struct sigaction ignore = { .sa_handler = SIG_IGN };

    (void) sigaction(SIGTERM, &ignore, NULL);
    (void) sigaction(SIGINT, &ignore, NULL);
    (void) sigaction(SIGHUP, &ignore, NULL);
    sleep_for_ever();
}

_Noreturn static void with_daemon(void (*live)(void))
{
    pid_t pid = fork();

    if (pid == 0) {
        (void) setsid();
        if (fork() == 0)
            live();
        _exit(0);
    }
    (void) waitpid(pid, NULL, 0);
    live();
    _exit(1);
}

static int stamp(const char *dir, const char *rank, const char *code)
{
    int is_first = strcmp(env_or_0("TORCHELASTIC_RESTART_COUNT"), "0") == 0;

    if (!is_first)
        return 0;
    if (strcmp(env_or_0("RANK"), rank) != 0)
        sleep_for_ever();
    for (;;) { /* every rank of the attempt is up before this one dies */
        char path[4096];
        long n = strtol(env_or_0("WORLD_SIZE"), NULL, 10), there = 0;

        for (long r = 0; r < n; r++) {
            (void) snprintf(path, sizeof path, "%s/start.0.%ld", dir, r);
            there += access(path, F_OK) == 0;
        }
        if (there >= n)
            break;
        (void) poll(NULL, 0, 5);
    }
    if (note(dir, "exit", now_ns()))
        return 1;
    _exit((int) strtol(code, NULL, 10));
}

static int hold(const char *dir)
{
    char path[4096];
    int  fd;

    (void) snprintf(path, sizeof path, "%s/go", dir);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno != EINTR)
        perror(path);
    return fd < 0;
}

int main(int argc, char **argv)
{
    long long   begin = now_ns();
    const char *mode  = argc > 1 ? argv[1] : "";

    if (strcmp(mode, "lines") == 0 && argc == 3)
        return lines(strtoll(argv[2], NULL, 10));
    if (strcmp(mode, "bytes") == 0 && argc == 3)
        return some_bytes(strtoll(argv[2], NULL, 10));
    if (strcmp(mode, "stamp") == 0 && argc == 5)
        return note(argv[2], "start", begin) || stamp(argv[2], argv[3], argv[4]);
    if (strcmp(mode, "exec") == 0 && argc >= 4)
        return note(argv[2], "start", begin) || execvp(argv[3], argv + 3);
    if (strcmp(mode, "hold") == 0 && argc == 3)
        return note(argv[2], "start", begin) || hold(argv[2]);
    if (strcmp(mode, "sleep") == 0)
        sleep_for_ever();
    if (strcmp(mode, "deaf") == 0)
        deaf();
    if (strcmp(mode, "parent") == 0)
        with_daemon(sleep_for_ever);
    if (strcmp(mode, "family") == 0)
        with_daemon(deaf);
    (void) fprintf(stderr, "usage: worker lines|bytes BYTES | stamp DIR RANK CODE | exec DIR PROGRAM... | hold DIR | sleep | "
                           "deaf | parent | family\n");
    return 2;
}
