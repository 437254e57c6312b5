/* ref.c - the reference: every collective by keys in the store, in the plainest way there is.
 *
 * Slow, and right: the other backends are checked against it.  It also tells when ranks call different
 * things. A rank posts what the others need under <number of the call>/<rank>/<part>, reads what it needs,
 * and waits until all have read before it deletes its keys.  Everything is reduced in the order of ranks.
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/backend.h"
#include "backends/calltext.h"
#include "backends/reduce.h"
#include "store/base/cleanup.h"
#include "store/base/clock.h"

enum { CHUNK = 1 << 20, KEY_MAX = 96, ALL = -1 };

/* How many messages went one way between this rank and another. */
struct lane {
    int      peer, tag;
    bool     is_out;
    uint64_t n;
};

struct ref {
    struct keystore *store, *messages; /* two connections: a wait holds one up */
    int              rank, size;
    uint64_t         seq;  /* of the collective that is under way */
    pthread_mutex_t  lock; /* of the lanes */
    struct lane     *lanes;
    size_t           n_lanes;
};

/* A RECV that was started. */
struct ref_recv {
    struct ccrun_call call;
    uint64_t          n; /* which message of its lane */
    uint64_t          deadline;
    bool              is_done; /* it was a SEND */
};

struct until {
    uint64_t deadline, timeout_ms;
};

static uint64_t left_of(const struct until *u)
{
    uint64_t now = cc_monotonic_ms();

    return u->deadline > now ? u->deadline - now : 0;
}

static struct until until_in(uint64_t timeout_ms)
{
    return (struct until){ cc_deadline_in(timeout_ms), timeout_ms };
}

static int late(int code, int peer, const struct until *u, struct cc_err *err)
{
    return code == -ETIMEDOUT
               ? cc_fail(err, code, "rank %d has not come within %.3g s", peer, (double) u->timeout_ms / 1000)
               : code;
}

/* ---- messages in pieces, under <name>/<piece> */

static size_t piece_size(size_t bytes, size_t i)
{
    return bytes - i * CHUNK < CHUNK ? bytes - i * CHUNK : CHUNK;
}

static size_t n_pieces(size_t bytes)
{
    return bytes / CHUNK + (bytes % CHUNK > 0);
}

static int post(struct keystore *s, const char *name, const void *data, size_t bytes, struct cc_err *err)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < n_pieces(bytes); i++) {
        char key[KEY_MAX + 24];

        (void) snprintf(key, sizeof key, "%s/%zu", name, i);
        r = keystore_set(s, key,
                         (struct cc_bytes){ (const uint8_t *) data + i * CHUNK, piece_size(bytes, i) }, err);
    }
    return r;
}

static int fetch_piece(struct keystore *s, const char *name, int peer, void *to, size_t bytes, size_t i,
                       const struct until *u, struct cc_err *err)
{
    char          key[KEY_MAX + 24];
    struct cc_buf v = { 0 };
    size_t        size = piece_size(bytes, i);
    int           r;

    (void) snprintf(key, sizeof key, "%s/%zu", name, i);
    r = late(keystore_get(s, key, left_of(u), &v, err), peer, u, err);
    if (r == 0 && cc_buf_len(&v) != size)
        r = cc_fail(err, -EPROTO, "rank %d sent %zu bytes where %zu are expected", peer, cc_buf_len(&v),
                    size);
    if (r == 0)
        memcpy(to, cc_buf_data(&v), size);
    cc_buf_free(&v);
    return r;
}

static int fetch(struct keystore *s, const char *name, int peer, void *to, size_t bytes,
                 const struct until *u, struct cc_err *err)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < n_pieces(bytes); i++)
        r = fetch_piece(s, name, peer, (char *) to + i * CHUNK, bytes, i, u, err);
    return r;
}

static void forget(struct keystore *s, const char *name, size_t bytes)
{
    for (size_t i = 0; i < n_pieces(bytes); i++) {
        char key[KEY_MAX + 24];

        (void) snprintf(key, sizeof key, "%s/%zu", name, i);
        (void) keystore_delete(s, key, NULL);
    }
}

/* ---- what all collectives share */

static const char *name_of(const struct ref *b, int from, int part, char buf[KEY_MAX])
{
    (void) snprintf(buf, KEY_MAX, "%" PRIu64 "/%d/%d", b->seq, from, part);
    return buf;
}

static int post_call(struct ref *b, const struct ccrun_call *call, struct cc_err *err)
{
    char key[KEY_MAX], text[CALLTEXT_MAX];

    (void) snprintf(key, sizeof key, "%" PRIu64 "/call/%d", b->seq, b->rank);
    return keystore_set(b->store, key, cc_bytes_of(calltext(call, text)), err);
}

