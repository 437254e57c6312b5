#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "store/core/wire.h"
#include "store/server.h"

/* The server runs on a loop in a thread of its own; the test is its clients. */
static struct {
    uv_loop_t            loop;
    struct store_server *server;
    uv_async_t           ask;
    pthread_t            thread;
    char                 log[8192];
    int                  wanted; /* 'r' a new round, 'q' the end */
    uv_sem_t             done;
    bool                 was_closed;
} t;

static void on_log(void *ctx, const char *sentence)
{
    size_t n = strlen(t.log);

    cr_assert_eq(ctx, &t);
    (void) snprintf(t.log + n, sizeof t.log - n, "%s\n", sentence);
}

static void on_closed(void *ctx)
{
    cr_assert_eq(ctx, &t);
    t.was_closed = true;
}

static void on_ask(uv_async_t *h)
{
    if (t.wanted == 'r')
        store_server_new_round(t.server);
    if (t.wanted == 'q') {
        store_server_close(t.server, on_closed, &t);
        uv_close((uv_handle_t *) h, NULL);
    }
    uv_sem_post(&t.done);
}

static void ask(int what)
{
    t.wanted = what;
    uv_async_send(&t.ask);
    uv_sem_wait(&t.done);
}

static void *run(void *arg)
{
    (void) uv_run(&t.loop, UV_RUN_DEFAULT);
    return arg;
}

static void start(const struct store_server_cfg *how)
{
    struct store_server_cfg cfg = *how;
    struct cc_err           err = { 0 };

    cfg.log = on_log;
    cfg.ctx = &t;
    cr_assert_eq(uv_loop_init(&t.loop), 0);
    cr_assert_eq(store_server_start(&t.server, &t.loop, &cfg, &err), 0, "%s", err.msg);
    cr_assert_eq(uv_async_init(&t.loop, &t.ask, on_ask), 0);
    cr_assert_eq(uv_sem_init(&t.done, 0), 0);
    cr_assert_eq(pthread_create(&t.thread, NULL, run, NULL), 0);
}

static void setup(void)
{
    start(&(struct store_server_cfg) { 0 });
}

static void teardown(void)
{
    ask('q');
    cr_assert_eq(pthread_join(t.thread, NULL), 0);
    cr_assert(t.was_closed);
    cr_assert_eq(uv_loop_close(&t.loop), 0);
    uv_sem_destroy(&t.done);
}

static void setup_small(void)
{
    start(&(struct store_server_cfg) { .host = "127.0.0.1", .max_memory = 1 << 20 });
}

static void setup_many_addresses(void)
{
    start(&(struct store_server_cfg) { .host = "127.0.0.3", .also = { "127.0.0.1", "", "127.0.0.2" } });
}

static void on_other(void *ctx, int fd, const uint8_t *bytes, size_t n)
{
    (void) ctx, (void) bytes, (void) n;
    (void) close(fd);
}

static void setup_with_agents(void)
{
    start(&(struct store_server_cfg) { .other = on_other });
}

static void setup_few_files(void)
{
    int lowest = dup(0);

    (void) close(lowest);
    start(&(struct store_server_cfg) { .max_files = (unsigned) lowest + 16 });
}

TestSuite(server_with_few_files, .init = setup_few_files, .fini = teardown, .timeout = 30);
TestSuite(small_server, .init = setup_small, .fini = teardown, .timeout = 30);
TestSuite(server_at_many_addresses, .init = setup_many_addresses, .fini = teardown, .timeout = 30);
TestSuite(server_with_agents, .init = setup_with_agents, .fini = teardown, .timeout = 30);
TestSuite(server, .init = setup, .fini = teardown, .timeout = 30);

static int connect_to(uint32_t address)
{
    struct sockaddr_in a = { .sin_family = AF_INET,
                             .sin_port = htons(store_server_port(t.server)),
                             .sin_addr.s_addr = htonl(address) };
    struct timeval     limit = { .tv_sec = 20 };
    int                fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

    cr_assert_geq(fd, 0);
    cr_assert_eq(connect(fd, (struct sockaddr *) &a, sizeof a), 0);
    (void) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    (void) setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    return fd;
}

