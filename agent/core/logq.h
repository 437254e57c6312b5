/* logq.h - the bytes that wait for one console: a bounded first-in first-out queue in one piece of memory.
 * Pure.
 *
 * The bytes are contiguous, so that one write() can take them all.  The owner reads no more input than there
 * is room for: to put more than logq_room() is a bug.  An empty queue starts again at the front, so a console
 * that keeps up touches little of the memory.
 */
#ifndef AGENT_CORE_LOGQ_H
#define AGENT_CORE_LOGQ_H

#include <stddef.h>

struct logq {
    char  *buf; /* borrowed from the owner */
    size_t cap, head, tail;
};

void   logq_init(struct logq *q, char *buf, size_t cap);
size_t logq_used(const struct logq *q);
size_t logq_room(const struct logq *q);
/* At least `len` bytes to write to; logq_commit() adds what was written.  Moves what is queued when it must.
 */
char       *logq_reserve(struct logq *q, size_t len, size_t *ret_room);
void        logq_commit(struct logq *q, size_t len);
void        logq_put(struct logq *q, const char *bytes, size_t len);
void        logq_fill(struct logq *q, char c, size_t len);
const char *logq_peek(const struct logq *q, size_t *ret_len);
void        logq_consume(struct logq *q, size_t len);

#endif
