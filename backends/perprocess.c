#include "backends/perprocess.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store/base/cleanup.h"

void perprocess_init(struct perprocess *p)
{
    p->next = NULL;
    p->name = NULL;
    p->owner = getpid();
    atomic_init(&p->n_users, 1);
}

void perprocess_share(struct perprocess *p)
{
    (void) atomic_fetch_add(&p->n_users, 1);
}

static int make_one(struct perprocess **ret, const char *name, perprocess_make *make, void *ctx,
                    struct cc_err *err)
{
    CC_AUTO_FREE char *copy = strdup(name);
    int                r = copy ? make(ret, ctx, err) : cc_fail(err, -ENOMEM, "no memory");

    if (r < 0)
        return r;
    assert(*ret);
    perprocess_init(*ret);
    (*ret)->name = CC_STEAL(copy);
    return 0;
}

int perprocess_take(struct perprocess **ret, struct perprocess_list *all, const char *name,
                    perprocess_make *make, void *ctx, struct cc_err *err)
{
    struct perprocess *p;
    int                r = 0;

    (void) pthread_mutex_lock(&all->lock);
    p = all->first;
    while (p && (strcmp(p->name, name) != 0 || !perprocess_is_ours(p)))
        p = p->next;
    if (p) {
        perprocess_share(p);
    } else if ((r = make_one(&p, name, make, ctx, err)) == 0) {
        assert(p);
        p->next = all->first;
        all->first = p;
    }
    if (r == 0)
        *ret = p;
    (void) pthread_mutex_unlock(&all->lock);
    return r;
}

bool perprocess_leave(struct perprocess_list *all, struct perprocess *p)
{
    struct perprocess **at = &all->first;
    bool                is_last;

    if (!p->name)
        return atomic_fetch_sub(&p->n_users, 1) == 1;
    (void) pthread_mutex_lock(&all->lock);
    is_last = atomic_fetch_sub(&p->n_users, 1) == 1;
    if (is_last) {
        while (*at != p)
            at = &(*at)->next;
        *at = p->next;
        free(p->name);
        p->name = NULL;
    }
    (void) pthread_mutex_unlock(&all->lock);
    return is_last;
}

bool perprocess_is_ours(const struct perprocess *p)
{
    return p->owner == getpid();
}
