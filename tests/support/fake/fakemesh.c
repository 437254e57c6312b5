#include "tests/support/fake/fakemesh.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { TICK_MS = 20, LABEL = sizeof(struct mesh_label) };

struct hello {
    uint64_t           nonce;
    int32_t            rank, size;
    struct sockaddr_in at;
};

static bool fail(struct mesh *m, const char *text)
{
    (void) snprintf(m->error, sizeof m->error, "%s", text);
    return false;
}

/* As NCCL: the interface of NCCL_SOCKET_IFNAME, here only its whole name, else loopback. */
static struct in_addr own_address(void)
{
    struct in_addr  r = { htonl(INADDR_LOOPBACK) };
    const char     *name = getenv("NCCL_SOCKET_IFNAME");
    struct ifaddrs *all = NULL;

    if (!name || getifaddrs(&all) < 0)
        return r;
    for (struct ifaddrs *a = all; a; a = a->ifa_next) {
        struct sockaddr_in in;

        if (a->ifa_addr && a->ifa_addr->sa_family == AF_INET && strcmp(a->ifa_name, name) == 0) {
            memcpy(&in, a->ifa_addr, sizeof in);
            r = in.sin_addr;
        }
    }
    freeifaddrs(all);
    return r;
}

int mesh_listen(struct mesh_id *ret)
{
    int       fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    socklen_t n = sizeof ret->at;

    memset(ret, 0, sizeof *ret);
    memcpy(ret->magic, "FAKENCCL", sizeof ret->magic);
    ret->at.sin_family = AF_INET;
    ret->at.sin_addr = own_address();
    if (fd >= 0 && getrandom(&ret->nonce, sizeof ret->nonce, 0) == (ssize_t) sizeof ret->nonce &&
        bind(fd, (struct sockaddr *) &ret->at, sizeof ret->at) == 0 && listen(fd, MESH_MAX) == 0 &&
        getsockname(fd, (struct sockaddr *) &ret->at, &n) == 0)
        return fd;
    if (fd >= 0)
        (void) close(fd);
    return -1;
}

/* ---- connecting: small things, one at a time, until aborted */

static bool ready(struct mesh *m, int fd, short events)
{
    struct pollfd p = { .fd = fd, .events = events };

    while (!atomic_load(&m->is_aborted))
        if (poll(&p, 1, TICK_MS) > 0)
            return true;
    return false;
}

static bool move(struct mesh *m, int fd, void *data, size_t size, bool is_out)
{
    char  *p = data;
    size_t at = 0;

    while (at < size) {
        ssize_t n;

        if (!ready(m, fd, is_out ? POLLOUT : POLLIN))
            return fail(m, "aborted");
        n = is_out ? send(fd, p + at, size - at, MSG_NOSIGNAL) : recv(fd, p + at, size - at, 0);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
            return fail(m, "bootstrap: connection closed by remote peer");
        at += n > 0 ? (size_t) n : 0;
    }
    return true;
}

static void pause_short(void)
{
    const struct timespec t = { .tv_nsec = 2000000 };

    (void) nanosleep(&t, NULL);
}

/* Tries again while nobody listens there yet. */
static int dial(struct mesh *m, const struct sockaddr_in *to)
{
    while (!atomic_load(&m->is_aborted)) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

        if (fd >= 0 && connect(fd, (const struct sockaddr *) to, sizeof *to) == 0) {
            (void) fcntl(fd, F_SETFL, O_NONBLOCK);
            (void) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
            return fd;
        }
        if (fd >= 0)
            (void) close(fd);
        pause_short();
    }
    return -1;
}

/* The next rank that belongs to us. */
static bool accept_one(struct mesh *m, int listener, uint64_t nonce, struct hello *ret)
{
    int one = 1;

    while (ready(m, listener, POLLIN)) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

        if (fd < 0)
            continue;
        (void) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        if (move(m, fd, ret, sizeof *ret, false) && ret->nonce == nonce && ret->rank > 0 &&
            ret->rank < m->size && m->fds[ret->rank] < 0) {
            m->fds[ret->rank] = fd;
            return true;
        }
        (void) close(fd);
    }
    return fail(m, "aborted");
}

