/* backend.h - what a backend of libccrun is: a table of functions, and what the process group promises to it.
 *
 * The group (pg.c) has checked a call before run() or start() sees it: ranks, types and ops are in range,
 * buffers are there, count x size fits, timeout_ms is not 0, a group of one rank with no peer is not special.
 * It calls one of open, run, start and close at a time; poll() and abort(), and start() where starts_beside
 * is set, may come from other threads meanwhile.  After a failure of run() or poll() it calls abort(), so
 * that the peers learn of it, and then only close().
 *
 * A backend says in err what failed and which peer it was; the group puts its name, the rank and the
 * operation in front.  Codes are those of ccrun.h.  -EINVAL and -ENOTSUP promise that nothing was sent.
 */
#ifndef BACKENDS_BACKEND_H
#define BACKENDS_BACKEND_H

#include <stdbool.h>
#include <stdint.h>

#include "backends/ccrun.h"
#include "backends/keystore.h"
#include "store/base/err.h"

enum { BACKEND_PLACE_MAX = 96, BACKEND_VERSION_MAX = 96 };

struct backend_cfg {
    int      rank, size;
    uint64_t timeout_ms; /* for open(), and for what has no timeout of its own */
    struct keystore *
        store; /* keys of this group only, empty at first; good during open(). NULL: needs_store is not set */
    const char *device, *interface; /* of struct ccrun_init, or NULL */
    const char *group;              /* its name, for sentences */
    void       *parent;             /* what open() has made of the group that this is a part of, or NULL */
    const int  *ranks;              /* ranks[i]: rank i's rank in the parent */
};

struct backend {
    const char *name;
    bool needs_store;   /* rank and size come from the init method and ranks meet in the store; else open()
                           finds out */
    bool starts_beside; /* start() may be called during run(): where it leaves collectives to a thread, that
                           is in run() until all have come, which some may do only after another message */

    int max_size; /* 0: no limit */

    /* 0: this rank could use the backend (the library is there, a device is), and ret_place is what no two
     * ranks can share, or empty.  err says why not.  NULL: always. */
    int (*probe)(const char *device, char ret_place[BACKEND_PLACE_MAX], struct cc_err *err);
    /* Of the library behind it, as this process would load it: "NCCL 2.27.3".  NULL: there is none. */
    int (*version)(char ret[BACKEND_VERSION_MAX], struct cc_err *err);
    int (*open)(void **ret, struct backend_cfg *cfg,
                struct cc_err *err); /* without needs_store it sets cfg->rank and size */
    int (*run)(void *b, const struct ccrun_call *call, uint64_t timeout_ms, struct cc_err *err);
    /* Begins a call and returns; -ENOSYS: not this one, a thread shall run() it. NULL: none. */
    int (*start)(void *b, const struct ccrun_call *call, uint64_t timeout_ms, void **ret_handle,
                 struct cc_err *err);
    /* Waits up to wait_ms for what start() has begun: 0 done, -EAGAIN not yet, else it failed.  Releases the
     * handle unless it returns -EAGAIN.  -ETIMEDOUT once the call's own timeout_ms is over. */
    int (*poll)(void *b, void *handle, uint64_t wait_ms, struct cc_err *err);
    void (*abort)(
        void *b); /* any thread, more than once: what is under way returns soon; peers get to know */
    void (*close)(void *b);
};

extern const struct backend backend_self, backend_ref, backend_gloo, backend_mpi, backend_nccl;

#endif
