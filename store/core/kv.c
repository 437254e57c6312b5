#include "store/core/kv.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "store/core/siphash.h"

enum {
    FIRST_BUCKETS = 64,
    INLINE_MIN = 24,  /* any int64 in decimal */
    INLINE_MAX = 512, /* longer values get memory of their own */
    SHRINK_FROM = 4096,
    ALLOC_COST = 16, /* what the allocator and a bucket take beside each piece */
};

struct kv_queue_item {
    struct kv_queue_item *next;
    size_t                n;
    uint8_t               bytes[];
};

struct kv_queue {
    struct kv_queue_item *first, *last;
    uint64_t              n;
};

/* A name that has a value, or a filled queue, or somebody who waits for it; gone when it has none of them. */
struct kv_entry {
    struct kv_entry *next; /* in its bucket */
    uint8_t         *value;
    struct kv_queue *queue; /* NULL: empty */
    struct kv_link  *first, *last;
    uint32_t         hash, key_len, inline_cap;
    uint32_t         value_len, value_cap; /* cap may be inline_cap, then value is in bytes[] */
    bool             has_value;
    uint8_t          bytes[]; /* the key, then inline_cap bytes */
};

/* The table grows by linear hashing: one bucket is split for each name that is added, so that no single
 * request pays for a rehash of everything. */
struct kv {
    struct kv_entry **buckets;
    size_t   n_buckets, n_alloc, level; /* level: the power of two with level <= n_buckets < 2 * level */
    uint64_t n_entries, n_keys, keys_size;
    uint64_t seed[2];
    struct kv_budget *budget;
    kv_wake_fn       *wake;
};

static uint8_t *inline_of(struct kv_entry *e)
{
    return e->bytes + e->key_len;
}

static bool is_inline(struct kv_entry *e)
{
    return e->value == inline_of(e);
}

static uint64_t entry_cost(const struct kv_entry *e)
{
    return sizeof *e + e->key_len + e->inline_cap + ALLOC_COST;
}

static uint32_t hash_of(const struct kv *kv, struct cc_bytes key)
{
    return (uint32_t) siphash13(kv->seed, key);
}

static struct kv_entry **bucket_of(const struct kv *kv, uint32_t hash)
{
    size_t i = hash & (2 * kv->level - 1);

    return &kv->buckets[i < kv->n_buckets ? i : i - kv->level];
}

static struct kv_entry *find(const struct kv *kv, struct cc_bytes key, uint32_t hash)
{
    struct kv_entry *e = *bucket_of(kv, hash);

    while (e && (e->hash != hash || e->key_len != key.n || memcmp(e->bytes, key.p, key.n) != 0))
        e = e->next;
    return e;
}

static struct kv_entry *lookup(const struct kv *kv, struct cc_bytes key)
{
    return find(kv, key, hash_of(kv, key));
}

static void split_one_bucket(struct kv *kv)
{
    struct kv_entry **from, **to, *e;

    if (kv->n_buckets == kv->n_alloc) {
        struct kv_entry **wider = reallocarray(kv->buckets, 2 * kv->n_alloc, sizeof *wider);

        if (!wider)
            return; /* longer chains, nothing worse */
        kv->buckets = wider;
        kv->n_alloc *= 2;
    }
    from = &kv->buckets[kv->n_buckets - kv->level];
    to = &kv->buckets[kv->n_buckets];
    *to = NULL;
    while ((e = *from) != NULL) {
        if (!(e->hash & kv->level)) {
            from = &e->next;
            continue;
        }
        *from = e->next;
        e->next = *to;
        *to = e;
    }
    if (++kv->n_buckets == 2 * kv->level)
        kv->level *= 2;
}

static void *charged_alloc(struct kv *kv, size_t n, uint64_t cost)
{
    void *p = NULL;

    if (!kv_charge(kv->budget, cost))
        return NULL;
    p = malloc(n);
    if (!p)
        kv_refund(kv->budget, cost);
    return p;
}

static struct kv_entry *add_entry(struct kv *kv, struct cc_bytes key, uint32_t hash, size_t value_len)
{
    size_t           cap = value_len > INLINE_MAX ? 0 : value_len > INLINE_MIN ? value_len : INLINE_MIN;
    uint64_t         cost = sizeof(struct kv_entry) + key.n + cap + ALLOC_COST;
    struct kv_entry *e = charged_alloc(kv, sizeof *e + key.n + cap, cost), **bucket;

