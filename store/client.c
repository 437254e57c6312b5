#include "store/client.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "store/base/cleanup.h"
#include "store/core/wire.h"

enum {
    DEFAULT_TIMEOUT_MS = 300000,
    CANCEL_MS = 10000, /* how long a server may take to answer CANCEL_WAIT */
    FIRST_PAUSE_MS = 10,
    MAX_PAUSE_MS = 2000,
    READ_SIZE = 16 << 10,
};

struct store_client {
    pthread_mutex_t lock; /* of the next two: another thread may interrupt us */
    bool            is_interrupted;
    int             fd; /* -1: not connected any more */
    uint64_t        timeout_ms;
    char           *prefix;
    struct cc_buf   out, in;
    char            where[96]; /* for sentences */
};

static uint64_t now_ms(void)
{
    struct timespec t;

    (void) clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t) t.tv_sec * 1000 + (uint64_t) t.tv_nsec / 1000000;
}

static uint64_t deadline_in(uint64_t timeout_ms)
{
    uint64_t now = now_ms();

    return timeout_ms < UINT64_MAX - now ? now + timeout_ms : UINT64_MAX;
}

/* Returns `code`, or -ECANCELED if that is why. */
static int hang_up(struct store_client *c, int code)
{
    (void) pthread_mutex_lock(&c->lock);
    if (c->fd >= 0)
        (void) close(c->fd);
    c->fd = -1;
    if (c->is_interrupted)
        code = -ECANCELED;
    (void) pthread_mutex_unlock(&c->lock);
    return code;
}

void store_client_interrupt(struct store_client *c)
{
    (void) pthread_mutex_lock(&c->lock);
    c->is_interrupted = true;
    if (c->fd >= 0)
        (void) shutdown(c->fd, SHUT_RDWR);
    (void) pthread_mutex_unlock(&c->lock);
}

/* ---- bytes */

/* 0 when the socket is ready, -ETIMEDOUT, or another errno. */
static int wait_ready(int fd, short events, uint64_t deadline)
{
    struct pollfd p = { .fd = fd, .events = events };

    for (;;) {
        uint64_t now = now_ms(), left = deadline > now ? deadline - now : 0;
        int      n = poll(&p, 1, left < 60000 ? (int) left : 60000);

        if (n > 0)
            return 0;
        if (n < 0 && errno != EINTR)
            return -errno;
        if (now >= deadline)
            return -ETIMEDOUT;
    }
}

static int send_all(struct store_client *c, uint64_t deadline)
{
    int r = 0;

    while (r == 0 && cc_buf_len(&c->out) > 0) {
        ssize_t n = send(c->fd, cc_buf_data(&c->out), cc_buf_len(&c->out), MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n >= 0)
            cc_buf_drop(&c->out, (size_t) n);
        else if (errno == EAGAIN)
            r = wait_ready(c->fd, POLLOUT, deadline);
        else if (errno != EINTR)
            r = -errno;
    }
    if (cc_buf_len(&c->out) == 0 && c->out.cap > READ_SIZE)
        cc_buf_free(&c->out);
    return r;
}

/* Reads what is there into c->in: 0, -ETIMEDOUT, -ECONNRESET or another errno. */
static int read_more(struct store_client *c, uint64_t deadline)
{
    for (;;) {
        uint8_t *at = cc_buf_grow(&c->in, READ_SIZE);
        ssize_t  n;
        int      r;

        if (!at)
            return -ENOMEM;
        n = recv(c->fd, at, READ_SIZE, MSG_DONTWAIT);
        c->in.len -= READ_SIZE - (n > 0 ? (size_t) n : 0);
        if (n > 0)
            return 0;
        if (n == 0)
            return -ECONNRESET;
        if (errno != EAGAIN && errno != EINTR)
            return -errno;
        r = wait_ready(c->fd, POLLIN, deadline);
        if (r < 0)
            return r;
    }
}