/* Waits for a rank, and compares what it has called with what we have. */
static int check_call(struct ref *b, const struct ccrun_call *call, int peer, const struct until *u,
                      struct cc_err *err)
{
    char          key[KEY_MAX], text[CALLTEXT_MAX];
    struct cc_buf v = { 0 };
    int           r;

    (void) snprintf(key, sizeof key, "%" PRIu64 "/call/%d", b->seq, peer);
    r = late(keystore_get(b->store, key, left_of(u), &v, err), peer, u, err);
    (void) calltext(call, text);
    if (r == 0 && (cc_buf_len(&v) != strlen(text) || memcmp(cc_buf_data(&v), text, strlen(text)) != 0))
        r = cc_fail(err, -EPROTO, "rank %d has called %.*s instead", peer, (int) cc_buf_len(&v),
                    (const char *) cc_buf_data(&v));
    cc_buf_free(&v);
    return r;
}

/* Returns when every rank has come here: nobody needs what was posted for this call any more. */
static int leave(struct ref *b, const struct until *u, struct cc_err *err)
{
    char key[KEY_MAX];
    int  r;

    (void) snprintf(key, sizeof key, "%" PRIu64 "/left/%d", b->seq, b->rank);
    r = keystore_set(b->store, key, cc_bytes_of("1"), err);
    for (int i = 0; r == 0 && i < b->size; i++) {
        const char *one = key;

        (void) snprintf(key, sizeof key, "%" PRIu64 "/left/%d", b->seq, i);
        r = late(keystore_wait(b->store, &one, 1, left_of(u), err), i, u, err);
    }
    if (r < 0)
        return r;
    (void) snprintf(key, sizeof key, "%" PRIu64 "/call/%d", b->seq, b->rank);
    (void) keystore_delete(b->store, key, NULL);
    /* Whoever is here has left the one before. */
    (void) snprintf(key, sizeof key, "%" PRIu64 "/left/%d", b->seq - 1, b->rank);
    return keystore_delete(b->store, key, err);
}

/* Reduces part `part` of all ranks, which is `own` of this one, into `to`. */
static int reduce_part(struct ref *b, const struct ccrun_call *call, int part, const void *own, void *to,
                       const struct until *u, struct cc_err *err)
{
    size_t             width = type_size(call->type), bytes = call->count * width;
    reduce_fn         *reduce = reduce_of(call->op, call->type);
    CC_AUTO_FREE char *sum = malloc(CHUNK), *next = malloc(CHUNK);
    char               name[KEY_MAX];
    int                r = 0;

    if (!sum || !next)
        return cc_fail(err, -ENOMEM, "no memory to reduce in");
    for (size_t i = 0; r == 0 && i < n_pieces(bytes); i++) {
        size_t size = piece_size(bytes, i);

        for (int from = 0; r == 0 && from < b->size; from++) {
            char *at = from == 0 ? sum : next;

            if (from == b->rank)
                memcpy(at, (const char *) own + i * CHUNK, size);
            else
                r = fetch_piece(b->store, name_of(b, from, part, name), from, at, bytes, i, u, err);
            if (r == 0 && from > 0)
                reduce(sum, sum, next, size / width);
        }
        if (r == 0) {
            reduce_finish(call->op, call->type, sum, size / width, b->size);
            memcpy((char *) to + i * CHUNK, sum, size);
        }
    }
    return r;
}

/* ---- the collectives: who posts what, and who reads what */

static const void *part_of(const struct ccrun_call *call, int part, size_t bytes)
{
    return (const char *) call->send + (size_t) part * bytes;
}

static int post_parts(struct ref *b, const struct ccrun_call *call, size_t bytes, struct cc_err *err)
{
    char name[KEY_MAX];
    int  r = 0;

    for (int i = 0; r == 0 && i < b->size; i++)
        if (i != b->rank)
            r = post(b->store, name_of(b, b->rank, i, name), part_of(call, i, bytes), bytes, err);
    return r;
}

static int post_own(struct ref *b, const struct ccrun_call *call, size_t bytes, struct cc_err *err)
{
    char name[KEY_MAX];
    bool is_root = call->peer == b->rank;

    switch (call->what) {
    case CCRUN_ALL_REDUCE:
    case CCRUN_ALL_GATHER: return post(b->store, name_of(b, b->rank, ALL, name), call->send, bytes, err);
    case CCRUN_REDUCE:
    case CCRUN_GATHER:
        return is_root ? 0 : post(b->store, name_of(b, b->rank, ALL, name), call->send, bytes, err);
    case CCRUN_BROADCAST:
        return is_root ? post(b->store, name_of(b, b->rank, ALL, name), call->recv, bytes, err) : 0;
    case CCRUN_SCATTER: return is_root ? post_parts(b, call, bytes, err) : 0;
    case CCRUN_REDUCE_SCATTER:
    case CCRUN_ALL_TO_ALL: return post_parts(b, call, bytes, err);
    case CCRUN_BARRIER:
    case CCRUN_SEND:
    case CCRUN_RECV:
    default: return 0;
    }
}

