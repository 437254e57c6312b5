#include "agent/mpijob.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "agent/pmi1.h"
#include "store/base/clock.h"
#include "store/base/macros.h"

enum {
    ABORT_GRACE_MS = 250, /* between MPI_Abort() and the exit: time to write out what is buffered */
    ENV_MAX = 8,
    ENV_LINE_MAX = 320,
    WORKER_FD = 3,
};

struct member {
    uint64_t kill_at; /* it has aborted; UINT64_MAX: not, or it is gone */
    int      abort_code;
    bool     is_aborted;
};

struct mpijob {
    uv_loop_t        *loop;
    struct mpijob_cfg cfg;
    const struct mpijob_cbs *cbs;
    void             *ctx;
    uv_timer_t       *timer; /* on its own: the loop frees it after us */
    struct rdzv_view  round;
    char              name[PMI1_KVSNAME_MAX]; /* of the round, the same on all nodes and like no other */
    struct pmi1_server *pmi1;
    char              lines[ENV_MAX][ENV_LINE_MAX];
    char             *env[ENV_MAX + 1];
    struct member     members[];
};

__attribute__((format(printf, 3, 4))) static void say(struct mpijob *m, int verbosity, const char *fmt, ...)
{
    char    line[512];
    va_list ap;

    va_start(ap, fmt);
    (void) vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    m->cbs->say(m->ctx, verbosity, line);
}

static unsigned rank_of(const struct mpijob *m, unsigned local_rank)
{
    return m->round.base_rank + local_rank;
}

/* ---- MPI_Abort() */

static void on_timer(uv_timer_t *t)
{
    struct mpijob *m = t->data;
    uint64_t       now = cc_monotonic_ms(), next = UINT64_MAX;
    unsigned       i;

    for (i = 0; i < m->cfg.nproc; i++) {
        struct member *w = &m->members[i];

        if (w->kill_at <= now) {
            w->kill_at = UINT64_MAX;
            m->cbs->kill(m->ctx, i);
        }
        next = w->kill_at < next ? w->kill_at : next;
    }
    if (next != UINT64_MAX)
        (void) uv_timer_start(t, on_timer, next - now, 0);
}

static void on_aborted(void *ctx, unsigned local_rank, int code)
{
    struct mpijob *m = ctx;
    struct member *w = &m->members[local_rank];

    if (w->is_aborted)
        return;
    w->is_aborted = true;
    w->abort_code = code;
    w->kill_at = cc_monotonic_ms() + ABORT_GRACE_MS;
    if (!uv_is_active((uv_handle_t *) m->timer))
        (void) uv_timer_start(m->timer, on_timer, ABORT_GRACE_MS, 0);
    say(m, 0, "rank %u called MPI_Abort with code %d", rank_of(m, local_rank), code);
}

/* ---- PMI-1 */

static void on_fence(void *ctx, struct cc_bytes put)
{
    struct mpijob *m = ctx;

    (void) put;
    pmi1_release(pmi1_server_core(m->pmi1));
}

static void on_trouble(void *ctx, unsigned local_rank, const char *sentence)
{
    struct mpijob *m = ctx;

    say(m, -1, "rank %u: %s", rank_of(m, local_rank), sentence);
}

static const struct pmi1_server_cbs pmi1_cbs = { on_fence, on_aborted, on_trouble };

static int begin_pmi1(struct mpijob *m, struct cc_err *err)
{
    char                  mapping[64];
    const struct pmi1_cfg cfg = {
        .n_local = m->cfg.nproc, .world = m->round.world, .kvsname = m->name, .mapping = mapping,
    };

    (void) snprintf(mapping, sizeof mapping, "(vector,(0,1,%u))", m->cfg.nproc);
    m->pmi1 = pmi1_server_new(m->loop, &cfg, &pmi1_cbs, m);
    return m->pmi1 ? 0 : cc_fail(err, -ENOMEM, "no memory for the PMI of %u workers", m->cfg.nproc);
}

/* ---- rounds */

