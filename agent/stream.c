#include "agent/stream.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "agent/keeper.h"
#include "store/base/cleanup.h"
#include "store/base/macros.h"

enum { PIPE_LARGE = 1 << 20 };

static void wake(struct stream *s, uint64_t at)
{
    if (at != UINT64_MAX)
        s->env->wake(s->env->ctx, at);
}

/* ---- from units to the console and the filtered file */

static bool has_needle(const char *const *needles, const char *line, size_t len)
{
    for (; *needles; needles++)
        if (memmem(line, len, *needles, strlen(*needles)))
            return true;
    return false;
}

static void filter_line(struct stream *s, const char *line, size_t len)
{
    uint64_t now = uv_now(s->env->loop);
    bool     is_whole = line[len - 1] == '\n';

    if (!has_needle(s->needles, line, len))
        return;
    if (sink_write(s->filter, s->src.prefix, s->src.prefix_len, now) == 0 &&
        sink_write(s->filter, line, len, now) == 0 && !is_whole)
        (void) sink_write(s->filter, "\n", 1, now);
}

static void filter(struct stream *s, const char *bytes, size_t len)
{
    const char *end = bytes + len;

    while (bytes < end) {
        const char *nl = memchr(bytes, '\n', (size_t) (end - bytes));
        size_t      n = nl ? (size_t) (nl + 1 - bytes) : (size_t) (end - bytes);

        filter_line(s, bytes, n);
        bytes += n;
    }
}

static void on_unit(void *ctx, enum demux_kind kind, const char *bytes, size_t len)
{
    struct stream *s = ctx;

    if (s->filter && kind != DEMUX_STATE)
        filter(s, bytes, len);
    if (s->env->is_dropping && logq_used(&s->console->q) >= CONSOLE_HIGH) {
        s->env->dropped += len;
        merge_break(&s->console->merge, &s->src);
        return;
    }
    merge_unit(&s->console->merge, &s->src, kind, bytes, len, uv_now(s->env->loop));
}

static void consume(struct stream *s, const char *bytes, size_t len)
{
    uint64_t now = uv_now(s->env->loop);

    if (s->tail)
        tail_put(s->tail, bytes, len);
    if (!s->console || !s->console->is_ready)
        return;
    demux_feed(&s->demux, bytes, len);
    if (s->demux.used > 0) {
        merge_peek(&s->console->merge, &s->src, s->demux.buf, s->demux.used, now);
        if (s->is_prompting)
            wake(s, s->flush_at = now + STREAM_PROMPT_MS);
    } else {
        s->flush_at = UINT64_MAX;
    }
    wake(s, s->src.state_due);
    if (logq_used(&s->console->q) >= STREAM_READ_MAX / 2)
        console_write(s->console);
}

/* ---- reading */

/* What is in the pipe when we are killed still goes into the file. Not being able to promise that stops
 * nothing. */
static void hand_over(struct stream *s)
{
    struct cc_err err;

    if (s->has_sink)
        (void) keeper_hand_over(s->env->keeper_fd, s->id, s->fd, s->sink.fd, &err);
}

/* The disk is full: the worker must not stand still for that. */
static ssize_t read_and_drop(struct stream *s, size_t max)
{
    ssize_t n = read(s->fd, s->env->buf, max);

    if (n < 0)
        return -errno;
    if (n > 0) {
        if (s->sink.lost == 0)
            s->env->on_disk_error(s->env->ctx, s);
        sink_drop(&s->sink, (size_t) n);
        consume(s, s->env->buf, (size_t) n);
    }
    return n;
}

static ssize_t read_by_file(struct stream *s, size_t max)
{
    ssize_t n = sink_take(&s->sink, s->fd, max, uv_now(s->env->loop));

    if (n == 0 || n == -EAGAIN)
        return n;
    if (n < 0)
        return read_and_drop(s, max);
    if (s->console || s->tail) {
        size_t want = !s->console && (size_t) n > s->tail->cap ? s->tail->cap : (size_t) n;

        consume(s, s->env->buf, sink_read_back(&s->sink, s->env->buf, want));
    }
    if (sink_rotate(&s->sink))
        hand_over(s);
    return n;
}