/* recv[i] is part `part` of rank i; our own one is `own`. */
static int collect(struct ref *b, const struct ccrun_call *call, int part, const void *own, size_t bytes,
                   const struct until *u, struct cc_err *err)
{
    char name[KEY_MAX];
    int  r = 0;

    for (int i = 0; r == 0 && i < b->size; i++) {
        char *to = (char *) call->recv + (size_t) i * bytes;

        if (i != b->rank)
            r = fetch(b->store, name_of(b, i, part, name), i, to, bytes, u, err);
        else if (bytes > 0)
            memmove(to, own, bytes);
    }
    return r;
}

static int read_others(struct ref *b, const struct ccrun_call *call, size_t bytes, const struct until *u,
                       struct cc_err *err)
{
    char name[KEY_MAX];
    bool is_root = call->peer == b->rank;

    switch (call->what) {
    case CCRUN_ALL_REDUCE: return reduce_part(b, call, ALL, call->send, call->recv, u, err);
    case CCRUN_REDUCE: return is_root ? reduce_part(b, call, ALL, call->send, call->recv, u, err) : 0;
    case CCRUN_REDUCE_SCATTER:
        return reduce_part(b, call, b->rank, part_of(call, b->rank, bytes), call->recv, u, err);
    case CCRUN_ALL_GATHER: return collect(b, call, ALL, call->send, bytes, u, err);
    case CCRUN_GATHER: return is_root ? collect(b, call, ALL, call->send, bytes, u, err) : 0;
    case CCRUN_ALL_TO_ALL: return collect(b, call, b->rank, part_of(call, b->rank, bytes), bytes, u, err);
    case CCRUN_BROADCAST:
        return is_root ? 0
                       : fetch(b->store, name_of(b, call->peer, ALL, name), call->peer, call->recv, bytes, u,
                               err);
    case CCRUN_SCATTER:
        if (!is_root)
            return fetch(b->store, name_of(b, call->peer, b->rank, name), call->peer, call->recv, bytes, u,
                         err);
        if (bytes > 0)
            memmove(call->recv, part_of(call, b->rank, bytes), bytes);
        return 0;
    case CCRUN_BARRIER:
    case CCRUN_SEND:
    case CCRUN_RECV:
    default: return 0;
    }
}

static int run_collective(struct ref *b, const struct ccrun_call *call, const struct until *u,
                          struct cc_err *err)
{
    size_t bytes = call->count * type_size(call->type);
    char   name[KEY_MAX];
    int    r;

    b->seq++;
    r = post_call(b, call, err);
    if (r == 0)
        r = post_own(b, call, bytes, err);
    for (int i = 0; r == 0 && i < b->size; i++)
        r = check_call(b, call, i, u, err);
    if (r == 0)
        r = read_others(b, call, bytes, u, err);
    if (r == 0)
        r = leave(b, u, err);
    for (int i = ALL; r == 0 && i < b->size; i++)
        if (call->what != CCRUN_BARRIER && i != b->rank)
            forget(b->store, name_of(b, b->rank, i, name), bytes);
    return r;
}

/* ---- one to one */

static int count_in_lane(struct ref *b, int peer, int tag, bool is_out, uint64_t *ret, struct cc_err *err)
{
    struct lane *more;

    for (size_t i = 0; i < b->n_lanes; i++) {
        struct lane *l = &b->lanes[i];

        if (l->peer == peer && l->tag == tag && l->is_out == is_out) {
            *ret = l->n++;
            return 0;
        }
    }
    more = realloc(b->lanes, (b->n_lanes + 1) * sizeof *more);
    if (!more)
        return cc_fail(err, -ENOMEM, "no memory for a message");
    more[b->n_lanes++] = (struct lane){ .peer = peer, .tag = tag, .is_out = is_out, .n = 1 };
    b->lanes = more;
    *ret = 0;
    return 0;
}

/* The number of the next message; -ENOMEM. */
static int next_in_lane(struct ref *b, int peer, int tag, bool is_out, uint64_t *ret, struct cc_err *err)
{
    int r;

    (void) pthread_mutex_lock(&b->lock);
    r = count_in_lane(b, peer, tag, is_out, ret, err);
    (void) pthread_mutex_unlock(&b->lock);
    return r;
}

static const char *message_name(int from, int to, int tag, uint64_t n, char buf[KEY_MAX])
{
    (void) snprintf(buf, KEY_MAX, "p/%d/%d/%d/%" PRIu64, from, to, tag, n);
    return buf;
}

