/* fakenccl.c - a double of libnccl.so.2 for tests without a GPU: real ranks, real results, over TCP.
 *
 * It works on the double of the driver (fakecuda.c), whose memory it alone can reach: a buffer of the host is
 * an error.  Its communicators are non-blocking, and stricter than NCCL's: what is called while one is in
 * progress, or under way when it is destroyed, is an error.  A failure is as on a GPU: what was launched
 * hangs until the communicator is aborted.
 *
 *   FAKE_NCCL_VERSION=2.10.3        what it says it is (2.30.7)
 *   FAKE_NCCL_FAULT=WHAT[:RANK[:N]] rank RANK (0) misbehaves, in the N-th (0) launch of the process:
 *       id       ncclGetUniqueId() fails        init        the communicator's init fails
 *       hang     the launch hangs               init-hang   the init hangs
 *       async    so, and an error is there      launch      the launch fails
 */
#include "tests/support/fake/fakenccl.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "backends/reduce.h"
#include "tests/support/fake/fakemesh.h"

enum kind { K_ALL_REDUCE, K_REDUCE, K_BROADCAST, K_ALL_GATHER, K_REDUCE_SCATTER, K_MESSAGE, K_RECV };
enum { OPS_MAX = 2 * MESH_MAX, LISTENERS_MAX = 16, LAUNCH_MS = 3 };

struct op {
    enum kind   kind;
    const void *send;
    void       *recv;
    size_t      count;
    nccl_type   type;
    nccl_op     op;
    int         root;
    cu_stream   stream;
};

/* What was between ncclGroupStart() and ncclGroupEnd(). */
struct batch {
    nccl_comm comm;
    uint64_t  ticket;
    bool      is_hanging;
    size_t    n;
    struct op ops[OPS_MAX];
};

struct nccl_co {
    struct mesh     mesh;
    struct mesh_id  id;
    int             listener;
    pthread_t       thread; /* of the init, then of the first launch */
    bool            has_thread, is_first_over, is_finalizing;
    pthread_mutex_t lock; /* of all below */
    pthread_cond_t  change;
    nccl_result     state;
    uint64_t        n_tickets, n_served; /* launches run in their order, whatever their streams */
    struct batch   *late;                /* what the first launch is */
};

struct driver {
    cu_result (*get_device)(int *ret);
    cu_result (*launch)(cu_stream s, void (*run)(void *), void *arg);
    void *(*host)(const void *address, size_t size);
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct listener {
    uint64_t nonce;
    int      fd;
} listeners[LISTENERS_MAX];
static int n_launches;

static _Thread_local int           group_depth;
static _Thread_local struct batch *group;
static _Thread_local char          last_error[160] = "";

/* ---- what is wrong with it */

static bool has_fault(const char *what, int rank, int n)
{
    const char *text = getenv("FAKE_NCCL_FAULT");
    size_t      len = strlen(what);
    char       *end = NULL;
    long        of, at;

    if (!text || strncmp(text, what, len) != 0 || (text[len] != ':' && text[len] != '\0'))
        return false;
    of = text[len] == ':' ? strtol(text + len + 1, &end, 10) : 0;
    at = end && *end == ':' ? strtol(end + 1, NULL, 10) : 0;
    return of == rank && (n < 0 || at == n);
}

static nccl_result say(nccl_result r, const char *text)
{
    (void) snprintf(last_error, sizeof last_error, "%s\n", text);
    return r;
}

static void to_symbol(void *ret, const char *name)
{
    void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), *f = lib ? dlsym(lib, name) : NULL;

    memcpy(ret, &f, sizeof f);
    if (!f) {
        (void) fprintf(stderr, "fake NCCL: the driver is not the fake one\n");
        abort();
    }
    (void) dlclose(lib);
}

static const struct driver *driver(void)
{
    static _Thread_local struct driver d;

    if (!d.host) {
        to_symbol(&d.get_device, "cuCtxGetDevice");
        to_symbol(&d.launch, "cuLaunchHostFunc");
        to_symbol(&d.host, "fake_cuda_host");
    }
    return &d;
}

/* ---- small things */

