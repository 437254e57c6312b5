#include "agent/link.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "store/base/buf.h"
#include "store/base/fdwrite.h"
#include "store/base/macros.h"

enum {
    READ_MAX = 64 << 10,
    QUEUE_MAX = 256 << 10, /* a peer that is so far behind reads nothing */
};

struct link {
    uv_poll_t              watch;
    int                    fd;
    const struct link_cbs *cbs;
    void                  *ctx;
    struct proto_parser    parser;
    struct cc_buf          out;
    bool                   is_writing; /* the kernel takes no more: wait until it does */
    bool                   is_broken, is_closed;
    unsigned               n_inside; /* callbacks that are running */
};

static void on_ready(uv_poll_t *w, int status, int events);

static void watch(struct link *l)
{
    (void) uv_poll_start(&l->watch, UV_READABLE | (l->is_writing ? UV_WRITABLE : 0), on_ready);
}

static void break_off(struct link *l, const char *why)
{
    if (l->is_broken || l->is_closed)
        return;
    l->is_broken = true;
    (void) uv_poll_stop(&l->watch);
    l->cbs->broken(l->ctx, l, why);
}

/* False: it is broken or closed. */
static bool take(struct link *l, const uint8_t *bytes, size_t n)
{
    struct proto_msg m;
    struct cc_err    err = { 0 };
    size_t           used;

    while (n > 0 && !l->is_closed && !l->is_broken) {
        int r = proto_feed(&l->parser, bytes, n, &used, &m, &err);

        if (r < 0)
            break_off(l, err.msg);
        else if (r > 0)
            l->cbs->message(l->ctx, l, &m);
        bytes += r < 0 ? 0 : used;
        n -= r < 0 ? 0 : used;
    }
    return !l->is_closed && !l->is_broken;
}

static void on_closed(uv_handle_t *h)
{
    struct link *l = CC_CONTAINER_OF(h, struct link, watch);

    cc_buf_free(&l->out);
    free(l);
}

/* A link that was closed inside one of its callbacks is let go when the outermost returns. */
static void leave(struct link *l)
{
    if (--l->n_inside > 0 || !l->is_closed)
        return;
    uv_close((uv_handle_t *) &l->watch, on_closed);
}

static void read_some(struct link *l)
{
    uint8_t bytes[READ_MAX];
    ssize_t n = recv(l->fd, bytes, sizeof bytes, MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n > 0)
        (void) take(l, bytes, (size_t) n);
    else
        break_off(l, n == 0 ? "the other end closed it" : strerror(errno));
}

static void on_ready(uv_poll_t *w, int status, int events)
{
    struct link *l = CC_CONTAINER_OF(w, struct link, watch);

    l->n_inside++;
    if (status < 0)
        read_some(l); /* tells what is wrong */
    if (status >= 0 && (events & UV_READABLE))
        read_some(l);
    if (!l->is_closed && !l->is_broken && (events & UV_WRITABLE)) {
        int r = cc_send_some(l->fd, &l->out);

        if (r < 0)
            break_off(l, strerror(-r));
        else if (l->is_writing && cc_buf_len(&l->out) == 0) {
            l->is_writing = false;
            watch(l);
        }
    }
    leave(l);
}

struct link *link_new(uv_loop_t *loop, int fd, const struct link_cbs *cbs, void *ctx, struct cc_err *err)
{
    struct link *l = calloc(1, sizeof *l);
    int          r, one = 1;

    if (!l) {
        (void) cc_fail(err, -ENOMEM, "no memory for a connection");
    } else if ((r = uv_poll_init(loop, &l->watch, fd)) < 0) {
        (void) cc_fail(err, r, "watch a connection: %s", uv_strerror(r));
        free(l);
        l = NULL;
    }
    if (!l) {
        (void) close(fd);
        return NULL;
    }
    (void) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    (void) setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
    l->fd = fd;
    l->cbs = cbs;
    l->ctx = ctx;
    watch(l);
    return l;
}

void link_input(struct link *l, const uint8_t *bytes, size_t n)
{
    l->n_inside++;
    (void) take(l, bytes, n);
    leave(l);
}

void link_send(struct link *l, const struct proto_msg *m)
{
    uint8_t frame[PROTO_FRAME_MAX];
    size_t  n = proto_encode(m, frame);

    if (l->is_closed || l->is_broken)
        return;
    if (cc_buf_len(&l->out) + n > QUEUE_MAX || cc_buf_add(&l->out, frame, n) < 0) {
        (void) shutdown(l->fd, SHUT_RDWR); /* reading finds its end, in a turn of its own */
        return;
    }
    if (l->is_writing)
        return;
    if (cc_send_some(l->fd, &l->out) < 0) {
        (void) shutdown(l->fd, SHUT_RDWR);
    } else if (cc_buf_len(&l->out) > 0) {
        l->is_writing = true;
        watch(l);
    }
}

/* A link-local address is of no use without its interface. */
static void write_v6(const struct sockaddr_in6 *a, char *buf, size_t size)
{
    char   scope[IF_NAMESIZE];
    size_t n;

    (void) inet_ntop(AF_INET6, &a->sin6_addr, buf, (socklen_t) size);
    n = strlen(buf);
    if (a->sin6_scope_id != 0 && if_indextoname(a->sin6_scope_id, scope))
        (void) snprintf(buf + n, size - n, "%%%s", scope);
}

const char *link_address(const struct link *l, enum link_end end, char *buf, size_t size)
{
    union {
        struct sockaddr     any;
        struct sockaddr_in  v4;
        struct sockaddr_in6 v6;
    } a = { 0 };
    socklen_t len = sizeof a;
    int       r = end == LINK_PEER ? getpeername(l->fd, &a.any, &len) : getsockname(l->fd, &a.any, &len);

    buf[0] = '\0';
    if (r < 0)
        return buf;
    if (a.any.sa_family == AF_INET)
        (void) inet_ntop(AF_INET, &a.v4.sin_addr, buf, (socklen_t) size);
    else if (a.any.sa_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&a.v6.sin6_addr))
        (void) inet_ntop(AF_INET, &a.v6.sin6_addr.s6_addr[12], buf, (socklen_t) size);
    else if (a.any.sa_family == AF_INET6)
        write_v6(&a.v6, buf, size);
    return buf;
}

void link_close(struct link *l)
{
    if (l->is_closed)
        return;
    (void) cc_send_some(l->fd, &l->out);
    l->is_closed = true;
    (void) uv_poll_stop(&l->watch);
    (void) close(l->fd);
    l->n_inside++;
    leave(l);
}