    if (!e)
        return NULL;
    *e = (struct kv_entry){ .hash = hash, .key_len = (uint32_t) key.n, .inline_cap = (uint32_t) cap };
    e->value_cap = e->inline_cap;
    e->value = inline_of(e);
    if (key.n > 0)
        memcpy(e->bytes, key.p, key.n);
    if (++kv->n_entries > kv->n_buckets)
        split_one_bucket(kv);
    bucket = bucket_of(kv, hash);
    e->next = *bucket;
    *bucket = e;
    return e;
}

static struct kv_entry *find_or_add(struct kv *kv, struct cc_bytes key, size_t value_len)
{
    uint32_t         hash = hash_of(kv, key);
    struct kv_entry *e = find(kv, key, hash);

    return e ? e : add_entry(kv, key, hash, value_len);
}

static void give_back_value(struct kv *kv, struct kv_entry *e)
{
    if (is_inline(e))
        return;
    kv_refund(kv->budget, (uint64_t) e->value_cap + ALLOC_COST);
    free(e->value);
    e->value = inline_of(e);
    e->value_cap = e->inline_cap;
}

static void free_entry(struct kv *kv, struct kv_entry *e)
{
    give_back_value(kv, e);
    kv_refund(kv->budget, entry_cost(e));
    kv->n_entries--;
    free(e);
}

static void drop_if_idle(struct kv *kv, struct kv_entry *e)
{
    struct kv_entry **at;

    if (e->has_value || e->queue || e->first)
        return;
    for (at = bucket_of(kv, e->hash); *at != e; at = &(*at)->next)
        ;
    *at = e->next;
    free_entry(kv, e);
}

/* ---- values */

/* Room for n bytes; what was there is kept if is_kept, else lost. */
static int make_room(struct kv *kv, struct kv_entry *e, size_t n, size_t cap, bool is_kept)
{
    uint8_t *p;

    if (n <= e->value_cap && (is_kept || e->value_cap < SHRINK_FROM || n >= e->value_cap / 4))
        return 0;
    if (n <= e->inline_cap) {
        give_back_value(kv, e);
        return 0;
    }
    p = charged_alloc(kv, cap, cap + ALLOC_COST);
    if (!p)
        return n <= e->value_cap ? 0 : -ENOMEM;
    if (is_kept && e->value_len > 0)
        memcpy(p, e->value, e->value_len);
    give_back_value(kv, e);
    e->value = p;
    e->value_cap = (uint32_t) cap;
    return 0;
}

static void now_has_value(struct kv *kv, struct kv_entry *e)
{
    if (e->has_value)
        return;
    e->has_value = true;
    kv->n_keys++;
    kv->keys_size += e->key_len;
}

static int put_value(struct kv *kv, struct kv_entry *e, struct cc_bytes value)
{
    if (make_room(kv, e, value.n, value.n, false) < 0) {
        drop_if_idle(kv, e);
        return -ENOMEM;
    }
    if (value.n > 0)
        memcpy(e->value, value.p, value.n);
    e->value_len = (uint32_t) value.n;
    now_has_value(kv, e);
    return 0;
}

static struct cc_bytes value_of(const struct kv_entry *e)
{
    return (struct cc_bytes){ e->value, e->value_len };
}

/* ---- waiting */

static void unlink_one(struct kv_link *l)
{
    struct kv_entry *e = l->entry;

    assert(e);
    *(l->prev ? &l->prev->next : &e->first) = l->next;
    *(l->next ? &l->next->prev : &e->last) = l->prev;
    l->entry = NULL;
}

static void end_wait(struct kv *kv, struct kv_wait *w)
{
    if (w->links && w->links != &w->one) {
        kv_refund(kv->budget, w->n_links * sizeof *w->links);
        free(w->links);
    }
    w->links = NULL;
    w->n_missing = w->n_links = 0;
}