static ssize_t read_by_memory(struct stream *s, size_t max)
{
    ssize_t n = read(s->fd, s->env->buf, max);

    if (n < 0)
        return -errno;
    consume(s, s->env->buf, (size_t) n);
    return n;
}

/* A worker that fills its pipe gets a larger one: fewer switches between it and us.  The total is bounded
 * because the kernel gives a user beyond pipe-user-pages-soft pipes of two pages. */
static void maybe_grow(struct stream *s, size_t n)
{
    if (s->is_grown || n < STREAM_PIPE_BYTES || s->env->pipe_budget < PIPE_LARGE)
        return;
    s->is_grown = true;
    s->env->pipe_budget -= PIPE_LARGE;
    (void) fcntl(s->fd, F_SETPIPE_SZ, PIPE_LARGE);
}

static void on_readable(uv_poll_t *p, int status, int events);

static void start_polling(struct stream *s)
{
    if (!s->is_polling && uv_poll_start(&s->poll, UV_READABLE, on_readable) == 0)
        s->is_polling = true;
}

static void stop_polling(struct stream *s)
{
    if (s->is_polling)
        (void) uv_poll_stop(&s->poll);
    s->is_polling = false;
}

static void on_closed(uv_handle_t *h)
{
    struct stream *s = CC_CONTAINER_OF((uv_poll_t *) h, struct stream, poll);

    s->env->on_end(s->env->ctx, s);
}

static void release(struct stream *s)
{
    stop_polling(s);
    s->sink_lost = s->has_sink ? s->sink.lost_total : 0;
    if (s->has_sink) {
        keeper_take_back(s->env->keeper_fd, s->id);
        sink_close(&s->sink);
    }
    if (s->is_grown)
        s->env->pipe_budget += PIPE_LARGE;
    s->is_open = s->has_sink = false;
    uv_close((uv_handle_t *) &s->poll, on_closed);
    cc_fdp(&s->fd);
    cc_fdp(&s->child_fd);
}

static void finish(struct stream *s)
{
    if (s->console && s->console->is_ready) {
        demux_end(&s->demux);
        merge_end(&s->console->merge, &s->src);
    }
    release(s);
}

/* How much may be read. 0: the console has no room, and resumes us. */
static size_t read_room(struct stream *s)
{
    size_t take = s->console ? console_take(s->console, s->src.prefix_len) : STREAM_READ_MAX;

    if (take == 0 && s->env->is_dropping)
        return STREAM_READ_MAX;
    if (take == 0)
        stop_polling(s);
    return take < STREAM_READ_MAX ? take : STREAM_READ_MAX;
}

/* One read; false: nothing more to be had now. */
static bool step(struct stream *s)
{
    size_t  max = read_room(s);
    ssize_t n;

    if (max == 0)
        return false;
    if (s->is_eof) {
        finish(s);
        return false;
    }
    n = s->has_sink ? read_by_file(s, max) : read_by_memory(s, max);
    if (n > 0) {
        maybe_grow(s, (size_t) n);
        s->left -= (size_t) n < s->left ? (size_t) n : s->left;
    }
    if (n == 0 || (n < 0 && n != -EAGAIN && n != -EINTR))
        s->is_eof = true;
    else /* what the worker itself wrote is all here, and others have had their time */
        s->is_eof = s->left == 0 && s->deadline <= uv_now(s->env->loop);
    if (!s->is_eof)
        return n > 0;
    return step(s); /* to the end, when the console has room */
}

static void on_readable(uv_poll_t *p, int status, int events)
{
    struct stream *s = CC_CONTAINER_OF(p, struct stream, poll);

    (void) status, (void) events;
    if (s->before && s->before->is_open)
        (void) step(s->before);
    if (s->is_open)
        (void) step(s);
}

