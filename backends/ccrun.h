/* ccrun.h - process groups for programs started by ccrun (or torchrun, or anything that sets RANK and
 * WORLD_SIZE).
 *
 * The vocabulary is that of torch.distributed: ranks meet through an init method (env://, tcp://HOST:PORT,
 * file:///PATH), share a key-value store (PyTorch's TCPStore or FileStore: C ranks and Python ranks may meet
 * in one), and communicate through a backend that is loaded when it is asked for.
 *
 * Results.  A function that returns int returns 0 (or what it says) or a negative errno value, and then
 * ccrun_error() is a sentence that says what failed: the backend, this rank, the peer and the operation as
 * far as they are known.  The library never prints, never exits, installs no signal handler and does not
 * raise SIGPIPE.
 *   -EINVAL      an argument, a URL, a variable: nothing was sent
 *   -ENOTSUP     the backend has not this type or operation: nothing was sent
 *   -EEXIST      another process holds this rank (the sentence names it)
 *   -ESTALE      the file, or the store, is left over from an earlier run
 *   -ENOENT      the backend's library, or ccrun-store, was not found, or is too old
 *   -ENODEV      there is no GPU, or not this one
 *   -ETIMEDOUT   the deadline is over
 *   -ECONNRESET  a peer, or the store, is gone (-ENOTCONN: since an earlier call), or a peer has failed
 *   -ECANCELED   the group was aborted
 *   -ESHUTDOWN   the group failed in an earlier call, whose sentence is told again
 * After any failure but the first two of a call that communicates the group is of no use any more: abort and
 * destroy it, and init a new one.
 *
 * Threads.  A process may have any number of groups and stores, and threads may use different ones at the
 * same time.  Calls on one group take turns; ccrun_abort() never waits for its turn.  ccrun_error() is per
 * thread.  After fork() groups and stores stay those of the parent: in the child calls on them are -EINVAL,
 * and to abort, destroy or close one does nothing to it.
 *
 * Times are milliseconds; 0 means the default of the group.  Counts are elements, not bytes.  Buffers belong
 * to the caller and must stay until the call, or the request, is over.
 */
#ifndef CCRUN_H
#define CCRUN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct ccrun_pg;      /* a process group */
struct ccrun_store;   /* a key-value store that ranks share */
struct ccrun_request; /* something started and not waited for yet */

enum ccrun_type {
    CCRUN_I8,
    CCRUN_U8,
    CCRUN_I32,
    CCRUN_I64,
    CCRUN_F16,  /* IEEE half precision */
    CCRUN_BF16, /* the upper half of a float */
    CCRUN_F32,
    CCRUN_F64,
};

/* Integers wrap.  AVG is the sum over the size of the group; of integers, rounded towards zero. */
enum ccrun_op { CCRUN_SUM, CCRUN_PROD, CCRUN_MIN, CCRUN_MAX, CCRUN_AVG };

/* What is left out is 0 or NULL and means the default. */
struct ccrun_init {
    const char *backend; /* "gloo", "nccl", "mpi", "self" (one rank), "ref" (over the store; slow); NULL or
                            "auto": nccl when every rank has a GPU of its own, else gloo */
    const char *init_method; /* NULL: "env://" */
    int         rank;        /* -1, or world_size 0 or -1 and rank 0: from the URL or the environment */
    int         world_size;  /* 0 or -1: from the URL or the environment */
    uint64_t    timeout_ms;  /* to meet, and of every call without its own; 0: 30 minutes, as PyTorch */
    const char
        *group; /* a name of its own for each group that the same processes init at a time; NULL: "default" */
    const char
        *device; /* "cuda:N" for nccl: this rank's GPU; NULL: "cuda:LOCAL_RANK", or the only one it sees */
    const char *interface; /* gloo: an interface's name or a numeric address to be reached at; NULL:
                              GLOO_SOCKET_IFNAME, else what the way to the store goes through */
};

/* The last failure of this thread, as a sentence. Never NULL; good until the thread's next call fails. */
const char *ccrun_error(void);
const char *ccrun_version(void);
/* Which library is behind a backend, as this process would load it: "NCCL 2.27.3"; gloo: "build 1f2e3d4c". 0;
 * -EINVAL: no such backend, or it has no library; -ENOENT, -ENODEV: it cannot be loaded. */
int ccrun_backend_version(const char *backend, char *ret, size_t size);

/* ---- process groups */

/* Meets the other ranks and connects.  Where no agent serves the store (TORCHELASTIC_USE_AGENT_STORE is not
 * "True") rank 0 starts one, ccrun-store, which ends with it. */
int ccrun_init_process_group(struct ccrun_pg **ret, const struct ccrun_init *init);

/* A group of the ranks[0 .. n) of `parent`, in rising order.  Called by exactly these, and by each as many
 * times for the same list.  It has a connection of its own and may outlive its parent, but not a store that
 * rank 0 started. */
int ccrun_new_group(struct ccrun_pg **ret, struct ccrun_pg *parent, const int *ranks, int n);

/* Waits for what was started; a rank 0 that serves the store also waits a few seconds for the others to
 * leave. Releases pg in any case, also after a failure; NULL is fine. */
int ccrun_destroy_process_group(struct ccrun_pg *pg);

/* From any thread: what is under way returns soon with -ECANCELED, and so does every later call. The group
 * must still be destroyed, by whoever made it, when no other call is under way. */
int ccrun_abort(struct ccrun_pg *pg);

int         ccrun_rank(const struct ccrun_pg *pg);
int         ccrun_size(const struct ccrun_pg *pg);
const char *ccrun_backend(const struct ccrun_pg *pg); /* its name: what "auto" has become */
/* The store of the group, which lives as long as the group. NULL: the backend needed none (mpi). */
struct ccrun_store *ccrun_pg_store(struct ccrun_pg *pg);

