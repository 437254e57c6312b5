/* mpi_shim.c - the backend, in terms of MPI: built once for each binary interface of MPI, with its mpi.h. */
#include "backends/mpi_shim.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/mpi_inside.h"
#include "store/base/clock.h"

/* NOLINTBEGIN(clang-analyzer-optin.mpi.MPI-Checker): it does not know of MPI_Test() */

enum { NAMES_MAX = 160 }; /* of a list of ranks in a sentence */

/* ---- groups */

static void shim_abort(void *b)
{
    struct group *g = b;

    atomic_store(&g->is_aborted, true);
    group_lock(g);
    if (!g->is_told && shim_may_call()) /* else the thread that may does it */
        shim_tell_peers(g);
    group_unlock(g);
    shim_set_unclean();
}

static void shim_close(void *b)
{
    struct group   *g = b;
    struct process *p = shim_process();
    int             is_over = 0;

    group_lock(g);
    if (!atomic_load(&g->is_aborted) && shim_may_call() && MPI_Finalized(&is_over) == MPI_SUCCESS && !is_over)
        (void) MPI_Comm_free(&g->comm);
    group_unlock(g);
    (void) pthread_mutex_lock(&p->lock);
    p->n_groups--;
    (void) pthread_mutex_unlock(&p->lock);
    (void) pthread_mutex_destroy(&g->own);
    free(g);
}

static struct group *group_new(const struct backend_cfg *cfg)
{
    struct process *p = shim_process();
    struct group   *g = calloc(1, sizeof *g);

    if (!g)
        return NULL;
    g->comm = MPI_COMM_NULL;
    g->given_up_by = -1;
    (void) snprintf(g->name, sizeof g->name, "%s", cfg->group);
    (void) pthread_mutex_init(&g->own, NULL);
    g->lock = p->level == MPI_THREAD_MULTIPLE ? &g->own : &p->turn;
    atomic_init(&g->is_aborted, false);
    (void) pthread_mutex_lock(&p->lock);
    p->n_groups++;
    (void) pthread_mutex_unlock(&p->lock);
    return g;
}

/* Waits for what a group begins with; `parent` may be given up meanwhile.  -ETIMEDOUT has no sentence. */
static int settle(struct group *g, struct group *parent, MPI_Request *q, int n, uint64_t deadline,
                  struct cc_err *err)
{
    struct group *one = parent ? parent : g;

    for (;;) {
        uint64_t now = cc_monotonic_ms();
        int      is_over = 0, r = MPI_SUCCESS, why = shim_check_usable(err);

        group_lock(one);
        if (why == 0)
            r = shim_test_all(q, n, &is_over);
        if (why == 0 && parent && !is_over)
            why = shim_reason_to_end(parent, UINT64_MAX, 0, err);
        group_unlock(one);
        if (why < 0)
            return why;
        if (r != MPI_SUCCESS)
            return shim_failed(r, "MPI", err);
        if (is_over)
            return 0;
        if (now >= deadline)
            return -ETIMEDOUT;
        (void) sched_yield();
    }
}

/* All of MPI_COMM_WORLD, in a communicator of our own. */
static int open_world(struct group *g, struct backend_cfg *cfg, uint64_t deadline, struct cc_err *err)
{
    MPI_Request q = MPI_REQUEST_NULL;
    int         r;

    (void) MPI_Comm_rank(MPI_COMM_WORLD, &cfg->rank);
    (void) MPI_Comm_size(MPI_COMM_WORLD, &cfg->size);
    group_lock(g);
    r = MPI_Comm_idup(MPI_COMM_WORLD, &g->comm, &q);
    group_unlock(g);
    if (r != MPI_SUCCESS)
        return shim_failed(r, "MPI_Comm_idup", err);
    r = settle(g, NULL, &q, 1, deadline, err);
    if (r == -ETIMEDOUT)
        r = cc_fail(err, r, "not all of the %d ranks came within %.3g s", cfg->size,
                    (double) cfg->timeout_ms / 1000);
    if (r < 0)
        shim_spoil(g);
    return r;
}

/* So that two groups are not taken for one. */
static uint64_t fingerprint(const int *ranks, int n)
{
    uint64_t h = 0xcbf29ce484222325; /* FNV-1a */

    for (int i = 0; i < n; i++)
        h = (h ^ (uint64_t) (unsigned) ranks[i]) * 0x100000001b3;
    return h;
}