/* ---- life */

int stream_open(struct stream *s, struct stream_env *env, const struct stream_cfg *cfg, struct cc_err *err)
{
    int fds[2], r;

    if (pipe2(fds, O_CLOEXEC) < 0)
        return cc_fail(err, -errno, "cannot make a pipe for a worker's output: %s", strerror(errno));
    r = uv_poll_init(env->loop, &s->poll,
                     fds[0]); /* also makes our end non-blocking; the worker's stays blocking */
    if (r < 0) {
        (void) close(fds[0]);
        (void) close(fds[1]);
        return cc_fail(err, r, "cannot watch a worker's output: %s", uv_strerror(r));
    }
    s->env = env;
    s->fd = fds[0];
    s->child_fd = fds[1];
    s->is_open = true;
    s->is_polling = s->is_eof = s->is_grown = false;
    s->is_prompting = cfg->is_prompting;
    s->before = cfg->before;
    s->flush_at = s->deadline = UINT64_MAX;
    s->left = 0;
    s->console = cfg->console;
    s->tail = cfg->tail;
    s->filter = cfg->filter;
    s->needles = cfg->needles;
    merge_src_init(&s->src, cfg->prefix, cfg->prefix_len, cfg->memory + MERGE_HOLD_MAX);
    if (s->console)
        demux_init(&s->demux, cfg->memory, MERGE_HOLD_MAX, s->console->merge.cr == MERGE_KEEP, on_unit, s);
    return 0;
}

void stream_start(struct stream *s)
{
    if (!s->is_open)
        return;
    cc_fdp(&s->child_fd);
    hand_over(s);
    start_polling(s);
}

void stream_exited(struct stream *s, uint64_t deadline)
{
    int n = 0;

    if (!s->is_open)
        return;
    (void) ioctl(s->fd, FIONREAD, &n);
    s->left = n > 0 ? (size_t) n : 0;
    s->deadline = deadline;
    wake(s, deadline);
}

void stream_resume(struct stream *s)
{
    if (!s->is_open || s->is_polling || s->child_fd >= 0)
        return;
    start_polling(s);
    if (s->is_eof)
        (void) step(s);
}

static bool is_stuck(const struct stream *s)
{
    return s->console && (!s->is_polling || logq_used(&s->console->q) >= CONSOLE_HIGH);
}

uint64_t stream_tick(struct stream *s, uint64_t now)
{
    uint64_t next = UINT64_MAX;

    if (!s->is_open)
        return UINT64_MAX;
    if (s->console && !is_stuck(s)) {
        if (s->flush_at <= now)
            demux_flush(&s->demux);
        merge_tick(&s->console->merge, &s->src, now);
    }
    if (s->flush_at <= now)
        s->flush_at = UINT64_MAX;
    if (s->deadline <= now)
        while (step(s))
            ;
    if (!s->is_open)
        return UINT64_MAX;
    if (s->console && s->src.state_due != UINT64_MAX)
        next = s->src.state_due > now ? s->src.state_due : now + MERGE_EVERY_MS;
    if (s->flush_at < next)
        next = s->flush_at;
    return s->deadline > now && s->deadline < next ? s->deadline : next;
}

/* The file gets what lies in the pipe now, also when there is no time left to wait for the console. */
static void take_the_rest(struct stream *s)
{
    int left = 0;

    (void) ioctl(s->fd, FIONREAD, &left);
    while (left > 0) {
        ssize_t n = sink_take(&s->sink, s->fd, (size_t) left, uv_now(s->env->loop));

        if (n <= 0)
            return;
        left -= (int) n;
    }
}

void stream_close(struct stream *s)
{
    if (s->is_open && s->has_sink)
        take_the_rest(s);
    if (s->is_open && read_room(s) > 0)
        finish(s);
    else if (s->is_open)
        release(s);
}
