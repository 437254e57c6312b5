/* console.h - one console stream (stdout or stderr of ccrun): what many workers print, written without ever
 * blocking.
 *
 * The descriptor is shared with whoever started us, so its O_NONBLOCK flag is not ours to set: a pipe or
 * terminal is opened once more through /proc/self/fd, a socket is written with MSG_DONTWAIT, a regular file
 * never blocks for long, and where opening is refused (another user's terminal) we ask poll() and write no
 * more than then fits.
 *
 * What cannot be written waits in a bounded queue; console_take() says how much more input may be read for
 * it, and on_room() when there is room again.  SIGPIPE must be ignored by the program.
 */
#ifndef AGENT_CONSOLE_H
#define AGENT_CONSOLE_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "agent/core/logq.h"
#include "agent/core/merge.h"
#include "store/base/err.h"

enum {
    CONSOLE_HIGH = 1 << 20, /* nothing more is read while so much is queued */
    CONSOLE_CAP = (4 << 20) + MERGE_SLACK,
};

struct console_cbs {
    void (*on_room)(void *ctx); /* the queue was full and no longer is */
    void (*on_lost)(void *ctx,
                    int   error); /* nobody reads it any more (negative errno): what comes is thrown away */
    void (*on_dropped)(void *ctx, int error); /* its disk is full: some bytes are lost; it is tried again */
};

enum console_mode { CONSOLE_DIRECT, CONSOLE_NONBLOCK, CONSOLE_SOCKET, CONSOLE_POLLED };

struct console {
    uv_loop_t        *loop;
    int               fd, own_fd, epoll_fd;
    enum console_mode mode;
    bool              is_tty, is_ready, is_lost, is_waiting, has_poll, was_full;
    uv_poll_t         poll;
    unsigned          n_open; /* handles that libuv still knows */
    char             *memory;
    struct logq       q;
    struct merge      merge;

    const struct console_cbs *cbs;
    void                     *ctx;
};

/* Looks at the descriptor only; memory and descriptors are taken with the first byte. */
void console_init(struct console *c, uv_loop_t *loop, int fd, bool is_keep_cr, const struct console_cbs *cbs,
                  void *ctx);
bool console_is_same(const struct console *c,
                     int fd); /* the same pipe, terminal or socket: lines must share a queue */

/* How many bytes a source with such a prefix may add now: 0 while the queue is full. */
size_t console_take(struct console *c, size_t prefix_len);
/* May a line of our own of `len` bytes be added, even while the queue is full for the workers? */
bool console_admits(struct console *c, size_t len);
void console_write(struct console *c); /* as much as goes without blocking */
/* Waits until all is written; see logs_flush(). */
int  console_flush(struct console *c, uint64_t timeout_ms, const sigset_t *mask);
void console_close(struct console *c); /* the loop must run before the memory is released */

#endif