static int lost(struct store_client *c, int code, struct cc_err *err)
{
    const char *why;

    code = hang_up(c, code);
    why = code == -ETIMEDOUT    ? "no answer in time"
          : code == -ECONNRESET ? "the server closed the connection"
          : code == -ECANCELED  ? "interrupted"
                                : strerror(-code);
    return cc_fail(err, code, "store %s: %s", c->where, why);
}

/* ---- requests */

static int put(struct store_client *c, const struct wire_req *r, const struct cc_bytes *items,
               uint64_t n_items, struct cc_err *err)
{
    int code;

    if (c->fd < 0)
        return hang_up(c, -ENOTCONN) == -ECANCELED
                   ? cc_fail(err, -ECANCELED, "store %s: interrupted", c->where)
                   : cc_fail(err, -ENOTCONN, "store %s: the connection was lost before", c->where);
    code = wire_put_request(&c->out, cc_bytes_of(c->prefix), r, items, n_items);
    if (code == -E2BIG)
        return cc_fail(err, code,
                       "store %s: a key over %llu bytes, a value over %llu MiB or a list over %llu keys",
                       c->where, (unsigned long long) WIRE_KEY_MAX,
                       (unsigned long long) (WIRE_VALUE_MAX >> 20), (unsigned long long) WIRE_LIST_MAX);
    if (code < 0)
        return cc_fail(err, code, "store %s: no memory for a request", c->where);
    code = send_all(c, deadline_in(c->timeout_ms));
    return code < 0 ? lost(c, code, err) : 0;
}

/* The answer lies in c->in until taken() is called with what this returns. -ETIMEDOUT leaves the connection
 * as it is. */
static ssize_t await(struct store_client *c, enum wire_op op, uint64_t n_values, uint64_t deadline,
                     struct wire_answer *ret, struct cc_err *err)
{
    struct wire_in w = { 0 };
    ssize_t        n;

    *ret = (struct wire_answer){ 0 };
    while ((n = wire_answer(&w, op, n_values, cc_buf_data(&c->in), cc_buf_len(&c->in), ret, err)) == 0) {
        int r = read_more(c, deadline);

        if (r == -ETIMEDOUT)
            return r;
        if (r < 0)
            return lost(c, r, err);
    }
    if (n < 0) {
        (void) hang_up(c, 0);
        (void) cc_wrap(err, "store %s", c->where);
    }
    return n;
}

static void taken(struct store_client *c, ssize_t n)
{
    if (n > 0)
        cc_buf_drop(&c->in, (size_t) n);
    if (cc_buf_len(&c->in) == 0 && c->in.cap > 4 * READ_SIZE)
        cc_buf_free(&c->in);
}

/* A request whose answer comes at once: how many bytes of c->in it takes, for taken(). */
static ssize_t ask(struct store_client *c, const struct wire_req *r, const struct cc_bytes *items,
                   uint64_t n_items, struct wire_answer *ret, struct cc_err *err)
{
    int     code = put(c, r, items, n_items, err);
    ssize_t n;

    if (code < 0)
        return code;
    n = await(c, r->op, n_items, deadline_in(c->timeout_ms), ret, err);
    return n == -ETIMEDOUT && c->fd >= 0 ? lost(c, -ETIMEDOUT, err) : n;
}

static int ask_number(struct store_client *c, const struct wire_req *r, const struct cc_bytes *items,
                      uint64_t n_items, int64_t *ret, struct cc_err *err)
{
    struct wire_answer a;
    ssize_t            n = ask(c, r, items, n_items, &a, err);

    if (n < 0)
        return (int) n;
    taken(c, n);
    *ret = a.number;
    return 0;
}

static int keep(struct store_client *c, struct cc_bytes value, struct cc_buf *ret, struct cc_err *err)
{
    if (cc_buf_add(ret, value.p, value.n) < 0)
        return cc_fail(err, -ENOMEM, "store %s: no memory for a value of %zu bytes", c->where, value.n);
    return 0;
}

