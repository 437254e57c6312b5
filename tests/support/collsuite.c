/* collsuite.c BACKEND [INIT_METHOD [TIMEOUT_MS]] - a rank that makes every collective with every type and
 * operation, and checks the results.
 *
 * Linked with the shared library, as users' programs are.  INIT_METHOD: env:// (the default); tcp, which is
 * MASTER_ADDR and MASTER_PORT as a URL; none, for a backend that knows rank and size; or a URL without rank
 * and size, which come from RANK and WORLD_SIZE. Prints "BACKEND: N checked" and exits 0, or says what was
 * wrong.
 */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/ccrun.h"

enum { N_TYPES = CCRUN_F64 + 1, N_OPS = CCRUN_AVG + 1, TIMEOUT_MS = 60000, MAX_SIZE = 64 };

static const size_t widths[N_TYPES] = { 1, 1, 4, 8, 2, 2, 4, 8 };
static const char  *names[N_TYPES] = { "i8", "u8", "i32", "i64", "f16", "bf16", "f32", "f64" };

static struct ccrun_pg *pg;
static int              rank, size;
static long             n_checked;
static const char      *doing = "init";

static void die(const char *what)
{
    (void) fprintf(stderr, "collsuite: rank %d: %s: %s\n", rank, doing, what);
    exit(1);
}

static void must(int r)
{
    if (r < 0)
        die(ccrun_error());
}

/* ---- elements, as numbers that every type holds exactly */

static uint16_t half_bits(float f) /* whole numbers of a few bits, zero too */
{
    uint32_t u;

    memcpy(&u, &f, sizeof u);
    return (uint16_t) (f == 0 ? 0 : (u >> 16 & 0x8000) | ((u & 0x7fffffff) - (112u << 23)) >> 13);
}

static void put(enum ccrun_type type, void *buf, size_t i, int value)
{
    float    f = (float) value;
    uint32_t u;

    switch (type) {
    case CCRUN_I8:
    case CCRUN_U8: ((uint8_t *) buf)[i] = (uint8_t) value; break;
    case CCRUN_I32: ((int32_t *) buf)[i] = value; break;
    case CCRUN_I64: ((int64_t *) buf)[i] = value; break;
    case CCRUN_F16: ((uint16_t *) buf)[i] = half_bits(f); break;
    case CCRUN_BF16:
        memcpy(&u, &f, sizeof u);
        ((uint16_t *) buf)[i] = (uint16_t) (u >> 16);
        break;
    case CCRUN_F32: ((float *) buf)[i] = f; break;
    case CCRUN_F64: ((double *) buf)[i] = value; break;
    default: abort();
    }
}

static double get(enum ccrun_type type, const void *buf, size_t i)
{
    uint32_t u;
    float    f;

    switch (type) {
    case CCRUN_I8: return ((const int8_t *) buf)[i];
    case CCRUN_U8: return ((const uint8_t *) buf)[i];
    case CCRUN_I32: return ((const int32_t *) buf)[i];
    case CCRUN_I64: return (double) ((const int64_t *) buf)[i];
    case CCRUN_F16:
        u = ((const uint16_t *) buf)[i];
        return (u & 0x7fff) == 0
                   ? 0
                   : ldexp((double) (u & 0x3ff) / 1024 + 1, (int) (u >> 10 & 31) - 15) * (u >> 15 ? -1 : 1);
    case CCRUN_BF16:
        u = (uint32_t) ((const uint16_t *) buf)[i] << 16;
        memcpy(&f, &u, sizeof f);
        return f;
    case CCRUN_F32: return ((const float *) buf)[i];
    case CCRUN_F64: return ((const double *) buf)[i];
    default: abort();
    }
}

/* What rank r has at place i; products want small factors. */
static int value(int r, size_t i, enum ccrun_op op)
{
    unsigned x = (unsigned) r * 7 + (unsigned) i * 3;

    return op == CCRUN_PROD ? (int) (x % 2 + 1) : (int) (x % 5) + 1;
}

static double expected(size_t i, enum ccrun_op op, enum ccrun_type type)
{
    double acc = value(0, i, op);

    for (int r = 1; r < size; r++) {
        double v = value(r, i, op);

        acc = op == CCRUN_PROD  ? acc * v
              : op == CCRUN_MIN ? fmin(acc, v)
              : op == CCRUN_MAX ? fmax(acc, v)
                                : acc + v;
    }
    if (op == CCRUN_AVG)
        acc = type <= CCRUN_I64 ? trunc(acc / size) : acc / size;
    if (type == CCRUN_I8)
        return (int8_t) (int64_t) acc;
    return type == CCRUN_U8 ? (uint8_t) (int64_t) acc : acc;
}

