/* mpi_shim.c - the backend, in terms of MPI: built once for each binary interface of MPI, with its mpi.h.
 *
 * Every call is begun with one of MPI's own that returns at once, and asked for until it is done: so there
 * can be deadlines, and several calls under way.  What MPI has begun it cannot take back, but for a receive.
 * A call that is given up would go on into the caller's buffers whenever somebody in this process calls MPI:
 * so from then on we never do, in any group.
 */
#include "backends/mpi_shim.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <mpi.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/reduce.h"
#include "store/base/clock.h"
#include "store/base/macros.h"

/* NOLINTBEGIN(clang-analyzer-optin.mpi.MPI-Checker): it does not know of MPI_Test() */

enum {
    TAG_GIVEN_UP = 32768, /* above every tag of a user: from a rank that has left the group in the middle */
    TAG_HELLO,            /* to the first one of a new group, and back */
    TAG_GO,
    TAG_GROUP,
    TELL_MS = 100,   /* for such a message to leave: a connection may have to be made */
    PASSES = 64,     /* of asking, before clocks and flags are looked at */
    NAMES_MAX = 160, /* of a list of ranks in a sentence */
    N_HALF_OPS = CCRUN_MAX + 1,
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

struct group {
    MPI_Comm         comm;
    int              rank, size;
    char             name[64];
    pthread_mutex_t  own;
    pthread_mutex_t *lock; /* of this group's MPI calls and all below: own, or that of all groups */
    struct pending  *first;
    int              given_up_by; /* a rank; -1: none */
    bool             is_told;     /* the peers were, that somebody has given up */
    atomic_bool      is_aborted;
};

/* ---- the process has one MPI */

struct process {
    pthread_mutex_t
        turn; /* of MPI's calls, when MPI has not been told that several threads may make them at a time */
    pthread_mutex_t lock;              /* of all below */
    bool            is_ready, is_ours; /* we have initialised it */
    int             level;             /* of threads */
    MPI_Op          half_ops[2][N_HALF_OPS];
    unsigned        n_groups;
    bool            is_unclean; /* a group has failed: the others cannot be expected in MPI_Finalize() */
    atomic_bool     is_spoiled; /* no call of MPI may be made any more */
    char            spoiled_by[64];
    struct pending *given_up; /* what MPI may still know of */
    struct group   *unborn;
};

static struct process *process(void)
{
    static struct process p = { .turn = PTHREAD_MUTEX_INITIALIZER, .lock = PTHREAD_MUTEX_INITIALIZER };

    return &p;
}

static void lock(struct group *g)
{
    (void) pthread_mutex_lock(g->lock);
}

static void unlock(struct group *g)
{
    (void) pthread_mutex_unlock(g->lock);
}

static int mpi_failed(int code, const char *what, struct cc_err *err)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int class = MPI_ERR_UNKNOWN, n = 0;

    (void) MPI_Error_class(code, &class);
    if (MPI_Error_string(code, text, &n) != MPI_SUCCESS)
        (void) snprintf(text, sizeof text, "error %d", code);
    text[strcspn(text, "\n")] = '\0';
    switch (class) {
    case MPI_ERR_NO_MEM: code = -ENOMEM; break;
    case MPI_ERR_TRUNCATE: code = -EPROTO; break;
    case MPI_ERR_ARG:
    case MPI_ERR_BUFFER:
    case MPI_ERR_COMM:
    case MPI_ERR_COUNT:
    case MPI_ERR_OP:
    case MPI_ERR_TAG:
    case MPI_ERR_TYPE: code = -EIO; break;
    default: code = -ECONNRESET; break;
    }
    return cc_fail(err, code, "%s: %.300s", what, text);
}

/* ---- halves, which MPI does not know: whole numbers to it, with operations of ours */

#define HALF_OP(name, op, type)                                                                              \
    static void name(void *in, void *inout, int *n, MPI_Datatype *t)                                         \
    {                                                                                                        \
        (void) t;                                                                                            \
        reduce_of(op, type)(inout, in, inout, (size_t) *n);                                                  \
    }
