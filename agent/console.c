#include "agent/console.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/base/clock.h"
#include "store/base/macros.h"

enum { TTY_CHUNK = 256 }; /* a terminal is writable when so much fits (WAKEUP_CHARS of the kernel) */

void console_init(struct console *c, uv_loop_t *loop, int fd, bool is_keep_cr, const struct console_cbs *cbs,
                  void *ctx)
{
    *c = (struct console){
        .loop = loop,
        .fd = fd,
        .own_fd = -1,
        .epoll_fd = -1,
        .is_tty = isatty(fd) == 1,
        .cbs = cbs,
        .ctx = ctx,
    };
    merge_init(&c->merge, &c->q, is_keep_cr ? MERGE_KEEP : c->is_tty ? MERGE_REDRAW : MERGE_THIN);
}

bool console_is_same(const struct console *c, int fd)
{
    struct stat a, b;

    if (fstat(c->fd, &a) < 0 || fstat(fd, &b) < 0 || S_ISREG(a.st_mode))
        return false;
    return a.st_dev == b.st_dev && a.st_ino == b.st_ino && a.st_rdev == b.st_rdev;
}

static void pick_mode(struct console *c)
{
    struct stat st;
    char        path[32];
    int         flags = fcntl(c->fd, F_GETFL);

    if (flags < 0 || fstat(c->fd, &st) < 0) {
        c->is_lost = true; /* started with `>&-`: nobody wants it */
    } else if (S_ISREG(st.st_mode) || S_ISBLK(st.st_mode)) {
        c->mode = CONSOLE_DIRECT;
    } else if (S_ISSOCK(st.st_mode)) {
        c->mode = CONSOLE_SOCKET;
    } else if (flags & O_NONBLOCK) {
        c->mode = CONSOLE_NONBLOCK;
    } else {
        (void) snprintf(path, sizeof path, "/proc/self/fd/%d", c->fd);
        c->own_fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
        c->mode = c->own_fd >= 0 ? CONSOLE_NONBLOCK : CONSOLE_POLLED;
        if (c->own_fd >= 0)
            c->fd = c->own_fd;
    }
}