/* Letters that a library may put into a file's name. The port tells apart jobs that run at the same time and have one name. */
static void make_name(struct mpijob *m)
{
    char   id[64];
    size_t i;

    (void) snprintf(id, sizeof id, "%s", m->cfg.run_id);
    for (i = 0; id[i]; i++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-", id[i]))
            id[i] = '_';
    (void) snprintf(m->name, sizeof m->name, "ccrun-%s-%u-a%u", id, m->round.port, m->round.round);
}

int mpijob_begin(struct mpijob *m, const struct rdzv_view *round, struct cc_err *err)
{
    unsigned i;

    m->round = *round;
    make_name(m);
    for (i = 0; i < m->cfg.nproc; i++)
        m->members[i] = (struct member) { .kill_at = UINT64_MAX };
    return m->cfg.kind == MPI_PMI1 ? begin_pmi1(m, err) : 0;
}

void mpijob_end(struct mpijob *m)
{
    (void) uv_timer_stop(m->timer);
    pmi1_server_close(m->pmi1);
    m->pmi1 = NULL;
}

/* ---- workers */

__attribute__((format(printf, 2, 3))) static void add_env(struct mpijob *m, const char *fmt, ...)
{
    unsigned n = 0;
    va_list  ap;

    while (m->env[n])
        n++;
    va_start(ap, fmt);
    (void) vsnprintf(m->lines[n], sizeof m->lines[n], fmt, ap);
    va_end(ap);
    m->env[n] = m->lines[n];
    m->env[n + 1] = NULL;
}

int mpijob_worker(struct mpijob *m, unsigned local_rank, struct mpijob_worker *ret, struct cc_err *err)
{
    int fd = -1;

    m->env[0] = NULL;
    if (m->pmi1) {
        fd = pmi1_server_open(m->pmi1, local_rank, err);
        if (fd < 0)
            return fd;
        add_env(m, "PMI_FD=%d", WORKER_FD);
        add_env(m, "PMI_RANK=%u", rank_of(m, local_rank));
        add_env(m, "PMI_SIZE=%u", m->round.world);
        add_env(m, "MPI_LOCALRANKID=%u", local_rank);
        add_env(m, "MPI_LOCALNRANKS=%u", m->cfg.nproc);
    }
    *ret = (struct mpijob_worker) { m->env, fd };
    return 0;
}

void mpijob_started(struct mpijob *m, unsigned local_rank)
{
    if (m->pmi1)
        pmi1_server_started(m->pmi1, local_rank);
}

static int status_of(int code)
{
    return (code & 255 ? code & 255 : 1) << 8; /* as exit() makes one; an abort is never a success */
}

int mpijob_exited(struct mpijob *m, unsigned local_rank, int status, bool is_told)
{
    struct member *w = &m->members[local_rank];

    if (m->pmi1)
        pmi1_server_exited(m->pmi1, local_rank); /* its last word may be an abort */
    w->kill_at = UINT64_MAX;
    if (w->is_aborted && !is_told)
        return status_of(w->abort_code);
    if (status != 0 || is_told || m->round.world < 2 || !m->pmi1 || !pmi1_is_inside(pmi1_server_core(m->pmi1), local_rank))
        return status;
    say(m, 0, "rank %u exited without MPI_Finalize; the others would wait for it", rank_of(m, local_rank));
    return status_of(1);
}

/* ---- the whole */

static void on_timer_closed(uv_handle_t *h)
{
    free(h);
}

struct mpijob *mpijob_new(uv_loop_t *loop, const struct mpijob_cfg *cfg, const struct mpijob_cbs *cbs, void *ctx,
                          struct cc_err *err)
{
    struct mpijob *m = calloc(1, sizeof *m + cfg->nproc * sizeof m->members[0]);
    uv_timer_t    *timer = malloc(sizeof *timer);

    if (!m || !timer) {
        free(m);
        free(timer);
        (void) cc_fail(err, -ENOMEM, "no memory for the MPI of %u workers", cfg->nproc);
        return NULL;
    }
    (void) uv_timer_init(loop, timer); /* cannot fail */
    m->loop = loop;
    m->cfg = *cfg;
    m->cbs = cbs;
    m->ctx = ctx;
    m->timer = timer;
    timer->data = m;
    return m;
}

struct mpijob *mpijob_free(struct mpijob *m)
{
    if (!m)
        return NULL;
    mpijob_end(m);
    uv_close((uv_handle_t *) m->timer, on_timer_closed);
    free(m);
    return NULL;
}
