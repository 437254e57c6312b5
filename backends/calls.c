/* calls.c - calls on a process group: checked, one at a time, and their failures told in whole sentences. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/calltext.h"
#include "backends/pg.h"
#include "backends/reduce.h"

enum { TAG_MAX = 32767, TEST_MS = 0, POLL_MS = 1000 };

/* What a kind of call has. */
static const struct kind {
    bool has_send, has_recv, has_op, has_root, has_peer;
    bool is_send_whole, is_recv_whole; /* count elements for each rank, not count in all */
} kinds[] = {
    [CCRUN_ALL_REDUCE] = { .has_send = true, .has_recv = true, .has_op = true },
    [CCRUN_REDUCE] = { .has_send = true, .has_recv = true, .has_op = true, .has_root = true },
    [CCRUN_BROADCAST] = { .has_recv = true, .has_root = true },
    [CCRUN_ALL_GATHER] = { .has_send = true, .has_recv = true, .is_recv_whole = true },
    [CCRUN_GATHER] = { .has_send = true, .has_recv = true, .has_root = true, .is_recv_whole = true },
    [CCRUN_SCATTER] = { .has_send = true, .has_recv = true, .has_root = true, .is_send_whole = true },
    [CCRUN_REDUCE_SCATTER] = { .has_send = true, .has_recv = true, .has_op = true, .is_send_whole = true },
    [CCRUN_ALL_TO_ALL] = { .has_send = true, .has_recv = true, .is_send_whole = true, .is_recv_whole = true },
    [CCRUN_BARRIER] = { 0 },
    [CCRUN_SEND] = { .has_send = true, .has_peer = true },
    [CCRUN_RECV] = { .has_recv = true, .has_peer = true },
};

/* ---- what can be said about a call before it is made */

static int check_buffers(const struct ccrun_pg *pg, const struct ccrun_call *c, const struct kind *k,
                         struct cc_err *err)
{
    const char *name = calltext_name(c->what);
    bool        is_root = c->peer == pg->rank;
    bool        needs_send = k->has_send && (c->what != CCRUN_SCATTER || is_root);
    bool        needs_recv = k->has_recv && ((c->what != CCRUN_REDUCE && c->what != CCRUN_GATHER) || is_root);
    size_t      width = type_size(c->type);
    size_t      parts = k->is_send_whole || k->is_recv_whole ? (size_t) pg->size : 1;

    if (c->count > (size_t) PTRDIFF_MAX / width / parts)
        return cc_fail(err, -EINVAL, "%s of %zu %s%s: no memory is that large", name, c->count,
                       type_name(c->type), parts > 1 ? " for each rank" : "");
    if (c->count > 0 && ((needs_send && !c->send) || (needs_recv && !c->recv)))
        return cc_fail(err, -EINVAL, "%s of %zu %s: the %s buffer is NULL", name, c->count,
                       type_name(c->type), needs_send && !c->send ? "send" : "receive");
    if (c->what == CCRUN_ALL_TO_ALL && c->count > 0 && c->send == c->recv)
        return cc_fail(err, -EINVAL, "%s cannot receive into the buffer that it sends", name);
    return 0;
}

static int check_call(const struct ccrun_pg *pg, const struct ccrun_call *c, struct cc_err *err)
{
    const char        *name = calltext_name(c->what);
    const struct kind *k;

    if (!name)
        return cc_fail(err, -EINVAL, "%d is no kind of call", (int) c->what);
    k = &kinds[c->what];
    if ((k->has_send || k->has_recv) && !type_name(c->type))
        return cc_fail(err, -EINVAL, "%s: %d is no type of element", name, (int) c->type);
    if (k->has_op && !op_name(c->op))
        return cc_fail(err, -EINVAL, "%s: %d is no operation", name, (int) c->op);
    if ((k->has_root || k->has_peer) && (c->peer < 0 || c->peer >= pg->size))
        return cc_fail(err, -EINVAL, "%s: rank %d is not in a group of size %d", name, c->peer, pg->size);
    if (k->has_peer && c->peer == pg->rank)
        return cc_fail(err, -EINVAL, "%s: rank %d is this rank", name, c->peer);
    if (k->has_peer && (c->tag < 0 || c->tag > TAG_MAX))
        return cc_fail(err, -EINVAL, "%s: tag %d is not from 0 to %d", name, c->tag, TAG_MAX);
    if (pg_check_owner(pg, err) < 0)
        return err->code;
    return k->has_send || k->has_recv ? check_buffers(pg, c, k, err) : 0;
}

