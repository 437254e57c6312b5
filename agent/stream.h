/* stream.h - one pipe of one worker: from its write end to the console, the log file and the memory of its
 * last lines.
 *
 * With a file the bytes go there first, inside the kernel, and are read back for whatever else wants them.
 * While the console's queue is full the pipe is not read: the worker waits in write(), and no memory grows.
 * Or, if that is wanted, it is read, and what the console has no room for is left out, in whole lines.
 */
#ifndef AGENT_STREAM_H
#define AGENT_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "agent/console.h"
#include "agent/core/demux.h"
#include "agent/core/merge.h"
#include "agent/core/tail.h"
#include "agent/sink.h"

enum {
    STREAM_READ_MAX = 256 * 1024,
    STREAM_MEMORY = MERGE_HOLD_MAX + MERGE_STATE_MAX, /* what a stream borrows from its owner */
    STREAM_PROMPT_MS = 200,
    STREAM_PIPE_BYTES = 64 * 1024, /* what a pipe holds as it is made */
};

struct stream;

/* What all streams of a node share. */
struct stream_env {
    uv_loop_t *loop;
    char      *buf;         /* STREAM_READ_MAX bytes, used during one callback */
    size_t     pipe_budget; /* bytes by which pipes may still grow */
    bool       is_dropping; /* what a full console has no room for is dropped; else the workers wait */
    uint64_t   dropped;     /* bytes, of all streams */
    int        keeper_fd;   /* told what to drain when we are killed; -1: there is no keeper */

    void (*wake)(void *ctx, uint64_t at); /* call stream_tick() at that time */
    void (*on_disk_error)(void                *ctx,
                          const struct stream *s); /* a file cannot be written; not for every read */
    void (*on_end)(void *ctx, struct stream *s);   /* the last call: closed, the memory is free */
    void *ctx;
};

struct stream {
    struct stream_env *env;
    uint32_t           id; /* for the keeper: unique among the streams of a node */
    void              *owner;
    int                fd, child_fd; /* the pipe's ends; -1 when closed */
    uv_poll_t          poll;
    bool               is_open, is_polling, is_eof, is_grown, is_prompting;
    struct stream     *before;             /* the worker's stderr: what it has goes out before our bytes */
    uint64_t           flush_at, deadline; /* UINT64_MAX: never */
    size_t             left; /* after the exit: bytes in the pipe that may be the worker's own */

    struct console    *console; /* or NULL */
    struct merge_src   src;
    struct demux       demux;
    struct sink        sink;
    bool               has_sink;
    uint64_t           sink_lost; /* set at the end: bytes that the file has not */
    struct tail       *tail;      /* or NULL */
    struct sink       *filter;    /* lines with one of `needles` also go there; or NULL */
    const char *const *needles;
};

struct stream_cfg {
    struct console    *console;
    const char        *prefix; /* borrowed, like everything here */
    size_t             prefix_len;
    char              *memory; /* STREAM_MEMORY bytes */
    struct tail       *tail;
    struct sink       *filter;
    const char *const *needles;
    struct stream     *before;
    bool is_prompting; /* an unfinished line is shown after a while: nobody else writes to this terminal */
};

/* Makes the pipe.  A file is opened into s->sink by the owner, who then sets has_sink. */
int  stream_open(struct stream *s, struct stream_env *env, const struct stream_cfg *cfg, struct cc_err *err);
void stream_start(struct stream *s); /* the worker has its end: close ours, and read */
void stream_exited(struct stream *s,
                   uint64_t       deadline); /* read what is there; at the deadline do not wait for more */
void stream_resume(struct stream *s);  /* the console has room again */
/* Does what is due and returns when to be called next. */
uint64_t stream_tick(struct stream *s, uint64_t now);
void stream_close(struct stream *s); /* ends it at once; on_end follows from the loop; accepts a closed one */

#endif
