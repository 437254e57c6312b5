#include "backends/nccl_work.h"

#include <errno.h>

#include "backends/reduce.h"

nccl_type nccl_type_of(enum ccrun_type type)
{
    static const nccl_type types[] = {
        [CCRUN_I8] = NCCL_I8,   [CCRUN_U8] = NCCL_U8,     [CCRUN_I32] = NCCL_I32, [CCRUN_I64] = NCCL_I64,
        [CCRUN_F16] = NCCL_F16, [CCRUN_BF16] = NCCL_BF16, [CCRUN_F32] = NCCL_F32, [CCRUN_F64] = NCCL_F64,
    };

    return types[type];
}

nccl_op nccl_op_of(enum ccrun_op op)
{
    static const nccl_op ops[] = {
        [CCRUN_SUM] = NCCL_SUM, [CCRUN_PROD] = NCCL_PROD, [CCRUN_MIN] = NCCL_MIN,
        [CCRUN_MAX] = NCCL_MAX, [CCRUN_AVG] = NCCL_AVG,
    };

    return ops[op];
}

bool work_is_message(const struct nccl_work *w)
{
    return w->call.what == CCRUN_SEND || w->call.what == CCRUN_RECV;
}

/* ---- buffers */

/* What this rank has of each, in bytes. */
struct sizes {
    size_t send, recv;
};

static struct sizes sizes_of(const struct ccrun_call *c, int rank, int size)
{
    size_t one = c->what == CCRUN_BARRIER ? 0 : c->count * type_size(c->type), all = one * (size_t) size;
    bool   is_root = c->peer == rank;

    switch (c->what) {
    case CCRUN_ALL_REDUCE: return (struct sizes){ one, one };
    case CCRUN_REDUCE: return (struct sizes){ one, is_root ? one : 0 };
    case CCRUN_BROADCAST: return (struct sizes){ 0, one };
    case CCRUN_ALL_GATHER: return (struct sizes){ one, all };
    case CCRUN_GATHER: return (struct sizes){ one, is_root ? all : 0 };
    case CCRUN_SCATTER: return (struct sizes){ is_root ? all : 0, one };
    case CCRUN_REDUCE_SCATTER: return (struct sizes){ all, one };
    case CCRUN_ALL_TO_ALL: return (struct sizes){ all, all };
    case CCRUN_SEND: return (struct sizes){ one, 0 };
    case CCRUN_RECV: return (struct sizes){ 0, one };
    case CCRUN_BARRIER:
    default: return (struct sizes){ 0, 0 };
    }
}

/* *ret is where it is on the GPU, *ret_stage the same if it had to be moved there. */
static int place(const struct nccl_who *who, const char *which, const void *p, size_t size, cu_address *ret,
                 cu_address *ret_stage, struct cc_err *err)
{
    int ordinal = -1, r;

    if (size == 0)
        return 0;
    switch (cuda_place_of(who->cuda, p, &ordinal)) {
    case CUDA_HERE: *ret = (cu_address) (uintptr_t) p; return 0;
    case CUDA_ELSEWHERE:
        return cc_fail(err, -EINVAL, "the %s buffer is on cuda:%d, and this group works on cuda:%d", which,
                       ordinal, who->cuda->ordinal);
    case CUDA_HOST:
    default: break;
    }
    r = cuda_alloc(who->cuda, size, ret_stage, err);
    if (r == 0)
        *ret = *ret_stage;
    return r;
}

int work_stage(struct nccl_work *w, const struct nccl_who *who, struct cc_err *err)
{
    const struct ccrun_call *c = &w->call;
    struct sizes             n = sizes_of(c, who->rank, who->size);
    int                      r = place(who, "send", c->send, n.send, &w->send, &w->send_stage, err);

    if (r == 0)
        r = place(who, "receive", c->recv, n.recv, &w->recv, &w->recv_stage, err);
    if (r == 0 && w->send_stage)
        r = cuda_to_device(who->cuda, w->send_stage, c->send, n.send, err);
    if (r == 0 && w->recv_stage && c->what == CCRUN_BROADCAST && c->peer == who->rank)
        r = cuda_to_device(who->cuda, w->recv_stage, c->recv, n.recv, err);
    return r;
}

int work_collect(struct nccl_work *w, const struct nccl_who *who, struct cc_err *err)
{
    const struct ccrun_call *c = &w->call;

    if (!w->recv_stage || (c->what == CCRUN_BROADCAST && c->peer == who->rank))
        return 0;
    return cuda_to_host(who->cuda, c->recv, w->recv_stage, sizes_of(c, who->rank, who->size).recv, err);
}

void work_release(struct nccl_work *w, const struct nccl_who *who)
{
    cuda_free(who->cuda, w->send_stage, w->stream);
    cuda_free(who->cuda, w->recv_stage, w->stream);
    if (w->event)
        (void) who->cuda->api.cuEventDestroy_v2(w->event);
    w->send_stage = w->recv_stage = 0;
    w->event = NULL;
}

