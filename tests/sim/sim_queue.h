/* sim_queue.h - what is to happen in a simulated world, in the order of time; at one time, in the order of coming. */
#ifndef SIM_QUEUE_H
#define SIM_QUEUE_H

#include <stdint.h>

enum event_kind {
    EV_TO_COORD, EV_TO_AGENT, EV_WAKE, EV_COORD_WAKE, EV_BOOT, EV_FAULT, EV_HEAL, EV_BROKEN, EV_CONNECT, EV_FAIL, EV_SAVED,
    EV_TAKEOVER,
};

struct blob { /* a message on its way, perhaps twice */
    unsigned n_uses;
    uint32_t size;
    uint8_t  bytes[];
};

struct event {
    uint64_t     at, seq, arg; /* arg: link, number of the boot, or fault */
    uint64_t     incarnation;
    struct blob *blob;
    uint32_t     agent;
    enum event_kind kind;
};

struct queue {
    struct event *heap; /* heap[0] is the next */
    uint64_t      n, cap, seq;
};

void         queue_push(struct queue *q, struct event e); /* aborts when there is no memory */
struct event queue_pop(struct queue *q);
void         queue_free(struct queue *q);
void         blob_drop(struct blob *b); /* one use less; accepts NULL */

#endif
