#include "launcher/check_measure.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PERIOD = CHECK_PERIOD, BY_RANK = 7, BY_CALL = 3, ALIGN = 4096, TAG = 1 };

/* ---- the pattern */

static unsigned phase(size_t first, unsigned rank, unsigned call)
{
    return (unsigned) ((first % PERIOD + (size_t) rank % PERIOD * BY_RANK + (size_t) call % PERIOD * BY_CALL) % PERIOD);
}

void measure_fill(float *to, size_t n, size_t first, unsigned rank, unsigned call)
{
    unsigned at = phase(first, rank, call);

    for (size_t i = 0; i < n; i++) {
        to[i] = (float) at;
        at = at + 1 == PERIOD ? 0 : at + 1;
    }
}

static uint64_t count_unlike(const float *got, size_t n, const struct check_period *period, unsigned at)
{
    uint64_t wrong = 0;

    for (size_t i = 0; i < n; i++) {
        wrong += !(got[i] == period->of[at]);
        at = at + 1 == PERIOD ? 0 : at + 1;
    }
    return wrong;
}

/* One rank's, from its place 0 on: phase() says where that is. */
static struct check_period period_of_one(void)
{
    struct check_period p;

    measure_fill(p.of, PERIOD, 0, 0, 0);
    return p;
}

static struct check_period period_of_sum(unsigned size, unsigned call)
{
    struct check_period sum = { .of = { 0 } };
    float               one[PERIOD];

    for (unsigned rank = 0; rank < size; rank++) {
        measure_fill(one, PERIOD, 0, rank, call);
        for (unsigned i = 0; i < PERIOD; i++)
            sum.of[i] += one[i];
    }
    return sum;
}

uint64_t measure_count_wrong(const float *got, size_t n, size_t first, unsigned rank, unsigned call)
{
    const struct check_period p = period_of_one();

    return count_unlike(got, n, &p, phase(first, rank, call));
}

uint64_t measure_count_wrong_sum(const float *got, size_t n, size_t first, unsigned size, unsigned call)
{
    const struct check_period p = period_of_sum(size, call);

    return count_unlike(got, n, &p, (unsigned) (first % PERIOD));
}

/* ---- calls */

static uint64_t now_ns(void)
{
    struct timespec t;

    (void) clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t) t.tv_sec * 1000000000 + (uint64_t) t.tv_nsec;
}

static int say_so(int r, struct cc_err *err)
{
    return r < 0 ? cc_fail(err, r, "%s", ccrun_error()) : 0;
}

/* ---- buffers */

static int open_gpu(struct measure *m, struct cc_err *err)
{
    int r = check_gpu_open(&m->gpu, m->room * sizeof(float), err);

    m->from = (const void *) (uintptr_t) m->gpu.send; /* NOLINT(performance-no-int-to-ptr): that is what it is */
    m->to = (void *) (uintptr_t) m->gpu.recv;         /* NOLINT(performance-no-int-to-ptr) */
    return r;
}

static bool is_on_gpu(const struct measure *m)
{
    return m->gpu.cuda.has_context;
}

/* What this rank sends next. */
static int fill(struct measure *m, size_t n, unsigned n_call, struct cc_err *err)
{
    if (m->gpu.module && n > 0)
        return check_gpu_fill(&m->gpu, n, phase(0, m->rank, n_call), err);
    measure_fill(m->send, n, 0, m->rank, n_call);
    return is_on_gpu(m) && n > 0 ? check_gpu_push(&m->gpu, m->send, n, err) : 0;
}

/* What has come goes to where it is checked. */
static int fetch(struct measure *m, size_t n, struct cc_err *err)
{
    return is_on_gpu(m) && !m->gpu.module && n > 0 ? check_gpu_pull(&m->gpu, m->recv, n, err) : 0;
}

int measure_open(struct measure *m, struct ccrun_pg *pg, uint64_t max_bytes, unsigned iters, unsigned warmup,
                 struct cc_err *err)
{
    int r = 0;