static int ask_value(struct store_client *c, const struct wire_req *r, struct cc_buf *ret, struct cc_err *err)
{
    struct wire_answer a;
    ssize_t            n = ask(c, r, NULL, 0, &a, err);
    int                code;

    if (n < 0)
        return (int) n;
    code = keep(c, a.value, ret, err);
    taken(c, n);
    return code;
}

/* The keys did not come in time.  The answer may be under way: then it comes before that of the CANCEL_WAIT,
 * and the wait has succeeded after all. */
static int cancel(struct store_client *c, struct cc_err *err)
{
    static const struct wire_req r = { .op = WIRE_CANCEL_WAIT };
    uint64_t                     deadline = deadline_in(CANCEL_MS);
    struct wire_answer           a;
    bool                         has_come = false;
    int                          code = put(c, &r, NULL, 0, err);

    while (code == 0) {
        ssize_t n = await(c, WIRE_CANCEL_WAIT, 0, deadline, &a, err);

        if (n < 0)
            return n == -ETIMEDOUT && c->fd >= 0 ? lost(c, -ETIMEDOUT, err) : (int) n;
        taken(c, n);
        if (a.number == WIRE_WAIT_CANCELED)
            return has_come ? 0 : -ETIMEDOUT;
        has_come = true;
    }
    return code;
}

/* WAIT or BARRIER. */
static int wait_for(struct store_client *c, const struct wire_req *r, const struct cc_bytes *keys, uint64_t n,
                    uint64_t timeout_ms, struct cc_err *err)
{
    uint64_t           deadline = deadline_in(timeout_ms);
    struct wire_answer a;
    struct cc_bytes    first = n > 0 ? keys[0] : r->key;
    int                code = put(c, r, keys, n, err);
    ssize_t            got;

    if (code < 0)
        return code;
    got = await(c, r->op, 0, deadline, &a, err);
    taken(c, got);
    if (got != -ETIMEDOUT || c->fd < 0)
        return got < 0 ? (int) got : 0;
    code = cancel(c, err);
    if (code == -ETIMEDOUT && c->fd >= 0)
        return cc_fail(err, code, "store %s: %s '%.*s'%s within %.3g s", c->where,
                       r->op == WIRE_BARRIER ? "not everyone came to the barrier" : "nobody has set",
                       first.n < 100 ? (int) first.n : 100, (const char *) first.p,
                       n > 1 ? " or others with it" : "", (double) timeout_ms / 1000);
    return code;
}

int store_client_set(struct store_client *c, struct cc_bytes key, struct cc_bytes value, struct cc_err *err)
{
    return put(c, &(struct wire_req){ .op = WIRE_SET, .key = key, .value = value }, NULL, 0, err);
}

int store_client_append(struct store_client *c, struct cc_bytes key, struct cc_bytes value,
                        struct cc_err *err)
{
    return put(c, &(struct wire_req){ .op = WIRE_APPEND, .key = key, .value = value }, NULL, 0, err);
}

int store_client_get(struct store_client *c, struct cc_bytes key, uint64_t timeout_ms, struct cc_buf *ret,
                     struct cc_err *err)
{
    int r = store_client_wait(c, &key, 1, timeout_ms, err);

    return r < 0 ? r : ask_value(c, &(struct wire_req){ .op = WIRE_GET, .key = key }, ret, err);
}

int store_client_add(struct store_client *c, struct cc_bytes key, int64_t delta, int64_t *ret_sum,
                     struct cc_err *err)
{
    return ask_number(c, &(struct wire_req){ .op = WIRE_ADD, .key = key, .number = delta }, NULL, 0, ret_sum,
                      err);
}

int store_client_compare_set(struct store_client *c, struct cc_bytes key, struct cc_bytes expected,
                             struct cc_bytes desired, struct cc_buf *ret, struct cc_err *err)
{
    struct wire_req r = { .op = WIRE_COMPARE_SET, .key = key, .value = expected, .desired = desired };