static int send_one(struct ref *b, const struct ccrun_call *call, struct cc_err *err)
{
    char     name[KEY_MAX];
    uint64_t n = 0;
    int      r = next_in_lane(b, call->peer, call->tag, true, &n, err);

    return r < 0 ? r
                 : post(b->messages, message_name(b->rank, call->peer, call->tag, n, name), call->send,
                        call->count * type_size(call->type), err);
}

static int receive_one(struct ref *b, const struct ccrun_call *call, uint64_t n, const struct until *u,
                       struct cc_err *err)
{
    char   name[KEY_MAX];
    size_t bytes = call->count * type_size(call->type);
    int    r;

    (void) message_name(call->peer, b->rank, call->tag, n, name);
    r = fetch(b->messages, name, call->peer, call->recv, bytes, u, err);
    if (r == 0)
        forget(b->messages, name, bytes);
    return r;
}

static int ref_run(void *ctx, const struct ccrun_call *call, uint64_t timeout_ms, struct cc_err *err)
{
    struct ref  *b = ctx;
    struct until u = until_in(timeout_ms);
    uint64_t     n;
    int          r;

    if (call->what == CCRUN_SEND)
        return send_one(b, call, err);
    if (call->what != CCRUN_RECV)
        return run_collective(b, call, &u, err);
    r = next_in_lane(b, call->peer, call->tag, false, &n, err);
    return r < 0 ? r : receive_one(b, call, n, &u, err);
}

/* A SEND is done at once; a RECV takes its place in the lane and is looked for later. */
static int ref_start(void *ctx, const struct ccrun_call *call, uint64_t timeout_ms, void **ret_handle,
                     struct cc_err *err)
{
    struct ref      *b = ctx;
    struct ref_recv *h;
    int              r;

    if (call->what != CCRUN_SEND && call->what != CCRUN_RECV)
        return -ENOSYS;
    h = calloc(1, sizeof *h);
    if (!h)
        return cc_fail(err, -ENOMEM, "no memory for a request");
    h->call = *call;
    h->call.timeout_ms = timeout_ms;
    h->deadline = until_in(timeout_ms).deadline;
    h->is_done = call->what == CCRUN_SEND;
    r = h->is_done ? send_one(b, call, err) : next_in_lane(b, call->peer, call->tag, false, &h->n, err);
    if (r < 0)
        free(h);
    else
        *ret_handle = h;
    return r;
}

static int ref_poll(void *ctx, void *handle, uint64_t wait_ms, struct cc_err *err)
{
    struct ref      *b = ctx;
    struct ref_recv *h = handle;
    struct until     all = { h->deadline, h->call.timeout_ms };
    char             name[KEY_MAX], key[KEY_MAX + 24];
    const char      *one = key;
    uint64_t         left = left_of(&all);
    int              r = 0;

    if (!h->is_done && h->call.count > 0) {
        (void) snprintf(key, sizeof key, "%s/0",
                        message_name(h->call.peer, b->rank, h->call.tag, h->n, name));
        r = keystore_wait(b->messages, &one, 1, wait_ms < left ? wait_ms : left, err);
        if (r == -ETIMEDOUT && left > wait_ms)
            return -EAGAIN;
        r = late(r, h->call.peer, &all, err);
        if (r == 0)
            r = receive_one(b, &h->call, h->n, &all, err);
    }
    free(h);
    return r;
}

/* ---- the life of it */

static void ref_close(void *ctx)
{
    struct ref *b = ctx;

    (void) keystore_free(b->messages);
    (void) keystore_free(b->store);
    (void) pthread_mutex_destroy(&b->lock);
    free(b->lanes);
    free(b);
}

static void ref_abort(void *ctx)
{
    struct ref *b = ctx;

    keystore_interrupt(b->store);
    keystore_interrupt(b->messages);
}

static int ref_open(void **ret, struct backend_cfg *cfg, struct cc_err *err)
{
    struct ref *b = calloc(1, sizeof *b);
    int         r;

    if (!b)
        return cc_fail(err, -ENOMEM, "no memory");
    b->rank = cfg->rank;
    b->size = cfg->size;
    (void) pthread_mutex_init(&b->lock, NULL);
    r = keystore_clone(&b->store, cfg->store, "ref/", err);
    if (r == 0)
        r = keystore_clone(&b->messages, cfg->store, "ref/", err);
    if (r < 0)
        ref_close(b);
    else
        *ret = b;
    return r;
}

const struct backend backend_ref = {
    .name = "ref",
    .needs_store = true,
    .starts_beside = true,
    .open = ref_open,
    .run = ref_run,
    .start = ref_start,
    .poll = ref_poll,
    .abort = ref_abort,
    .close = ref_close,
};
