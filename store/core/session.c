#include "store/core/session.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "store/base/macros.h"

static const char *const op_names[WIRE_N_OPS] = {
    "VALIDATE",   "SET",        "COMPARE_SET", "GET",       "ADD",       "CHECK",       "WAIT",
    "GETNUMKEYS", "DELETE_KEY", "APPEND",      "MULTI_GET", "MULTI_SET", "CANCEL_WAIT", "PING",
    "QUEUE_PUSH", "QUEUE_POP",  "QUEUE_LEN",   "LIST_KEYS", "BARRIER",
};

static int fail(struct session *s, enum wire_op op, int code, uint64_t n, struct cc_err *err)
{
    const struct kv_budget *b = &s->space->budget;

    switch (code) {
    case -EINVAL: return cc_fail(err, code, "%s of a value that is not a 64-bit number", op_names[op]);
    case -EFBIG:
        return cc_fail(err, code, "%s would make a value longer than the limit of %llu bytes", op_names[op],
                       (unsigned long long) KV_VALUE_MAX);
    default:
        return cc_fail(
            err, -ENOMEM, "%s of %llu bytes finds no room: %llu of at most %llu bytes of memory are in use",
            op_names[op], (unsigned long long) n, (unsigned long long) b->used, (unsigned long long) b->max);
    }
}

/* Room for n bytes of answer. */
static uint8_t *room(struct session *s, size_t n)
{
    uint8_t *at;

    if (!kv_charge(&s->space->budget, n))
        return NULL;
    at = cc_buf_grow(&s->out, n);
    if (!at)
        kv_refund(&s->space->budget, n);
    return at;
}

static int answer_byte(struct session *s, const struct wire_req *r, uint8_t byte, struct cc_err *err)
{
    uint8_t *at = room(s, 1);

    if (!at)
        return fail(s, r->op, -ENOMEM, 1, err);
    *at = byte;
    return 0;
}

static int answer_number(struct session *s, const struct wire_req *r, uint64_t n, struct cc_err *err)
{
    uint8_t *at = room(s, 8);

    if (!at)
        return fail(s, r->op, -ENOMEM, 8, err);
    (void) wire_put64(at, n);
    return 0;
}

static int answer_bytes(struct session *s, const struct wire_req *r, struct cc_bytes value,
                        struct cc_err *err)
{
    uint8_t *at = room(s, 8 + value.n);

    if (!at)
        return fail(s, r->op, -ENOMEM, 8 + value.n, err);
    (void) wire_put_bytes(at, value);
    return 0;
}

static int do_nothing(struct session *s, struct wire_req *r, struct cc_err *err)
{
    (void) s, (void) r, (void) err;
    return 0;
}

static int do_set(struct session *s, struct wire_req *r, struct cc_err *err)
{
    int code = kv_set(s->space->kv, r->key, r->value);

    return code < 0 ? fail(s, r->op, code, r->value.n, err) : 0;
}

static int do_append(struct session *s, struct wire_req *r, struct cc_err *err)
{
    int code = kv_append(s->space->kv, r->key, r->value);

    return code < 0 ? fail(s, r->op, code, r->value.n, err) : 0;
}

static int do_compare_set(struct session *s, struct wire_req *r, struct cc_err *err)
{
    struct cc_bytes value;
    int             code = kv_compare_set(s->space->kv, r->key, r->value, r->desired, &value);

    return code < 0 ? fail(s, r->op, code, r->desired.n, err) : answer_bytes(s, r, value, err);
}

static int do_get(struct session *s, struct wire_req *r, struct cc_err *err)
{
    struct cc_bytes value = { 0 };

    (void) kv_get(s->space->kv, r->key, &value);
    return answer_bytes(s, r, value, err);
}

static int do_add(struct session *s, struct wire_req *r, struct cc_err *err)
{
    int64_t sum;
    int     code = kv_add(s->space->kv, r->key, r->number, &sum);

    return code < 0 ? fail(s, r->op, code, r->key.n, err) : answer_number(s, r, (uint64_t) sum, err);
}