    *m = (struct measure) {
        .pg = pg,
        .rank = (unsigned) ccrun_rank(pg),
        .size = (unsigned) ccrun_size(pg),
        .iters = iters,
        .warmup = warmup,
    };
    m->room = (size_t) (max_bytes / sizeof(float)) + m->size; /* where there is one element for each rank */
    m->times = calloc(iters, sizeof *m->times);
    m->send = aligned_alloc(ALIGN, (m->room * sizeof(float) / ALIGN + 1) * ALIGN);
    m->recv = aligned_alloc(ALIGN, (m->room * sizeof(float) / ALIGN + 1) * ALIGN);
    m->from = m->send;
    m->to = m->recv;
    if (!m->times || !m->send || !m->recv)
        r = cc_fail(err, -ENOMEM, "no memory for two buffers of %llu bytes", (unsigned long long) max_bytes);
    else if (strcmp(ccrun_backend(pg), "nccl") == 0)
        r = open_gpu(m, err);
    if (r < 0)
        measure_close(m);
    return r;
}

const char *measure_where(const struct measure *m)
{
    if (!is_on_gpu(m))
        return "";
    return m->gpu.module ? "GPU" : m->gpu.why.msg;
}

void measure_close(struct measure *m)
{
    check_gpu_close(&m->gpu);
    free(m->times);
    free(m->send);
    free(m->recv);
    m->times = NULL;
    m->send = m->recv = NULL;
}

/* Both at once, as both ends of a ring do it. */
static int send_and_receive(struct measure *m, size_t count)
{
    struct ccrun_call send = { .what = CCRUN_SEND, .send = m->from, .count = count, .type = CCRUN_F32, .tag = TAG };
    struct ccrun_call recv = { .what = CCRUN_RECV, .recv = m->to, .count = count, .type = CCRUN_F32, .tag = TAG };
    struct ccrun_request *there = NULL, *back = NULL;
    int                   r, r_back;

    send.peer = (int) ((m->rank + 1) % m->size);
    recv.peer = (int) ((m->rank + m->size - 1) % m->size);
    r = ccrun_start(&back, m->pg, &recv);
    if (r < 0)
        return r;
    r = ccrun_start(&there, m->pg, &send);
    if (r == 0)
        r = ccrun_wait(there);
    r_back = ccrun_wait(back);
    return r < 0 ? r : r_back;
}

static int call(struct measure *m, enum check_op op, size_t count)
{
    switch (op) {
    case CHECK_ALL_REDUCE: return ccrun_all_reduce(m->pg, m->from, m->to, count, CCRUN_F32, CCRUN_SUM);
    case CHECK_ALL_GATHER: return ccrun_all_gather(m->pg, m->from, m->to, count, CCRUN_F32);
    case CHECK_REDUCE_SCATTER: return ccrun_reduce_scatter(m->pg, m->from, m->to, count, CCRUN_F32, CCRUN_SUM);
    case CHECK_SENDRECV: return send_and_receive(m, count);
    case CHECK_N_OPS: break;
    }
    return -EINVAL;
}

/* Adds how many of n elements that came, from `first` of the buffer on, are not those of `period` from `at` on. */
static int count_part(struct measure *m, size_t first, size_t n, const struct check_period *period, unsigned at,
                      uint64_t *wrong, struct cc_err *err)
{
    uint64_t some = 0;
    int      r = 0;

    if (m->gpu.module)
        r = check_gpu_count(&m->gpu, first, n, period, at, &some, err);
    else
        some = count_unlike(m->recv + first, n, period, at);
    *wrong += some;
    return r;
}

static int count_from(struct measure *m, size_t first, size_t n, unsigned rank, unsigned n_call, uint64_t *wrong,
                      struct cc_err *err)
{
    const struct check_period p = period_of_one();

    return count_part(m, first, n, &p, phase(0, rank, n_call), wrong, err);
}

static int count_sum(struct measure *m, size_t n, size_t first, unsigned n_call, uint64_t *wrong, struct cc_err *err)
{
    const struct check_period p = period_of_sum(m->size, n_call);

    return count_part(m, 0, n, &p, (unsigned) (first % PERIOD), wrong, err);
}

static int count_wrong(struct measure *m, enum check_op op, size_t count, unsigned n_call, uint64_t *wrong,
                       struct cc_err *err)
{
    int r = 0;