nccl_result ncclGetVersion(int *ret)
{
    const char *text = getenv("FAKE_NCCL_VERSION");
    int         v[3] = { 2, 30, 7 };

    for (int i = 0; text && i < 3; i++) {
        v[i] = (int) strtol(text, NULL, 10);
        text = strchr(text, '.');
        text = text ? text + 1 : NULL;
    }
    *ret = v[1] <= 8 ? v[0] * 1000 + v[1] * 100 + v[2] : v[0] * 10000 + v[1] * 100 + v[2];
    return NCCL_OK;
}

const char *ncclGetErrorString(nccl_result code)
{
    static const char *const texts[] = { "no error",
                                         "unhandled cuda error",
                                         "unhandled system error",
                                         "internal error",
                                         "invalid argument",
                                         "invalid usage",
                                         "remote process exited or there was a network error",
                                         "NCCL operation in progress" };

    return code >= 0 && code <= NCCL_IN_PROGRESS ? texts[code] : "unknown result code";
}

const char *ncclGetLastError(nccl_comm comm)
{
    return comm && comm->mesh.error[0] ? comm->mesh.error : last_error;
}

nccl_result ncclGetUniqueId(nccl_id *ret)
{
    struct mesh_id id;
    int            fd;

    if (has_fault("id", 0, -1))
        return say(NCCL_SYSTEM_ERROR, "Bootstrap : no socket interface found");
    fd = mesh_listen(&id);
    if (fd < 0)
        return say(NCCL_SYSTEM_ERROR, "no socket");
    memset(ret, 0, sizeof *ret);
    memcpy(ret, &id, sizeof id);
    (void) pthread_mutex_lock(&lock);
    for (size_t i = 0; i < LISTENERS_MAX && fd >= 0; i++)
        if (listeners[i].nonce == 0) {
            listeners[i] = (struct listener){ id.nonce, fd };
            fd = -1;
        }
    (void) pthread_mutex_unlock(&lock);
    return fd < 0 ? NCCL_OK : say(NCCL_INTERNAL_ERROR, "too many ids");
}

static int take_listener(uint64_t nonce)
{
    int fd = -1;

    (void) pthread_mutex_lock(&lock);
    for (size_t i = 0; i < LISTENERS_MAX; i++)
        if (listeners[i].nonce == nonce) {
            fd = listeners[i].fd;
            listeners[i].nonce = 0;
        }
    (void) pthread_mutex_unlock(&lock);
    return fd;
}

/* ---- the life of a communicator */

static void set_state(nccl_comm c, nccl_result r)
{
    (void) pthread_mutex_lock(&c->lock);
    c->state = r;
    (void) pthread_cond_broadcast(&c->change);
    (void) pthread_mutex_unlock(&c->lock);
}

static void sleep_ms(long ms)
{
    const struct timespec t = { .tv_nsec = ms * 1000000 };

    (void) nanosleep(&t, NULL);
}

static void hang(nccl_comm c)
{
    while (!atomic_load(&c->mesh.is_aborted))
        sleep_ms(5);
}

static void *init_thread(void *arg)
{
    nccl_comm c = arg;
    bool      r;

    if (has_fault("init-hang", c->mesh.rank, -1)) {
        hang(c);
        return NULL;
    }
    r = mesh_connect(&c->mesh, &c->id, c->listener);
    set_state(c, r ? NCCL_OK : NCCL_SYSTEM_ERROR);
    return NULL;
}

/* Threads of NCCL get no signals of the program. */
static bool start_thread(nccl_comm c, void *(*run)(void *) )
{
    sigset_t all, before;

    (void) sigfillset(&all);
    (void) pthread_sigmask(SIG_SETMASK, &all, &before);
    c->has_thread = pthread_create(&c->thread, NULL, run, c) == 0;
    (void) pthread_sigmask(SIG_SETMASK, &before, NULL);
    return c->has_thread;
}

static void join_thread(nccl_comm c)
{
    if (c->has_thread)
        (void) pthread_join(c->thread, NULL);
    c->has_thread = false;
}