    return ask_value(c, &r, ret, err);
}

int store_client_delete(struct store_client *c, struct cc_bytes key, bool *ret_was_there, struct cc_err *err)
{
    int64_t n = 0;
    int     r = ask_number(c, &(struct wire_req){ .op = WIRE_DELETE_KEY, .key = key }, NULL, 0, &n, err);

    if (r == 0)
        *ret_was_there = n > 0;
    return r;
}

int store_client_num_keys(struct store_client *c, int64_t *ret, struct cc_err *err)
{
    return ask_number(c, &(struct wire_req){ .op = WIRE_GETNUMKEYS }, NULL, 0, ret, err);
}

int store_client_check(struct store_client *c, const struct cc_bytes *keys, uint64_t n, bool *ret_all_there,
                       struct cc_err *err)
{
    int64_t missing = 0;
    int     r = ask_number(c, &(struct wire_req){ .op = WIRE_CHECK }, keys, n, &missing, err);

    if (r == 0)
        *ret_all_there = missing == 0;
    return r;
}

int store_client_wait(struct store_client *c, const struct cc_bytes *keys, uint64_t n, uint64_t timeout_ms,
                      struct cc_err *err)
{
    return wait_for(c, &(struct wire_req){ .op = WIRE_WAIT }, keys, n, timeout_ms, err);
}

int store_client_multi_get(struct store_client *c, const struct cc_bytes *keys, uint64_t n,
                           uint64_t timeout_ms, struct cc_buf *ret, struct cc_err *err)
{
    struct wire_answer a;
    int                r = store_client_wait(c, keys, n, timeout_ms, err);
    ssize_t            got;

    if (r < 0 || n == 0)
        return r;
    got = ask(c, &(struct wire_req){ .op = WIRE_MULTI_GET }, keys, n, &a, err);
    if (got < 0)
        return (int) got;
    for (uint64_t i = 0; r == 0 && i < n; i++)
        r = keep(c, wire_next(&a.list), &ret[i], err);
    taken(c, got);
    return r;
}

int store_client_multi_set(struct store_client *c, const struct cc_bytes *pairs, uint64_t n_pairs,
                           struct cc_err *err)
{
    return put(c, &(struct wire_req){ .op = WIRE_MULTI_SET }, pairs, 2 * n_pairs, err);
}

int store_client_list_keys(struct store_client *c, void (*each)(void *ctx, struct cc_bytes key), void *ctx,
                           struct cc_err *err)
{
    struct cc_bytes    prefix = cc_bytes_of(c->prefix);
    struct wire_answer a;
    ssize_t            n = ask(c, &(struct wire_req){ .op = WIRE_LIST_KEYS }, NULL, 0, &a, err);

    if (n < 0)
        return (int) n;
    while (a.list.n > 0) {
        struct cc_bytes key = wire_next(&a.list);

        if (key.n >= prefix.n && memcmp(key.p, prefix.p, prefix.n) == 0)
            each(ctx, (struct cc_bytes){ key.p + prefix.n, key.n - prefix.n });
    }
    taken(c, n);
    return 0;
}

int store_client_queue_push(struct store_client *c, struct cc_bytes key, struct cc_bytes value,
                            struct cc_err *err)
{
    return put(c, &(struct wire_req){ .op = WIRE_QUEUE_PUSH, .key = key, .value = value }, NULL, 0, err);
}

int store_client_queue_pop(struct store_client *c, struct cc_bytes key, uint64_t timeout_ms,
                           struct cc_buf *ret, struct cc_err *err)
{
    struct wire_answer a;
    int                r = timeout_ms > 0 ? store_client_wait(c, &key, 1, timeout_ms, err) : 0;
    ssize_t            n;

