#include "backends/pg.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/choose.h"
#include "store/base/cleanup.h"
#include "store/base/clock.h"
#include "store/base/macros.h"
#include "store/core/siphash.h"

enum {
    DEFAULT_TIMEOUT_MS = 1800000, /* PyTorch's, of everything but NCCL */
    FAREWELL_MS = 5000,           /* how long a rank 0 that serves the store waits for the others to leave */
};

static const struct backend *const backends[] = { &backend_gloo, &backend_nccl, &backend_mpi, &backend_self,
                                                  &backend_ref };

struct cc_err *pg_error(void)
{
    static _Thread_local struct cc_err last;

    return &last;
}

const char *ccrun_error(void)
{
    return pg_error()->msg;
}

const char *ccrun_version(void)
{
    return CCRUN_VERSION;
}

/* ---- which backend */

static const struct backend *find_backend(const char *name)
{
    for (size_t i = 0; i < CC_COUNT(backends); i++)
        if (strcmp(backends[i]->name, name) == 0)
            return backends[i];
    return NULL;
}

static int unknown_backend(const char *name, struct cc_err *err)
{
    char   names[128] = "auto";
    size_t n = strlen(names);

    for (size_t i = 0; i < CC_COUNT(backends); i++)
        n += (size_t) snprintf(names + n, sizeof names - n, ", %s", backends[i]->name);
    return cc_fail(err, -EINVAL, "backend '%.40s' is none of: %s", name, names);
}

int ccrun_backend_version(const char *backend, char *ret, size_t size)
{
    const struct backend *b = find_backend(backend);
    char                  text[BACKEND_VERSION_MAX] = "";
    struct cc_err        *err = pg_error();
    int                   r;

    if (!b)
        return unknown_backend(backend, err);
    if (!b->version)
        return cc_fail(err, -EINVAL, "%s: there is no library behind it", backend);
    r = b->version(text, err);
    if (r < 0)
        return cc_wrap(err, "%s", backend);
    (void) snprintf(ret, size, "%s", text);
    return 0;
}

/* ---- the beginning */

static struct ccrun_pg *pg_new(const char *group, uint64_t timeout_ms, const char *device,
                               const char *interface)
{
    struct ccrun_pg *pg = calloc(1, sizeof *pg);

    if (!pg)
        return NULL;
    pg->owner = getpid();
    pg->timeout_ms = timeout_ms;
    (void) snprintf(pg->group, sizeof pg->group, "%s", group);
    (void) pthread_mutex_init(&pg->turn, NULL);
    (void) pthread_mutex_init(&pg->lock, NULL);
    (void) pthread_cond_init(&pg->change, NULL);
    atomic_init(&pg->is_aborted, false);
    if ((device && !(pg->device = strdup(device))) || (interface && !(pg->interface = strdup(interface)))) {
        (void) ccrun_destroy_process_group(pg);
        return NULL;
    }
    return pg;
}

/* Opens the backend, whose sentences get its name and our rank in front. */
static int open_backend(struct ccrun_pg *pg, struct keystore *store, const struct ccrun_pg *parent,
                        const int *ranks, struct cc_err *err)
{
    struct backend_cfg cfg = { .rank = pg->rank,
                               .size = pg->size,
                               .timeout_ms = pg->timeout_ms,
                               .store = store,
                               .device = pg->device,
                               .interface = pg->interface,
                               .group = pg->group,
                               .parent = parent ? parent->b : NULL,
                               .ranks = ranks };
    int                r = pg->backend->open(&pg->b, &cfg, err);

    if (r < 0 && cfg.size == 0) /* it did not get as far as to know */
        return cc_wrap(err, "%s: group '%s'", pg->backend->name, pg->group);
    if (r < 0)
        return cc_wrap(err, "%s: rank %d of %d, group '%s'", pg->backend->name, cfg.rank, cfg.size,
                       pg->group);
    pg->rank = cfg.rank;
    pg->size = cfg.size;
    return 0;
}