/* The key of this place has come. Was it the last that its owner waited for? */
static bool count_down(struct kv *kv, struct kv_link *l)
{
    struct kv_wait *w = l->wait;

    unlink_one(l);
    if (--w->n_missing > 0)
        return false;
    end_wait(kv, w);
    kv->wake(w);
    return true;
}

static void wake_all(struct kv *kv, struct kv_entry *e)
{
    while (e->first)
        (void) count_down(kv, e->first);
}

int kv_wait_begin(struct kv *kv, struct kv_wait *w, uint64_t n_missing)
{
    kv_wait_cancel(kv, w);
    assert(n_missing > 0);
    w->links = &w->one;
    if (n_missing > 1) {
        w->links = charged_alloc(kv, n_missing * sizeof *w->links, n_missing * sizeof *w->links);
        if (!w->links)
            return -ENOMEM;
        memset(w->links, 0, n_missing * sizeof *w->links);
    }
    w->n_links = n_missing;
    return 0;
}

static void link_to(struct kv_wait *w, struct kv_entry *e)
{
    struct kv_link *l = &w->links[w->n_missing++];

    assert(w->n_missing <= w->n_links);
    *l = (struct kv_link){ .prev = e->last, .entry = e, .wait = w };
    *(e->last ? &e->last->next : &e->first) = l;
    e->last = l;
}

int kv_wait_for(struct kv *kv, struct kv_wait *w, struct cc_bytes key)
{
    struct kv_entry *e = find_or_add(kv, key, 0);

    if (!e) {
        kv_wait_cancel(kv, w);
        return -ENOMEM;
    }
    link_to(w, e);
    return 0;
}

void kv_wait_cancel(struct kv *kv, struct kv_wait *w)
{
    for (uint64_t i = 0; i < w->n_links; i++) {
        struct kv_entry *e = w->links[i].entry;

        if (!e)
            continue;
        unlink_one(&w->links[i]);
        drop_if_idle(kv, e);
    }
    end_wait(kv, w);
}

/* ---- keys */

int kv_set(struct kv *kv, struct cc_bytes key, struct cc_bytes value)
{
    struct kv_entry *e = find_or_add(kv, key, value.n);

    if (!e || put_value(kv, e, value) < 0)
        return -ENOMEM;
    wake_all(kv, e);
    return 0;
}

bool kv_get(const struct kv *kv, struct cc_bytes key, struct cc_bytes *ret_value)
{
    const struct kv_entry *e = lookup(kv, key);

    if (!e || !e->has_value)
        return false;
    *ret_value = value_of(e);
    return true;
}

int kv_append(struct kv *kv, struct cc_bytes key, struct cc_bytes value)
{
    struct kv_entry *e = lookup(kv, key);
    size_t           n, cap;

    if (!e || !e->has_value)
        return kv_set(kv, key, value);
    n = e->value_len + value.n;
    if (n > KV_VALUE_MAX)
        return -EFBIG;
    cap = n + n / 2 < KV_VALUE_MAX ? n + n / 2 : KV_VALUE_MAX;
    if (make_room(kv, e, n, cap, true) < 0)
        return -ENOMEM;
    if (value.n > 0)
        memcpy(e->value + e->value_len, value.p, value.n);
    e->value_len = (uint32_t) n;
    wake_all(kv, e);
    return 0;
}

/* As strtoll() with base 10 would, on bytes without an end mark. */
static int read_number(struct cc_bytes s, int64_t *ret)
{
    const uint8_t *p = s.p, *end = s.p + s.n, *digits;
    bool           is_negative = false;
    int64_t        n = 0;

    while (p < end && (*p == ' ' || (*p >= '\t' && *p <= '\r')))
        p++;
    if (p < end && (*p == '+' || *p == '-'))
        is_negative = *p++ == '-';
    for (digits = p; p < end && *p >= '0' && *p <= '9'; p++) {
        int digit = *p - '0';

        if (__builtin_mul_overflow(n, 10, &n) || __builtin_sub_overflow(n, digit, &n))
            return -EINVAL;
    }
    if (p == digits || (!is_negative && n == INT64_MIN))
        return -EINVAL;
    *ret = is_negative ? n : -n; /* counted downwards: there is one more negative number than positive ones */
    return 0;
}