nccl_result ncclCommInitRankConfig(nccl_comm *ret, int n_ranks, nccl_id id, int rank, nccl_config *config)
{
    nccl_comm c;
    int       device;

    *ret = NULL;
    if (driver()->get_device(&device) != CU_OK)
        return say(NCCL_CUDA_ERROR, "no device is current");
    if (has_fault("init", rank, -1))
        return say(NCCL_CUDA_ERROR, "CUDA driver version is insufficient for CUDA runtime version");
    if (config->magic != (unsigned) NCCL_MAGIC || config->size != sizeof *config || config->blocking != 0 ||
        n_ranks < 1 || n_ranks > MESH_MAX || rank < 0 || rank >= n_ranks)
        return say(NCCL_INVALID_ARGUMENT, "the config is none");
    c = calloc(1, sizeof *c);
    if (!c)
        return NCCL_SYSTEM_ERROR;
    c->mesh.rank = rank;
    c->mesh.size = n_ranks;
    for (int i = 0; i < MESH_MAX; i++)
        c->mesh.fds[i] = -1;
    atomic_init(&c->mesh.is_aborted, false);
    memcpy(&c->id, &id, sizeof c->id);
    c->listener = rank == 0 ? take_listener(c->id.nonce) : -1;
    (void) pthread_mutex_init(&c->lock, NULL);
    (void) pthread_cond_init(&c->change, NULL);
    c->state = NCCL_IN_PROGRESS;
    (void) start_thread(c, init_thread);
    *ret = c;
    return NCCL_IN_PROGRESS;
}

nccl_result ncclCommGetAsyncError(nccl_comm c, nccl_result *ret)
{
    (void) pthread_mutex_lock(&c->lock);
    *ret = c->state;
    if (c->is_finalizing && c->state == NCCL_IN_PROGRESS && c->n_served == c->n_tickets)
        c->state = NCCL_OK;
    (void) pthread_mutex_unlock(&c->lock);
    return NCCL_OK;
}

static void comm_free(nccl_comm c)
{
    join_thread(c);
    (void) pthread_mutex_lock(&c->lock);
    while (c->n_served < c->n_tickets)
        (void) pthread_cond_wait(&c->change, &c->lock);
    (void) pthread_mutex_unlock(&c->lock);
    mesh_close(&c->mesh);
    if (c->listener >= 0)
        (void) close(c->listener);
    (void) pthread_mutex_destroy(&c->lock);
    (void) pthread_cond_destroy(&c->change);
    free(c);
}

nccl_result ncclCommAbort(nccl_comm c)
{
    atomic_store(&c->mesh.is_aborted, true);
    set_state(c, NCCL_OK);
    comm_free(c);
    return NCCL_OK;
}

nccl_result ncclCommFinalize(nccl_comm c)
{
    nccl_result r = NCCL_IN_PROGRESS;

    (void) pthread_mutex_lock(&c->lock);
    if (c->state != NCCL_OK)
        r = NCCL_INVALID_USAGE;
    else
        c->state = NCCL_IN_PROGRESS;
    c->is_finalizing = true;
    (void) pthread_mutex_unlock(&c->lock);
    return r;
}

nccl_result ncclCommDestroy(nccl_comm c)
{
    if (!c->is_finalizing || c->n_served < c->n_tickets) {
        (void) fprintf(stderr, "fake NCCL: a communicator is destroyed that is at work\n");
        abort();
    }
    comm_free(c);
    return NCCL_OK;
}

/* ---- what a launch does */

static enum ccrun_type type_of(nccl_type type)
{
    static const enum ccrun_type types[] = {
        [NCCL_I8] = CCRUN_I8,   [NCCL_U8] = CCRUN_U8,     [NCCL_I32] = CCRUN_I32, [3] = CCRUN_I32,
        [NCCL_I64] = CCRUN_I64, [5] = CCRUN_I64,          [NCCL_F16] = CCRUN_F16, [NCCL_F32] = CCRUN_F32,
        [NCCL_F64] = CCRUN_F64, [NCCL_BF16] = CCRUN_BF16,
    };

    return types[type];
}

static enum ccrun_op op_of(nccl_op op)
{
    static const enum ccrun_op ops[] = { [NCCL_SUM] = CCRUN_SUM,
                                         [NCCL_PROD] = CCRUN_PROD,
                                         [NCCL_MAX] = CCRUN_MAX,
                                         [NCCL_MIN] = CCRUN_MIN,
                                         [NCCL_AVG] = CCRUN_AVG };