/* The names of those whose request is not done. */
static void list_missing(const MPI_Request *q, const int *ranks, int n, char names[NAMES_MAX])
{
    size_t at = 0;

    names[0] = '\0';
    for (int i = 1; i < n; i++) {
        if (q[i] != MPI_REQUEST_NULL && at < NAMES_MAX)
            at += (size_t) snprintf(names + at, NAMES_MAX - at, "%s%d", at > 0 ? ", " : "", ranks[i]);
    }
}

/* Receives of the parent that nobody waits for any more.  False: MPI may still write what they are for. */
static bool withdraw(struct group *parent, MPI_Request *q, int n)
{
    bool is_clean = true;

    group_lock(parent);
    for (int i = 0; i < n; i++)
        if (q[i] != MPI_REQUEST_NULL)
            is_clean = shim_may_call() && shim_take_back(&q[i]) && is_clean;
    group_unlock(parent);
    return is_clean;
}

/* Receives the lists of all the others. 0, or why not. */
static int hear_all(struct group *g, struct group *parent, const struct backend_cfg *cfg, uint64_t deadline,
                    struct cc_err *err)
{
    int  n = cfg->size, r = MPI_SUCCESS;
    char names[NAMES_MAX];

    for (int i = 0; i < n; i++)
        g->begun[i] = MPI_REQUEST_NULL;
    group_lock(parent);
    for (int i = 1; r == MPI_SUCCESS && i < n; i++)
        r = MPI_Irecv(&g->said[i], (int) sizeof *g->said, MPI_BYTE, cfg->ranks[i], TAG_HELLO, parent->comm,
                      &g->begun[i]);
    group_unlock(parent);
    r = r == MPI_SUCCESS ? settle(g, parent, g->begun, n, deadline, err) : shim_failed(r, "MPI_Irecv", err);
    if (r == -ETIMEDOUT) {
        list_missing(g->begun, cfg->ranks, n, names);
        r = cc_fail(err, r, "of the ranks of its parent, %s did not come within %.3g s", names,
                    (double) cfg->timeout_ms / 1000);
    }
    return r;
}

/* The first one hears of all the others, then says that they may go on. */
static int lead(struct group *g, struct group *parent, const struct backend_cfg *cfg, uint64_t deadline,
                struct cc_err *err)
{
    int      n = cfg->size, r;
    uint64_t mine = fingerprint(cfg->ranks, n);

    g->begun = calloc((size_t) n, sizeof *g->begun);
    g->said = calloc((size_t) n, sizeof *g->said);
    if (!g->begun || !g->said)
        return cc_fail(err, -ENOMEM, "no memory for %d ranks", n);
    r = hear_all(g, parent, cfg, deadline, err);
    if (r < 0 && !withdraw(parent, g->begun, n))
        return r; /* MPI may still write there: the memory stays */
    group_lock(parent);
    for (int i = 1; r == 0 && i < n; i++) {
        if (g->said[i] != mine)
            r = cc_fail(err, -EPROTO, "rank %d of its parent asks for a group of other ranks", cfg->ranks[i]);
        else
            (void) MPI_Send(NULL, 0, MPI_BYTE, cfg->ranks[i], TAG_GO, parent->comm);
    }
    group_unlock(parent);
    free(g->begun);
    free(g->said);
    g->begun = NULL;
    g->said = NULL;
    return r;
}

static int follow(struct group *g, struct group *parent, const struct backend_cfg *cfg, uint64_t deadline,
                  struct cc_err *err)
{
    uint64_t    mine = fingerprint(cfg->ranks, cfg->size);
    MPI_Request q = MPI_REQUEST_NULL;
    int         r;

