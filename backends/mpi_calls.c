/* mpi_calls.c - calls of MPI that can be given up.
 *
 * Every call is begun with one of MPI's own that returns at once, and asked for until it is done: so there
 * can be deadlines, and several calls under way.  What MPI has begun it cannot take back, but for a receive.
 * A call that is given up would go on into the caller's buffers whenever somebody in this process calls MPI:
 * so from then on we never do, in any group.
 */
#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "backends/mpi_inside.h"
#include "backends/reduce.h"
#include "store/base/clock.h"

/* NOLINTBEGIN(clang-analyzer-optin.mpi.MPI-Checker): it does not know of MPI_Test() */

enum {
    TELL_MS = 100, /* for a control message to leave: a connection may have to be made */
    PASSES = 64,   /* of asking, before clocks and flags are looked at */
};

/* Something that MPI has begun. */
struct pending {
    struct pending   *next;
    struct ccrun_call call;
    MPI_Request       request;
    uint64_t          deadline, timeout_ms;
    void             *temp; /* where the result comes, when it cannot come to the caller's buffer */
    bool              is_done;
    int               code;
    struct cc_err     err;
};

/* ---- giving up */

int shim_test_all(MPI_Request *q, int n, int *ret_are_over)
{
    int r = MPI_SUCCESS;

    *ret_are_over = 1;
    for (int i = 0; r == MPI_SUCCESS && i < n; i++) {
        int is_over = 1;

        if (q[i] != MPI_REQUEST_NULL)
            r = MPI_Test(&q[i], &is_over, MPI_STATUS_IGNORE);
        *ret_are_over = *ret_are_over && is_over;
    }
    return r;
}

void shim_tell_peers(struct group *g)
{
    uint64_t     until = cc_monotonic_ms() + TELL_MS;
    MPI_Request *q = calloc((size_t) g->size, sizeof *q);
    int          is_out = 0;

    g->is_told = true;
    if (!q)
        return;
    for (int i = 0; i < g->size; i++)
        if (i == g->rank || MPI_Isend(NULL, 0, MPI_BYTE, i, TAG_GIVEN_UP, g->comm, &q[i]) != MPI_SUCCESS)
            q[i] = MPI_REQUEST_NULL;
    while (!is_out && cc_monotonic_ms() < until && shim_test_all(q, g->size, &is_out) == MPI_SUCCESS)
        (void) sched_yield();
    for (int i = 0; !is_out && i < g->size; i++)
        if (q[i] != MPI_REQUEST_NULL)
            (void) MPI_Request_free(&q[i]);
    free(q);
}

static void forget(struct group *g, struct pending *p)
{
    struct pending **at = &g->first;

    while (*at != p)
        at = &(*at)->next;
    *at = p->next;
}

bool shim_take_back(MPI_Request *q)
{
    uint64_t until = cc_monotonic_ms() + TELL_MS;
    int      is_over = 0;

    if (MPI_Cancel(q) != MPI_SUCCESS)
        return false;
    do {
        if (MPI_Test(q, &is_over, MPI_STATUS_IGNORE) != MPI_SUCCESS)
            return false;
    } while (!is_over && cc_monotonic_ms() < until);
    return is_over;
}

/* What was begun and is not done when its caller stops waiting.  With the lock. */
static void give_up(struct group *g, struct pending *p)
{
    struct process *all = shim_process();

    if (p->call.what == CCRUN_RECV && shim_may_call() && shim_take_back(&p->request)) {
        free(p);
        return;
    }
    if (!g->is_told && shim_may_call())
        shim_tell_peers(g);
    shim_spoil(g);
    (void) pthread_mutex_lock(&all->lock);
    p->next = all->given_up; /* MPI may still look into it */
    all->given_up = p;
    (void) pthread_mutex_unlock(&all->lock);
}

/* ---- a call is begun */

static int begin_reduction(struct group *g, struct pending *p)
{
    const struct ccrun_call *c = &p->call;
    MPI_Datatype             type = shim_type(c->type);
    MPI_Op                   op = shim_op(c->op, c->type);
    const void              *send = c->send == c->recv ? MPI_IN_PLACE : c->send;
    int                      n = (int) c->count;

    if (c->what == CCRUN_ALL_REDUCE)
        return MPI_Iallreduce(send, c->recv, n, type, op, g->comm, &p->request);
    if (c->what == CCRUN_REDUCE)
        return MPI_Ireduce(c->peer == g->rank ? send : c->send, c->recv, n, type, op, c->peer, g->comm,
                           &p->request);
    return MPI_Ireduce_scatter_block(c->send, p->temp ? p->temp : c->recv, n, type, op, g->comm, &p->request);
}