    return ops[op];
}

struct plan {
    struct mesh_part *parts;
    size_t            n;
    char             *inbox; /* what comes from rank i is at i x bytes */
};

static void add(struct plan *p, const struct op *o, int peer, bool is_out, void *data, size_t size)
{
    struct mesh_label l = { .kind = o->kind == K_RECV ? K_MESSAGE : o->kind,
                            .type = (uint32_t) o->type,
                            .count = o->count,
                            .op = o->op,
                            .root = o->kind >= K_MESSAGE ? 0 : o->root };

    p->parts[p->n++] =
        (struct mesh_part){ .peer = peer, .is_out = is_out, .label = l, .data = data, .size = size };
}

static size_t bytes_of(const struct op *o)
{
    return o->count * type_size(type_of(o->type));
}

/* Whose part of send goes to whom, and where what they send is put. */
static void add_op(struct plan *p, const struct op *o, const struct mesh *m, char *send, char *recv)
{
    size_t bytes = bytes_of(o);
    bool   is_root = o->root == m->rank;

    if (o->kind >= K_MESSAGE) {
        add(p, o, o->root, o->kind == K_MESSAGE, o->kind == K_MESSAGE ? send : recv, bytes);
        return;
    }
    for (int i = 0; i < m->size; i++) {
        bool   gives = o->kind == K_BROADCAST ? is_root : o->kind != K_REDUCE || i == o->root;
        bool   takes = o->kind == K_BROADCAST ? i == o->root : o->kind != K_REDUCE || is_root;
        size_t part = (size_t) i * bytes;
        char  *to = o->kind == K_BROADCAST ? recv : o->kind == K_ALL_GATHER ? recv + part : p->inbox + part;

        if (i == m->rank)
            continue;
        if (gives)
            add(p, o, i, true, o->kind == K_REDUCE_SCATTER ? send + part : send, bytes);
        if (takes)
            add(p, o, i, false, to, bytes);
    }
}

/* In the order of ranks. */
static void reduce_all(const struct op *o, const struct mesh *m, char *inbox, const char *send, char *recv)
{
    size_t          bytes = bytes_of(o), own = (size_t) m->rank * bytes;
    enum ccrun_type type = type_of(o->type);
    reduce_fn      *reduce = reduce_of(op_of(o->op), type);

    memcpy(inbox + own, o->kind == K_REDUCE_SCATTER ? send + own : send, bytes);
    for (int i = 1; i < m->size; i++)
        reduce(inbox, inbox, inbox + (size_t) i * bytes, o->count);
    reduce_finish(op_of(o->op), type, inbox, o->count, m->size);
    memcpy(recv, inbox, bytes);
}

static bool is_whole(const struct op *o, bool is_send)
{
    return is_send ? o->kind == K_REDUCE_SCATTER : o->kind == K_ALL_GATHER;
}

/* What the host finds there; NULL is wrong where something is needed. */
static bool find_buffers(const struct op *o, const struct mesh *m, char **ret_send, char **ret_recv)
{
    size_t bytes = bytes_of(o), all = bytes * (size_t) m->size;
    bool   needs_send = o->kind != K_RECV && (o->kind != K_BROADCAST || o->root == m->rank);
    bool   needs_recv = o->kind != K_MESSAGE && (o->kind != K_REDUCE || o->root == m->rank);

    *ret_send = needs_send ? driver()->host(o->send, is_whole(o, true) ? all : bytes) : NULL;
    *ret_recv = needs_recv ? driver()->host(o->recv, is_whole(o, false) ? all : bytes) : NULL;
    return (!needs_send || *ret_send) && (!needs_recv || *ret_recv);
}