static uint64_t count_missing(const struct session *s, struct wire_list l)
{
    uint64_t n = 0;

    while (l.n > 0)
        n += !kv_has(s->space->kv, wire_next(&l));
    return n;
}

static int do_check(struct session *s, struct wire_req *r, struct cc_err *err)
{
    bool is_there = true;

    while (is_there && r->list.n > 0)
        is_there = kv_has(s->space->kv, wire_next(&r->list));
    return answer_byte(s, r, !is_there, err);
}

static int do_wait(struct session *s, struct wire_req *r, struct cc_err *err)
{
    uint64_t n_missing = count_missing(s, r->list);
    int      code;

    kv_wait_cancel(s->space->kv, &s->wait);
    if (n_missing == 0)
        return answer_byte(s, r, WIRE_STOP_WAITING, err);
    code = kv_wait_begin(s->space->kv, &s->wait, n_missing);
    while (code == 0 && r->list.n > 0) {
        struct cc_bytes key = wire_next(&r->list);

        if (!kv_has(s->space->kv, key))
            code = kv_wait_for(s->space->kv, &s->wait, key);
    }
    return code < 0 ? fail(s, r->op, code, n_missing * sizeof(struct kv_link), err) : 0;
}

static int do_count(struct session *s, struct wire_req *r, struct cc_err *err)
{
    return answer_number(s, r, kv_count(s->space->kv), err);
}

static int do_delete(struct session *s, struct wire_req *r, struct cc_err *err)
{
    return answer_number(s, r, kv_delete(s->space->kv, r->key), err);
}

static int do_multi_get(struct session *s, struct wire_req *r, struct cc_err *err)
{
    struct wire_list l = r->list;
    struct cc_bytes  value;
    uint64_t         size = 8 * l.n;
    uint8_t         *at;

    if (l.n == 0)
        return 0;
    while (l.n > 0)
        size += kv_get(s->space->kv, wire_next(&l), &value) ? value.n : 0;
    at = size <= WIRE_MESSAGE_MAX ? room(s, (size_t) size) : NULL;
    if (!at)
        return fail(s, r->op, -ENOMEM, size, err);
    for (l = r->list; l.n > 0;) {
        value = (struct cc_bytes){ 0 };
        (void) kv_get(s->space->kv, wire_next(&l), &value);
        at = wire_put_bytes(at, value);
    }
    return 0;
}

static int do_multi_set(struct session *s, struct wire_req *r, struct cc_err *err)
{
    while (r->list.n > 0) {
        struct cc_bytes key = wire_next(&r->list), value = wire_next(&r->list);
        int             code = kv_set(s->space->kv, key, value);

        if (code < 0)
            return fail(s, r->op, code, value.n, err);
    }
    return 0;
}

static int do_cancel(struct session *s, struct wire_req *r, struct cc_err *err)
{
    kv_wait_cancel(s->space->kv, &s->wait);
    return answer_byte(s, r, WIRE_WAIT_CANCELED, err);
}

static int do_ping(struct session *s, struct wire_req *r, struct cc_err *err)
{
    uint8_t *at = room(s, 4);

    if (!at)
        return fail(s, r->op, -ENOMEM, 4, err);
    (void) wire_put32(at, (uint32_t) r->number);
    return 0;
}

static int do_queue_push(struct session *s, struct wire_req *r, struct cc_err *err)
{
    int code = kv_queue_push(s->space->kv, r->key, r->value);

    return code < 0 ? fail(s, r->op, code, r->value.n, err) : 0;
}

static int do_queue_pop(struct session *s, struct wire_req *r, struct cc_err *err)
{
    struct cc_bytes value;
    int             code;

    code = answer_number(s, r, kv_queue_len(s->space->kv, r->key), err);
    if (code < 0 || !kv_queue_front(s->space->kv, r->key, &value))
        return code;
    code = answer_bytes(s, r, value, err);
    if (code == 0)
        kv_queue_drop(s->space->kv, r->key);
    return code;
}

static int do_queue_len(struct session *s, struct wire_req *r, struct cc_err *err)
{
    return answer_number(s, r, kv_queue_len(s->space->kv, r->key), err);
}

