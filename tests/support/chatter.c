/* chatter.c - a worker that writes much, or oddly, to its standard output; $RANK is in every line.
 *
 *     chatter pieces N    N lines of 200 bytes, each written in three pieces
 *     chatter stream N    N lines of 80 bytes, as fast as it goes
 *     chatter flood N     N bytes `x` without a newline, then SIGKILL to itself
 *     chatter counted N   N lines of 80 bytes, one write each; after each, one more byte into the file
 * wrote.$RANK
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINE = 80, LONG_LINE = 200, FIRST = 67, BULK = 64 * 1024 };

static void put(const char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t n = write(STDOUT_FILENO, bytes, len);

        if (n < 0)
            _exit(1);
        bytes += n;
        len -= (size_t) n;
    }
}

static void pieces(unsigned long rank, unsigned long n)
{
    char line[LONG_LINE + 64];

    for (unsigned long i = 0; i < n; i++) {
        (void) snprintf(line, sizeof line, "writer %2lu line %6lu %177s\n", rank, i, "end");
        put(line, FIRST);
        put(line + FIRST, FIRST);
        put(line + 2 * FIRST, LONG_LINE - 2 * FIRST);
    }
}

static void stream(unsigned long rank, unsigned long n)
{
    char   buf[BULK + LINE + 64];
    size_t used = 0;

    for (unsigned long i = 0; i < n; i++) {
        used +=
            (size_t) snprintf(buf + used, sizeof buf - used, "writer %2lu line %9lu %54s\n", rank, i, "end");
        if (used >= BULK || i + 1 == n) {
            put(buf, used);
            used = 0;
        }
    }
}

static void flood(unsigned long n)
{
    char buf[4096];

    memset(buf, 'x', sizeof buf);
    for (; n > 0; n -= n < sizeof buf ? n : sizeof buf)
        put(buf, n < sizeof buf ? n : sizeof buf);
    (void) kill(getpid(), SIGKILL);
}

static void counted(unsigned long rank, unsigned long n)
{
    char line[LINE + 64], name[64];
    int  fd;

    (void) snprintf(name, sizeof name, "wrote.%lu", rank);
    fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    for (unsigned long i = 0; i < n && fd >= 0; i++) {
        put(line, (size_t) snprintf(line, sizeof line, "writer %2lu line %9lu %54s\n", rank, i, "end"));
        if (write(fd, ".", 1) != 1)
            break;
    }
}

int main(int argc, char **argv)
{
    const char   *text = getenv("RANK"), *what = argc > 1 ? argv[1] : "";
    unsigned long n = argc > 2 ? strtoul(argv[2], NULL, 10) : 0, rank = text ? strtoul(text, NULL, 10) : 0;

    if (!strcmp(what, "pieces"))
        pieces(rank, n);
    else if (!strcmp(what, "stream"))
        stream(rank, n);
    else if (!strcmp(what, "flood"))
        flood(n);
    else if (!strcmp(what, "counted"))
        counted(rank, n);
    else
        return 2;
    return 0;
}
