/* hostlist.h - hosts in the order in which somebody listed them, and node lists as Slurm writes them: n[01-03,7]r[1-2].
 *
 * Pure.  The order is kept and doubles are kept, because both decide about node ranks.  The expansion is that of
 * `scontrol show hostnames`, zero padding and the order of several brackets included (the last varies fastest, then the
 * first, the second and so on); what can be no host name is refused where Slurm lets it pass.  Errors name the position in
 * the text, from 1.  A zeroed struct hostlist is empty; release with hostlist_clear().
 */
#ifndef LAUNCHER_HOSTLIST_H
#define LAUNCHER_HOSTLIST_H

#include <stdbool.h>
#include <stddef.h>

#include "store/base/err.h"

enum {
    HOSTLIST_MAX = 1 << 20,     /* hosts in a list */
    HOSTLIST_RANGE_MAX = 65536, /* of one range, and of all brackets but the last: as in Slurm */
    HOSTLIST_NAME_MAX = 255,    /* bytes of a name */
};

struct host {
    const char *name;      /* or an address; an IPv6 address has no brackets here */
    const char *user;      /* who to log in as; NULL: not said */
    const char *devices;   /* "0,2": the only GPUs to use there; NULL: all */
    unsigned    slots;     /* workers; 0: not said */
    unsigned    max_slots; /* no more than these; 0: not said */
    unsigned    port;      /* of ssh; 0: not said */
    unsigned    line;      /* of the host file that named it first; 0: none did */
    bool        is_slots_key; /* slots=N said so, which may not be said twice */
};

struct hostlist {
    struct host *host;
    size_t       n, cap;
    struct hostlist_text *texts; /* what the names point into; they stay where they are when the list grows */
};

void hostlist_clear(struct hostlist *l);

/* A copy of *h at the end.  -ENOMEM, -E2BIG. */
int hostlist_add(struct hostlist *l, const struct host *h, struct cc_err *err);

/* A copy of n bytes that lives as long as the list; NULL: no memory. */
const char *hostlist_keep(struct hostlist *l, const char *text, size_t n);

/* Adds the hosts of a Slurm node list, which may be empty.  `name` is what people call it ("SLURM_NODELIST").  After an
 * error the list has what was added before.  -EINVAL, -E2BIG, -ENOMEM. */
int hostlist_nodes(struct hostlist *l, const char *name, const char *text, struct cc_err *err);

/* One stretch of a text that may have brackets, and how its hosts are to be. */
struct hostlist_item {
    const char *where;  /* begins every sentence about it */
    const char *text;   /* positions count from here */
    const char *at;     /* the item itself */
    size_t      n;
    bool        has_steps; /* n[0-10/2], which Slurm does not know */
    struct host like;      /* for everything but the name */
};
int hostlist_expand(struct hostlist *l, const struct hostlist_item *item, struct cc_err *err);

/* Is that the same machine by name?  "n17" and "n17.cluster.example" are; letters of either case are alike. */
bool host_is(const char *a, const char *b);

/* The first of that name, by host_is(); NULL: none. */
const struct host *hostlist_find(const struct hostlist *l, const char *name);

#endif
