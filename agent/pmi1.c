#include "agent/pmi1.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "store/base/fdwrite.h"
#include "store/base/macros.h"

enum { READ_SIZE = 16 * 1024 };

struct line { /* to one worker */
    struct pmi1_server *server;
    int           fd, far_fd; /* ours, and the worker's until it is started; -1 */
    uv_poll_t     watch;
    bool          is_watched;
    struct cc_buf out; /* what the socket has not taken */
};

struct pmi1_server {
    uv_loop_t   *loop;
    const struct pmi1_server_cbs *cbs;
    void        *ctx;
    struct pmi1 *core;
    unsigned     n, n_open; /* lines; watches that libuv still knows */
    bool         is_closed;
    struct line  lines[];
};

static void on_poll(uv_poll_t *w, int status, int events);

static void free_when_closed(struct pmi1_server *s)
{
    if (!s->is_closed || s->n_open > 0)
        return;
    pmi1_free(s->core);
    free(s);
}

static void on_closed(uv_handle_t *h)
{
    struct line *l = CC_CONTAINER_OF((uv_poll_t *) h, struct line, watch);

    l->server->n_open--;
    free_when_closed(l->server);
}

static void close_fd(int *fd)
{
    if (*fd >= 0)
        (void) close(*fd);
    *fd = -1;
}

static void hang_up(struct line *l)
{
    if (l->is_watched)
        uv_close((uv_handle_t *) &l->watch, on_closed);
    l->is_watched = false;
    close_fd(&l->fd);
    close_fd(&l->far_fd);
    cc_buf_free(&l->out);
}

static void watch(struct line *l)
{
    int events = cc_buf_len(&l->out) > 0 ? UV_READABLE | UV_WRITABLE : UV_READABLE;

    if (l->is_watched && uv_poll_start(&l->watch, events, on_poll) < 0)
        hang_up(l);
}

/* Answers are short and a worker reads each before it asks again: nearly always the socket takes them. */
static void op_send(void *ctx, unsigned local_rank, const char *text, size_t n)
{
    struct pmi1_server *s = ctx;
    struct line        *l = &s->lines[local_rank];

    if (l->fd < 0)
        return;
    if (cc_buf_add(&l->out, text, n) < 0) {
        s->cbs->trouble(s->ctx, local_rank, "no memory for an answer");
        return;
    }
    (void) cc_send_some(l->fd, &l->out); /* a peer that is gone is found out by reading */
    if (cc_buf_len(&l->out) > 0)
        watch(l);
}

static void op_fence(void *ctx, struct cc_bytes put)
{
    struct pmi1_server *s = ctx;

    s->cbs->fence(s->ctx, put);
}

static void op_aborted(void *ctx, unsigned local_rank, int code)
{
    struct pmi1_server *s = ctx;

    s->cbs->aborted(s->ctx, local_rank, code);
}

static void op_begun(void *ctx, unsigned local_rank)
{
    struct pmi1_server *s = ctx;

    s->cbs->begun(s->ctx, local_rank);
}

static const struct pmi1_ops ops = { op_send, op_fence, op_aborted, op_begun };

/* False: nothing more comes, or nothing that can be understood. */
static bool read_some(struct line *l)
{
    struct pmi1_server *s = l->server;
    unsigned            local_rank = (unsigned) (l - s->lines);
    struct cc_err       err = { 0 };
    char                buf[READ_SIZE];
    ssize_t             n = recv(l->fd, buf, sizeof buf, MSG_DONTWAIT);

    if (n < 0)
        return errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK;
    if (n == 0)
        return false;
    if (pmi1_feed(s->core, local_rank, buf, (size_t) n, &err) == 0)
        return true;
    s->cbs->trouble(s->ctx, local_rank, err.msg);
    return false;
}

static void on_poll(uv_poll_t *w, int status, int events)
{
    struct line *l = CC_CONTAINER_OF(w, struct line, watch);

    if (events & UV_WRITABLE) {
        (void) cc_send_some(l->fd, &l->out);
        watch(l);
    }
    if ((status < 0 || events & UV_READABLE) && l->fd >= 0 && !read_some(l))
        hang_up(l);
}

int pmi1_server_open(struct pmi1_server *s, unsigned local_rank, struct cc_err *err)
{
    struct line *l = &s->lines[local_rank];
    int          ends[2], r;

    assert(l->fd < 0);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        return cc_fail(err, -errno, "make a socket for PMI: %s", strerror(errno));
    l->fd = ends[0];
    l->far_fd = ends[1];
    r = uv_poll_init(s->loop, &l->watch, l->fd);
    if (r < 0) {
        hang_up(l);
        return cc_fail(err, r, "watch a socket for PMI: %s", uv_strerror(r));
    }
    l->is_watched = true;
    s->n_open++;
    watch(l);
    return l->far_fd >= 0 ? l->far_fd : cc_fail(err, -EIO, "watch a socket for PMI: it cannot be polled");
}

void pmi1_server_started(struct pmi1_server *s, unsigned local_rank)
{
    close_fd(&s->lines[local_rank].far_fd);
}

void pmi1_server_exited(struct pmi1_server *s, unsigned local_rank)
{
    struct line *l = &s->lines[local_rank];
    char         byte;

    while (l->fd >= 0)
        if (recv(l->fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK) <= 0 || !read_some(l))
            hang_up(l);
}

struct pmi1 *pmi1_server_core(struct pmi1_server *s)
{
    return s->core;
}

struct pmi1_server *pmi1_server_new(uv_loop_t *loop, const struct pmi1_cfg *cfg, const struct pmi1_server_cbs *cbs, void *ctx)
{
    struct pmi1_server *s = calloc(1, sizeof *s + cfg->n_local * sizeof s->lines[0]);
    unsigned            i;

    if (!s)
        return NULL;
    *s = (struct pmi1_server) { .loop = loop, .cbs = cbs, .ctx = ctx, .n = cfg->n_local };
    for (i = 0; i < s->n; i++)
        s->lines[i] = (struct line) { .server = s, .fd = -1, .far_fd = -1 };
    s->core = pmi1_new(cfg, &ops, s);
    if (!s->core) {
        free(s);
        return NULL;
    }
    return s;
}

void pmi1_server_close(struct pmi1_server *s)
{
    unsigned i;

    if (!s)
        return;
    for (i = 0; i < s->n; i++)
        hang_up(&s->lines[i]);
    s->is_closed = true;
    free_when_closed(s);
}