/* A part of a buffer that is in the other one's place already must not be named twice. */
static int begin_move(struct group *g, struct pending *p)
{
    const struct ccrun_call *c = &p->call;
    MPI_Datatype             t = shim_type(c->type);
    size_t                   own = (size_t) g->rank * c->count * type_size(c->type);
    int                      n = (int) c->count, root = c->peer;
    bool                     is_root = c->peer == g->rank;
    const char              *send = c->send;
    char                    *recv = c->recv;

    switch (c->what) {
    case CCRUN_BROADCAST: return MPI_Ibcast(recv, n, t, root, g->comm, &p->request);
    case CCRUN_ALL_GATHER:
        return MPI_Iallgather(send == recv + own ? MPI_IN_PLACE : send, n, t, recv, n, t, g->comm,
                              &p->request);
    case CCRUN_GATHER:
        return MPI_Igather(is_root && send == recv + own ? MPI_IN_PLACE : send, n, t, recv, n, t, root,
                           g->comm, &p->request);
    case CCRUN_SCATTER:
        return MPI_Iscatter(send, n, t, is_root && recv == send + own ? MPI_IN_PLACE : recv, n, t, root,
                            g->comm, &p->request);
    case CCRUN_ALL_TO_ALL: return MPI_Ialltoall(send, n, t, recv, n, t, g->comm, &p->request);
    case CCRUN_BARRIER: return MPI_Ibarrier(g->comm, &p->request);
    case CCRUN_SEND: return MPI_Isend(send, n, t, c->peer, c->tag, g->comm, &p->request);
    case CCRUN_RECV: return MPI_Irecv(recv, n, t, c->peer, c->tag, g->comm, &p->request);
    case CCRUN_ALL_REDUCE:
    case CCRUN_REDUCE:
    case CCRUN_REDUCE_SCATTER:
    default: assert(0); return MPI_ERR_ARG;
    }
}

static bool is_reduction(enum ccrun_what what)
{
    return what == CCRUN_ALL_REDUCE || what == CCRUN_REDUCE || what == CCRUN_REDUCE_SCATTER;
}

static bool is_message(enum ccrun_what what)
{
    return what == CCRUN_SEND || what == CCRUN_RECV;
}

/* Counts are ints, and libraries compute with them what all ranks have together. */
static int check_count(const struct group *g, const struct ccrun_call *c, struct cc_err *err)
{
    bool is_whole = c->what == CCRUN_ALL_GATHER || c->what == CCRUN_GATHER || c->what == CCRUN_SCATTER ||
                    c->what == CCRUN_REDUCE_SCATTER || c->what == CCRUN_ALL_TO_ALL;
    size_t most = (size_t) INT_MAX / (is_whole ? (size_t) g->size : 1);

    if (c->count <= most)
        return 0;
    return cc_fail(err, -ENOTSUP, "MPI counts up to %zu elements%s: make several calls of it", most,
                   is_whole ? " for each rank in a group of this size" : "");
}

/* Where the result of a reduce-scatter would be written over what is to be reduced. */
static bool needs_temp(const struct group *g, const struct ccrun_call *c)
{
    size_t      n = c->count * type_size(c->type);
    const char *send = c->send, *recv = c->recv;

    return c->what == CCRUN_REDUCE_SCATTER && recv + n > send && recv < send + n * (size_t) g->size;
}

static int begin(struct group *g, const struct ccrun_call *c, uint64_t timeout_ms, struct pending **ret,
                 struct cc_err *err)
{
    struct pending  *p;
    struct pending **at = &g->first;
    int              r = check_count(g, c, err);

    if (r < 0 || (r = shim_check_usable(err)) < 0)
        return r;
    p = calloc(1, sizeof *p);
    if (p && needs_temp(g, c) && !(p->temp = malloc(c->count * type_size(c->type)))) {
        free(p);
        p = NULL;
    }
    if (!p)
        return cc_fail(err, -ENOMEM, "no memory for a request");
    p->call = *c;
    p->timeout_ms = timeout_ms;
    p->deadline = cc_deadline_in(timeout_ms);
    r = is_reduction(c->what) ? begin_reduction(g, p) : begin_move(g, p);
    if (r != MPI_SUCCESS) {
        free(p->temp);
        free(p);
        return shim_failed(r, "it was refused", err);
    }
    while (*at)
        at = &(*at)->next;
    *at = p;
    *ret = p;
    return 0;
}

/* ---- it goes on */

/* A message of another length than was asked for is not what the sender meant. */
static int check_length(const struct ccrun_call *c, const MPI_Status *status, struct cc_err *err)
{
    int n = 0;

    if (c->what != CCRUN_RECV || MPI_Get_count(status, shim_type(c->type), &n) != MPI_SUCCESS ||
        (size_t) n == c->count)
        return 0;
    return cc_fail(err, -EPROTO, "rank %d has sent %d elements only", c->peer, n);
}

