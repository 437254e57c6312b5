/* crowd - N clients of the store at once: crowd PORT N [TIMES]
 *
 * With TIMES so many crowds come and go instead: clients leave while they wait, in the middle of a request, and with answers
 * that they have not read.
 *
 * On 127.0.0.1.  They come in waves of WAVE, each says VALIDATE and PING; then all set a key of their own, get their
 * neighbour's, and meet at a barrier made of ADD, SET and WAIT, as PyTorch's workers do: every phase is sent by all before
 * the first answer is read.  Prints `done N` and its milliseconds; whatever is wrong ends it with a sentence and status 1.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "store/core/wire.h"

enum { WAVE = 100, N_MAX = 16384, TEXT_MAX = 32 };

struct crowd {
    int fd[N_MAX];
    int n;
};

static _Noreturn void fail(const char *what, int i)
{
    (void) fprintf(stderr, "crowd: client %d: %s: %s\n", i, what, errno ? strerror(errno) : "a wrong answer");
    exit(1);
}

static struct cc_bytes text(char buf[TEXT_MAX], const char *what, int i)
{
    return (struct cc_bytes) { (const uint8_t *) buf, (size_t) snprintf(buf, TEXT_MAX, "%s%d", what, i) };
}

static void ask(const struct crowd *c, int i, const struct wire_req *r, const struct cc_bytes *items, uint64_t n_items)
{
    struct cc_buf b = { 0 };

    if (wire_put_request(&b, cc_bytes_of("/"), r, items, n_items) < 0 ||
        send(c->fd[i], cc_buf_data(&b), cc_buf_len(&b), MSG_NOSIGNAL) != (ssize_t) cc_buf_len(&b))
        fail("send", i);
    cc_buf_free(&b);
}

static void hear(const struct crowd *c, int i, const void *want, size_t n)
{
    char got[64];

    errno = 0;
    if (recv(c->fd[i], got, n, MSG_WAITALL) != (ssize_t) n || memcmp(got, want, n) != 0)
        fail("answer", i);
}

static void come(struct crowd *c, int i, uint16_t port)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int                on = 1;

    c->fd[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (c->fd[i] < 0 || connect(c->fd[i], (struct sockaddr *) &at, sizeof at) < 0)
        fail("connect", i);
    (void) setsockopt(c->fd[i], IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    ask(c, i, &(struct wire_req) { .op = WIRE_VALIDATE, .number = WIRE_MAGIC }, NULL, 0);
    ask(c, i, &(struct wire_req) { .op = WIRE_PING, .number = i }, NULL, 0);
}

static void all_come(struct crowd *c, uint16_t port)
{
    int     i, from;
    uint8_t nonce[4];

    for (from = 0; from < c->n; from += WAVE) {
        int to = from + WAVE < c->n ? from + WAVE : c->n;

        for (i = from; i < to; i++)
            come(c, i, port);
        for (i = from; i < to; i++) {
            (void) wire_put32(nonce, (uint32_t) i);
            hear(c, i, nonce, sizeof nonce);
        }
    }
}

static void all_set_and_get(const struct crowd *c)
{
    char    key[TEXT_MAX], value[TEXT_MAX];
    uint8_t want[8 + TEXT_MAX];
    int     i;

    for (i = 0; i < c->n; i++)
        ask(c, i, &(struct wire_req) { .op = WIRE_SET, .key = text(key, "key", i), .value = text(value, "of ", i) }, NULL, 0);
    for (i = 0; i < c->n; i++) { /* the neighbour's SET has no answer: WAIT says when it is there */
        struct cc_bytes k = text(key, "key", (i + 1) % c->n);

        ask(c, i, &(struct wire_req) { .op = WIRE_WAIT }, &k, 1);
        ask(c, i, &(struct wire_req) { .op = WIRE_GET, .key = k }, NULL, 0);
    }
    for (i = 0; i < c->n; i++) {
        struct cc_bytes v = text(value, "of ", (i + 1) % c->n);

        hear(c, i, "", 1); /* WIRE_STOP_WAITING */
        (void) wire_put_bytes(want, v);
        hear(c, i, want, 8 + v.n);
    }
}

static void barrier(const struct crowd *c)
{
    struct cc_bytes go = cc_bytes_of("go");
    int64_t         n, sum = 0, n_sum = 0;
    int             i;

    for (i = 0; i < c->n; i++)
        ask(c, i, &(struct wire_req) { .op = WIRE_ADD, .key = cc_bytes_of("count"), .number = 1 }, NULL, 0);
    for (i = 0; i < c->n; i++) { /* in whatever order they were served: each number once */
        errno = 0;
        if (recv(c->fd[i], &n, sizeof n, MSG_WAITALL) != sizeof n)
            fail("ADD", i);
        sum += (int64_t) le64toh((uint64_t) n);
        n_sum += i + 1;
        ask(c, i, &(struct wire_req) { .op = WIRE_WAIT }, &go, 1);
    }
    if (sum != n_sum)
        fail("sum of ADD", 0);
    ask(c, 0, &(struct wire_req) { .op = WIRE_SET, .key = go, .value = cc_bytes_of("!") }, NULL, 0);
    for (i = 0; i < c->n; i++)
        hear(c, i, "", 1);
}

/* The ports of those that reset the connection are free at once; for the others there are enough. */
static void leave(const struct crowd *c, int i)
{
    const struct linger at_once = { .l_onoff = 1 };
    struct cc_bytes     never = cc_bytes_of("never"), count = cc_bytes_of("count");

    if (i % 4 == 0)
        ask(c, i, &(struct wire_req) { .op = WIRE_WAIT }, &never, 1);
    else if (i % 4 == 1)
        ask(c, i, &(struct wire_req) { .op = WIRE_ADD, .key = count, .number = 1 }, NULL, 0);
    else if (i % 4 == 2 && send(c->fd[i], "\4\6", 2, MSG_NOSIGNAL) != 2)
        fail("send", i);
    if (i % 4 != 3)
        (void) setsockopt(c->fd[i], SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    (void) close(c->fd[i]);
}

static void come_and_go(struct crowd *c, uint16_t port, long times)
{
    while (times-- > 0) {
        all_come(c, port);
        for (int i = 0; i < c->n; i++)
            leave(c, i);
    }
}

static long now_ms(void)
{
    struct timespec t;

    (void) clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

int main(int argc, char **argv)
{
    static struct crowd c;
    struct rlimit       lim;
    long                start = now_ms(), times = argc == 4 ? strtol(argv[3], NULL, 10) : 0;
    uint16_t            port = argc > 1 ? (uint16_t) strtol(argv[1], NULL, 10) : 0;

    c.n = argc == 3 || times > 0 ? (int) strtol(argv[2], NULL, 10) : 0;
    if (c.n < 1 || c.n > N_MAX) {
        (void) fprintf(stderr, "usage: crowd PORT N [TIMES]\n");
        return 2;
    }
    if (getrlimit(RLIMIT_NOFILE, &lim) == 0) {
        lim.rlim_cur = lim.rlim_max;
        (void) setrlimit(RLIMIT_NOFILE, &lim);
    }
    if (times > 0) {
        come_and_go(&c, port, times);
    } else {
        all_come(&c, port);
        all_set_and_get(&c);
        barrier(&c);
    }
    (void) printf("done %d %ld\n", c.n, now_ms() - start);
    return 0;
}