    if (r < 0)
        return r;
    n = ask(c, &(struct wire_req){ .op = WIRE_QUEUE_POP, .key = key }, NULL, 0, &a, err);
    if (n < 0)
        return (int) n;
    r = a.number > 0 ? keep(c, a.value, ret, err)
                     : cc_fail(err, -EAGAIN, "store %s: the queue '%.*s' is empty", c->where,
                               key.n < 100 ? (int) key.n : 100, (const char *) key.p);
    taken(c, n);
    return r;
}

int store_client_queue_len(struct store_client *c, struct cc_bytes key, int64_t *ret, struct cc_err *err)
{
    return ask_number(c, &(struct wire_req){ .op = WIRE_QUEUE_LEN, .key = key }, NULL, 0, ret, err);
}

int store_client_barrier(struct store_client *c, struct cc_bytes key, int64_t world_size, uint64_t timeout_ms,
                         struct cc_err *err)
{
    return wait_for(c, &(struct wire_req){ .op = WIRE_BARRIER, .key = key, .number = world_size }, NULL, 0,
                    timeout_ms, err);
}

/* ---- connecting */

/* One address: 0 with c->fd, or what failed. */
static int dial(struct store_client *c, const struct sockaddr *a, socklen_t n, uint64_t deadline)
{
    int            one = 1, failed = 0, r = 0;
    socklen_t      size = sizeof failed;
    CC_AUTO_FD int fd = socket(a->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -errno;
    (void) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (connect(fd, a, n) < 0) {
        if (errno != EINPROGRESS)
            return -errno;
        r = wait_ready(fd, POLLOUT, deadline);
        if (r == 0 && getsockopt(fd, SOL_SOCKET, SO_ERROR, &failed, &size) < 0)
            r = -errno;
    }
    if (r < 0 || failed != 0)
        return r < 0 ? r : -failed;
    c->fd = cc_steal_fd(&fd);
    return 0;
}

/* VALIDATE, which has no answer, and behind it something that has one and that servers of every release know:
 * a connection that the server's backlog took may still be reset. */
static int greet(struct store_client *c, uint64_t deadline)
{
    static const struct wire_req hello = { .op = WIRE_VALIDATE, .number = WIRE_MAGIC },
                                 probe = { .op = WIRE_CANCEL_WAIT };
    struct wire_in     w = { 0 };
    struct wire_answer a;
    int                r = 0;
    ssize_t            n = 0;

    c->out.off = c->out.len = c->in.off = c->in.len = 0;
    if (wire_put_request(&c->out, cc_bytes_of(""), &hello, NULL, 0) < 0 ||
        wire_put_request(&c->out, cc_bytes_of(""), &probe, NULL, 0) < 0)
        return -ENOMEM;
    r = send_all(c, deadline);
    while (r == 0 && n == 0) {
        r = read_more(c, deadline);
        if (r == 0)
            n = wire_answer(&w, WIRE_CANCEL_WAIT, 0, cc_buf_data(&c->in), cc_buf_len(&c->in), &a, NULL);
    }
    if (r == 0 && a.number != WIRE_WAIT_CANCELED)
        r = -EPROTO;
    taken(c, r == 0 ? n : 0);
    return r < 0 ? hang_up(c, r) : 0;
}

static int dial_and_greet(struct store_client *c, const struct sockaddr *a, socklen_t n, uint64_t deadline)
{
    int r = dial(c, a, n, deadline);

    return r < 0 ? r : greet(c, deadline);
}

/* A numeric address never asks the resolver, which may take seconds. */
static int try_all(struct store_client *c, const char *host, uint16_t port, uint64_t deadline)
{
    struct addrinfo     hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV }, *list = NULL;
    struct sockaddr_in  v4 = { .sin_family = AF_INET, .sin_port = htons(port) };
    struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
    char                text[8];
    int                 r = -EHOSTUNREACH;

    if (inet_pton(AF_INET, host, &v4.sin_addr) == 1)
        return dial_and_greet(c, (const struct sockaddr *) &v4, sizeof v4, deadline);
    if (inet_pton(AF_INET6, host, &v6.sin6_addr) == 1)
        return dial_and_greet(c, (const struct sockaddr *) &v6, sizeof v6, deadline);
    (void) snprintf(text, sizeof text, "%u", port);
    if (getaddrinfo(host, text, &hints, &list) != 0)
        return -EHOSTUNREACH;
    for (const struct addrinfo *a = list; a && r < 0; a = a->ai_next)
        r = dial_and_greet(c, a->ai_addr, a->ai_addrlen, deadline);
    freeaddrinfo(list);
    return r;
}