static int dial_at(uint32_t address)
{
    int fd = connect_to(address);

    (void) send(fd, "\0\xce\xf7\x85\x3c", 5, MSG_NOSIGNAL);
    return fd;
}

static int dial(void)
{
    return dial_at(INADDR_LOOPBACK);
}

static void put(int fd, enum wire_op op, const char *key, struct cc_bytes value)
{
    struct wire_req r = { .op = op, .key = cc_bytes_of(key), .value = value, .number = 1 };
    struct cc_bytes item = r.key;
    struct cc_buf   b = { 0 };
    bool            is_list = op == WIRE_WAIT || op == WIRE_CHECK;

    cr_assert_eq(wire_put_request(&b, cc_bytes_of(""), &r, &item, is_list), 0);
    for (size_t done = 0; done < cc_buf_len(&b);) {
        ssize_t n = send(fd, b.p + done, cc_buf_len(&b) - done, MSG_NOSIGNAL);

        if (n < 0)
            break; /* the server may refuse half-way: the test looks at what comes back */
        done += (size_t) n;
    }
    cc_buf_free(&b);
}

/* The next n bytes, or fewer: the server has closed the connection. */
static size_t take(int fd, void *buf, size_t n)
{
    size_t  got = 0;
    ssize_t k;

    while (got < n && (k = recv(fd, (char *) buf + got, n - got, 0)) > 0)
        got += (size_t) k;
    return got;
}

static void ping(int fd)
{
    uint8_t answer[4] = { 0 };

    put(fd, WIRE_PING, "", cc_bytes_of(""));
    cr_assert_eq(take(fd, answer, 4), 4, "not served");
    cr_assert_eq(memcmp(answer, "\1\0\0\0", 4), 0);
}

Test(server, a_new_round_drops_the_old_connections_and_the_old_keys)
{
    int     a = dial(), b;
    uint8_t byte = 9;

    put(a, WIRE_SET, "k", cc_bytes_of("old"));
    put(a, WIRE_WAIT, "never", cc_bytes_of(""));
    ping(a);
    ask('r');
    cr_assert_eq(take(a, &byte, 1), 0);
    b = dial();
    put(b, WIRE_CHECK, "k", cc_bytes_of(""));
    cr_assert_eq(take(b, &byte, 1), 1);
    cr_assert_eq(byte, 1, "the old key is still there");
    (void) close(a), (void) close(b);
}

Test(server, half_a_request_holds_nobody_up)
{
    int a = dial(), b = dial();

    cr_assert_eq(send(a, "\1\1\0\0\0\0\0\0\0k\x0a\0\0\0\0\0\0\0half", 22, 0), 22);
    for (unsigned i = 0; i < 100; i++)
        ping(b);
    (void) close(a);
    ping(b);
    (void) close(b);
}

Test(server, a_client_that_does_not_read_is_bounded_and_gets_everything_later)
{
    enum { N = 200, SIZE = 1 << 20 };
    struct rusage   before, after;
    struct cc_bytes value = { calloc(1, SIZE), SIZE };
    uint8_t        *got = malloc(SIZE + 8);
    int             a = dial(), b = dial();

    put(a, WIRE_SET, "k", value);
    ping(a);
    (void) getrusage(RUSAGE_SELF, &before);
    for (unsigned i = 0; i < N; i++)
        put(a, WIRE_GET, "k", cc_bytes_of(""));
    for (unsigned i = 0; i < 100; i++)
        ping(b);
    (void) getrusage(RUSAGE_SELF, &after);
    cr_assert_lt(after.ru_maxrss - before.ru_maxrss, 32 << 10, "kB of answers were queued");
    for (unsigned i = 0; i < N; i++)
        cr_assert_eq(take(a, got, SIZE + 8), SIZE + 8);
    ping(a);
    free((void *) (uintptr_t) value.p);
    free(got);
    (void) close(a), (void) close(b);
}

