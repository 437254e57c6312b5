#include "tests/sim/sim_queue.h"

#include <stdbool.h>
#include <stdlib.h>

static bool is_before(const struct event *a, const struct event *b)
{
    return a->at != b->at ? a->at < b->at : a->seq < b->seq;
}

void queue_push(struct queue *q, struct event e)
{
    uint64_t i;

    e.seq = q->seq++;
    if (q->n == q->cap) {
        q->cap = q->cap > 0 ? 2 * q->cap : 1024;
        q->heap = realloc(q->heap, q->cap * sizeof(q->heap[0]));
        if (!q->heap)
            abort();
    }
    for (i = q->n++; i > 0 && is_before(&e, &q->heap[(i - 1) / 2]); i = (i - 1) / 2)
        q->heap[i] = q->heap[(i - 1) / 2];
    q->heap[i] = e;
}

struct event queue_pop(struct queue *q)
{
    struct event top = q->heap[0], last = q->heap[--q->n];
    uint64_t     i = 0, c;

    while ((c = 2 * i + 1) < q->n) {
        if (c + 1 < q->n && is_before(&q->heap[c + 1], &q->heap[c]))
            c++;
        if (!is_before(&q->heap[c], &last))
            break;
        q->heap[i] = q->heap[c];
        i = c;
    }
    q->heap[i] = last;
    return top;
}

void blob_drop(struct blob *b)
{
    if (b && --b->n_uses == 0)
        free(b);
}

void queue_free(struct queue *q)
{
    uint64_t i;

    for (i = 0; i < q->n; i++)
        blob_drop(q->heap[i].blob);
    free(q->heap);
    *q = (struct queue) { 0 };
}