static void check(enum ccrun_type type, const void *buf, size_t i, double want)
{
    double have = get(type, buf, i),
           slack = type == CCRUN_F16 || type == CCRUN_BF16 ? 0.01 * want : 1e-6 * want;
    char text[128];

    n_checked++;
    if (fabs(have - want) <= fabs(slack))
        return;
    (void) snprintf(text, sizeof text, "%s: element %zu is %g, not %g", names[type], i, have, want);
    die(text);
}

static void *room(size_t n, enum ccrun_type type)
{
    void *p = malloc(n > 0 ? n * widths[type] : 1);

    if (!p)
        die("no memory");
    memset(p, 0x55, n * widths[type]);
    return p;
}

static void *filled(size_t n, enum ccrun_type type, enum ccrun_op op)
{
    void *p = room(n, type);

    for (size_t i = 0; i < n; i++)
        put(type, p, i, value(rank, i, op));
    return p;
}

/* ---- the collectives */

static void reductions(size_t n, enum ccrun_type type, enum ccrun_op op, int root)
{
    size_t all = n * (size_t) size;
    void  *send = filled(all, type, op), *recv = room(n, type);

    doing = "all-reduce";
    must(ccrun_all_reduce(pg, send, recv, n, type, op));
    for (size_t i = 0; i < n; i++)
        check(type, recv, i, expected(i, op, type));
    doing = "reduce";
    memset(recv, 0x55, n * widths[type]);
    must(ccrun_reduce(pg, send, rank == root ? recv : NULL, n, type, op, root));
    for (size_t i = 0; rank == root && i < n; i++)
        check(type, recv, i, expected(i, op, type));
    doing = "reduce-scatter";
    must(ccrun_reduce_scatter(pg, send, recv, n, type, op));
    for (size_t i = 0; i < n; i++)
        check(type, recv, i, expected((size_t) rank * n + i, op, type));
    doing = "all-reduce in place";
    must(ccrun_all_reduce(pg, send, send, n, type, op));
    for (size_t i = 0; i < n; i++)
        check(type, send, i, expected(i, op, type));
    free(send);
    free(recv);
}

static void moves(size_t n, enum ccrun_type type, int root)
{
    size_t all = n * (size_t) size;
    void  *send = filled(all, type, CCRUN_SUM), *recv = room(all, type), *own = filled(n, type, CCRUN_SUM);

    doing = "broadcast";
    must(ccrun_broadcast(pg, own, n, type, root));
    for (size_t i = 0; i < n; i++)
        check(type, own, i, value(root, i, CCRUN_SUM));
    doing = "all-gather";
    must(ccrun_all_gather(pg, send, recv, n, type));
    for (size_t i = 0; i < all; i++)
        check(type, recv, i, value((int) (i / n), i % n, CCRUN_SUM));
    doing = "gather";
    memset(recv, 0x55, all * widths[type]);
    must(ccrun_gather(pg, send, rank == root ? recv : NULL, n, type, root));
    for (size_t i = 0; rank == root && i < all; i++)
        check(type, recv, i, value((int) (i / n), i % n, CCRUN_SUM));
    doing = "scatter";
    must(ccrun_scatter(pg, rank == root ? send : NULL, own, n, type, root));
    for (size_t i = 0; i < n; i++)
        check(type, own, i, value(root, (size_t) rank * n + i, CCRUN_SUM));
    doing = "all-to-all";
    must(ccrun_all_to_all(pg, send, recv, n, type));
    for (size_t i = 0; i < all; i++)
        check(type, recv, i, value((int) (i / n), (size_t) rank * n + i % n, CCRUN_SUM));
    doing = "all-gather in place";
    memmove((char *) send + (size_t) rank * n * widths[type], send, n * widths[type]);
    must(ccrun_all_gather(pg, (char *) send + (size_t) rank * n * widths[type], send, n, type));
    for (size_t i = 0; i < all; i++)
        check(type, send, i, value((int) (i / n), i % n, CCRUN_SUM));
    free(send);
    free(recv);
    free(own);
}

static void everything(size_t n)
{
    for (int type = 0; type < N_TYPES; type++) {
        for (int op = 0; op < N_OPS; op++)
            reductions(n, (enum ccrun_type) type, (enum ccrun_op) op, (type + op) % size);
        moves(n, (enum ccrun_type) type, type % size);
    }
}