static int do_list_keys(struct session *s, struct wire_req *r, struct cc_err *err)
{
    const struct kv       *kv = s->space->kv;
    uint64_t               size = 8 + 8 * kv_count(kv) + kv_keys_size(kv);
    uint8_t               *at = size <= WIRE_MESSAGE_MAX ? room(s, (size_t) size) : NULL;
    const struct kv_entry *e = NULL;
    struct cc_bytes        key;

    if (!at)
        return fail(s, r->op, -ENOMEM, size, err);
    at = wire_put64(at, kv_count(kv));
    while ((e = kv_next(kv, e, &key)) != NULL)
        at = wire_put_bytes(at, key);
    return 0;
}

static int do_barrier(struct session *s, struct wire_req *r, struct cc_err *err)
{
    int code = kv_barrier(s->space->kv, &s->wait, r->key, r->number);

    if (code < 0)
        return fail(s, r->op, code, r->key.n, err);
    return code > 0 ? answer_byte(s, r, WIRE_STOP_WAITING, err) : 0;
}

static int (*const run_op[WIRE_N_OPS])(struct session *s, struct wire_req *r, struct cc_err *err) = {
    [WIRE_VALIDATE] = do_nothing,
    [WIRE_SET] = do_set,
    [WIRE_COMPARE_SET] = do_compare_set,
    [WIRE_GET] = do_get,
    [WIRE_ADD] = do_add,
    [WIRE_CHECK] = do_check,
    [WIRE_WAIT] = do_wait,
    [WIRE_GETNUMKEYS] = do_count,
    [WIRE_DELETE_KEY] = do_delete,
    [WIRE_APPEND] = do_append,
    [WIRE_MULTI_GET] = do_multi_get,
    [WIRE_MULTI_SET] = do_multi_set,
    [WIRE_CANCEL_WAIT] = do_cancel,
    [WIRE_PING] = do_ping,
    [WIRE_QUEUE_PUSH] = do_queue_push,
    [WIRE_QUEUE_POP] = do_queue_pop,
    [WIRE_QUEUE_LEN] = do_queue_len,
    [WIRE_LIST_KEYS] = do_list_keys,
    [WIRE_BARRIER] = do_barrier,
};

static void on_wake(struct kv_wait *w)
{
    struct session *s = CC_CONTAINER_OF(w, struct session, wait);
    uint8_t        *at = room(s, 1);

    if (at)
        *at = WIRE_STOP_WAITING;
    else
        s->is_broken = true;
    s->space->on_woken(s);
}

static bool contains(struct cc_bytes where, const char *what)
{
    return where.n > 0 && memmem(where.p, where.n, what, strlen(what));
}

/* Whether this client may ask that.  An agent of torchrun shows within its first requests by what keys it meets others, with
 * the backends c10d and static. */
static int admit(struct session *s, const struct wire_req *r, struct cc_err *err)
{
    enum { LOOKED_AT = 8 };

    if (s->space->is_of_job && s->n_known < LOOKED_AT) {
        s->n_known++;
        if (contains(r->key, "torch.rendezvous.") || contains(r->key, "torchelastic/role_info/"))
            return cc_fail(err, -EPROTO, "it is an agent of torchrun, and this is a job of ccrun: start ccrun on all its nodes");
    }
    if (s->space->is_shut && r->op != WIRE_VALIDATE && r->op != WIRE_PING)
        return cc_fail(err, -EPROTO, "it speaks as a worker or an agent of torchrun does, and this job has no workers yet: start "
                                     "ccrun on all its nodes");
    return 0;
}

/* Runs the requests that are there in full, until a pause. How many bytes that were, or a negative code. */
static ssize_t run(struct session *s, const uint8_t *p, size_t n, bool is_all, struct cc_err *err)
{
    struct wire_req r = { 0 };
    size_t          done = 0;
    ssize_t         k;
    int             code;

    while (done < n && !s->is_paused) {
        k = wire_request(&s->in, p + done, n - done, is_all, &r, err);
        if (k == 0)
            break;
        code = k < 0 ? (int) k : admit(s, &r, err);
        if (code == 0)
            code = run_op[r.op](s, &r, err);
        if (code < 0)
            return code;
        done += (size_t) k;
        s->is_paused = cc_buf_len(&s->out) >= SESSION_OUT_HIGH;
    }
    return (ssize_t) done;
}