Test(small_server, what_passes_the_memory_limit_is_refused_with_a_sentence)
{
    struct cc_bytes value;
    uint8_t         byte;
    int             a, b;

    value = (struct cc_bytes){ calloc(1, 2 << 20), 2 << 20 };
    a = dial();
    b = dial();
    put(a, WIRE_SET, "k", value);
    cr_assert_eq(take(a, &byte, 1), 0);
    ping(b);
    put(b, WIRE_SET, "k", cc_bytes_of("small"));
    ping(b);
    cr_assert_not_null(strstr(t.log, "a request of 2097170 bytes finds no room"), "%s", t.log);
    cr_assert_not_null(strstr(t.log, "at most 1048576 bytes of memory"), "%s", t.log);
    free((void *) (uintptr_t) value.p);
    (void) close(a), (void) close(b);
}

Test(server, the_accepted_sockets_do_not_delay_small_answers)
{
    int a = dial(), is_nodelay = 0, n_found = 0;

    ping(a);
    for (int fd = 3; fd < 256; fd++) { /* the server's end is in this process too */
        struct sockaddr_in peer, me;
        socklen_t          n = sizeof peer, m = sizeof me, k = sizeof is_nodelay;

        if (getsockname(a, (struct sockaddr *) &me, &m) < 0 ||
            getpeername(fd, (struct sockaddr *) &peer, &n) < 0 || peer.sin_port != me.sin_port)
            continue;
        n_found++;
        cr_assert_eq(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &is_nodelay, &k), 0);
        cr_assert(is_nodelay);
    }
    cr_assert_eq(n_found, 1);
    (void) close(a);
}

Test(server, a_taken_port_is_told_with_its_owner)
{
    struct store_server_cfg cfg = { .port = store_server_port(t.server) };
    struct store_server    *second = NULL;
    struct cc_err           err = { 0 };
    uv_loop_t               loop;
    char                    want[128];

    cr_assert_eq(uv_loop_init(&loop), 0);
    cr_assert_eq(store_server_start(&second, &loop, &cfg, &err), -EADDRINUSE);
    (void) snprintf(want, sizeof want, "cannot listen on 127.0.0.1:%u: '", cfg.port);
    cr_assert_eq(strncmp(err.msg, want, strlen(want)), 0, "%s", err.msg);
    (void) snprintf(want, sizeof want, "(process %d) has the port", (int) getpid());
    cr_assert_not_null(strstr(err.msg, want), "%s", err.msg);
    cr_assert_eq(uv_loop_close(&loop), 0);
}

Test(server_at_many_addresses, all_of_them_have_the_same_keys)
{
    int     a = dial_at(0x7f000001), b = dial_at(0x7f000002), c = dial_at(0x7f000003);
    uint8_t byte = 9;

    put(a, WIRE_SET, "k", cc_bytes_of("v"));
    ping(a);
    put(b, WIRE_WAIT, "k", cc_bytes_of(""));
    cr_assert_eq(take(b, &byte, 1), 1);
    put(c, WIRE_CHECK, "k", cc_bytes_of(""));
    cr_assert_eq(take(c, &byte, 1), 1);
    cr_assert_eq(byte, 0, "another store");
    (void) close(a), (void) close(b), (void) close(c);
}

Test(server_at_many_addresses, it_listens_at_all_of_them_or_not_at_all)
{
    struct store_server_cfg cfg = { .host = "127.0.0.9", .port = store_server_port(t.server), .also = { "127.0.0.2" } };
    struct store_server    *second = NULL;
    struct cc_err           err = { 0 };
    uv_loop_t               loop;
    char                    want[128];

    cr_assert_eq(uv_loop_init(&loop), 0);
    cr_assert_eq(store_server_start(&second, &loop, &cfg, &err), -EADDRINUSE);
    (void) snprintf(want, sizeof want, "cannot listen on 127.0.0.2:%u: '", cfg.port);
    cr_assert_eq(strncmp(err.msg, want, strlen(want)), 0, "%s", err.msg);
    cfg.also[0] = NULL;
    cr_assert_eq(store_server_start(&second, &loop, &cfg, &err), 0, "%s", err.msg);
    store_server_close(second, NULL, NULL);
    (void) uv_run(&loop, UV_RUN_DEFAULT);
    cr_assert_eq(uv_loop_close(&loop), 0);
}