    switch (op) {
    case CHECK_ALL_REDUCE: return count_sum(m, count, 0, n_call, wrong, err);
    case CHECK_REDUCE_SCATTER: return count_sum(m, count, m->rank * count, n_call, wrong, err);
    case CHECK_SENDRECV: return count_from(m, 0, count, (m->rank + m->size - 1) % m->size, n_call, wrong, err);
    case CHECK_ALL_GATHER:
        for (unsigned i = 0; r == 0 && i < m->size; i++)
            r = count_from(m, i * count, count, i, n_call, wrong, err);
        return r;
    case CHECK_N_OPS: break;
    }
    return r;
}

int measure_op(struct measure *m, enum check_op op, uint64_t bytes, struct measured *ret, struct cc_err *err)
{
    size_t count = check_op_count(op, bytes, m->size);
    size_t n_send = op == CHECK_REDUCE_SCATTER ? count * m->size : count;
    size_t n_recv = op == CHECK_ALL_GATHER ? count * m->size : count;
    int    r = 0;

    *ret = (struct measured) { .ns = 0 };
    for (unsigned i = 0; r == 0 && i < m->warmup + m->iters; i++) {
        unsigned n_call = m->n_calls++;
        uint64_t start;

        r = fill(m, n_send, n_call, err);
        if (r == 0) /* or who checked faster would wait in the call, and its time would count */
            r = say_so(ccrun_barrier(m->pg), err);
        start = now_ns();
        if (r == 0)
            r = say_so(call(m, op, count), err);
        if (i >= m->warmup)
            m->times[i - m->warmup] = now_ns() - start;
        if (r == 0)
            r = fetch(m, n_recv, err);
        if (r == 0)
            r = count_wrong(m, op, count, n_call, &ret->n_wrong, err);
    }
    ret->ns = check_median(m->times, m->iters);
    return r;
}

/* The time begins when the other has checked what came before, and ends with its word that all has arrived. */
static int give(struct measure *m, size_t count, int peer, uint64_t *ret_ns, struct cc_err *err)
{
    int      r = ccrun_recv(m->pg, m->to, 1, CCRUN_F32, peer, TAG);
    uint64_t start = now_ns();

    if (r == 0)
        r = ccrun_send(m->pg, m->from, count, CCRUN_F32, peer, TAG);
    if (r == 0)
        r = ccrun_recv(m->pg, m->to, 1, CCRUN_F32, peer, TAG);
    *ret_ns = now_ns() - start;
    return say_so(r, err);
}

static int take(struct measure *m, size_t count, int peer, unsigned n_call, uint64_t *wrong, struct cc_err *err)
{
    int r = ccrun_send(m->pg, m->from, 1, CCRUN_F32, peer, TAG);

    if (r == 0)
        r = ccrun_recv(m->pg, m->to, count, CCRUN_F32, peer, TAG);
    if (r == 0)
        r = ccrun_send(m->pg, m->from, 1, CCRUN_F32, peer, TAG);
    r = r < 0 ? say_so(r, err) : fetch(m, count, err);
    return r == 0 ? count_from(m, 0, count, (unsigned) peer, n_call, wrong, err) : r;
}

int measure_pair(struct measure *m, uint64_t bytes, struct measured *ret, struct cc_err *err)
{
    size_t count = (size_t) (bytes / sizeof(float));
    int    peer = m->rank == 0 ? 1 : 0, r = 0;

    *ret = (struct measured) { .ns = 0 };
    for (unsigned way = 0; r == 0 && way < 2; way++)
        for (unsigned i = 0; r == 0 && i < m->warmup + m->iters; i++) {
            unsigned n_call = m->n_calls++;
            uint64_t ns = 0;

            r = fill(m, way == m->rank ? count : 1, n_call, err);
            if (r == 0)
                r = way == m->rank ? give(m, count, peer, &ns, err) : take(m, count, peer, n_call, &ret->n_wrong, err);
            if (way == m->rank && i >= m->warmup)
                m->times[i - m->warmup] = ns;
        }
    (void) check_median(m->times, m->iters);
    ret->ns = m->times[m->iters / 4];
    return r;
}