static struct cc_bytes write_number(int64_t n, uint8_t buf[INLINE_MIN])
{
    uint64_t rest = n < 0 ? 0 - (uint64_t) n : (uint64_t) n;
    size_t   at = INLINE_MIN;

    do {
        buf[--at] = (uint8_t) ('0' + rest % 10);
        rest /= 10;
    } while (rest > 0);
    if (n < 0)
        buf[--at] = '-';
    return (struct cc_bytes){ buf + at, INLINE_MIN - at };
}

/* The addition, waking nobody. *ret_e: the entry. */
static int add(struct kv *kv, struct cc_bytes key, int64_t delta, int64_t *ret_sum, struct kv_entry **ret_e)
{
    struct kv_entry *e = find_or_add(kv, key, INLINE_MIN);
    uint8_t          text[INLINE_MIN];
    int64_t          old = 0;

    if (!e)
        return -ENOMEM;
    if (e->has_value && read_number(value_of(e), &old) < 0)
        return -EINVAL;
    *ret_sum = (int64_t) ((uint64_t) old + (uint64_t) delta);
    *ret_e = e;
    return put_value(kv, e, write_number(*ret_sum, text));
}

int kv_add(struct kv *kv, struct cc_bytes key, int64_t delta, int64_t *ret_sum)
{
    struct kv_entry *e;
    int              r = add(kv, key, delta, ret_sum, &e);

    if (r == 0)
        wake_all(kv, e);
    return r;
}

int kv_compare_set(struct kv *kv, struct cc_bytes key, struct cc_bytes expected, struct cc_bytes desired,
                   struct cc_bytes *ret_value)
{
    struct cc_bytes there = { 0 };
    bool            has_value = kv_get(kv, key, &there);

    *ret_value = desired;
    if (there.n == expected.n && (there.n == 0 || memcmp(there.p, expected.p, there.n) == 0))
        return kv_set(kv, key, desired);
    *ret_value =
        has_value ? there : expected; /* a missing key: callers rely on getting their expectation back */
    return 0;
}

bool kv_delete(struct kv *kv, struct cc_bytes key)
{
    struct kv_entry *e = lookup(kv, key);

    if (!e || !e->has_value)
        return false;
    e->has_value = false;
    e->value_len = 0;
    kv->n_keys--;
    kv->keys_size -= e->key_len;
    give_back_value(kv, e);
    drop_if_idle(kv, e);
    return true;
}

bool kv_has(const struct kv *kv, struct cc_bytes key)
{
    const struct kv_entry *e = lookup(kv, key);

    return e && (e->has_value || e->queue);
}

uint64_t kv_count(const struct kv *kv)
{
    return kv->n_keys;
}

uint64_t kv_keys_size(const struct kv *kv)
{
    return kv->keys_size;
}

const struct kv_entry *kv_next(const struct kv *kv, const struct kv_entry *e, struct cc_bytes *ret_key)
{
    size_t i = e ? (size_t) (bucket_of(kv, e->hash) - kv->buckets) + 1 : 0;

    e = e ? e->next : NULL;
    for (;;) {
        for (; e; e = e->next) {
            if (!e->has_value)
                continue;
            *ret_key = (struct cc_bytes){ e->bytes, e->key_len };
            return e;
        }
        if (i == kv->n_buckets)
            return NULL;
        e = kv->buckets[i++];
    }
}

/* ---- queues */

static uint64_t item_cost(size_t n)
{
    return sizeof(struct kv_queue_item) + n + ALLOC_COST;
}

static struct kv_queue_item *new_item(struct kv *kv, struct cc_bytes value)
{
    struct kv_queue_item *item = charged_alloc(kv, sizeof *item + value.n, item_cost(value.n));

    if (!item)
        return NULL;
    item->next = NULL;
    item->n = value.n;
    if (value.n > 0)
        memcpy(item->bytes, value.p, value.n);
    return item;
}

static void free_item(struct kv *kv, struct kv_queue_item *item)
{
    kv_refund(kv->budget, item_cost(item->n));
    free(item);
}

static struct kv_queue *new_queue(struct kv *kv)
{
    struct kv_queue *q = charged_alloc(kv, sizeof *q, sizeof *q + ALLOC_COST);