/* A pause of `ms`, half to one and a half of it: thousands of clients must not come back together. */
static void pause_about(uint64_t ms, uint64_t deadline)
{
    uint64_t        now = now_ms(), left = deadline > now ? deadline - now : 0;
    uint16_t        dice = 0;
    struct timespec t;

    (void) getrandom(&dice, sizeof dice, GRND_NONBLOCK);
    ms = ms / 2 + ms * dice / UINT16_MAX;
    ms = ms < left ? ms : left;
    t = (struct timespec){ .tv_sec = (time_t) (ms / 1000), .tv_nsec = (long) (ms % 1000) * 1000000 };
    (void) clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
}

static bool may_pass(int code)
{
    return code != -ENOMEM && code != -EMFILE && code != -ENFILE && code != -EPROTO && code != -EAFNOSUPPORT;
}

int store_client_connect(struct store_client **ret, const struct store_client_cfg *cfg, uint64_t timeout_ms,
                         struct cc_err *err)
{
    struct store_client *c = calloc(1, sizeof *c);
    uint64_t             deadline = deadline_in(timeout_ms), pause = FIRST_PAUSE_MS;
    int                  r;

    if (!c || !(c->prefix = strdup(cfg->prefix ? cfg->prefix : "/"))) {
        free(c);
        return cc_fail(err, -ENOMEM, "no memory for a client of the store");
    }
    c->fd = -1;
    (void) pthread_mutex_init(&c->lock, NULL);
    c->timeout_ms = cfg->timeout_ms > 0 ? cfg->timeout_ms : DEFAULT_TIMEOUT_MS;
    (void) snprintf(c->where, sizeof c->where, strchr(cfg->host, ':') ? "[%.80s]:%u" : "%.80s:%u", cfg->host,
                    cfg->port);
    while ((r = try_all(c, cfg->host, cfg->port, deadline)) < 0 && may_pass(r) && now_ms() < deadline) {
        pause_about(pause, deadline);
        pause = pause * 3 / 2 < MAX_PAUSE_MS ? pause * 3 / 2 : MAX_PAUSE_MS;
    }
    if (r == 0) {
        *ret = c;
        return 0;
    }
    (void) cc_fail(err, may_pass(r) ? -ETIMEDOUT : r, "cannot reach the store %s: %s, tried for %.3g s",
                   c->where,
                   r == -EHOSTUNREACH ? "no such host, or no way to it"
                   : r == -EPROTO     ? "it does not answer as a TCPStore server does"
                                      : strerror(-r),
                   (double) timeout_ms / 1000);
    (void) store_client_free(c);
    return may_pass(r) ? -ETIMEDOUT : r;
}

struct store_client *store_client_free(struct store_client *c)
{
    if (!c)
        return NULL;
    (void) hang_up(c, 0);
    (void) pthread_mutex_destroy(&c->lock);
    cc_buf_free(&c->in);
    cc_buf_free(&c->out);
    free(c->prefix);
    free(c);
    return NULL;
}

bool store_client_own_address(struct store_client *c, char *ret, size_t size)
{
    struct sockaddr_storage a;
    socklen_t               n = sizeof a;

    return c->fd >= 0 && getsockname(c->fd, (struct sockaddr *) &a, &n) == 0 &&
           getnameinfo((const struct sockaddr *) &a, n, ret, (socklen_t) size, NULL, 0, NI_NUMERICHOST) == 0;
}
