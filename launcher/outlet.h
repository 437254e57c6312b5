/* outlet.h - what many programs print, as one console: whole lines, nobody's between somebody else's.
 *
 * For the head of a fan-out, whose programs are the agents or what leads to them.  The bytes come out as they went in; while
 * the console is full the pipes are not read.  Runs on the caller's loop.  SIGPIPE must be ignored.
 */
#ifndef LAUNCHER_OUTLET_H
#define LAUNCHER_OUTLET_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "agent/console.h"
#include "agent/core/demux.h"
#include "agent/core/merge.h"
#include "store/base/err.h"

enum { OUTLET_READ_MAX = 64 * 1024 };

struct outlet_stream;

struct outlet {
    uv_loop_t            *loop;
    struct console        console[2], *console_of[2];
    uv_timer_t            timer;
    uint64_t              timer_at;
    uv_check_t            check;
    struct outlet_stream *streams; /* a list */
    char                 *buf;
    bool                  is_closing, is_lost;
    void (*on_lost)(void *ctx); /* nobody reads one of the two any more; NULL, or the caller's, with ctx */
    void *ctx;
};

/* How many bytes of the line (with its newline, if it has one) are to be shown: all, none, or what stands before a message
 * to us. */
typedef size_t outlet_line_fn(void *ctx, const char *line, size_t len);
typedef void outlet_end_fn(void *ctx); /* the last: closed */

struct outlet_stream {
    struct outlet        *outlet;
    struct outlet_stream *next, **link;
    struct console       *console;
    int                   fd;
    uv_poll_t             poll;
    bool                  is_open, is_polling, is_eof;
    struct demux          demux;
    struct merge_src      src;
    char                 *memory;
    outlet_line_fn       *on_line; /* NULL: all is shown */
    outlet_end_fn        *on_end;
    void                 *ctx;
};

int  outlet_init(struct outlet *o, uv_loop_t *loop, bool is_keep_cr, struct cc_err *err);
void outlet_say(struct outlet *o, const char *text); /* on stderr, whole lines */
int  outlet_flush(struct outlet *o, const sigset_t *mask); /* waits for the reader; see console_flush() */
void outlet_close(struct outlet *o); /* when every stream has ended; the loop must run once more before outlet_free() */
void outlet_free(struct outlet *o);

/* Reads fd, which is the stream's from now on, to its end.  `which`: 0 stdout, 1 stderr.  s->on_line, on_end and ctx are the
 * caller's. */
int  outlet_read(struct outlet *o, struct outlet_stream *s, int fd, unsigned which, struct cc_err *err);
void outlet_end(struct outlet_stream *s); /* takes what is there and does not wait for more; accepts one that has ended */

#endif