static nccl_result run_ops(struct batch *b)
{
    struct mesh *m = &b->comm->mesh;
    struct plan  p = { .parts = calloc(b->n * 2 * (size_t) m->size, sizeof *p.parts) };
    char        *send[OPS_MAX], *recv[OPS_MAX];
    nccl_result  r = NCCL_OK;
    size_t       bytes = bytes_of(&b->ops[0]); /* only a collective has an inbox, and it is alone */

    p.inbox = malloc(bytes * (size_t) m->size + 1);
    for (size_t i = 0; r == NCCL_OK && i < b->n; i++) {
        if (!find_buffers(&b->ops[i], m, &send[i], &recv[i]))
            r = NCCL_CUDA_ERROR;
        else
            add_op(&p, &b->ops[i], m, send[i], recv[i]);
    }
    if (r == NCCL_CUDA_ERROR)
        (void) snprintf(m->error, sizeof m->error, "an illegal memory access was encountered");
    else if (!mesh_exchange(m, p.parts, p.n))
        r = NCCL_REMOTE_ERROR;
    for (size_t i = 0; r == NCCL_OK && i < b->n; i++) {
        const struct op *o = &b->ops[i];

        if (o->kind == K_ALL_REDUCE || o->kind == K_REDUCE_SCATTER || (o->kind == K_REDUCE && recv[i]))
            reduce_all(o, m, p.inbox, send[i], recv[i]);
        else if (o->kind == K_ALL_GATHER)
            memmove(recv[i] + (size_t) m->rank * bytes, send[i], bytes);
        else if (o->kind == K_BROADCAST && send[i] && send[i] != recv[i])
            memmove(recv[i], send[i], bytes);
    }
    free(p.parts);
    free(p.inbox);
    return r;
}

/* In a thread of the stream. */
static void run_batch(void *arg)
{
    struct batch *b = arg;
    nccl_comm     c = b->comm;
    nccl_result   r;

    (void) pthread_mutex_lock(&c->lock);
    while (c->n_served != b->ticket)
        (void) pthread_cond_wait(&c->change, &c->lock);
    r = c->state;
    (void) pthread_mutex_unlock(&c->lock);
    if (b->is_hanging)
        hang(c);
    else if (r == NCCL_OK || r == NCCL_IN_PROGRESS)
        r = run_ops(b);
    if (r != NCCL_OK && r != NCCL_IN_PROGRESS && !atomic_load(&c->mesh.is_aborted)) {
        set_state(c, r);
        hang(c); /* a kernel does not end because of an error */
    }
    (void) pthread_mutex_lock(&c->lock);
    c->n_served++;
    (void) pthread_cond_broadcast(&c->change);
    (void) pthread_mutex_unlock(&c->lock);
    free(b);
}

/* ---- groups */

static void wait_served(void *arg)
{
    nccl_comm c = arg;

    (void) pthread_mutex_lock(&c->lock);
    while (c->n_served < c->n_tickets && !atomic_load(&c->mesh.is_aborted))
        (void) pthread_cond_wait(&c->change, &c->lock);
    (void) pthread_mutex_unlock(&c->lock);
}

static void enqueue(struct batch *b)
{
    cu_stream first = b->ops[0].stream;
    nccl_comm c = b->comm;

    for (size_t i = 1; i < b->n; i++)
        if (b->ops[i].stream != first)
            (void) driver()->launch(b->ops[i].stream, wait_served, c);
    (void) driver()->launch(first, run_batch, b);
}

/* The first launch of a communicator takes a while, as it connects to its peers. */
static void *launch_late(void *arg)
{
    nccl_comm c = arg;

    sleep_ms(LAUNCH_MS);
    enqueue(c->late);
    (void) pthread_mutex_lock(&c->lock);
    if (c->state == NCCL_IN_PROGRESS)
        c->state = NCCL_OK;
    (void) pthread_mutex_unlock(&c->lock);
    return NULL;
}