    group_lock(parent);
    r = MPI_Irecv(NULL, 0, MPI_BYTE, cfg->ranks[0], TAG_GO, parent->comm, &q);
    if (r == MPI_SUCCESS)
        r = MPI_Send(&mine, (int) sizeof mine, MPI_BYTE, cfg->ranks[0], TAG_HELLO, parent->comm);
    group_unlock(parent);
    if (r != MPI_SUCCESS)
        return shim_failed(r, "MPI", err);
    r = settle(g, parent, &q, 1, deadline, err);
    if (r == -ETIMEDOUT)
        r = cc_fail(err, r, "rank %d of its parent, or one that it waits for, did not come within %.3g s",
                    cfg->ranks[0], (double) cfg->timeout_ms / 1000);
    if (r < 0)
        (void) withdraw(parent, &q, 1); /* it has no buffer */
    return r;
}

/* MPI makes it in a call that waits without a limit: so everybody is there before. */
static int open_part(struct group *g, struct group *parent, const struct backend_cfg *cfg, uint64_t deadline,
                     struct cc_err *err)
{
    MPI_Group all = MPI_GROUP_NULL, part = MPI_GROUP_NULL;
    int r = cfg->rank == 0 ? lead(g, parent, cfg, deadline, err) : follow(g, parent, cfg, deadline, err);

    if (r < 0)
        return r;
    group_lock(parent);
    r = MPI_Comm_group(parent->comm, &all);
    if (r == MPI_SUCCESS)
        r = MPI_Group_incl(all, cfg->size, cfg->ranks, &part);
    if (r == MPI_SUCCESS)
        r = MPI_Comm_create_group(parent->comm, part, TAG_GROUP, &g->comm);
    if (part != MPI_GROUP_NULL)
        (void) MPI_Group_free(&part);
    if (all != MPI_GROUP_NULL)
        (void) MPI_Group_free(&all);
    group_unlock(parent);
    return r == MPI_SUCCESS ? 0 : shim_failed(r, "MPI_Comm_create_group", err);
}

/* A group that could not be made: MPI may still write its communicator, and nobody is to wait for us at the
 * end. */
static void discard(struct group *g)
{
    struct process *p = shim_process();

    shim_set_unclean();
    (void) pthread_mutex_lock(&p->lock);
    p->n_groups--;
    g->next = p->unborn;
    p->unborn = g;
    (void) pthread_mutex_unlock(&p->lock);
}

static int shim_open(void **ret, struct backend_cfg *cfg, struct cc_err *err)
{
    uint64_t      deadline = cc_deadline_in(cfg->timeout_ms);
    struct group *g;
    int           r = shim_prepare(err);

    if (r < 0 || (r = shim_check_usable(err)) < 0)
        return r;
    g = group_new(cfg);
    if (!g)
        return cc_fail(err, -ENOMEM, "no memory for a group");
    r = cfg->parent ? open_part(g, cfg->parent, cfg, deadline, err) : open_world(g, cfg, deadline, err);
    if (r == 0 && MPI_Comm_set_errhandler(g->comm, MPI_ERRORS_RETURN) != MPI_SUCCESS)
        r = cc_fail(err, -EIO, "MPI does not take MPI_ERRORS_RETURN");
    if (r < 0) {
        discard(g);
        return r;
    }
    g->rank = cfg->rank;
    g->size = cfg->size;
    *ret = g;
    return 0;
}

/* May be asked before MPI has begun.  "MPICH Version: 4.0.2 ...", "Open MPI v4.1.4, package: ...". */
static int shim_version(char ret[BACKEND_VERSION_MAX], struct cc_err *err)
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = "", *end = text;
    int  n = 0, r = MPI_Get_library_version(text, &n);

    if (r != MPI_SUCCESS)
        return cc_fail(err, -EIO, "MPI does not say its version");
    end += strcspn(text, ",\n");
    *end = '\0';
    n = (int) strcspn(text, ":\t"); /* a name, blanks and the rest */
    (void) snprintf(ret, BACKEND_VERSION_MAX, "%.*s%s%s", n, text, text[n] ? " " : "",
                    text + n + strspn(text + n, ":\t "));
    return 0;
}

/* NOLINTEND(clang-analyzer-optin.mpi.MPI-Checker) */

__attribute__((visibility("default"))) const struct mpi_shim ccrun_mpi_shim = {
    .version = MPI_SHIM_VERSION,
    .backend = {
        .name = "mpi",
        .version = shim_version,
        .open = shim_open,
        .run = shim_run,
        .start = shim_start,
        .poll = shim_poll,
        .abort = shim_abort,
        .close = shim_close,
    },
};
