/* errfile.h - torchelastic's error.json: what a worker under @record says of its exception, and our own for a
 * parent.
 *
 * Two forms are accepted, as by torchrun:
 *   {"message": {"message": "Type: text", "extraInfo": {"py_callstack": "...", "timestamp": "1700000000"}}}
 *   {"message": "text", "timestamp": 1700000000}     (a number or its digits; missing is 0)
 * A worker may be killed while it writes, and anything may lie at that path, so the reader never blocks,
 * follows no link, takes plain files of at most ERRFILE_MAX bytes, and calls everything else unusable.
 * torchrun dies of those.
 */
#ifndef AGENT_ERRFILE_H
#define AGENT_ERRFILE_H

#include <stddef.h>
#include <stdint.h>

#include "store/base/err.h"

struct cJSON;

enum { ERRFILE_MAX = 1 << 20 };

struct errfile {
    char    *message;   /* "Type: text", or the text; not empty */
    char    *callstack; /* NULL: none */
    int64_t  timestamp; /* seconds since 1970 by the worker's clock; 0: none */
    uint64_t mtime_ms;  /* when the file was last written; 0 after errfile_parse() */
};

/* 1: *ret is filled, free it with errfile_done().  0: there is no such file.  Negative: there is something
 * that cannot be used, and err says why in words that name the file. */
int errfile_read(const char *path, struct errfile *ret, struct cc_err *err);

/* The same for bytes at hand: 1 or negative.  Any input; `text` need not be terminated. */
int errfile_parse(const char *text, size_t len, struct errfile *ret, struct cc_err *err);

void errfile_done(struct errfile *e);

/* The document itself, for cJSON_Delete(); NULL when there is none that can be used. */
struct cJSON *errfile_load(const char *path);

/* Copy `from`, with "errorCode" added to an outer message that is an object, to `to`, replacing it: what
 * torchrun does for a launcher above it.  exit_code is negative for a signal. */
int errfile_copy(const char *from, const char *to, int exit_code, struct cc_err *err);

/* Record a failure of our own at `to`, in the first form. */
int errfile_write(const char *to, const char *message, int64_t timestamp, struct cc_err *err);

#endif