    if (q)
        *q = (struct kv_queue){ 0 };
    return q;
}

static void free_queue(struct kv *kv, struct kv_queue *q)
{
    struct kv_queue_item *item;

    while ((item = q->first) != NULL) {
        q->first = item->next;
        free_item(kv, item);
    }
    kv_refund(kv->budget, sizeof *q + ALLOC_COST);
    free(q);
}

/* One who waits for other keys too is counted down and does not use the push up. */
static void wake_one(struct kv *kv, struct kv_entry *e)
{
    while (e->first && !count_down(kv, e->first))
        ;
}

int kv_queue_push(struct kv *kv, struct cc_bytes key, struct cc_bytes value)
{
    struct kv_entry      *e = find_or_add(kv, key, 0);
    struct kv_queue_item *item;

    if (!e)
        return -ENOMEM;
    item = new_item(kv, value);
    if (item && !e->queue)
        e->queue = new_queue(kv);
    if (!item || !e->queue) {
        if (item)
            free_item(kv, item);
        drop_if_idle(kv, e);
        return -ENOMEM;
    }
    *(e->queue->last ? &e->queue->last->next : &e->queue->first) = item;
    e->queue->last = item;
    e->queue->n++;
    wake_one(kv, e);
    return 0;
}

uint64_t kv_queue_len(const struct kv *kv, struct cc_bytes key)
{
    const struct kv_entry *e = lookup(kv, key);

    return e && e->queue ? e->queue->n : 0;
}

bool kv_queue_front(const struct kv *kv, struct cc_bytes key, struct cc_bytes *ret_value)
{
    const struct kv_entry *e = lookup(kv, key);

    if (!e || !e->queue)
        return false;
    *ret_value = (struct cc_bytes){ e->queue->first->bytes, e->queue->first->n };
    return true;
}

void kv_queue_drop(struct kv *kv, struct cc_bytes key)
{
    struct kv_entry      *e = lookup(kv, key);
    struct kv_queue_item *item;

    assert(e && e->queue);
    item = e->queue->first;
    e->queue->first = item->next;
    free_item(kv, item);
    if (--e->queue->n > 0)
        return;
    free_queue(kv, e->queue);
    e->queue = NULL;
    drop_if_idle(kv, e);
}

int kv_barrier(struct kv *kv, struct kv_wait *w, struct cc_bytes key, int64_t world_size)
{
    struct kv_entry *e;
    int64_t          n;
    int              r = add(kv, key, 1, &n, &e);

    if (r < 0)
        return r;
    if (n >= world_size) {
        wake_all(kv, e); /* the caller too, if it waits for this barrier already: then it gets two answers */
        kv_wait_cancel(kv, w);
        return 1;
    }
    r = kv_wait_begin(kv, w, 1);
    if (r == 0)
        link_to(w, e);
    return r;
}

/* ---- the whole */

struct kv *kv_new(const uint64_t seed[2], struct kv_budget *budget, kv_wake_fn *wake)
{
    struct kv *kv = calloc(1, sizeof *kv);

    if (!kv)
        return NULL;
    kv->n_buckets = kv->n_alloc = kv->level = FIRST_BUCKETS;
    kv->buckets = calloc(kv->n_alloc, sizeof(struct kv_entry *));
    kv->seed[0] = seed[0];
    kv->seed[1] = seed[1];
    kv->budget = budget;
    kv->wake = wake;
    return kv->buckets ? kv : kv_free(kv);
}

void kv_clear(struct kv *kv)
{
    for (size_t i = 0; i < kv->n_buckets; i++) {
        struct kv_entry *e = kv->buckets[i], *next;

        for (; e; e = next) {
            next = e->next;
            assert(!e->first);
            if (e->queue)
                free_queue(kv, e->queue);
            free_entry(kv, e);
        }
        kv->buckets[i] = NULL;
    }
    kv->n_keys = kv->keys_size = 0;
    kv->n_buckets = kv->level = FIRST_BUCKETS; /* a table that was wide keeps its memory for the next round */
}

struct kv *kv_free(struct kv *kv)
{
    if (!kv)
        return NULL;
    if (kv->buckets)
        kv_clear(kv);
    free(kv->buckets);
    free(kv);
    return NULL;
}