static bool is_nothing(const struct ccrun_call *c)
{
    return c->count == 0 && c->what != CCRUN_BARRIER;
}

/* ---- making it */

static uint64_t timeout_of(const struct ccrun_pg *pg, const struct ccrun_call *c)
{
    return c->timeout_ms > 0 ? c->timeout_ms : pg->timeout_ms;
}

/* A group that failed or was aborted makes no calls any more. */
static int check_state(struct ccrun_pg *pg, const struct ccrun_call *c, struct cc_err *err)
{
    char text[CALLTEXT_MAX];
    int  r = 0;

    if (atomic_load(&pg->is_aborted))
        return cc_fail(err, -ECANCELED, "%s: rank %d of %d, %s: the group was aborted", pg->backend->name,
                       pg->rank, pg->size, calltext(c, text));
    (void) pthread_mutex_lock(&pg->lock);
    if (pg->failed.code < 0)
        r = cc_fail(err, -ESHUTDOWN, "the group failed earlier: %s", pg->failed.msg);
    (void) pthread_mutex_unlock(&pg->lock);
    return r;
}

static bool is_harmless(int code)
{
    return code >= 0 || code == -EINVAL || code == -ENOTSUP;
}

/* Puts who and what in front of a backend's sentence, and ends the group if something may have been sent. */
static int conclude(struct ccrun_pg *pg, const struct ccrun_call *c, int code, struct cc_err *err)
{
    char text[CALLTEXT_MAX];

    if (code >= 0)
        return code;
    if (atomic_load(&pg->is_aborted) && !is_harmless(code))
        code = cc_fail(err, -ECANCELED, "aborted");
    (void) cc_wrap(err, "%s: rank %d of %d, %s", pg->backend->name, pg->rank, pg->size, calltext(c, text));
    if (is_harmless(code))
        return code;
    (void) pthread_mutex_lock(&pg->lock);
    if (pg->failed.code == 0)
        pg->failed = *err;
    (void) pthread_mutex_unlock(&pg->lock);
    pg->backend->abort(pg->b);
    return code;
}

static int run_now(struct ccrun_pg *pg, const struct ccrun_call *c, struct cc_err *err)
{
    int r;

    (void) pthread_mutex_lock(&pg->turn);
    r = check_state(pg, c, err);
    if (r == 0) {
        r = pg->backend->run(pg->b, c, timeout_of(pg, c), err);
        r = conclude(pg, c, r, err);
    }
    (void) pthread_mutex_unlock(&pg->turn);
    return r;
}

/* ---- the queue */

static void *work_off(void *arg)
{
    struct ccrun_pg *pg = arg;

    (void) pthread_mutex_lock(&pg->lock);
    while (pg->first || !pg->is_ending) {
        struct ccrun_request *q = pg->first;

        if (!q) {
            (void) pthread_cond_wait(&pg->change, &pg->lock);
            continue;
        }
        (void) pthread_mutex_unlock(&pg->lock);
        q->result = run_now(pg, &q->call, &q->err);
        (void) pthread_mutex_lock(&pg->lock);
        pg->first = q->next;
        if (!pg->first)
            pg->last = NULL;
        q->is_done = true; /* from here on its owner may release it */
        (void) pthread_cond_broadcast(&pg->change);
    }
    (void) pthread_mutex_unlock(&pg->lock);
    return NULL;
}

