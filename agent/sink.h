/* sink.h - one log file: the bytes of a pipe or of memory go into it, it rotates, and a full disk is no
 * disaster.
 *
 * sink_take() moves bytes from the pipe into the file inside the kernel: at no moment are they in our memory
 * only, so nothing is lost when we are killed.  A write error (disk full, quota, I/O) is remembered and tried
 * again after a second; until then sink_take() fails at once, and the owner throws the bytes away and counts
 * them with sink_drop().
 */
#ifndef AGENT_SINK_H
#define AGENT_SINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "store/base/err.h"

enum { SINK_RETRY_MS = 1000, SINK_LINE_MAX = 64 * 1024 };

struct sink {
    char    *path;
    int      fd; /* -1: not open */
    uint64_t size, max_size, rotate_at;
    unsigned keep;
    int      error;            /* why the last write failed; 0: it did not */
    uint64_t retry_at;         /* meaningful with an error */
    uint64_t lost, lost_total; /* bytes thrown away since the last good write, and in all */
    bool     is_copied;        /* the file system cannot splice */
};

/* An existing file is appended to. max_size 0: no rotation. */
int sink_open(struct sink *s, const char *path, uint64_t max_size, unsigned keep, struct cc_err *err);
/* Up to `max` bytes from the pipe: how many, 0 at its end, -EAGAIN when it is empty, else why the file cannot
 * be written. */
ssize_t sink_take(struct sink *s, int pipe_fd, size_t max, uint64_t now);
size_t  sink_read_back(const struct sink *s, char *buf, size_t len); /* the last `len` bytes that went in */
bool    sink_rotate(struct sink *s); /* when it is due; true: s->fd is another file now */
int     sink_write(struct sink *s, const char *bytes, size_t len,
                   uint64_t now); /* all of it, or what it failed with */
void    sink_drop(struct sink *s, size_t len);
void    sink_close(struct sink *s); /* accepts one that is not open */

#endif