/* ---- collectives: every rank of the group calls the same, in the same order, with the same count, type and
 * op */

/* recv[i] is send[i] of all ranks, reduced. send may be recv. */
int ccrun_all_reduce(struct ccrun_pg *pg, const void *send, void *recv, size_t count, enum ccrun_type type,
                     enum ccrun_op op);
int ccrun_reduce(struct ccrun_pg *pg, const void *send, void *recv, size_t count, enum ccrun_type type,
                 enum ccrun_op op, int root); /* recv matters at the root only; elsewhere it may be NULL */
int ccrun_broadcast(struct ccrun_pg *pg, void *buf, size_t count, enum ccrun_type type, int root);
/* recv has count x size elements, those of rank r at r x count; send may be its own part of it. */
int ccrun_all_gather(struct ccrun_pg *pg, const void *send, void *recv, size_t count, enum ccrun_type type);
int ccrun_gather(struct ccrun_pg *pg, const void *send, void *recv, size_t count, enum ccrun_type type,
                 int root);
/* send has count x size elements, those for rank r at r x count; recv has count. */
int ccrun_scatter(struct ccrun_pg *pg, const void *send, void *recv, size_t count, enum ccrun_type type,
                  int root);
int ccrun_reduce_scatter(struct ccrun_pg *pg, const void *send, void *recv, size_t count,
                         enum ccrun_type type, enum ccrun_op op);
/* Both have count x size elements, count for and from each rank. send must not be recv. */
int ccrun_all_to_all(struct ccrun_pg *pg, const void *send, void *recv, size_t count, enum ccrun_type type);
int ccrun_barrier(struct ccrun_pg *pg);

/* Between two ranks; what is sent with a tag is received with that tag, in order.  Two ranks that both send
 * first may wait for each other: start one of the two. */
int ccrun_send(struct ccrun_pg *pg, const void *buf, size_t count, enum ccrun_type type, int peer, int tag);
int ccrun_recv(struct ccrun_pg *pg, void *buf, size_t count, enum ccrun_type type, int peer, int tag);

/* ---- the same with every setting, and without waiting */

enum ccrun_what {
    CCRUN_ALL_REDUCE,
    CCRUN_REDUCE,
    CCRUN_BROADCAST, /* send is not looked at */
    CCRUN_ALL_GATHER,
    CCRUN_GATHER,
    CCRUN_SCATTER,
    CCRUN_REDUCE_SCATTER,
    CCRUN_ALL_TO_ALL,
    CCRUN_BARRIER,
    CCRUN_SEND,
    CCRUN_RECV,
};

struct ccrun_call {
    enum ccrun_what what;
    const void     *send;
    void           *recv;
    size_t          count;
    enum ccrun_type type;
    enum ccrun_op   op;
    int             peer; /* the root, or the other rank */
    int             tag;  /* SEND and RECV: 0 .. 32767 */
    uint64_t        timeout_ms;
    void           *stream; /* nccl: a cudaStream_t to work in; NULL: one of the group */
};

int ccrun_run(struct ccrun_pg *pg, const struct ccrun_call *call);
/* Requests of a group are worked off in the order in which they were started, SEND and RECV beside each
 * other and, but over nccl, beside the rest. */
int ccrun_start(struct ccrun_request **ret, struct ccrun_pg *pg, const struct ccrun_call *call);
/* 1: done, ccrun_wait() will not wait; 0: not yet. */
int ccrun_test(struct ccrun_request *request);
/* Returns what the call would have returned, and releases the request. Each request must be waited for, once,
 * before its group is destroyed. */
int ccrun_wait(struct ccrun_request *request);

/* ---- the store, alone or of a group: what Python ranks know as torch.distributed's TCPStore or FileStore */

/* As init_process_group() without a backend: returns when the store can be used; waits for no other rank.
 * `backend`, `group`, `device` and `interface` are not looked at. */
int ccrun_store_open(struct ccrun_store **ret, const struct ccrun_init *init);
struct ccrun_store     *
ccrun_store_close(struct ccrun_store *s); /* not that of a group; accepts and returns NULL */
int ccrun_store_rank(const struct ccrun_store *s);
int ccrun_store_size(const struct ccrun_store *s);

/* Keys are strings, values are bytes.  Groups keep their own keys under "ccrun/". */
int ccrun_store_set(struct ccrun_store *s, const char *key, const void *value, size_t size);
/* Waits for the key. *ret is for free(), and has a zero byte behind it that *ret_size does not count. */
int ccrun_store_get(struct ccrun_store *s, const char *key, uint64_t timeout_ms, void **ret,
                    size_t *ret_size);
int ccrun_store_add(struct ccrun_store *s, const char *key, int64_t delta, int64_t *ret_sum);
/* Stores `desired` if the key's value is `expected` (an empty one: if there is no such key).  *ret, for
 * free(), is what the key holds then, or `expected` where there is no such key. */
int ccrun_store_compare_set(struct ccrun_store *s, const char *key, const void *expected,
                            size_t expected_size, const void *desired, size_t desired_size, void **ret,
                            size_t *ret_size);
int ccrun_store_delete(struct ccrun_store *s, const char *key);
/* 1: all there, 0: not. */
int ccrun_store_check(struct ccrun_store *s, const char *const *keys, size_t n);
int ccrun_store_wait(struct ccrun_store *s, const char *const *keys, size_t n, uint64_t timeout_ms);
/* Returns when n processes have called it with this key: once for each key. Also Python's store.barrier(). */
int ccrun_store_barrier(struct ccrun_store *s, const char *key, int64_t n, uint64_t timeout_ms);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
