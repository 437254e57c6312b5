/* perprocess.h - things of which this process has one for each name, whatever the number of its groups: it is
 * one user of a file, and serves one store at a port.
 *
 * What a forked child has inherited is its parent's: the child does not find it, and must not end it.  Any
 * thread; who asks waits while another is made in the same list.
 */
#ifndef BACKENDS_PERPROCESS_H
#define BACKENDS_PERPROCESS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include "store/base/err.h"

struct perprocess { /* the first member of the thing */
    struct perprocess *next;
    char              *name;
    pid_t              owner;
    atomic_uint        n_users;
};

struct perprocess_list {
    pthread_mutex_t    lock;
    struct perprocess *first;
};
#define PERPROCESS_LIST                                                                                      \
    {                                                                                                        \
        PTHREAD_MUTEX_INITIALIZER, NULL                                                                      \
    }

/* Makes the thing, its other members; 0 or a negative code. */
typedef int perprocess_make(struct perprocess **ret, void *ctx, struct cc_err *err);

/* The one with that name, with one user more; where there is none, what make() makes. */
int perprocess_take(struct perprocess **ret, struct perprocess_list *all, const char *name,
                    perprocess_make *make, void *ctx, struct cc_err *err);
/* Something that is in no list, with one user. */
void perprocess_init(struct perprocess *p);
/* One user more: another one of whom this was taken by. */
void perprocess_share(struct perprocess *p);
/* One user less.  True: it was the last, and p is in no list and has no name any more: the caller releases
 * it. */
bool perprocess_leave(struct perprocess_list *all, struct perprocess *p);
/* False: it is our parent's. */
bool perprocess_is_ours(const struct perprocess *p);

#endif
