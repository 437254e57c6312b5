/* kv.h - what a store holds: keys with values, queues, counters, and who waits for which key.
 *
 * Pure.  One struct kv is one key space, emptied for each round.  Memory is bounded: every byte held is
 * charged to a budget that the connections share (requests half come and answers not yet read count too), and
 * what would pass it is refused with -ENOMEM and changes nothing.
 *
 * Queues are a second name space: a queue that holds something counts as there for kv_has() and waits, and
 * nowhere else. What kv_get() and the like return points into the store and is good until the next call that
 * changes something.
 */
#ifndef STORE_CORE_KV_H
#define STORE_CORE_KV_H

#include <stdbool.h>
#include <stdint.h>

#include "store/base/buf.h"

struct kv;
struct kv_entry;
struct kv_wait;

struct kv_budget {
    uint64_t used, max;
};

static inline bool kv_charge(struct kv_budget *b, uint64_t n)
{
    if (n > b->max - b->used)
        return false;
    b->used += n;
    return true;
}

static inline void kv_refund(struct kv_budget *b, uint64_t n)
{
    b->used -= n;
}

/* One place in the list of those who wait for a key. */
struct kv_link {
    struct kv_link  *prev, *next;
    struct kv_entry *entry; /* NULL: not in a list */
    struct kv_wait  *wait;
};

/* Waiting for a set of keys; embedded by who waits, zeroed at first.  Each key counts down once when it
 * comes; a deletion in between is not counted back. */
struct kv_wait {
    uint64_t        n_missing; /* 0: not waiting */
    uint64_t        n_links;
    struct kv_link *links; /* `one`, or allocated */
    struct kv_link  one;
};

/* The wait is over (and may be begun anew later). Must not call kv_*() back. */
typedef void kv_wake_fn(struct kv_wait *w);

/* NULL: no memory. The seed keeps clients from aiming for collisions. */
struct kv *kv_new(const uint64_t seed[2], struct kv_budget *budget, kv_wake_fn *wake);
struct kv *kv_free(struct kv *kv);  /* nobody may be waiting any more */
void       kv_clear(struct kv *kv); /* the same, and empty for the next round */

/* Limit of a value, which APPEND could pass. */
#define KV_VALUE_MAX ((uint64_t) 64 << 20)

int  kv_set(struct kv *kv, struct cc_bytes key, struct cc_bytes value); /* 0, -ENOMEM */
bool kv_get(const struct kv *kv, struct cc_bytes key, struct cc_bytes *ret_value);
int  kv_append(struct kv *kv, struct cc_bytes key,
               struct cc_bytes value); /* 0, -ENOMEM, -EFBIG: over KV_VALUE_MAX */
/* 0 and the sum; -EINVAL: what is there is not a number as strtoll() reads it, and stays. */
int kv_add(struct kv *kv, struct cc_bytes key, int64_t delta, int64_t *ret_sum);
/* Stores `desired` if the value equals `expected` (or both are missing or empty). *ret_value: what to answer.
 */
int  kv_compare_set(struct kv *kv, struct cc_bytes key, struct cc_bytes expected, struct cc_bytes desired,
                    struct cc_bytes *ret_value);
bool kv_delete(struct kv *kv, struct cc_bytes key); /* wakes nobody */
bool kv_has(const struct kv *kv, struct cc_bytes key);

uint64_t kv_count(const struct kv *kv);
uint64_t kv_keys_size(const struct kv *kv); /* bytes of all keys together */
/* Walks over the keys in no order: NULL starts, NULL ends. Nothing may be changed meanwhile. */
const struct kv_entry *kv_next(const struct kv *kv, const struct kv_entry *e, struct cc_bytes *ret_key);

int kv_queue_push(struct kv *kv, struct cc_bytes key, struct cc_bytes value); /* wakes who waits longest */
uint64_t kv_queue_len(const struct kv *kv, struct cc_bytes key);
bool     kv_queue_front(const struct kv *kv, struct cc_bytes key, struct cc_bytes *ret_value);
void     kv_queue_drop(struct kv *kv, struct cc_bytes key); /* the front; there must be one */

/* Wait for keys: begin with how many of them are missing, then name each of those.  What w waited for before
 * is forgotten. -ENOMEM from either: w waits for nothing. */
int  kv_wait_begin(struct kv *kv, struct kv_wait *w, uint64_t n_missing);
int  kv_wait_for(struct kv *kv, struct kv_wait *w, struct cc_bytes key);
void kv_wait_cancel(struct kv *kv, struct kv_wait *w);

/* Adds 1 to the key.  1: world_size is reached, and all who wait for the key are woken; 0: w waits for it
 * now; else as kv_add(). */
int kv_barrier(struct kv *kv, struct kv_wait *w, struct cc_bytes key, int64_t world_size);

#endif