/* Round a ring, with tags, in both orders; then all at once. */
static void messages(void)
{
    int                   next = (rank + 1) % size, before = (rank + size - 1) % size;
    int32_t               out[3], in[3] = { 0 };
    struct ccrun_request *q[2];
    struct ccrun_call     recv = { .what = CCRUN_RECV, .count = 1, .type = CCRUN_I32, .peer = before };
    struct ccrun_call     send = { .what = CCRUN_SEND, .count = 1, .type = CCRUN_I32, .peer = next };

    doing = "send and recv";
    if (size == 1)
        return;
    for (int i = 0; i < 3; i++)
        out[i] = 100 * rank + i;
    if (rank == 0)
        must(ccrun_send(pg, out, 3, CCRUN_I32, next, 7));
    must(ccrun_recv(pg, in, 3, CCRUN_I32, before, 7));
    if (rank != 0)
        must(ccrun_send(pg, out, 3, CCRUN_I32, next, 7));
    for (int i = 0; i < 3; i++)
        if (in[i] != 100 * before + i)
            die("a message came wrong");
    doing = "start of a recv, then of a send";
    recv.recv = &in[0];
    send.send = &out[1];
    must(ccrun_start(&q[0], pg, &recv));
    must(ccrun_start(&q[1], pg, &send));
    must(ccrun_wait(q[0]));
    must(ccrun_wait(q[1]));
    if (in[0] != 100 * before + 1)
        die("a message came wrong");
    n_checked += 4;
}

/* One rank sends more than another; the next collective of all does not mind. */
static void uneven(void)
{
    int64_t all = 1, v = 0;

    doing = "messages of one rank to all";
    for (int r = 1; r < size; r++) {
        int64_t out = 10 * r;

        if (rank == 0)
            must(ccrun_send(pg, &out, 1, CCRUN_I64, r, 0));
        if (rank == r)
            must(ccrun_recv(pg, &v, 1, CCRUN_I64, 0, 0));
    }
    must(ccrun_all_reduce(pg, &all, &all, 1, CCRUN_I64, CCRUN_SUM));
    if (v != 10 * rank || all != size)
        die("a message or the sum after it came wrong");
    n_checked += 2;
}

/* Several collectives under way; they are made in order, and a blocking one comes behind them. */
static void requests(void)
{
    enum { N = 5 };
    struct ccrun_request *q[N];
    int64_t               buf[N], last = 1;

    doing = "requests";
    for (int i = 0; i < N; i++) {
        struct ccrun_call c = {
            .what = CCRUN_ALL_REDUCE, .send = &buf[i], .recv = &buf[i], .count = 1, .type = CCRUN_I64
        };

        buf[i] = rank + i;
        must(ccrun_start(&q[i], pg, &c));
    }
    must(ccrun_all_reduce(pg, &last, &last, 1, CCRUN_I64, CCRUN_SUM));
    for (int i = 0; i < N; i++) {
        if (ccrun_test(q[i]) != 1)
            die("a request before a call that has ended is not done");
        must(ccrun_wait(q[i]));
        if (buf[i] != (int64_t) size * (size - 1) / 2 + (int64_t) i * size || last != size)
            die("a request came wrong");
    }
    n_checked += N;
}

/* Even and odd ranks, each group twice, and all with a name for the same list. */
static void groups(void)
{
    int     list[MAX_SIZE], n = 0;
    int32_t one = rank, sum = 0, want = 0;

    doing = "groups";
    for (int r = size - 1; r >= 0; r--)
        if (r % 2 == rank % 2) {
            list[n++] = r;
            want += r;
        }
    for (int i = 0; i < 2; i++) {
        struct ccrun_pg *sub;

        must(ccrun_new_group(&sub, pg, list, n));
        if (ccrun_size(sub) != n || ccrun_rank(sub) != rank / 2)
            die("a group has another size, or this rank another place");
        must(ccrun_all_reduce(sub, &one, &sum, 1, CCRUN_I32, CCRUN_SUM));
        if (sum != want)
            die("the sum of a group is wrong");
        must(ccrun_barrier(sub));
        must(ccrun_destroy_process_group(sub));
        n_checked++;
    }
}

/* Two groups of the same ranks, and two of their neighbours, used at the same time by threads of their own.
 */
struct user {
    struct ccrun_pg *pg;
    pthread_t        thread;
    int              times;
    const char      *error; /* NULL: it went well */
};