static nccl_result launch(struct batch *b)
{
    nccl_comm   c = b->comm;
    nccl_result r;
    int         n;

    (void) pthread_mutex_lock(&lock);
    n = n_launches++;
    (void) pthread_mutex_unlock(&lock);
    if (has_fault("launch", c->mesh.rank, n))
        return say(NCCL_INTERNAL_ERROR, "a launch failed");
    b->is_hanging = has_fault("hang", c->mesh.rank, n) || has_fault("async", c->mesh.rank, n);
    (void) pthread_mutex_lock(&c->lock);
    r = c->state == NCCL_OK && !c->is_finalizing ? NCCL_OK : NCCL_INVALID_USAGE;
    if (r == NCCL_OK)
        b->ticket = c->n_tickets++;
    if (r == NCCL_OK && !c->is_first_over)
        r = c->state = NCCL_IN_PROGRESS;
    (void) pthread_mutex_unlock(&c->lock);
    if (r == NCCL_INVALID_USAGE)
        return say(r, "the communicator is in progress");
    if (has_fault("async", c->mesh.rank, n)) {
        (void) snprintf(c->mesh.error, sizeof c->mesh.error, "NET/IB: Got completion with error 12");
        c->state = NCCL_REMOTE_ERROR;
    }
    if (c->is_first_over) {
        enqueue(b);
        return NCCL_OK;
    }
    c->is_first_over = true;
    c->late = b;
    join_thread(c);
    (void) start_thread(c, launch_late);
    return r;
}

nccl_result ncclGroupStart(void)
{
    if (group_depth++ == 0)
        group = NULL;
    return NCCL_OK;
}

nccl_result ncclGroupEnd(void)
{
    struct batch *b = group;
    nccl_result   r;

    if (group_depth == 0 || --group_depth > 0)
        return group_depth == 0 ? NCCL_INVALID_USAGE : NCCL_OK;
    group = NULL;
    if (!b)
        return NCCL_OK;
    r = launch(b);
    if (r != NCCL_OK && r != NCCL_IN_PROGRESS)
        free(b);
    return r;
}

/* One collective of a communicator in a group, or messages of it: what libccrun asks for. */
static nccl_result take(nccl_comm comm, struct op o)
{
    nccl_result r = NCCL_OK;

    (void) ncclGroupStart();
    if (!group && !(group = calloc(1, sizeof *group)))
        r = NCCL_SYSTEM_ERROR;
    else if (group->n == OPS_MAX || (group->n > 0 && (group->comm != comm || o.kind < K_MESSAGE)) ||
             (group->n > 0 && group->ops[0].kind < K_MESSAGE))
        r = say(NCCL_INVALID_USAGE, "a group of more than this double can");
    else {
        group->comm = comm;
        group->ops[group->n++] = o;
    }
    if (group_depth > 1 || r != NCCL_OK) {
        group_depth--;
        return r;
    }
    return ncclGroupEnd();
}

nccl_result ncclAllReduce(const void *send, void *recv, size_t count, nccl_type type, nccl_op op,
                          nccl_comm comm, cu_stream stream)
{
    return take(comm, (struct op){ K_ALL_REDUCE, send, recv, count, type, op, 0, stream });
}

nccl_result ncclReduce(const void *send, void *recv, size_t count, nccl_type type, nccl_op op, int root,
                       nccl_comm comm, cu_stream stream)
{
    return take(comm, (struct op){ K_REDUCE, send, recv, count, type, op, root, stream });
}

nccl_result ncclBroadcast(const void *send, void *recv, size_t count, nccl_type type, int root,
                          nccl_comm comm, cu_stream stream)
{
    return take(comm, (struct op){ K_BROADCAST, send, recv, count, type, 0, root, stream });
}

nccl_result ncclAllGather(const void *send, void *recv, size_t count, nccl_type type, nccl_comm comm,
                          cu_stream stream)
{
    return take(comm, (struct op){ K_ALL_GATHER, send, recv, count, type, 0, 0, stream });
}

nccl_result ncclReduceScatter(const void *send, void *recv, size_t count, nccl_type type, nccl_op op,
                              nccl_comm comm, cu_stream stream)
{
    return take(comm, (struct op){ K_REDUCE_SCATTER, send, recv, count, type, op, 0, stream });
}

nccl_result ncclSend(const void *send, size_t count, nccl_type type, int peer, nccl_comm comm,
                     cu_stream stream)
{
    return take(comm, (struct op){ K_MESSAGE, send, NULL, count, type, 0, peer, stream });
}

nccl_result ncclRecv(void *recv, size_t count, nccl_type type, int peer, nccl_comm comm, cu_stream stream)
{
    return take(comm, (struct op){ K_RECV, NULL, recv, count, type, 0, peer, stream });
}
