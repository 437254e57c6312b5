/* pg.h - inside a process group: what pg.c, which makes and ends them, and calls.c, which uses them, share.
 */
#ifndef BACKENDS_PG_H
#define BACKENDS_PG_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "backends/backend.h"
#include "backends/meet.h"

enum { PG_GROUP_MAX = 64 };

struct ccrun_store {
    struct meeting   m; /* of a store that was opened alone; the group's own otherwise */
    struct keystore *keys;
    uint64_t         timeout_ms;
    int              rank, size;
};

struct ccrun_request {
    struct ccrun_pg      *pg;
    struct ccrun_call     call;
    void                 *handle; /* what the backend's start() has made; or a thread runs it: */
    bool                  is_done;
    int                   result;
    struct cc_err         err;
    struct ccrun_request *next; /* in the queue of that thread */
};

struct ccrun_pg {
    const struct backend *backend;
    void                 *b;
    pid_t                 owner; /* not a fork of it, which would take what is on the way to this process */
    int                   rank, size;
    uint64_t              timeout_ms;
    char                  group[PG_GROUP_MAX];
    bool                  is_child; /* made by new_group(): the meeting is not ours */
    bool                  has_seat;
    struct seat           seat;
    struct ccrun_store    store;
    char                 *device, *interface; /* for groups made of this one */

    pthread_mutex_t turn; /* held while the backend runs a call */
    atomic_bool     is_aborted;
    pthread_mutex_t lock;   /* of all below */
    struct cc_err   failed; /* code 0: it has not */

    pthread_cond_t        change;
    pthread_t             thread; /* works off the queue */
    bool                  has_thread, is_ending;
    struct ccrun_request *first, *last;
};

/* -EINVAL: this process is a fork of the one that made the group. */
int            pg_check_owner(const struct ccrun_pg *pg, struct cc_err *err);
struct cc_err *pg_error(void); /* of this thread: what ccrun_error() tells */
/* Ends the thread of the queue when it has worked it off. */
void pg_end_thread(struct ccrun_pg *pg);

#endif
