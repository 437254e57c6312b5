#include "launcher/check_measure.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PERIOD = 13, BY_RANK = 7, BY_CALL = 3, ALIGN = 4096, TAG = 1 };

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

static uint64_t count_unlike(const float *got, size_t n, const float period[PERIOD], unsigned at)
{
    uint64_t wrong = 0;

    for (size_t i = 0; i < n; i++) {
        wrong += !(got[i] == period[at]);
        at = at + 1 == PERIOD ? 0 : at + 1;
    }
    return wrong;
}

uint64_t measure_count_wrong(const float *got, size_t n, size_t first, unsigned rank, unsigned call)
{
    float period[PERIOD];

    measure_fill(period, PERIOD, 0, 0, 0);
    return count_unlike(got, n, period, phase(first, rank, call));
}

uint64_t measure_count_wrong_sum(const float *got, size_t n, size_t first, unsigned size, unsigned call)
{
    float period[PERIOD], one[PERIOD];

    memset(period, 0, sizeof period);
    for (unsigned rank = 0; rank < size; rank++) {
        measure_fill(one, PERIOD, 0, rank, call);
        for (unsigned i = 0; i < PERIOD; i++)
            period[i] += one[i];
    }
    return count_unlike(got, n, period, (unsigned) (first % PERIOD));
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
    size_t bytes = m->room * sizeof(float);
    int    r = cuda_open(&m->gpu, NULL, err); /* the one that the group has taken, too */

    if (r < 0)
        return r;
    cuda_enter(&m->gpu);
    r = cuda_alloc(&m->gpu, bytes, &m->gpu_send, err);
    if (r == 0)
        r = cuda_alloc(&m->gpu, bytes, &m->gpu_recv, err);
    cuda_leave(&m->gpu);
    m->from = (const void *) (uintptr_t) m->gpu_send; /* NOLINT(performance-no-int-to-ptr): that is what it is */
    m->to = (void *) (uintptr_t) m->gpu_recv;         /* NOLINT(performance-no-int-to-ptr) */
    return r;
}

static void close_gpu(struct measure *m)
{
    if (!m->gpu.has_context)
        return;
    cuda_enter(&m->gpu);
    cuda_free(&m->gpu, m->gpu_send, m->gpu.work);
    cuda_free(&m->gpu, m->gpu_recv, m->gpu.work);
    cuda_leave(&m->gpu);
    cuda_close(&m->gpu);
}

/* What is sent goes to where calls find it. */
static int push(struct measure *m, size_t n, struct cc_err *err)
{
    int r;

    if (!m->gpu.has_context || n == 0)
        return 0;
    cuda_enter(&m->gpu);
    r = cuda_to_device(&m->gpu, m->gpu_send, m->send, n * sizeof(float), err);
    cuda_leave(&m->gpu);
    return r;
}

/* What came goes to where it is checked. */
static int pull(struct measure *m, size_t n, struct cc_err *err)
{
    int r;

    if (!m->gpu.has_context || n == 0)
        return 0;
    cuda_enter(&m->gpu);
    r = cuda_to_host(&m->gpu, m->recv, m->gpu_recv, n * sizeof(float), err);
    cuda_leave(&m->gpu);
    return r;
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

void measure_close(struct measure *m)
{
    close_gpu(m);
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

static uint64_t count_wrong(const struct measure *m, enum check_op op, size_t count, unsigned n_call)
{
    uint64_t wrong = 0;

    switch (op) {
    case CHECK_ALL_REDUCE: return measure_count_wrong_sum(m->recv, count, 0, m->size, n_call);
    case CHECK_REDUCE_SCATTER: return measure_count_wrong_sum(m->recv, count, m->rank * count, m->size, n_call);
    case CHECK_SENDRECV: return measure_count_wrong(m->recv, count, 0, (m->rank + m->size - 1) % m->size, n_call);
    case CHECK_ALL_GATHER:
        for (unsigned r = 0; r < m->size; r++)
            wrong += measure_count_wrong(m->recv + r * count, count, 0, r, n_call);
        return wrong;
    case CHECK_N_OPS: break;
    }
    return wrong;
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

        measure_fill(m->send, n_send, 0, m->rank, n_call);
        r = push(m, n_send, err);
        if (r == 0) /* or who checked faster would wait in the call, and its time would count */
            r = say_so(ccrun_barrier(m->pg), err);
        start = now_ns();
        if (r == 0)
            r = say_so(call(m, op, count), err);
        if (i >= m->warmup)
            m->times[i - m->warmup] = now_ns() - start;
        if (r == 0)
            r = pull(m, n_recv, err);
        if (r == 0)
            ret->n_wrong += count_wrong(m, op, count, n_call);
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
    r = r < 0 ? say_so(r, err) : pull(m, count, err);
    if (r == 0)
        *wrong += measure_count_wrong(m->recv, count, 0, (unsigned) peer, n_call);
    return r;
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

            measure_fill(m->send, way == m->rank ? count : 1, 0, m->rank, n_call);
            r = push(m, way == m->rank ? count : 1, err);
            if (r == 0)
                r = way == m->rank ? give(m, count, peer, &ns, err) : take(m, count, peer, n_call, &ret->n_wrong, err);
            if (way == m->rank && i >= m->warmup)
                m->times[i - m->warmup] = ns;
        }
    (void) check_median(m->times, m->iters);
    ret->ns = m->times[m->iters / 4];
    return r;
}