static void *use_group(void *arg)
{
    struct user *u = arg;

    for (int64_t i = 0; i < u->times && !u->error; i++) {
        int64_t v = ccrun_rank(u->pg) + i, want = 0;

        for (int r = 0; r < ccrun_size(u->pg); r++)
            want += r + i;
        if (ccrun_all_reduce(u->pg, &v, &v, 1, CCRUN_I64, CCRUN_SUM) < 0)
            u->error = strdup(ccrun_error());
        else if (v != want)
            u->error = "the sum of a group is wrong";
    }
    return NULL;
}

static void at_once(const struct ccrun_init *first)
{
    enum { N = 4 };
    struct user       users[N] = { 0 };
    struct ccrun_init init = *first;
    int pair[] = { rank & ~1, rank | 1 }, times = strcmp(ccrun_backend(pg), "ref") == 0 ? 2 : 20;

    doing = "groups at once";
    if (!ccrun_pg_store(pg)) /* it is the world, of which there is one */
        return;
    init.group = "another";
    must(ccrun_init_process_group(&users[0].pg, &init));
    init.group = "third";
    must(ccrun_init_process_group(&users[1].pg, &init));
    must(ccrun_new_group(&users[2].pg, pg, pair, pair[1] < size ? 2 : 1));
    must(ccrun_new_group(&users[3].pg, users[1].pg, pair, pair[1] < size ? 2 : 1));
    for (int i = 0; i < N; i++) {
        users[i].times = times;
        if (pthread_create(&users[i].thread, NULL, use_group, &users[i]) != 0)
            die("no thread");
    }
    use_group(&(struct user){ .pg = pg, .times = times });
    for (int i = 0; i < N; i++) {
        (void) pthread_join(users[i].thread, NULL);
        if (users[i].error)
            die(users[i].error);
    }
    for (int i = N - 1; i >= 0; i--)
        must(ccrun_destroy_process_group(users[i].pg));
    n_checked += N;
}

static void refuse(int r, int code, const char *says)
{
    if (r != code || !strstr(ccrun_error(), says))
        die(r < 0 ? ccrun_error() : "it was taken");
    n_checked++;
}

/* Calls that have elements, and somebody to be made with. */
static bool has_elements(int what)
{
    return what != CCRUN_BARRIER && (what < CCRUN_SEND || size > 1);
}

/* Of no elements every call is done at once: nobody is waited for, and buffers are neither needed nor
 * touched. */
static void nothing(void)
{
    const double before = 42;
    double       buf[] = { before, before };

    for (int what = 0; what <= CCRUN_RECV; what++)
        for (int has_buffers = 0; has_buffers < 2; has_buffers++) {
            struct ccrun_call     c = { .what = (enum ccrun_what) what,
                                        .type = CCRUN_F64,
                                        .peer = (rank + 1) % size };
            struct ccrun_request *q;

            if (!has_elements(what) || rank % 2 == 1)
                continue;
            if (has_buffers) {
                c.send = &buf[0];
                c.recv = &buf[1];
            }
            must(ccrun_run(pg, &c));
            must(ccrun_start(&q, pg, &c));
            if (ccrun_test(q) != 1)
                die("a request of nothing is under way");
            must(ccrun_wait(q));
            if (buf[0] != before || buf[1] != before)
                die("a call of nothing has written something");
            n_checked++;
        }
}

/* Bytes that no memory has, or that size_t does not hold, where they may look like a few; and more than MPI
 * counts. */
static void too_large(void)
{
    for (int what = 0; what <= CCRUN_RECV; what++) {
        bool is_for_each = what == CCRUN_ALL_GATHER || what == CCRUN_GATHER || what == CCRUN_SCATTER ||
                           what == CCRUN_REDUCE_SCATTER || what == CCRUN_ALL_TO_ALL;
        size_t                parts = is_for_each ? (size_t) size : 1;
        size_t                counts[] = { SIZE_MAX, SIZE_MAX / 8 + 1, (size_t) PTRDIFF_MAX / 8 / parts + 1 };
        double                send = 1, recv = 2;
        struct ccrun_call     c = { .what = (enum ccrun_what) what,
                                    .send = &send,
                                    .recv = &recv,
                                    .type = CCRUN_F64,
                                    .peer = (rank + 1) % size };
        struct ccrun_request *q;

        for (size_t i = 0; has_elements(what) && i < sizeof counts / sizeof counts[0]; i++) {
            c.count = counts[i];
            refuse(ccrun_run(pg, &c), -EINVAL, "no memory is that large");
            refuse(ccrun_start(&q, pg, &c), -EINVAL, "no memory is that large");
        }
        if (!has_elements(what) || strcmp(ccrun_backend(pg), "mpi") != 0)
            continue;
        c.count = (size_t) INT_MAX / parts + 1;
        refuse(ccrun_run(pg, &c), -ENOTSUP, "MPI counts up to ");
        if (send != 1 || recv != 2)
            die("a call that was refused has written something");
    }
}