static int keep(struct session *s, const uint8_t *p, size_t n, struct cc_err *err)
{
    const struct kv_budget *b = &s->space->budget;

    if (n == 0)
        return 0;
    if (!kv_charge(&s->space->budget, n))
        return cc_fail(
            err, -ENOMEM,
            "a request of %zu bytes finds no room: %llu of at most %llu bytes of memory are in use",
            s->in.field && s->in.need > n ? s->in.need : n, (unsigned long long) b->used,
            (unsigned long long) b->max);
    if (cc_buf_add(&s->rest, p, n) < 0) {
        kv_refund(&s->space->budget, n);
        return cc_fail(err, -ENOMEM, "no memory for a request of %zu bytes", n);
    }
    return 0;
}

static int run_rest(struct session *s, bool is_all, struct cc_err *err)
{
    ssize_t k = run(s, cc_buf_data(&s->rest), cc_buf_len(&s->rest), is_all, err);

    if (k < 0)
        return (int) k;
    cc_buf_drop(&s->rest, (size_t) k);
    kv_refund(&s->space->budget, (uint64_t) k);
    if (cc_buf_len(&s->rest) == 0)
        cc_buf_free(&s->rest);
    return 0;
}

/* Completes the request that is half there with no more than it needs, so that what comes behind it is run
 * where it lies. How many bytes were taken. */
static ssize_t complete_rest(struct session *s, const uint8_t *p, size_t n, bool is_all, struct cc_err *err)
{
    size_t taken = 0;
    int    code;

    while (taken < n && cc_buf_len(&s->rest) > 0 && !s->is_paused) {
        size_t want = s->in.need - cc_buf_len(&s->rest);

        if (want > n - taken)
            want = n - taken;
        code = keep(s, p + taken, want, err);
        taken += want;
        if (code == 0)
            code = run_rest(s, is_all && taken == n, err);
        if (code < 0)
            return code;
    }
    return (ssize_t) taken;
}

int session_input(struct session *s, const uint8_t *p, size_t n, bool is_all, struct cc_err *err)
{
    ssize_t k = complete_rest(s, p, n, is_all, err);

    if (k < 0)
        return (int) k;
    p += k;
    n -= (size_t) k;
    if (cc_buf_len(&s->rest) == 0) {
        k = run(s, p, n, is_all, err);
        if (k < 0)
            return (int) k;
        p += k;
        n -= (size_t) k;
    }
    return keep(s, p, n, err);
}

int session_resume(struct session *s, struct cc_err *err)
{
    s->is_paused = false;
    return cc_buf_len(&s->rest) > 0 ? run_rest(s, true, err) : 0;
}

void session_sent(struct session *s, size_t n)
{
    kv_refund(&s->space->budget, n);
    cc_buf_drop(&s->out, n);
    if (cc_buf_len(&s->out) == 0)
        cc_buf_free(&s->out);
}

void session_init(struct session *s, struct session_space *space)
{
    *s = (struct session){ .space = space };
}

void session_end(struct session *s)
{
    kv_wait_cancel(s->space->kv, &s->wait);
    kv_refund(&s->space->budget, cc_buf_len(&s->out) + cc_buf_len(&s->rest));
    cc_buf_free(&s->out);
    cc_buf_free(&s->rest);
}

int session_space_init(struct session_space *ret, const uint64_t seed[2], uint64_t max_memory,
                       void (*on_woken)(struct session *s))
{
    *ret = (struct session_space){ .budget.max = max_memory, .on_woken = on_woken };
    ret->kv = kv_new(seed, &ret->budget, on_wake);
    return ret->kv ? 0 : -ENOMEM;
}

void session_space_clear(struct session_space *space)
{
    kv_clear(space->kv);
    assert(space->budget.used == 0);
}

void session_space_free(struct session_space *space)
{
    space->kv = kv_free(space->kv);
}