/* A backend that has told us already who we are, and an init method that says something else. */
static int check_told(const struct ccrun_pg *pg, struct cc_err *err)
{
    const struct init_where *where = &pg->store.m.where;

    if (!pg->b || (where->rank == pg->rank && where->world_size == pg->size))
        return 0;
    return cc_fail(err, -EINVAL,
                   "%s says that this is rank %d of %d, but the init method that it is rank %d of %d%s",
                   pg->backend->name, pg->rank, pg->size, where->rank, where->world_size,
                   pg->size == 1 ? ": was it started for this MPI library (ccrun --mpi pmix or pmi1)?" : "");
}

/* Puts who we are in front of what went wrong before there was a backend to say it. */
static int not_met(const struct ccrun_pg *pg, struct cc_err *err)
{
    const struct init_where *where = &pg->store.m.where;

    return cc_wrap(err, "%s: rank %d of %d, group '%s'", pg->backend ? pg->backend->name : "auto",
                   where->rank, where->world_size, pg->group);
}

static int check_size(const struct ccrun_pg *pg, struct cc_err *err)
{
    const struct backend *b = pg->backend;

    if (!b || b->max_size == 0 || pg->size <= b->max_size)
        return 0;
    return cc_fail(err, -EINVAL, "it is for %d rank, and this world has %d; gloo, nccl and mpi are for more",
                   b->max_size, pg->size);
}

static int meet_all(struct ccrun_pg *pg, const struct ccrun_init *init, struct cc_err *err)
{
    uint64_t start = cc_monotonic_ms(), spent;
    int      r = meet_open(&pg->store.m, init, pg->timeout_ms, err);

    if (r < 0) /* of an init method we say what PyTorch says, and nothing else */
        return pg->store.m.where.world_size > 0 ? not_met(pg, err) : r;
    pg->store.keys = pg->store.m.store;
    if ((r = check_told(pg, err)) < 0)
        return r;
    pg->rank = pg->store.m.where.rank;
    pg->size = pg->store.m.where.world_size;
    if ((r = check_size(pg, err)) == 0)
        r = seat_take(&pg->seat, pg->store.keys, pg->group, pg->rank, pg->size, err);
    pg->has_seat = r == 0;
    spent = cc_monotonic_ms() - start;
    if (r == 0)
        r = seat_wait_all(&pg->seat, spent < pg->timeout_ms ? pg->timeout_ms - spent : 0, err);
    return r < 0 ? not_met(pg, err) : 0;
}

/* The ranks of a backend that needs no store have one all the same where the caller or the launcher says how
 * to meet in it. */
static int meet_besides(struct ccrun_pg *pg, const struct ccrun_init *init, struct cc_err *err)
{
    static const char *const names[] = { "RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT" };
    bool                     has_store = true;
    int                      r;

    for (size_t i = 0; !init->init_method && i < CC_COUNT(names); i++)
        has_store = has_store && getenv(names[i]);
    if (!has_store && init->world_size > 0)
        pg->store.m.where = (struct init_where){ .rank = init->rank, .world_size = init->world_size };
    if (has_store)
        r = meet_all(pg, init, err);
    else
        r = init->world_size > 0 ? check_told(pg, err) : 0;
    if (r < 0)
        pg->backend->abort(pg->b); /* the others may be in it */
    return r;
}

static int choose(struct ccrun_pg *pg, struct cc_err *err)
{
    struct backend_cfg cfg = { .rank = pg->rank,
                               .size = pg->size,
                               .timeout_ms = pg->timeout_ms,
                               .store = pg->seat.own,
                               .device = pg->device };

    return choose_backend(&pg->backend, &cfg, err);
}

static int init_group(struct ccrun_pg *pg, const struct ccrun_init *init, struct cc_err *err)
{
    bool needs_store = !pg->backend || pg->backend->needs_store;
    int  r = 0;

    if (needs_store)
        r = meet_all(pg, init, err);
    if (r == 0 && !pg->backend)
        r = choose(pg, err);
    if (r == 0)
        r = open_backend(pg, pg->seat.own, NULL, NULL, err);
    return r < 0 || needs_store ? r : meet_besides(pg, init, err);
}