/* Untouched pages cost nothing; a huge page would cost 2 MB for the first line. */
static bool make_ready(struct console *c)
{
    if (c->is_ready || c->is_lost)
        return c->is_ready;
    c->memory =
        mmap(NULL, CONSOLE_CAP, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (c->memory == MAP_FAILED) {
        c->memory = NULL;
        c->is_lost = true;
        c->cbs->on_lost(c->ctx, -ENOMEM);
        return false;
    }
    (void) madvise(c->memory, CONSOLE_CAP, MADV_NOHUGEPAGE);
    logq_init(&c->q, c->memory, CONSOLE_CAP);
    pick_mode(c);
    c->is_ready = true;
    return true;
}

size_t console_take(struct console *c, size_t prefix_len)
{
    if (!make_ready(c))
        return SIZE_MAX;
    if (logq_used(&c->q) >= CONSOLE_HIGH) {
        c->was_full = true;
        return 0;
    }
    return (logq_room(&c->q) - MERGE_SLACK) / (prefix_len + 2);
}

bool console_admits(struct console *c, size_t len)
{
    return make_ready(c) && logq_room(&c->q) > MERGE_SLACK && logq_room(&c->q) - MERGE_SLACK > len;
}

static ssize_t put(struct console *c, const char *bytes, size_t len)
{
    struct pollfd p = { .fd = c->fd, .events = POLLOUT };

    switch (c->mode) {
    case CONSOLE_SOCKET: return send(c->fd, bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL);
    case CONSOLE_POLLED:
        if (poll(&p, 1, 0) == 0) {
            errno = EAGAIN;
            return -1;
        }
        len = len < (c->is_tty ? TTY_CHUNK : PIPE_BUF) ? len : c->is_tty ? TTY_CHUNK : PIPE_BUF;
        break;
    case CONSOLE_DIRECT:
    case CONSOLE_NONBLOCK: break;
    }
    return write(c->fd, bytes, len);
}

static void failed(struct console *c, int error)
{
    logq_consume(&c->q, logq_used(&c->q));
    if (error == -ENOSPC || error == -EDQUOT || error == -EFBIG) {
        c->cbs->on_dropped(c->ctx, error);
        return;
    }
    c->is_lost = true;
    c->cbs->on_lost(c->ctx, error);
}

/* 0: all is out, or nobody wants it; -EAGAIN: the rest must wait. */
static int write_some(struct console *c)
{
    const char *p;
    size_t      len;

    if (c->is_lost)
        logq_consume(&c->q, logq_used(&c->q));
    while (p = logq_peek(&c->q, &len), len > 0) {
        ssize_t n = put(c, p, len);

        if (n >= 0)
            logq_consume(&c->q, (size_t) n);
        else if (errno == EAGAIN)
            return -EAGAIN;
        else if (errno != EINTR)
            failed(c, -errno);
    }
    return 0;
}

static void stop_waiting(struct console *c)
{
    if (c->is_waiting)
        (void) uv_poll_stop(&c->poll);
    c->is_waiting = false;
}

static void on_writable(uv_poll_t *p, int status, int events)
{
    struct console *c = CC_CONTAINER_OF(p, struct console, poll);

    (void) status, (void) events;
    console_write(c);
}

/* uv_poll_init() would make the console itself non-blocking for everybody: watch it through an epoll of our
 * own. */
static int watch(struct console *c)
{
    struct epoll_event ev = { .events = EPOLLOUT };
    int                r;

    if (c->has_poll)
        return 0;
    c->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (c->epoll_fd < 0 || epoll_ctl(c->epoll_fd, EPOLL_CTL_ADD, c->fd, &ev) < 0)
        return -errno;
    r = uv_poll_init(c->loop, &c->poll, c->epoll_fd);
    if (r < 0)
        return r;
    c->has_poll = true;
    c->n_open++;
    return 0;
}

static void start_waiting(struct console *c)
{
    int r;

    if (c->is_waiting)
        return;
    r = watch(c);
    if (r == 0)
        r = uv_poll_start(&c->poll, UV_READABLE, on_writable);
    if (r < 0)
        failed(c, r);
    else
        c->is_waiting = true;
}

void console_write(struct console *c)
{
    struct winsize ws;

    if (!c->is_ready)
        return;
    if (c->is_tty && c->merge.is_live_stale && logq_used(&c->q) < CONSOLE_HIGH) {
        if (ioctl(c->fd, TIOCGWINSZ, &ws) == 0)
            c->merge.columns = ws.ws_col;
        merge_draw(&c->merge);
    }
    if (write_some(c) == 0)
        stop_waiting(c);
    else
        start_waiting(c);
    if (c->was_full && logq_used(&c->q) <= CONSOLE_HIGH / 2) {
        c->was_full = false;
        c->cbs->on_room(c->ctx);
    }
}

int console_flush(struct console *c, uint64_t timeout_ms, const sigset_t *mask)
{
    uint64_t      start = cc_monotonic_ms();
    struct pollfd p = { .events = POLLOUT };

    if (!c->is_ready)
        return 0;
    while (write_some(c) == -EAGAIN) {
        uint64_t        spent = cc_monotonic_ms() - start, left = spent < timeout_ms ? timeout_ms - spent : 0;
        struct timespec t = { (time_t) (left / 1000), (long) (left % 1000) * 1000000 };

        p.fd = c->fd;
        if (left == 0)
            return -ETIMEDOUT;
        if (ppoll(&p, 1, timeout_ms == UINT64_MAX ? NULL : &t, mask) < 0 && errno == EINTR)
            return -EINTR;
    }
    return c->is_lost ? -EPIPE : 0;
}

static void on_closed(uv_handle_t *h)
{
    struct console *c = CC_CONTAINER_OF((uv_poll_t *) h, struct console, poll);

    assert(c->n_open > 0);
    c->n_open--;
}

void console_close(struct console *c)
{
    if (c->has_poll)
        uv_close((uv_handle_t *) &c->poll, on_closed);
    c->has_poll = c->is_waiting = c->is_ready = false;
    if (c->epoll_fd >= 0)
        (void) close(c->epoll_fd);
    if (c->own_fd >= 0)
        (void) close(c->own_fd);
    c->epoll_fd = c->own_fd = -1;
    if (c->memory)
        (void) munmap(c->memory, CONSOLE_CAP);
    c->memory = NULL;
}
