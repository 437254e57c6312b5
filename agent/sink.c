#include "agent/sink.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store/base/cleanup.h"
#include "store/base/fdwrite.h"

enum { COPY_MAX = 16 * 1024 };

static int open_file(const char *path, int extra_flags)
{
    return open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | extra_flags, 0666);
}

int sink_open(struct sink *s, const char *path, uint64_t max_size, unsigned keep, struct cc_err *err)
{
    CC_AUTO_FD int fd = open_file(path, 0);
    off_t          size;

    *s = (struct sink){
        .fd = -1, .max_size = max_size, .rotate_at = max_size ? max_size : UINT64_MAX, .keep = keep
    };
    if (fd < 0)
        return cc_fail(err, -errno, "cannot write the log file '%s': %s", path, strerror(errno));
    size = lseek(fd, 0, SEEK_END); /* not O_APPEND: splice() refuses that */
    s->path = strdup(path);
    if (!s->path)
        return cc_fail(err, -ENOMEM, "no memory for the log file '%s'", path);
    s->size = size > 0 ? (uint64_t) size : 0;
    s->fd = cc_steal_fd(&fd);
    return 0;
}

static int append(struct sink *s, const char *bytes, size_t len)
{
    size_t done;
    int    r = cc_write_all(s->fd, bytes, len, &done);

    s->size += done;
    return r;
}

static int remember(struct sink *s, int error, uint64_t now)
{
    s->error = error;
    s->retry_at = now + SINK_RETRY_MS;
    return error;
}

/* After a failure: is it time to try again, and does the note of what is missing go in? */
static int recover(struct sink *s, uint64_t now)
{
    char note[128];
    int  n, r;

    if (s->error == 0)
        return 0;
    if (now < s->retry_at)
        return s->error;
    if (s->lost > 0) {
        n = snprintf(note, sizeof note, "\n[ccrun: %" PRIu64 " bytes are missing here: %s]\n", s->lost,
                     strerror(-s->error));
        r = append(s, note, (size_t) n);
        if (r < 0)
            return remember(s, r, now);
    }
    s->lost = 0;
    s->error = 0;
    return 0;
}

/* For a file system that cannot splice: here the bytes are in our memory for a moment. */
static ssize_t copy(struct sink *s, int pipe_fd, size_t max)
{
    char    buf[COPY_MAX];
    ssize_t n = read(pipe_fd, buf, max < sizeof buf ? max : sizeof buf);
    int     r;

    if (n <= 0)
        return n;
    r = append(s, buf, (size_t) n);
    if (r < 0) {
        sink_drop(s, (size_t) n); /* some of it may be in; none of it can be given back */
        errno = -r;
        return -1;
    }
    return n;
}

static ssize_t move(struct sink *s, int pipe_fd, size_t max)
{
    ssize_t n;

    if (!s->is_copied) {
        n = splice(pipe_fd, NULL, s->fd, NULL, max, SPLICE_F_NONBLOCK | SPLICE_F_MOVE);
        if (n > 0)
            s->size += (uint64_t) n;
        if (n >= 0 || errno != EINVAL)
            return n;
        s->is_copied = true;
    }
    return copy(s, pipe_fd, max);
}

ssize_t sink_take(struct sink *s, int pipe_fd, size_t max, uint64_t now)
{
    ssize_t n;
    int     r = recover(s, now);

    if (r < 0)
        return r;
    if (s->rotate_at > s->size && s->rotate_at - s->size < max)
        max = (size_t) (s->rotate_at - s->size);
    do
        n = move(s, pipe_fd, max);
    while (n < 0 && errno == EINTR);
    if (n >= 0)
        return n;
    return errno == EAGAIN ? -EAGAIN : remember(s, -errno, now);
}

size_t sink_read_back(const struct sink *s, char *buf, size_t len)
{
    size_t  done = 0;
    ssize_t n;

    while (done < len) {
        n = pread(s->fd, buf + done, len - done, (off_t) (s->size - len + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break; /* somebody has truncated it */
        done += (size_t) n;
    }
    return done;
}

/* How much of the end of the file belongs to a line that is not finished; 0 when no line ends in the last 64
 * KB. */
static size_t unfinished(const struct sink *s, char *buf)
{
    size_t      len = s->size < SINK_LINE_MAX ? (size_t) s->size : SINK_LINE_MAX;
    size_t      n = sink_read_back(s, buf, len);
    const char *nl = n > 0 ? memrchr(buf, '\n', n) : NULL;

    return nl && n == len ? (size_t) (buf + len - (nl + 1)) : 0;
}

/* path -> path.1 -> path.2 ...; with keep 0 the old bytes go. */
static void shift_names(const struct sink *s)
{
    char from[PATH_MAX], to[PATH_MAX];

    for (unsigned i = s->keep; i > 1; i--) {
        (void) snprintf(from, sizeof from, "%s.%u", s->path, i - 1);
        (void) snprintf(to, sizeof to, "%s.%u", s->path, i);
        (void) rename(from, to);
    }
    (void) snprintf(to, sizeof to, "%s.1", s->path);
    if (s->keep > 0)
        (void) rename(s->path, to);
    else
        (void) unlink(s->path);
}

/* The unfinished line is in the new file before it leaves the old one: a kill in between doubles it, never
 * loses it. */
bool sink_rotate(struct sink *s)
{
    CC_AUTO_FREE char *line = NULL;
    CC_AUTO_FD int     fd = -1;
    size_t             n;

    if (s->size < s->rotate_at || s->error)
        return false;
    line = malloc(SINK_LINE_MAX);
    if (!line)
        return false;
    n = unfinished(s, line);
    memmove(line, line + ((s->size < SINK_LINE_MAX ? s->size : SINK_LINE_MAX) - n), n);
    shift_names(s);
    fd = open_file(s->path, O_EXCL);
    if (fd < 0 || cc_write_all(fd, line, n, NULL) < 0) {
        s->rotate_at =
            s->size + s->max_size; /* no room for a new one: the old one, renamed, goes on growing */
        return false;
    }
    if (n > 0)
        (void) !ftruncate(s->fd, (off_t) (s->size - n));
    (void) close(s->fd);
    s->fd = cc_steal_fd(&fd);
    s->size = n;
    s->rotate_at = s->max_size;
    return true;
}

int sink_write(struct sink *s, const char *bytes, size_t len, uint64_t now)
{
    uint64_t before;
    int      r = recover(s, now);

    if (r == 0) {
        before = s->size;
        r = append(s, bytes, len);
        if (r == 0)
            return 0;
        len -= (size_t) (s->size - before);
        (void) remember(s, r, now);
    }
    sink_drop(s, len);
    return r;
}

void sink_drop(struct sink *s, size_t len)
{
    s->lost += len;
    s->lost_total += len;
}

void sink_close(struct sink *s)
{
    if (s->path && s->fd >= 0)
        (void) close(s->fd);
    free(s->path);
    *s = (struct sink){ .fd = -1 };
}