#define HALF_OPS(suffix, type)                                                                               \
    HALF_OP(sum_##suffix, CCRUN_SUM, type)                                                                   \
    HALF_OP(prod_##suffix, CCRUN_PROD, type)                                                                 \
    HALF_OP(min_##suffix, CCRUN_MIN, type)                                                                   \
    HALF_OP(max_##suffix, CCRUN_MAX, type)

HALF_OPS(f16, CCRUN_F16)
HALF_OPS(bf16, CCRUN_BF16)

static bool is_half(enum ccrun_type type)
{
    return type == CCRUN_F16 || type == CCRUN_BF16;
}

static MPI_Datatype type_of(enum ccrun_type type)
{
    switch (type) {
    case CCRUN_I8: return MPI_INT8_T;
    case CCRUN_U8: return MPI_UINT8_T;
    case CCRUN_I32: return MPI_INT32_T;
    case CCRUN_I64: return MPI_INT64_T;
    case CCRUN_F16:
    case CCRUN_BF16: return MPI_UINT16_T;
    case CCRUN_F32: return MPI_FLOAT;
    case CCRUN_F64: return MPI_DOUBLE;
    default: assert(0); return MPI_BYTE;
    }
}

static MPI_Op op_of(enum ccrun_op op, enum ccrun_type type)
{
    if (op == CCRUN_AVG) /* divided when it is there */
        op = CCRUN_SUM;
    if (is_half(type))
        return process()->half_ops[type == CCRUN_BF16][op];
    switch (op) {
    case CCRUN_SUM: return MPI_SUM;
    case CCRUN_PROD: return MPI_PROD;
    case CCRUN_MIN: return MPI_MIN;
    case CCRUN_MAX: return MPI_MAX;
    case CCRUN_AVG:
    default: assert(0); return MPI_OP_NULL;
    }
}

/* ---- the beginning and the end of MPI */

/* Only when all groups were left in good order: else the others might not come, and a program that wants to
 * end with a failure would hang here. */
static void finalize(void)
{
    struct process *p = process();
    int             is_over = 0;

    (void) pthread_mutex_lock(&p->lock);
    if (p->n_groups == 0 && !p->is_unclean && MPI_Finalized(&is_over) == MPI_SUCCESS && !is_over)
        (void) MPI_Finalize();
    (void) pthread_mutex_unlock(&p->lock);
}

static int initialize(struct process *p, struct cc_err *err)
{
    int r = MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &p->level);

    if (r != MPI_SUCCESS)
        return mpi_failed(r, "MPI_Init_thread", err);
    p->is_ours = true;
    (void) MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    (void) MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    return atexit(finalize) == 0 ? 0 : cc_fail(err, -ENOMEM, "no memory for an exit handler");
}

static int make_ops(struct process *p, struct cc_err *err)
{
    static MPI_User_function *const functions[2][N_HALF_OPS] = {
        { sum_f16, prod_f16, min_f16, max_f16 }, { sum_bf16, prod_bf16, min_bf16, max_bf16 }
    };
    int r = MPI_SUCCESS;

    for (int i = 0; r == MPI_SUCCESS && i < 2 * N_HALF_OPS; i++)
        r = MPI_Op_create(functions[i / N_HALF_OPS][i % N_HALF_OPS], 1,
                          &p->half_ops[i / N_HALF_OPS][i % N_HALF_OPS]);
    return r == MPI_SUCCESS ? 0 : mpi_failed(r, "MPI_Op_create", err);
}

/* Control messages need a few tags more than the standard promises. */
static int check_tags(struct cc_err *err)
{
    int *max = NULL, has = 0;

    if (MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, (void *) &max, &has) == MPI_SUCCESS && has &&
        *max >= TAG_GROUP)
        return 0;
    return cc_fail(err, -ENOTSUP, "this MPI library has tags up to %d only, and %d is needed", has ? *max : 0,
                   TAG_GROUP);
}

static int prepare(struct cc_err *err)
{
    struct process *p = process();
    int             has_begun = 0, is_over = 0, r = 0;

    (void) pthread_mutex_lock(&p->lock);
    if (!p->is_ready) {
        (void) MPI_Initialized(&has_begun);
        (void) MPI_Finalized(&is_over);
        if (is_over)
            r = cc_fail(err, -EINVAL,
                        "this process has called MPI_Finalize, after which MPI cannot be used again");
        else if (has_begun)
            (void) MPI_Query_thread(&p->level);
        else
            r = initialize(p, err);
        if (r == 0)
            r = check_tags(err);
        if (r == 0)
            r = make_ops(p, err);
        p->is_ready = r == 0;
    }
    (void) pthread_mutex_unlock(&p->lock);
    return r;
}

static void set_unclean(void)
{
    (void) pthread_mutex_lock(&process()->lock);
    process()->is_unclean = true;
    (void) pthread_mutex_unlock(&process()->lock);
}

/* MPI may be called, from this thread. */
static int check_usable(struct cc_err *err)
{
    struct process *p = process();
    int             is_main = 1;

    if (atomic_load(&p->is_spoiled))
        return cc_fail(err, -ESHUTDOWN,
                       "MPI cannot be used any more in this process: group '%s' has given up a call of it",
                       p->spoiled_by);
    if (p->level < MPI_THREAD_SERIALIZED)
        (void) MPI_Is_thread_main(&is_main);
    return is_main ? 0
                   : cc_fail(err, -EINVAL,
                             "the program has initialised MPI for its main thread only, and this is another: "
                             "MPI_Init_thread with MPI_THREAD_SERIALIZED or MPI_THREAD_MULTIPLE allows it");
}

/* ---- giving up */

static bool may_call_now(void)
{
    struct cc_err err;

    return check_usable(&err) == 0;
}

/* As MPI_Testall(), but those that are done are MPI_REQUEST_NULL also while others are not. */
static int test_all(MPI_Request *q, int n, int *ret_are_over)
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

/* Tells the others in the group, who would wait for us until their deadline.  With the lock. */
static void tell_peers(struct group *g)
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
    while (!is_out && cc_monotonic_ms() < until && test_all(q, g->size, &is_out) == MPI_SUCCESS)
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

/* No call of MPI from here on. */
static void spoil(const struct group *g)
{
    struct process *p = process();

    (void) pthread_mutex_lock(&p->lock);
    if (!atomic_load(&p->is_spoiled))
        (void) snprintf(p->spoiled_by, sizeof p->spoiled_by, "%s", g->name);
    p->is_unclean = true;
    atomic_store(&p->is_spoiled, true);
    (void) pthread_mutex_unlock(&p->lock);
}

/* A receive can be: then nothing will be written to its buffer any more. */
static bool take_back(MPI_Request *q)
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
    struct process *all = process();

    if (p->call.what == CCRUN_RECV && may_call_now() && take_back(&p->request)) {
        free(p);
        return;
    }
    if (!g->is_told && may_call_now())
        tell_peers(g);
    spoil(g);
    (void) pthread_mutex_lock(&all->lock);
    p->next = all->given_up; /* MPI may still look into it */
    all->given_up = p;
    (void) pthread_mutex_unlock(&all->lock);
}

/* ---- a call is begun */

static int begin_reduction(struct group *g, struct pending *p)
{
    const struct ccrun_call *c = &p->call;
    MPI_Datatype             type = type_of(c->type);
    MPI_Op                   op = op_of(c->op, c->type);
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
    MPI_Datatype             t = type_of(c->type);
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

    if (r < 0 || (r = check_usable(err)) < 0)
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
    p->deadline = cc_monotonic_ms() + timeout_ms;
    if (p->deadline < timeout_ms)
        p->deadline = UINT64_MAX;
    r = is_reduction(c->what) ? begin_reduction(g, p) : begin_move(g, p);
    if (r != MPI_SUCCESS) {
        free(p->temp);
        free(p);
        return mpi_failed(r, "it was refused", err);
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

    if (c->what != CCRUN_RECV || MPI_Get_count(status, type_of(c->type), &n) != MPI_SUCCESS ||
        (size_t) n == c->count)
        return 0;
    return cc_fail(err, -EPROTO, "rank %d has sent %d elements only", c->peer, n);
}

static void conclude(struct group *g, struct pending *p, int r, const MPI_Status *status)
{
    const struct ccrun_call *c = &p->call;

    p->is_done = true;
    if (r != MPI_SUCCESS)
        p->code = mpi_failed(r, "MPI", &p->err);
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

/* Has a peer given up?  And why not to wait longer; 0: no reason. */
static int reason_to_end(struct group *g, const struct pending *p, uint64_t now, struct cc_err *err)
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
    if (now >= p->deadline)
        return cc_fail(err, -ETIMEDOUT, "not done within %.3g s", (double) p->timeout_ms / 1000);
    return 0;
}

/* 0 done, -EAGAIN, else it failed.  p is released unless it is -EAGAIN. */
static int await(struct group *g, struct pending *p, uint64_t wait_ms, struct cc_err *err)
{
    uint64_t until = cc_monotonic_ms() + wait_ms, now;
    int      r = 0;

    if (until < wait_ms)
        until = UINT64_MAX;
    for (unsigned i = 0; r == 0; i++) {
        lock(g);
        if (!p->is_done && (r = check_usable(err)) == 0) {
            advance(g);
            if (!p->is_done && (i % PASSES == 0 || wait_ms == 0)) {
                now = cc_monotonic_ms();
                r = reason_to_end(g, p, now, err);
                if (r == 0 && now >= until)
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
            unlock(g);
            return r;
        }
        unlock(g);
        if (i > PASSES) /* there may be more ranks than processors */
            (void) sched_yield();
    }
    return r;
}

static int shim_start(void *b, const struct ccrun_call *c, uint64_t timeout_ms, void **ret_handle,
                      struct cc_err *err)
{
    struct group   *g = b;
    struct pending *p = NULL;
    int             r;

    lock(g);
    r = begin(g, c, timeout_ms, &p, err);
    unlock(g);
    *ret_handle = p;
    return r;
}

static int shim_poll(void *b, void *handle, uint64_t wait_ms, struct cc_err *err)
{
    return await(b, handle, wait_ms, err);
}

static int shim_run(void *b, const struct ccrun_call *c, uint64_t timeout_ms, struct cc_err *err)
{
    void *p = NULL;
    int   r = shim_start(b, c, timeout_ms, &p, err);

    assert(r < 0 || p);
    return r < 0 ? r : await(b, p, UINT64_MAX, err);
}

/* ---- groups */

static void shim_abort(void *b)
{
    struct group *g = b;

    atomic_store(&g->is_aborted, true);
    lock(g);
    if (!g->is_told && may_call_now()) /* else the thread that may does it */
        tell_peers(g);
    unlock(g);
    set_unclean();
}

static void shim_close(void *b)
{
    struct group   *g = b;
    struct process *p = process();
    int             is_over = 0;

    lock(g);
    if (!atomic_load(&g->is_aborted) && may_call_now() && MPI_Finalized(&is_over) == MPI_SUCCESS && !is_over)
        (void) MPI_Comm_free(&g->comm);
    unlock(g);
    (void) pthread_mutex_lock(&p->lock);
    p->n_groups--;
    (void) pthread_mutex_unlock(&p->lock);
    (void) pthread_mutex_destroy(&g->own);
    free(g);
}

static struct group *group_new(const struct backend_cfg *cfg)
{
    struct process *p = process();
    struct group   *g = calloc(1, sizeof *g);

    if (!g)
        return NULL;
    g->comm = MPI_COMM_NULL;
    g->given_up_by = -1;
    (void) snprintf(g->name, sizeof g->name, "%s", cfg->group);
    (void) pthread_mutex_init(&g->own, NULL);
    g->lock = p->level == MPI_THREAD_MULTIPLE ? &g->own : &p->turn;
    atomic_init(&g->is_aborted, false);
    (void) pthread_mutex_lock(&p->lock);
    p->n_groups++;
    (void) pthread_mutex_unlock(&p->lock);
    return g;
}

/* Waits for what a group begins with; `parent` may be given up meanwhile.  -ETIMEDOUT has no sentence. */
static int settle(struct group *g, struct group *parent, MPI_Request *q, int n, uint64_t deadline,
                  struct cc_err *err)
{
    struct group        *one = parent ? parent : g;
    const struct pending endless = { .deadline = UINT64_MAX };

    for (;;) {
        uint64_t now = cc_monotonic_ms();
        int      is_over = 0, r = MPI_SUCCESS, why = check_usable(err);

        lock(one);
        if (why == 0)
            r = test_all(q, n, &is_over);
        if (why == 0 && parent && !is_over)
            why = reason_to_end(parent, &endless, now, err);
        unlock(one);
        if (why < 0)
            return why;
        if (r != MPI_SUCCESS)
            return mpi_failed(r, "MPI", err);
        if (is_over)
            return 0;
        if (now >= deadline)
            return -ETIMEDOUT;
        (void) sched_yield();
    }
}

/* All of MPI_COMM_WORLD, in a communicator of our own. */
static int open_world(struct group *g, struct backend_cfg *cfg, uint64_t deadline, struct cc_err *err)
{
    MPI_Request q = MPI_REQUEST_NULL;
    int         r;

    (void) MPI_Comm_rank(MPI_COMM_WORLD, &cfg->rank);
    (void) MPI_Comm_size(MPI_COMM_WORLD, &cfg->size);
    lock(g);
    r = MPI_Comm_idup(MPI_COMM_WORLD, &g->comm, &q);
    unlock(g);
    if (r != MPI_SUCCESS)
        return mpi_failed(r, "MPI_Comm_idup", err);
    r = settle(g, NULL, &q, 1, deadline, err);
    if (r == -ETIMEDOUT)
        r = cc_fail(err, r, "not all of the %d ranks came within %.3g s", cfg->size,
                    (double) cfg->timeout_ms / 1000);
    if (r < 0)
        spoil(g);
    return r;
}

/* So that two groups are not taken for one. */
static uint64_t fingerprint(const int *ranks, int n)
{
    uint64_t h = 0xcbf29ce484222325; /* FNV-1a */

    for (int i = 0; i < n; i++)
        h = (h ^ (uint64_t) (unsigned) ranks[i]) * 0x100000001b3;
    return h;
}

/* The names of those whose request is not done, which is taken back. */
static void list_missing(MPI_Request *q, const int *ranks, int n, char names[NAMES_MAX])
{
    size_t at = 0;

    names[0] = '\0';
    for (int i = 1; i < n; i++) {
        if (q[i] == MPI_REQUEST_NULL)
            continue;
        if (at < NAMES_MAX)
            at += (size_t) snprintf(names + at, NAMES_MAX - at, "%s%d", at > 0 ? ", " : "", ranks[i]);
        (void) take_back(&q[i]);
    }
}

/* The first one hears of all the others, then says that they may go on. */
static int lead(struct group *g, struct group *parent, const struct backend_cfg *cfg, uint64_t deadline,
                struct cc_err *err)
{
    int          n = cfg->size, r = 0;
    MPI_Request *q = calloc((size_t) n, sizeof *q);
    uint64_t    *said = calloc((size_t) n, sizeof *said), mine = fingerprint(cfg->ranks, n);
    char         names[NAMES_MAX];

    if (!q || !said) {
        free(q);
        free(said);
        return cc_fail(err, -ENOMEM, "no memory for %d ranks", n);
    }
    lock(parent);
    for (int i = 0; i < n; i++) {
        q[i] = MPI_REQUEST_NULL;
        if (i > 0)
            (void) MPI_Irecv(&said[i], (int) sizeof *said, MPI_BYTE, cfg->ranks[i], TAG_HELLO, parent->comm,
                             &q[i]);
    }
    unlock(parent);
    if ((r = settle(g, parent, q, n, deadline, err)) < 0) {
        list_missing(q, cfg->ranks, n, names);
        if (r == -ETIMEDOUT)
            r = cc_fail(err, r, "of the ranks of its parent, %s did not come within %.3g s", names,
                        (double) cfg->timeout_ms / 1000);
    }
    lock(parent);
    for (int i = 1; r == 0 && i < n; i++) {
        if (said[i] != mine)
            r = cc_fail(err, -EPROTO, "rank %d of its parent asks for a group of other ranks", cfg->ranks[i]);
        else
            (void) MPI_Send(NULL, 0, MPI_BYTE, cfg->ranks[i], TAG_GO, parent->comm);
    }
    unlock(parent);
    free(q);
    free(said);
    return r;
}

static int follow(struct group *g, struct group *parent, const struct backend_cfg *cfg, uint64_t deadline,
                  struct cc_err *err)
{
    uint64_t    mine = fingerprint(cfg->ranks, cfg->size);
    MPI_Request q = MPI_REQUEST_NULL;
    int         r;

    lock(parent);
    r = MPI_Irecv(NULL, 0, MPI_BYTE, cfg->ranks[0], TAG_GO, parent->comm, &q);
    if (r == MPI_SUCCESS)
        r = MPI_Send(&mine, (int) sizeof mine, MPI_BYTE, cfg->ranks[0], TAG_HELLO, parent->comm);
    unlock(parent);
    if (r != MPI_SUCCESS)
        return mpi_failed(r, "MPI", err);
    r = settle(g, parent, &q, 1, deadline, err);
    if (r == -ETIMEDOUT)
        r = cc_fail(err, r, "rank %d of its parent, or one that it waits for, did not come within %.3g s",
                    cfg->ranks[0], (double) cfg->timeout_ms / 1000);
    if (r < 0)
        (void) take_back(&q);
    return r;
}

/* MPI makes it in a call that waits without a limit: so everybody is there before. */
static int open_part(struct group *g, struct group *parent, const struct backend_cfg *cfg, uint64_t deadline,
                     struct cc_err *err)
{
    MPI_Group all = MPI_GROUP_NULL, part = MPI_GROUP_NULL;
    int r = cfg->rank == 0 ? lead(g, parent, cfg, deadline, err) : follow(g, parent, cfg, deadline, err);

    if (r < 0)
        return r;
    lock(parent);
    r = MPI_Comm_group(parent->comm, &all);
    if (r == MPI_SUCCESS)
        r = MPI_Group_incl(all, cfg->size, cfg->ranks, &part);
    if (r == MPI_SUCCESS)
        r = MPI_Comm_create_group(parent->comm, part, TAG_GROUP, &g->comm);
    if (part != MPI_GROUP_NULL)
        (void) MPI_Group_free(&part);
    if (all != MPI_GROUP_NULL)
        (void) MPI_Group_free(&all);
    unlock(parent);
    return r == MPI_SUCCESS ? 0 : mpi_failed(r, "MPI_Comm_create_group", err);
}

/* A group that could not be made: MPI may still write its communicator, and nobody is to wait for us at the
 * end. */
static void discard(struct group *g)
{
    struct process *p = process();

    set_unclean();
    (void) pthread_mutex_lock(&p->lock);
    p->n_groups--;
    p->unborn = g;
    (void) pthread_mutex_unlock(&p->lock);
}

static int shim_open(void **ret, struct backend_cfg *cfg, struct cc_err *err)
{
    uint64_t      deadline = cc_monotonic_ms() + cfg->timeout_ms;
    struct group *g;
    int           r = prepare(err);

    if (r < 0 || (r = check_usable(err)) < 0)
        return r;
    g = group_new(cfg);
    if (!g)
        return cc_fail(err, -ENOMEM, "no memory for a group");
    r = cfg->parent ? open_part(g, cfg->parent, cfg, deadline, err) : open_world(g, cfg, deadline, err);
    if (r == 0 && MPI_Comm_set_errhandler(g->comm, MPI_ERRORS_RETURN) != MPI_SUCCESS)
        r = cc_fail(err, -EIO, "MPI does not take MPI_ERRORS_RETURN");
    if (r < 0) {
        discard(g);
        return r;
    }
    g->rank = cfg->rank;
    g->size = cfg->size;
    *ret = g;
    return 0;
}

/* NOLINTEND(clang-analyzer-optin.mpi.MPI-Checker) */

__attribute__((visibility("default"))) const struct mpi_shim ccrun_mpi_shim = {
    .version = MPI_SHIM_VERSION,
    .backend = {
        .name = "mpi",
        .open = shim_open,
        .run = shim_run,
        .start = shim_start,
        .poll = shim_poll,
        .abort = shim_abort,
        .close = shim_close,
    },
};
