#include "agent/core/logq.h"

#include <assert.h>
#include <string.h>

void logq_init(struct logq *q, char *buf, size_t cap)
{
    *q = (struct logq){ .buf = buf, .cap = cap };
}

size_t logq_used(const struct logq *q)
{
    return q->tail - q->head;
}

size_t logq_room(const struct logq *q)
{
    return q->cap - logq_used(q);
}

char *logq_reserve(struct logq *q, size_t len, size_t *ret_room)
{
    assert(len <= logq_room(q));
    if (len > q->cap - q->tail) {
        memmove(q->buf, q->buf + q->head, logq_used(q));
        q->tail -= q->head;
        q->head = 0;
    }
    *ret_room = q->cap - q->tail;
    return q->buf + q->tail;
}

void logq_commit(struct logq *q, size_t len)
{
    assert(len <= q->cap - q->tail);
    q->tail += len;
}

void logq_put(struct logq *q, const char *bytes, size_t len)
{
    size_t room;

    memcpy(logq_reserve(q, len, &room), bytes, len);
    logq_commit(q, len);
}

void logq_fill(struct logq *q, char c, size_t len)
{
    size_t room;

    memset(logq_reserve(q, len, &room), c, len);
    logq_commit(q, len);
}

const char *logq_peek(const struct logq *q, size_t *ret_len)
{
    *ret_len = logq_used(q);
    return q->buf + q->head;
}

void logq_consume(struct logq *q, size_t len)
{
    assert(len <= logq_used(q));
    q->head += len;
    if (q->head == q->tail)
        q->head = q->tail = 0;
}