static bool is_open(int fd)
{
    uint8_t byte;

    return recv(fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK) < 0 && errno == EAGAIN;
}

/* Agents speak at once.  Who may still be one is waited for, but the half-open connections of a long job do not pile up. */
Test(server_with_agents, who_says_nothing_for_a_whole_round_is_dropped)
{
    int     silent = connect_to(INADDR_LOOPBACK), later, other = dial();
    uint8_t byte;

    ping(other); /* so both are accepted */
    (void) close(other);
    ask('r');
    cr_assert(is_open(silent));
    later = connect_to(INADDR_LOOPBACK);
    other = dial();
    ping(other);
    ask('r');
    cr_assert_eq(recv(silent, &byte, 1, 0), 0);
    cr_assert(is_open(later));
    (void) close(silent), (void) close(later), (void) close(other);
}

Test(server, a_host_name_is_refused_since_names_are_never_looked_up)
{
    struct store_server_cfg cfg = { .host = "localhost" };
    struct store_server    *s;
    struct cc_err           err = { 0 };
    uv_loop_t               loop;

    cr_assert_eq(uv_loop_init(&loop), 0);
    cr_assert_eq(store_server_start(&s, &loop, &cfg, &err), -EINVAL);
    cr_assert_not_null(strstr(err.msg, "'localhost'"));
    cr_assert_eq(uv_loop_close(&loop), 0);
}

static struct rlimit use_up_descriptors(int fd)
{
    struct rlimit all, few;

    for (int copy; (copy = dup(fd)) >= 0 && copy < fd;) /* no number below is free */
        continue;
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &all), 0);
    few = all;
    few.rlim_cur = (rlim_t) fd + 1;
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
    return all;
}

Test(server, without_descriptors_who_says_nothing_makes_room_for_who_does)
{
    int           served = dial(), silent = connect_to(INADDR_LOOPBACK), last, fd;
    struct rlimit all;
    uint8_t       answer[4];
    size_t        n;

    ping(served);
    last = dup(served);
    all = use_up_descriptors(last);
    (void) close(last);
    do { /* it may speak yet: until then others are turned away, or not even heard */
        fd = dial();
        put(fd, WIRE_PING, "", cc_bytes_of(""));
        n = take(fd, answer, 4);
        if (n < 4) {
            (void) close(fd);
            (void) poll(NULL, 0, 100);
        }
    } while (n < 4);
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &all), 0);
    cr_assert_eq(take(silent, answer, 1), 0);
    ping(served);
    cr_assert_not_null(strstr(t.log, "nothing was said was closed for another"), "%s", t.log);
}

Test(server_with_few_files, some_descriptors_are_not_for_clients)
{
    unsigned n = 0;
    uint8_t  answer[4];
    int      first = -1, fd;

    do { /* each takes one there, and one here */
        fd = dial();
        first = first < 0 ? fd : first;
        put(fd, WIRE_PING, "", cc_bytes_of(""));
    } while (take(fd, answer, 4) == 4 && ++n < 16);
    cr_assert(n > 0 && n < 16, "%u", n);
    ping(first); /* it says why after it has closed the connection */
    cr_assert_not_null(strstr(t.log, "limit of open files"), "%s", t.log);
}

Test(server, without_descriptors_a_client_is_turned_away_and_the_others_are_served)
{
    struct rlimit      all;
    struct sockaddr_in a = { .sin_family = AF_INET,
                             .sin_port = htons(store_server_port(t.server)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int                served = dial(), late = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    uint8_t            byte;

    ping(served);
    all = use_up_descriptors(late);
    cr_assert_eq(connect(late, (struct sockaddr *) &a, sizeof a), 0);
    cr_assert_eq(take(late, &byte, 1), 0);
    ping(served);
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &all), 0);
    cr_expect_str_eq(t.log, "a connection was refused: the limit of open files is reached (ulimit -n)\n");
}