static void set_store(struct ccrun_pg *pg)
{
    pg->store.rank = pg->rank;
    pg->store.size = pg->size;
    pg->store.timeout_ms = pg->timeout_ms;
}

int ccrun_init_process_group(struct ccrun_pg **ret, const struct ccrun_init *init)
{
    struct cc_err        *err = pg_error();
    const char           *name = init->backend ? init->backend : "auto";
    const char           *group = init->group ? init->group : "default";
    const struct backend *backend = find_backend(name);
    struct ccrun_pg      *pg;
    int                   r;

    if (!backend && strcmp(name, "auto") != 0)
        return unknown_backend(name, err);
    if (!*group || strlen(group) >= PG_GROUP_MAX || strchr(group, '/'))
        return cc_fail(err, -EINVAL, "group '%.80s' is not a name of 1 to %d characters without '/'", group,
                       PG_GROUP_MAX - 1);
    pg = pg_new(group, init->timeout_ms > 0 ? init->timeout_ms : DEFAULT_TIMEOUT_MS, init->device,
                init->interface);
    if (!pg)
        return cc_fail(err, -ENOMEM, "no memory for a process group");
    pg->backend = backend;
    r = init_group(pg, init, err);
    if (r < 0) {
        struct cc_err why = *err;

        (void) ccrun_destroy_process_group(pg);
        *err = why;
        return r;
    }
    set_store(pg);
    *ret = pg;
    return 0;
}

/* ---- groups of a group */

static int by_number(const void *a, const void *b)
{
    int x = *(const int *) a, y = *(const int *) b;

    return (x > y) - (x < y);
}

/* The list in rising order, and the place of this rank in it. */
static int sort_ranks(const struct ccrun_pg *parent, int *ranks, int n, int *ret_rank, struct cc_err *err)
{
    *ret_rank = -1;
    qsort(ranks, (size_t) n, sizeof *ranks, by_number);
    for (int i = 0; i < n; i++) {
        if (ranks[i] < 0 || ranks[i] >= parent->size)
            return cc_fail(err, -EINVAL, "rank %d is not in group '%s' of size %d", ranks[i], parent->group,
                           parent->size);
        if (i > 0 && ranks[i] == ranks[i - 1])
            return cc_fail(err, -EINVAL, "rank %d is named twice for a new group", ranks[i]);
        if (ranks[i] == parent->rank)
            *ret_rank = i;
    }
    return *ret_rank >= 0
               ? 0
               : cc_fail(err, -EINVAL,
                         "rank %d is not among those of the group that it asks for: only these may",
                         parent->rank);
}

/* A seat under the parent's keys: "sub/<list>/", where a long list has to be short. */
static int seat_below(struct ccrun_pg *pg, struct ccrun_pg *parent, const int *ranks, struct cc_err *err)
{
    static const uint64_t key[2] = { 0 }; /* the same for all */
    struct keystore      *below = NULL;
    char                  name[64];
    uint64_t              hash =
        siphash13(key, (struct cc_bytes){ (const uint8_t *) ranks, (size_t) pg->size * sizeof *ranks });
    int r;

    (void) snprintf(name, sizeof name, "sub/%d-%016" PRIx64 "/", pg->size, hash);
    r = keystore_clone(&below, parent->seat.own, name, err);
    if (r == 0)
        r = keystore_share(&pg->store.keys, below, NULL, err);
    if (r == 0)
        r = seat_take(&pg->seat, below, pg->group, pg->rank, pg->size, err);
    pg->has_seat = r == 0;
    (void) keystore_free(below);
    return r == 0 ? seat_wait_all(&pg->seat, pg->timeout_ms, err) : r;
}

