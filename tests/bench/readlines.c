/* readlines - the other end of `worker lines`: check every byte as fast as it comes.
 *
 *     readlines RANKS BYTES < OUTPUT
 *
 * Each line is an optional label, then "RANK NUMBER xxx..." of 80 bytes.  Prints the bytes read and how many lines were
 * torn, lost or doubled; fails when there is one, or when a rank's lines do not add up to BYTES.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINE = 80, MAX_RANKS = 4096 };

static long long next[MAX_RANKS];
static long long n_torn, n_out_of_order;

static int is_filler(const char *p, size_t n)
{
    static char x[LINE];

    if (x[0] == '\0')
        (void) memset(x, 'x', sizeof x);
    return memcmp(p, x, n) == 0;
}

static void take(const char *line, size_t len) /* without its newline */
{
    const char *body;
    char       *end;
    long        rank;
    long long   number;

    if (len < LINE - 1) {
        n_torn++;
        return;
    }
    body   = line + len - (LINE - 1);
    rank   = strtol(body, &end, 10);
    number = *end == ' ' ? strtoll(end + 1, &end, 10) : -1;
    if (rank < 0 || rank >= MAX_RANKS || number < 0 || *end != ' ' || !is_filler(end + 1, (size_t) (line + len - end - 1)) ||
        len > LINE + 60) {
        n_torn++;
        return;
    }
    if (number != next[rank])
        n_out_of_order++;
    next[rank] = number + 1;
}

int main(int argc, char **argv)
{
    static char buf[1 << 20];
    size_t      have  = 0;
    long long   bytes = 0, want;
    long        ranks;
    int         is_bad = 0;

    if (argc != 3)
        return 2;
    ranks = strtol(argv[1], NULL, 10);
    want  = (strtoll(argv[2], NULL, 10) + LINE - 1) / LINE;
    for (;;) {
        ssize_t n    = read(STDIN_FILENO, buf + have, sizeof buf - have);
        char   *from = buf, *nl;

        if (n <= 0)
            break;
        bytes += n;
        have += (size_t) n;
        while ((nl = memchr(from, '\n', have - (size_t) (from - buf))) != NULL) {
            take(from, (size_t) (nl - from));
            from = nl + 1;
        }
        have -= (size_t) (from - buf);
        (void) memmove(buf, from, have);
        if (have == sizeof buf)
            have = 0, n_torn++;
    }
    n_torn += have > 0;
    for (long r = 0; r < ranks && r < MAX_RANKS; r++)
        is_bad |= next[r] != want;
    (void) printf("%lld bytes %lld torn %lld out of order%s\n", bytes, n_torn, n_out_of_order, is_bad ? " incomplete" : "");
    return n_torn || n_out_of_order || is_bad;
}