static int enqueue(struct ccrun_pg *pg, struct ccrun_request *q, struct cc_err *err)
{
    int r = 0;

    (void) pthread_mutex_lock(&pg->lock);
    if (!pg->has_thread)
        r = -pthread_create(&pg->thread, NULL, work_off, pg);
    pg->has_thread |= r == 0;
    if (r == 0) {
        if (pg->last)
            pg->last->next = q;
        else
            pg->first = q;
        pg->last = q;
        (void) pthread_cond_broadcast(&pg->change);
    }
    (void) pthread_mutex_unlock(&pg->lock);
    return r < 0 ? cc_fail(err, r, "cannot start a thread: %s", strerror(-r)) : 0;
}

static int wait_queued(struct ccrun_request *q, struct cc_err *err)
{
    struct ccrun_pg *pg = q->pg;

    (void) pthread_mutex_lock(&pg->lock);
    while (!q->is_done)
        (void) pthread_cond_wait(&pg->change, &pg->lock);
    (void) pthread_mutex_unlock(&pg->lock);
    if (q->result < 0)
        *err = q->err;
    return q->result;
}

static bool has_queue(struct ccrun_pg *pg)
{
    bool has;

    (void) pthread_mutex_lock(&pg->lock);
    has = pg->first != NULL;
    (void) pthread_mutex_unlock(&pg->lock);
    return has;
}

void pg_end_thread(struct ccrun_pg *pg)
{
    (void) pthread_mutex_lock(&pg->lock);
    pg->is_ending = true;
    (void) pthread_cond_broadcast(&pg->change);
    (void) pthread_mutex_unlock(&pg->lock);
    if (pg->has_thread)
        (void) pthread_join(pg->thread, NULL);
    pg->has_thread = false;
}

/* ---- the public calls */

int ccrun_run(struct ccrun_pg *pg, const struct ccrun_call *call)
{
    struct cc_err       *err = pg_error();
    struct ccrun_request q = { .pg = pg, .call = *call };
    int                  r = check_call(pg, call, err);

    if (r < 0 || is_nothing(call))
        return r;
    if (!has_queue(pg)) /* what was started comes first */
        return run_now(pg, call, err);
    r = enqueue(pg, &q, err);
    return r < 0 ? r : wait_queued(&q, err);
}

/* What the backend begins itself; -ENOSYS: it does not. */
static int begin(struct ccrun_pg *pg, struct ccrun_request *q, struct cc_err *err)
{
    int r;

    if (!pg->backend->start)
        return -ENOSYS;
    if (!pg->backend->starts_beside)
        (void) pthread_mutex_lock(&pg->turn);
    r = check_state(pg, &q->call, err);
    if (r == 0) {
        r = pg->backend->start(pg->b, &q->call, timeout_of(pg, &q->call), &q->handle, err);
        if (r < 0 && r != -ENOSYS)
            r = conclude(pg, &q->call, r, err);
    }
    if (!pg->backend->starts_beside)
        (void) pthread_mutex_unlock(&pg->turn);
    return r;
}

int ccrun_start(struct ccrun_request **ret, struct ccrun_pg *pg, const struct ccrun_call *call)
{
    struct cc_err        *err = pg_error();
    int                   r = check_call(pg, call, err);
    struct ccrun_request *q = r < 0 ? NULL : calloc(1, sizeof *q);

    if (r < 0)
        return r;
    if (!q)
        return cc_fail(err, -ENOMEM, "no memory for a request");
    q->pg = pg;
    q->call = *call;
    q->is_done = is_nothing(call);
    if (!q->is_done)
        r = begin(pg, q, err);
    if (r == -ENOSYS)
        r = enqueue(pg, q, err);
    if (r < 0)
        free(q);
    else
        *ret = q;
    return r;
}

/* 0 done, whatever the result; -EAGAIN. */
static int poll_handle(struct ccrun_request *q, uint64_t wait_ms)
{
    int r = q->pg->backend->poll(q->pg->b, q->handle, wait_ms, &q->err);

    if (r == -EAGAIN)
        return r;
    q->handle = NULL;
    q->is_done = true;
    q->result = conclude(q->pg, &q->call, r, &q->err);
    return 0;
}