static int fill_group(struct ccrun_pg *pg, struct ccrun_pg *parent, const int *ranks, struct cc_err *err)
{
    int r = 0;

    pg->is_child = true;
    pg->backend = parent->backend;
    if (parent->has_seat)
        r = seat_below(pg, parent, ranks, err);
    if (r < 0)
        return cc_wrap(err, "a new group of %d of group '%s'", pg->size, parent->group);
    (void) pthread_mutex_lock(&parent->turn);
    r = open_backend(pg, pg->seat.own, parent, ranks, err);
    (void) pthread_mutex_unlock(&parent->turn);
    return r;
}

int ccrun_new_group(struct ccrun_pg **ret, struct ccrun_pg *parent, const int *ranks, int n)
{
    struct cc_err    *err = pg_error();
    CC_AUTO_FREE int *sorted = n > 0 ? malloc((size_t) n * sizeof *sorted) : NULL;
    struct ccrun_pg  *pg = NULL;
    int               rank, r;

    if (n < 1)
        return cc_fail(err, -EINVAL, "a group of %d ranks is none", n);
    if (pg_check_owner(parent, err) < 0)
        return err->code;
    if (sorted) {
        memcpy(sorted, ranks, (size_t) n * sizeof *sorted);
        if ((r = sort_ranks(parent, sorted, n, &rank, err)) < 0)
            return r;
        pg = pg_new(parent->group, parent->timeout_ms, parent->device, parent->interface);
    }
    if (!pg)
        return cc_fail(err, -ENOMEM, "no memory for a process group");
    pg->rank = rank;
    pg->size = n;
    r = fill_group(pg, parent, sorted, err);
    if (r < 0) {
        struct cc_err why = *err;

        (void) ccrun_destroy_process_group(pg);
        *err = why;
        return r;
    }
    set_store(pg);
    *ret = pg;
    return 0;
}

/* ---- the end */

int pg_check_owner(const struct ccrun_pg *pg, struct cc_err *err)
{
    if (pg->owner == getpid())
        return 0;
    return cc_fail(err, -EINVAL,
                   "group '%s' belongs to process %d, of which this one is a fork: init one of its own here",
                   pg->group, (int) pg->owner);
}

/* The connections of a fork are those of its parent, and it has no threads: it leaves all as it is. */
int ccrun_abort(struct ccrun_pg *pg)
{
    if (pg->owner != getpid())
        return 0;
    atomic_store(&pg->is_aborted, true);
    if (pg->b)
        pg->backend->abort(pg->b);
    if (pg->store.keys)
        keystore_interrupt(pg->store.keys);
    return 0;
}

/* A rank that failed is not missed by those that leave in good order: they wait for it no longer than a
 * while. */
static void leave_seat(struct ccrun_pg *pg)
{
    uint64_t farewell = pg->timeout_ms < FAREWELL_MS ? pg->timeout_ms : FAREWELL_MS;

    if (pg->has_seat)
        seat_leave(&pg->seat, pg->b && pg->store.m.helper ? farewell : 0);
    seat_free(&pg->seat);
}

int ccrun_destroy_process_group(struct ccrun_pg *pg)
{
    if (!pg || pg->owner != getpid())
        return 0;
    pg_end_thread(pg);
    leave_seat(pg);
    if (pg->b)
        pg->backend->close(pg->b);
    if (pg->is_child)
        (void) keystore_free(pg->store.keys);
    else
        meet_close(&pg->store.m);
    (void) pthread_mutex_destroy(&pg->turn);
    (void) pthread_mutex_destroy(&pg->lock);
    (void) pthread_cond_destroy(&pg->change);
    free(pg->device);
    free(pg->interface);
    free(pg);
    return 0;
}

int ccrun_rank(const struct ccrun_pg *pg)
{
    return pg->rank;
}

int ccrun_size(const struct ccrun_pg *pg)
{
    return pg->size;
}

const char *ccrun_backend(const struct ccrun_pg *pg)
{
    return pg->backend->name;
}

struct ccrun_store *ccrun_pg_store(struct ccrun_pg *pg)
{
    return pg->store.keys ? &pg->store : NULL;
}