/* What is refused before anything is sent, and leaves the group as it was. */
static void refusals(void)
{
    char              byte = 0;
    struct ccrun_call odd = { .what = (enum ccrun_what) 99 };
    struct ccrun_pg  *sub;
    int               twice[] = { rank, rank }, no_such[] = { size };

    doing = "refusals";
    refuse(ccrun_all_reduce(pg, NULL, &byte, 1, CCRUN_U8, CCRUN_SUM), -EINVAL, "the send buffer is NULL");
    refuse(ccrun_all_reduce(pg, &byte, &byte, 1, (enum ccrun_type) 42, CCRUN_SUM), -EINVAL, "42 is no type");
    refuse(ccrun_all_reduce(pg, &byte, &byte, 1, CCRUN_U8, (enum ccrun_op) 9), -EINVAL, "9 is no operation");
    refuse(ccrun_broadcast(pg, &byte, 1, CCRUN_U8, size), -EINVAL, "is not in a group of size");
    refuse(ccrun_send(pg, &byte, 1, CCRUN_U8, rank, 0), -EINVAL, "is this rank");
    if (size > 1)
        refuse(ccrun_send(pg, &byte, 1, CCRUN_U8, (rank + 1) % size, -1), -EINVAL,
               "tag -1 is not from 0 to 32767");
    refuse(ccrun_all_to_all(pg, &byte, &byte, 1, CCRUN_U8), -EINVAL, "cannot receive into the buffer");
    refuse(ccrun_run(pg, &odd), -EINVAL, "99 is no kind of call");
    refuse(ccrun_new_group(&sub, pg, twice, 2), -EINVAL, "is named twice");
    refuse(ccrun_new_group(&sub, pg, no_such, 1), -EINVAL, "is not in group");
    too_large();
    nothing();
    must(ccrun_barrier(pg));
}

static void store(void)
{
    struct ccrun_store *s = ccrun_pg_store(pg);
    int64_t             sum = 0;
    void               *v = NULL;
    size_t              n = 0;

    doing = "store";
    if (!s)
        return;
    must(ccrun_store_add(s, "suite/sum", rank + 1, &sum));
    must(ccrun_barrier(pg));
    must(ccrun_store_get(s, "suite/sum", 0, &v, &n));
    if (strtol(v, NULL, 10) != (long) size * (size + 1) / 2)
        die("the sum in the store is wrong");
    free(v);
    must(ccrun_store_barrier(s, "suite/barrier", size, 0));
    n_checked++;
}

int main(int argc, char **argv)
{
    struct ccrun_init init = { .timeout_ms = TIMEOUT_MS };
    const char       *my_rank = getenv("RANK"), *world_size = getenv("WORLD_SIZE"), *backend;
    char              url[256];

    if (argc < 2)
        return 2;
    init.backend = argv[1];
    init.init_method = argc > 2 ? argv[2] : "env://";
    if (argc > 3)
        init.timeout_ms = (uint64_t) strtol(argv[3], NULL, 10);
    if (strcmp(init.init_method, "none") == 0)
        init.init_method = NULL;
    else if (strcmp(init.init_method, "tcp") == 0) {
        (void) snprintf(url, sizeof url, "tcp://%s:%s", getenv("MASTER_ADDR"), getenv("MASTER_PORT"));
        init.init_method = url;
    }
    if (my_rank)
        rank = (int) strtol(my_rank, NULL, 10);
    if (init.init_method && strncmp(init.init_method, "env:", 4) != 0 && world_size) {
        init.rank = rank;
        init.world_size = (int) strtol(world_size, NULL, 10);
    }
    must(ccrun_init_process_group(&pg, &init));
    rank = ccrun_rank(pg);
    size = ccrun_size(pg);
    backend = ccrun_backend(pg);
    everything(strcmp(backend, "ref") == 0 ? 3 : 1);
    if (strcmp(backend, "ref") != 0) {
        everything(1003);
        reductions(300007, CCRUN_F32, CCRUN_SUM, size - 1);
        moves(300007, CCRUN_U8, 0);
    }
    messages();
    uneven();
    requests();
    groups();
    at_once(&init);
    store();
    refusals();
    doing = "destroy";
    must(ccrun_destroy_process_group(pg));
    printf("%s: %ld checked\n", backend, n_checked);
    return 0;
}