/* ---- what NCCL is told */

/* An address of the GPU, as NCCL wants it. */
static void *at(cu_address base, size_t offset)
{
    return (void *) (uintptr_t) (base + offset); /* NOLINT(performance-no-int-to-ptr): that is what it is */
}

/* Our part of what others send us does not go through NCCL. */
static cu_result copy_own(const struct nccl_work *w, const struct nccl_who *who, cu_address to,
                          cu_address from, size_t size)
{
    return to == from ? CU_OK : who->cuda->api.cuMemcpyDtoDAsync_v2(to, from, size, w->stream);
}

/* Parts `one` bytes long: to every rank from send (has_out), from every rank into recv (has_in); part_out and
 * part_in are 0 where the same, or only one, is meant for all. */
static nccl_result exchange(const struct nccl_work *w, const struct nccl_who *who, int out, int in,
                            size_t part_out, size_t part_in)
{
    nccl_type   type = nccl_type_of(w->call.type);
    nccl_result r = NCCL_OK;

    for (int i = 0; r == NCCL_OK && i < who->size; i++) {
        if (i == who->rank)
            continue;
        if (out < 0 || out == i)
            r = who->api->ncclSend(at(w->send, (size_t) i * part_out), w->call.count, type, i, who->comm,
                                   w->stream);
        if (r == NCCL_OK && (in < 0 || in == i))
            r = who->api->ncclRecv(at(w->recv, (size_t) i * part_in), w->call.count, type, i, who->comm,
                                   w->stream);
    }
    return r;
}

enum { ALL = -1, NOBODY = INT_MAX };

/* Those that NCCL has no call for in every version that we take. */
static nccl_result issue_exchange(const struct nccl_work *w, const struct nccl_who *who, cu_result *ret_cuda)
{
    const struct ccrun_call *c = &w->call;
    size_t                   one = c->count * type_size(c->type), own = (size_t) who->rank * one;
    bool                     is_root = c->peer == who->rank;

    switch (c->what) {
    case CCRUN_ALL_TO_ALL:
        *ret_cuda = copy_own(w, who, w->recv + own, w->send + own, one);
        return exchange(w, who, ALL, ALL, one, one);
    case CCRUN_GATHER:
        if (!is_root)
            return exchange(w, who, c->peer, NOBODY, 0, 0);
        *ret_cuda = copy_own(w, who, w->recv + own, w->send, one);
        return exchange(w, who, NOBODY, ALL, 0, one);
    case CCRUN_SCATTER:
        if (!is_root)
            return exchange(w, who, NOBODY, c->peer, 0, 0);
        *ret_cuda = copy_own(w, who, w->recv, w->send + own, one);
        return exchange(w, who, ALL, NOBODY, one, 0);
    case CCRUN_SEND: return exchange(w, who, c->peer, NOBODY, 0, 0);
    case CCRUN_RECV: return exchange(w, who, NOBODY, c->peer, 0, 0);
    case CCRUN_ALL_REDUCE:
    case CCRUN_REDUCE:
    case CCRUN_BROADCAST:
    case CCRUN_ALL_GATHER:
    case CCRUN_REDUCE_SCATTER:
    case CCRUN_BARRIER:
    default: return NCCL_INVALID_USAGE;
    }
}

nccl_result work_issue(const struct nccl_work *w, const struct nccl_who *who, cu_result *ret_cuda)
{
    const struct ccrun_call *c = &w->call;
    const struct nccl_api   *api = who->api;
    void                    *send = at(w->send, 0), *recv = at(w->recv, 0), *one = at(who->one, 0);

    *ret_cuda = CU_OK;
    switch (c->what) {
    case CCRUN_ALL_REDUCE:
        return api->ncclAllReduce(send, recv, c->count, nccl_type_of(c->type), nccl_op_of(c->op), who->comm,
                                  w->stream);
    case CCRUN_REDUCE:
        return api->ncclReduce(send, recv, c->count, nccl_type_of(c->type), nccl_op_of(c->op), c->peer,
                               who->comm, w->stream);
    case CCRUN_BROADCAST:
        return api->ncclBroadcast(recv, recv, c->count, nccl_type_of(c->type), c->peer, who->comm, w->stream);
    case CCRUN_ALL_GATHER:
        return api->ncclAllGather(send, recv, c->count, nccl_type_of(c->type), who->comm, w->stream);
    case CCRUN_REDUCE_SCATTER:
        return api->ncclReduceScatter(send, recv, c->count, nccl_type_of(c->type), nccl_op_of(c->op),
                                      who->comm, w->stream);
    case CCRUN_BARRIER: return api->ncclAllReduce(one, one, 1, NCCL_I32, NCCL_MAX, who->comm, w->stream);
    case CCRUN_GATHER:
    case CCRUN_SCATTER:
    case CCRUN_ALL_TO_ALL:
    case CCRUN_SEND:
    case CCRUN_RECV:
    default: return issue_exchange(w, who, ret_cuda);
    }
}