/* Rank 0 hears from everybody where they listen, and tells all of it to all. */
static bool as_root(struct mesh *m, const struct mesh_id *id, int listener)
{
    struct sockaddr_in where[MESH_MAX] = { 0 };
    struct hello       h = { 0 };

    for (int i = 1; i < m->size; i++) {
        if (!accept_one(m, listener, id->nonce, &h))
            return false;
        if (h.size != m->size)
            return fail(m, "bootstrap: ranks have different sizes");
        where[h.rank] = h.at;
    }
    for (int i = 1; i < m->size; i++)
        if (!move(m, m->fds[i], where, sizeof where, true))
            return false;
    return true;
}

static bool as_other(struct mesh *m, const struct mesh_id *id)
{
    struct sockaddr_in where[MESH_MAX];
    struct mesh_id     own;
    int                listener = mesh_listen(&own);
    struct hello       h = { .nonce = id->nonce, .rank = m->rank, .size = m->size, .at = own.at };
    bool               r = listener >= 0;

    if (!r)
        return fail(m, "bootstrap: no socket");
    m->fds[0] = dial(m, &id->at);
    r = m->fds[0] >= 0 && move(m, m->fds[0], &h, sizeof h, true) &&
        move(m, m->fds[0], where, sizeof where, false);
    for (int i = 1; r && i < m->rank; i++) {
        m->fds[i] = dial(m, &where[i]);
        r = m->fds[i] >= 0 && move(m, m->fds[i], &h, sizeof h, true);
    }
    for (int i = m->rank + 1; r && i < m->size; i++)
        r = accept_one(m, listener, id->nonce, &h);
    (void) close(listener);
    return r;
}

bool mesh_connect(struct mesh *m, const struct mesh_id *id, int listener)
{
    return m->rank == 0 ? as_root(m, id, listener) : as_other(m, id);
}

void mesh_close(struct mesh *m)
{
    for (int i = 0; i < m->size; i++)
        if (m->fds[i] >= 0)
            (void) close(m->fds[i]);
}

/* ---- exchanging */

static struct mesh_part *next_part(struct mesh_part *parts, size_t n, int peer, bool is_out)
{
    for (size_t i = 0; i < n; i++)
        if (parts[i].peer == peer && parts[i].is_out == is_out && parts[i].at < LABEL + parts[i].size)
            return &parts[i];
    return NULL;
}

/* As much as goes now.  False: the peer is gone. */
static bool push_on(struct mesh *m, struct mesh_part *p)
{
    bool    is_label = p->at < LABEL;
    char   *label = (char *) (p->is_out ? &p->label : &p->got);
    char   *from = is_label ? label + p->at : p->data + (p->at - LABEL);
    size_t  size = is_label ? LABEL - p->at : LABEL + p->size - p->at;
    ssize_t n =
        p->is_out ? send(m->fds[p->peer], from, size, MSG_NOSIGNAL) : recv(m->fds[p->peer], from, size, 0);

    if (n > 0)
        p->at += (size_t) n;
    else if (n == 0 || (errno != EAGAIN && errno != EINTR))
        return fail(m, "connection closed by remote peer");
    return true;
}

/* The peer has made another call: NCCL does not notice, and nothing good comes of it. */
static bool is_other(const struct mesh_part *p)
{
    return !p->is_out && p->at >= LABEL && memcmp(&p->got, &p->label, LABEL) != 0;
}

bool mesh_exchange(struct mesh *m, struct mesh_part *parts, size_t n)
{
    while (!atomic_load(&m->is_aborted)) {
        struct pollfd polls[MESH_MAX];
        int           n_open = 0;

        for (int i = 0; i < m->size; i++) {
            struct mesh_part *out = next_part(parts, n, i, true), *in = next_part(parts, n, i, false);
            short             events = (short) ((out ? POLLOUT : 0) | (in && !is_other(in) ? POLLIN : 0));

            polls[i] = (struct pollfd){ .fd = events ? m->fds[i] : -1, .events = events };
            n_open += out || in;
        }
        if (n_open == 0)
            return true;
        if (poll(polls, (nfds_t) m->size, TICK_MS) <= 0)
            continue;
        for (int i = 0; i < m->size; i++) {
            struct mesh_part *out = next_part(parts, n, i, true), *in = next_part(parts, n, i, false);

            if (out && polls[i].revents & (POLLOUT | POLLERR) && !push_on(m, out))
                return false;
            if (in && !is_other(in) && polls[i].revents & (POLLIN | POLLHUP | POLLERR) && !push_on(m, in))
                return false;
        }
    }
    return fail(m, "aborted");
}