int ccrun_test(struct ccrun_request *q)
{
    bool is_done;

    if (q->handle)
        return poll_handle(q, TEST_MS) == 0;
    (void) pthread_mutex_lock(&q->pg->lock);
    is_done = q->is_done;
    (void) pthread_mutex_unlock(&q->pg->lock);
    return is_done;
}

int ccrun_wait(struct ccrun_request *q)
{
    struct cc_err *err = pg_error();
    int            r;

    while (q->handle)
        (void) poll_handle(q, POLL_MS);
    r = wait_queued(q, err);
    free(q);
    return r;
}

int ccrun_all_reduce(struct ccrun_pg *pg, const void *send, void *recv, size_t count, enum ccrun_type type,
                     enum ccrun_op op)
{
    struct ccrun_call c = {
        .what = CCRUN_ALL_REDUCE, .send = send, .recv = recv, .count = count, .type = type, .op = op
    };

    return ccrun_run(pg, &c);
}

int ccrun_reduce(struct ccrun_pg *pg, const void *send, void *recv, size_t count, enum ccrun_type type,
                 enum ccrun_op op, int root)
{
    struct ccrun_call c = {
        .what = CCRUN_REDUCE, .send = send, .recv = recv, .count = count, .type = type, .op = op, .peer = root
    };

    return ccrun_run(pg, &c);
}

int ccrun_broadcast(struct ccrun_pg *pg, void *buf, size_t count, enum ccrun_type type, int root)
{
    struct ccrun_call c = {
        .what = CCRUN_BROADCAST, .recv = buf, .count = count, .type = type, .peer = root
    };

    return ccrun_run(pg, &c);
}

int ccrun_all_gather(struct ccrun_pg *pg, const void *send, void *recv, size_t count, enum ccrun_type type)
{
    struct ccrun_call c = {
        .what = CCRUN_ALL_GATHER, .send = send, .recv = recv, .count = count, .type = type
    };

    return ccrun_run(pg, &c);
}

int ccrun_gather(struct ccrun_pg *pg, const void *send, void *recv, size_t count, enum ccrun_type type,
                 int root)
{
    struct ccrun_call c = {
        .what = CCRUN_GATHER, .send = send, .recv = recv, .count = count, .type = type, .peer = root
    };

    return ccrun_run(pg, &c);
}

int ccrun_scatter(struct ccrun_pg *pg, const void *send, void *recv, size_t count, enum ccrun_type type,
                  int root)
{
    struct ccrun_call c = {
        .what = CCRUN_SCATTER, .send = send, .recv = recv, .count = count, .type = type, .peer = root
    };

    return ccrun_run(pg, &c);
}

int ccrun_reduce_scatter(struct ccrun_pg *pg, const void *send, void *recv, size_t count,
                         enum ccrun_type type, enum ccrun_op op)
{
    struct ccrun_call c = {
        .what = CCRUN_REDUCE_SCATTER, .send = send, .recv = recv, .count = count, .type = type, .op = op
    };

    return ccrun_run(pg, &c);
}

int ccrun_all_to_all(struct ccrun_pg *pg, const void *send, void *recv, size_t count, enum ccrun_type type)
{
    struct ccrun_call c = {
        .what = CCRUN_ALL_TO_ALL, .send = send, .recv = recv, .count = count, .type = type
    };

    return ccrun_run(pg, &c);
}

int ccrun_barrier(struct ccrun_pg *pg)
{
    struct ccrun_call c = { .what = CCRUN_BARRIER };

    return ccrun_run(pg, &c);
}

int ccrun_send(struct ccrun_pg *pg, const void *buf, size_t count, enum ccrun_type type, int peer, int tag)
{
    struct ccrun_call c = {
        .what = CCRUN_SEND, .send = buf, .count = count, .type = type, .peer = peer, .tag = tag
    };

    return ccrun_run(pg, &c);
}

int ccrun_recv(struct ccrun_pg *pg, void *buf, size_t count, enum ccrun_type type, int peer, int tag)
{
    struct ccrun_call c = {
        .what = CCRUN_RECV, .recv = buf, .count = count, .type = type, .peer = peer, .tag = tag
    };

    return ccrun_run(pg, &c);
}