static void conclude(struct group *g, struct pending *p, int r, const MPI_Status *status)
{
    const struct ccrun_call *c = &p->call;

    p->is_done = true;
    if (r != MPI_SUCCESS)
        p->code = shim_failed(r, "MPI", &p->err);
    else
        p->code = check_length(c, status, &p->err);
    if (p->code == 0 && p->temp)
        memcpy(c->recv, p->temp, c->count * type_size(c->type));
    if (p->code == 0 && is_reduction(c->what) && (c->what != CCRUN_REDUCE || c->peer == g->rank))
        reduce_finish(c->op, c->type, c->recv, c->count, g->size);
    free(p->temp);
    p->temp = NULL;
}

/* Asks for everything that is under way.  A collective is not done before those that were begun before it. */
static void advance(struct group *g)
{
    bool is_behind = false;

    for (struct pending *p = g->first; p; p = p->next) {
        MPI_Status status;
        int        is_over = 0, r;

        if (p->is_done || (is_behind && !is_message(p->call.what)))
            continue;
        r = MPI_Test(&p->request, &is_over, &status);
        if (r != MPI_SUCCESS || is_over)
            conclude(g, p, r, &status);
        else if (!is_message(p->call.what))
            is_behind = true;
    }
}

int shim_reason_to_end(struct group *g, uint64_t deadline, uint64_t timeout_ms, struct cc_err *err)
{
    MPI_Status status;
    int        has = 0;

    if (atomic_load(&g->is_aborted))
        return cc_fail(err, -ECANCELED, "aborted");
    if (g->given_up_by < 0 &&
        MPI_Iprobe(MPI_ANY_SOURCE, TAG_GIVEN_UP, g->comm, &has, &status) == MPI_SUCCESS && has &&
        MPI_Recv(NULL, 0, MPI_BYTE, status.MPI_SOURCE, TAG_GIVEN_UP, g->comm, MPI_STATUS_IGNORE) ==
            MPI_SUCCESS) {
        g->given_up_by = status.MPI_SOURCE;
        g->is_told = true; /* by the one who was first: so all hear the same */
    }
    if (g->given_up_by >= 0)
        return cc_fail(err, -ECONNRESET, "rank %d has given up the group", g->given_up_by);
    if (cc_monotonic_ms() >= deadline)
        return cc_fail(err, -ETIMEDOUT, "not done within %.3g s", (double) timeout_ms / 1000);
    return 0;
}

/* 0 done, -EAGAIN, else it failed.  p is released unless it is -EAGAIN. */
static int await(struct group *g, struct pending *p, uint64_t wait_ms, struct cc_err *err)
{
    uint64_t until = cc_deadline_in(wait_ms);
    int      r = 0;

    for (unsigned i = 0; r == 0; i++) {
        group_lock(g);
        if (!p->is_done && (r = shim_check_usable(err)) == 0) {
            advance(g);
            if (!p->is_done && (i % PASSES == 0 || wait_ms == 0)) {
                r = shim_reason_to_end(g, p->deadline, p->timeout_ms, err);
                if (r == 0 && cc_monotonic_ms() >= until)
                    r = -EAGAIN;
            }
        }
        if (p->is_done || (r != 0 && r != -EAGAIN)) {
            forget(g, p);
            if (p->is_done) {
                r = p->code;
                if (r < 0)
                    *err = p->err;
                free(p);
            } else {
                give_up(g, p);
            }
            group_unlock(g);
            return r;
        }
        group_unlock(g);
        if (i > PASSES) /* there may be more ranks than processors */
            (void) sched_yield();
    }
    return r;
}

int shim_start(void *b, const struct ccrun_call *c, uint64_t timeout_ms, void **ret_handle,
               struct cc_err *err)
{
    struct group   *g = b;
    struct pending *p = NULL;
    int             r;

    group_lock(g);
    r = begin(g, c, timeout_ms, &p, err);
    group_unlock(g);
    *ret_handle = p;
    return r;
}

int shim_poll(void *b, void *handle, uint64_t wait_ms, struct cc_err *err)
{
    return await(b, handle, wait_ms, err);
}

int shim_run(void *b, const struct ccrun_call *c, uint64_t timeout_ms, struct cc_err *err)
{
    void *p = NULL;
    int   r = shim_start(b, c, timeout_ms, &p, err);

    assert(r < 0 || p);
    return r < 0 ? r : await(b, p, UINT64_MAX, err);
}

/* NOLINTEND(clang-analyzer-optin.mpi.MPI-Checker) */
