/* nccl_work.h - one call on its way through a GPU: where its buffers are, and what NCCL is told of it.
 *
 * Device memory is used where it is.  Host memory is copied to the GPU before the call is issued and back
 * when it is over; both are copies that wait for no other rank.  All of it happens within cuda_enter().
 */
#ifndef BACKENDS_NCCL_WORK_H
#define BACKENDS_NCCL_WORK_H

#include <stdbool.h>
#include <stdint.h>

#include "backends/ccrun.h"
#include "backends/cuda.h"
#include "backends/nccl_api.h"

enum work_state { WORK_WAITING, WORK_LAUNCHING, WORK_RUNNING, WORK_OVER };

struct nccl_work {
    struct ccrun_call call;
    uint64_t          timeout_ms, deadline;
    uint64_t          next_watch; /* when to ask for other ranks' last words */
    enum work_state   state;
    cu_stream         stream;
    cu_event          event;                  /* behind it in the stream */
    cu_address        send, recv;             /* on the GPU */
    cu_address        send_stage, recv_stage; /* those of them that are ours, or 0 */
    bool              is_heap;
    struct nccl_work *next;
};

/* Who runs it. */
struct nccl_who {
    const struct nccl_api *api;
    struct cuda           *cuda;
    nccl_comm              comm;
    int                    rank, size;
    cu_address             one; /* an int of the GPU, for barriers */
};

/* Is it one that only two ranks make? */
bool work_is_message(const struct nccl_work *w);
/* Finds its buffers, and copies what is sent from the host. -EINVAL: a buffer is on another GPU. */
int work_stage(struct nccl_work *w, const struct nccl_who *who, struct cc_err *err);
/* Tells NCCL, between ncclGroupStart() and ncclGroupEnd(). */
nccl_result work_issue(const struct nccl_work *w, const struct nccl_who *who, cu_result *ret_cuda);
/* It is over: copies what was received to the host. */
int  work_collect(struct nccl_work *w, const struct nccl_who *who, struct cc_err *err);
void work_release(struct nccl_work *w, const struct nccl_who *who);

nccl_type nccl_type_of(enum ccrun_type type);
nccl_op   nccl_op_of(enum ccrun_op op);

#endif
