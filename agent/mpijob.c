#include "agent/mpijob.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/core/mpinodes.h"
#include "agent/meeting.h"
#include "agent/mpidir.h"
#include "agent/pmi1.h"
#include "agent/pmix.h"
#include "agent/rmtree.h"
#include "store/base/clock.h"
#include "store/base/macros.h"

enum {
    ABORT_GRACE_MS = 250, /* between MPI_Abort() and the exit: time to write out what is buffered */
    ENV_MAX = 64,
    ENV_OURS_MAX = 8,
    ENV_LINE_MAX = 320,
};

struct member {
    uint64_t kill_at; /* it has aborted; UINT64_MAX: not, or it is gone */
    int      abort_code;
    bool     is_aborted;
    bool     is_inside;  /* PMIx: it has begun and not finalized */
    bool     has_begun;  /* MPI_Init() */
    bool     is_missing; /* it has ended well, and had not */
};

struct fence { /* that ccrun-pmix waits for */
    struct fence  *next;
    struct mpijob *job;
    uint32_t       id;
};

struct asked { /* another node's question, which ccrun-pmix will answer */
    struct asked *next;
    uint32_t      id, node, their_id;
};

struct mpijob {
    uv_loop_t        *loop;
    struct mpijob_cfg cfg;
    const struct mpijob_cbs *cbs;
    void             *ctx;
    uv_timer_t       *timer; /* on its own: the loop frees it after us */
    char             *home, *dir; /* PMIx: for files of the library; in it, those of this round */
    struct rdzv_view  round;
    char              name[PMI1_KVSNAME_MAX]; /* of the round, the same on all nodes and like no other */
    char              line[MPINODES_LINE_MAX]; /* what we say of ourselves */
    struct mpinodes   nodes;
    struct meeting   *meeting;  /* NULL: there is one node */
    struct pmi1_server *pmi1;
    unsigned          n_fences; /* PMI-1: barriers of all nodes, this round */
    struct pmix_server *pmix;
    struct fence     *fences;
    struct asked     *asked;
    uint32_t          last_id;
    bool              is_begun, is_ready;
    char              lines[ENV_OURS_MAX][ENV_LINE_MAX];
    unsigned          n_lines;
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

/* The workers cannot go on, and would wait for ever. */
static void fail(struct mpijob *m, const char *why)
{
    unsigned i;

    if (!m->is_begun)
        return;
    m->is_begun = false;
    if (!m->is_ready) {
        m->cbs->ready(m->ctx, why);
        return;
    }
    say(m, -1, "MPI: %s: ending the workers", why);
    for (i = 0; i < m->cfg.nproc; i++)
        m->cbs->kill(m->ctx, i);
}

/* ---- MPI_Init() is for all ranks */

/* Some may begin before another ends without: then its exit is the failure (mpijob_exited).  Or after it. */
static void on_begun(void *ctx, unsigned local_rank)
{
    struct mpijob *m = ctx;
    char           why[96];
    unsigned       i;

    m->members[local_rank].has_begun = true;
    for (i = 0; i < m->cfg.nproc; i++)
        if (m->members[i].is_missing) {
            (void) snprintf(why, sizeof why, "rank %u exited without MPI_Init; the others would wait for it",
                            rank_of(m, i));
            fail(m, why);
            return;
        }
}

static bool has_anyone_begun(const struct mpijob *m)
{
    unsigned i;

    for (i = 0; i < m->cfg.nproc; i++)
        if (m->members[i].has_begun)
            return true;
    return false;
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

static void on_all_put(void *ctx, const struct cc_bytes *parts, uint32_t n)
{
    struct mpijob *m = ctx;
    struct cc_err  err = { 0 };
    uint32_t       i;
    int            r = 0;

    for (i = 0; i < n && r == 0; i++)
        if (i != m->round.group_rank)
            r = pmi1_merge(pmi1_server_core(m->pmi1), parts[i], &err);
    if (r < 0)
        fail(m, err.msg);
    else
        pmi1_release(pmi1_server_core(m->pmi1));
}

static void on_fence(void *ctx, struct cc_bytes put)
{
    struct mpijob *m = ctx;
    struct cc_err  err = { 0 };
    char           name[24];

    (void) snprintf(name, sizeof name, "barrier-%u", m->n_fences++);
    if (!m->meeting)
        pmi1_release(pmi1_server_core(m->pmi1));
    else if (meeting_exchange(m->meeting, cc_bytes_of(name), put, NULL, 0, on_all_put, m, &err) < 0)
        fail(m, err.msg);
}

static void on_trouble(void *ctx, unsigned local_rank, const char *sentence)
{
    struct mpijob *m = ctx;

    say(m, -1, "rank %u: %s", rank_of(m, local_rank), sentence);
}

static const struct pmi1_server_cbs pmi1_cbs = { on_fence, on_aborted, on_begun, on_trouble };

static int begin_pmi1(struct mpijob *m, struct cc_err *err)
{
    struct cc_buf   mapping = { .p = NULL };
    struct pmi1_cfg cfg = { .n_local = m->cfg.nproc, .world = m->round.world, .kvsname = m->name };

    if (mpinodes_vector(&m->nodes, &mapping) == 0)
        cfg.mapping = (const char *) cc_buf_data(&mapping);
    if (cfg.mapping)
        m->pmi1 = pmi1_server_new(m->loop, &cfg, &pmi1_cbs, m);
    cc_buf_free(&mapping);
    return m->pmi1 ? 0 : cc_fail(err, -ENOMEM, "no memory for the PMI of %u workers", m->cfg.nproc);
}

/* ---- PMIx */

static void tell_pmix(struct mpijob *m, const struct pmixmsg *what)
{
    struct cc_err err = { 0 };

    if (m->pmix && pmix_tell(m->pmix, what, &err) < 0)
        fail(m, err.msg);
}

static void forget_fence(struct fence *f)
{
    struct fence **at;

    for (at = &f->job->fences; *at != f; at = &(*at)->next)
        ;
    *at = f->next;
    free(f);
}

static void on_fenced(void *ctx, const struct cc_bytes *parts, uint32_t n)
{
    struct fence  *f = ctx;
    struct cc_buf  all = { .p = NULL };
    struct pmixmsg done = { .type = PMIXMSG_FENCE_DONE, .id = f->id };
    uint32_t       i;
    int            r = 0;

    for (i = 0; i < n && r == 0; i++)
        r = cc_buf_add(&all, parts[i].p, parts[i].n);
    done.number = r;
    done.blob = (struct cc_bytes) { cc_buf_data(&all), r == 0 ? cc_buf_len(&all) : 0 };
    tell_pmix(f->job, &done);
    cc_buf_free(&all);
    forget_fence(f);
}

/* The nodes of the ranks in ":0,1,5", in rising order as the ranks are; -EPROTO. */
static int nodes_of(const struct mpijob *m, struct cc_bytes ranks, uint32_t *ret, uint32_t *ret_n)
{
    const uint8_t *at = ranks.p, *end = at + ranks.n;
    uint32_t       n = 0;

    while (at < end) {
        uint64_t rank = 0;

        for (at++; at < end && *at >= '0' && *at <= '9' && rank < m->nodes.world; at++)
            rank = 10 * rank + (uint64_t) (*at - '0');
        if (rank >= m->nodes.world || (at < end && *at != ','))
            return -EPROTO;
        if (n == 0 || ret[n - 1] != mpinodes_of(&m->nodes, (uint32_t) rank))
            ret[n++] = mpinodes_of(&m->nodes, (uint32_t) rank);
        if (n == m->nodes.n)
            break;
    }
    *ret_n = n;
    return n > 0 ? 0 : -EPROTO;
}

static int fence(struct mpijob *m, const struct pmixmsg *said, struct cc_err *err)
{
    const uint8_t  *colon = memchr(said->text.p, ':', said->text.n);
    struct cc_bytes name = { said->text.p, colon ? (size_t) (colon - said->text.p) : said->text.n };
    struct cc_bytes ranks = { colon, said->text.n - name.n };
    uint32_t       *nodes = calloc(m->nodes.n, sizeof *nodes), n = 0;
    struct fence   *f = calloc(1, sizeof *f);
    int             r = nodes && f && m->meeting ? 0 : -ENOMEM;

    if (r == 0 && colon)
        r = nodes_of(m, ranks, nodes, &n);
    if (r < 0) {
        free(f);
        (void) cc_fail(err, r, "PMIx: a fence that cannot be: %s", strerror(-r));
    } else {
        *f = (struct fence) { m->fences, m, said->id };
        m->fences = f; /* until it is done, or the round has ended */
        r = meeting_exchange(m->meeting, name, said->blob, colon ? nodes : NULL, n, on_fenced, f, err);
    }
    free(nodes);
    return r;
}

/* To the ccrun-pmix of another node. */
static int mail(struct mpijob *m, uint32_t node, const struct pmixmsg *what, struct cc_err *err)
{
    struct cc_buf b = { .p = NULL };
    int           r = pmixmsg_put(&b, what);

    if (r < 0 || !m->meeting)
        r = cc_fail(err, r < 0 ? r : -EPROTO, "PMIx: there is nobody to ask");
    else
        r = meeting_send(m->meeting, node, (struct cc_bytes) { cc_buf_data(&b), cc_buf_len(&b) }, err);
    cc_buf_free(&b);
    return r;
}

/* Ours wants the data of a rank on another node. */
static int ask(struct mpijob *m, const struct pmixmsg *said, struct cc_err *err)
{
    char           us[16];
    struct pmixmsg question = *said;

    if (said->number < 0 || (uint32_t) said->number >= m->nodes.world)
        return cc_fail(err, -EPROTO, "PMIx: there is no rank %d", said->number);
    (void) snprintf(us, sizeof us, "%u", m->round.group_rank);
    question.text = cc_bytes_of(us);
    return mail(m, mpinodes_of(&m->nodes, (uint32_t) said->number), &question, err);
}

static void take_question(struct mpijob *m, const struct pmixmsg *q)
{
    struct asked *a = calloc(1, sizeof *a);
    char          node[16] = "";

    if (q->text.n > 0 && q->text.n < sizeof node)
        memcpy(node, q->text.p, q->text.n);
    if (!a || !node[0] || strtoul(node, NULL, 10) >= m->nodes.n) {
        free(a);
        return;
    }
    *a = (struct asked) { m->asked, ++m->last_id, (uint32_t) strtoul(node, NULL, 10), q->id };
    m->asked = a;
    tell_pmix(m, &(struct pmixmsg) { .type = PMIXMSG_ASK, .id = a->id, .number = q->number });
}

/* Ours has the data that another node has asked for. */
static int answer(struct mpijob *m, const struct pmixmsg *said, struct cc_err *err)
{
    struct pmixmsg to = *said;
    struct asked **at, *a;
    int            r;

    for (at = &m->asked; *at && (*at)->id != said->id; at = &(*at)->next)
        ;
    a = *at;
    if (!a)
        return 0;
    *at = a->next;
    to.id = a->their_id;
    r = mail(m, a->node, &to, err);
    free(a);
    return r;
}

static void on_mail(void *ctx, struct cc_bytes message)
{
    struct mpijob *m = ctx;
    struct pmixmsg said;

    if (pmixmsg_take(message.p, message.n, &said) <= 0)
        return; /* nobody else of the job writes there */
    if (said.type == PMIXMSG_ASK)
        take_question(m, &said);
    else if (said.type == PMIXMSG_ANSWER)
        tell_pmix(m, &said);
}

static struct member *member_of(struct mpijob *m, uint32_t rank)
{
    uint32_t local_rank = rank - m->round.base_rank;

    return local_rank < m->cfg.nproc ? &m->members[local_rank] : NULL;
}

static void become_ready(struct mpijob *m)
{
    if (m->is_ready || !m->is_begun)
        return;
    m->is_ready = true;
    m->cbs->ready(m->ctx, NULL);
}

static void on_inside(struct mpijob *m, struct member *w, bool is_inside)
{
    w->is_inside = is_inside;
    if (is_inside)
        on_begun(m, (unsigned) (w - m->members));
}

static void on_said(void *ctx, const struct pmixmsg *said)
{
    struct mpijob *m = ctx;
    struct member *w = said->type == PMIXMSG_ABORTED || said->type == PMIXMSG_INSIDE ? member_of(m, said->id) : NULL;
    struct cc_err  err = { 0 };
    int            r = 0;

    if (w && said->type == PMIXMSG_ABORTED)
        on_aborted(m, (unsigned) (w - m->members), said->number);
    else if (w)
        on_inside(m, w, said->number != 0);
    else if (said->type == PMIXMSG_READY)
        become_ready(m);
    else if (said->type == PMIXMSG_FENCE)
        r = fence(m, said, &err);
    else if (said->type == PMIXMSG_ASK)
        r = ask(m, said, &err);
    else if (said->type == PMIXMSG_ANSWER)
        r = answer(m, said, &err);
    if (r < 0)
        fail(m, err.msg);
}

static void on_pmix_failed(void *ctx, const char *sentence)
{
    fail(ctx, sentence);
}

static const struct pmix_cbs pmix_cbs = { on_said, on_pmix_failed };

/* What the last round left behind goes. */
static int make_dir(struct mpijob *m, struct cc_err *err)
{
    int r = m->home ? 0 : mpidir_make(&m->home, m->cfg.keeper_fd, err);

    if (r < 0)
        return r;
    if (m->dir)
        (void) rmtree(m->dir);
    free(m->dir);
    if (asprintf(&m->dir, "%s/%u", m->home, m->round.round) < 0) {
        m->dir = NULL;
        return cc_fail(err, -ENOMEM, "no memory for a path");
    }
    return mkdir(m->dir, 0700) < 0 ? cc_fail(err, -errno, "make '%s': %s", m->dir, strerror(errno)) : 0;
}

/* It starts while the nodes meet. */
static int start_pmix(struct mpijob *m, struct cc_err *err)
{
    const char     *host = strchr(m->line, ' ') + 1;
    struct pmix_cfg cfg = {
        .program = m->cfg.helper, .host = host, .env = m->cfg.env, .n_local = m->cfg.nproc,
    };

    int r = make_dir(m, err);

    if (r < 0)
        return r;
    cfg.directory = m->dir;
    return pmix_start(&m->pmix, m->loop, &cfg, &pmix_cbs, m, err);
}

static int register_job(struct mpijob *m, struct cc_err *err)
{
    struct cc_buf  both = { .p = NULL };
    struct pmixmsg job = {
        .type = PMIXMSG_REGISTER,
        .id = m->round.group_rank,
        .number = (int32_t) m->round.base_rank,
        .text = cc_bytes_of(m->name),
    };
    int r = mpinodes_hosts(&m->nodes, &both);

    if (r == 0)
        r = mpinodes_ranks(&m->nodes, &both);
    if (r < 0)
        (void) cc_fail(err, r, "no memory for the ranks of %u nodes", m->nodes.n);
    job.blob = (struct cc_bytes) { cc_buf_data(&both), cc_buf_len(&both) };
    if (r == 0 && m->meeting)
        r = meeting_listen(m->meeting, err);
    if (r == 0)
        r = pmix_tell(m->pmix, &job, err);
    cc_buf_free(&both);
    return r;
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

/* Once it is known who lives where. 0: ready; 1: later. */
static int begin_kind(struct mpijob *m, const struct cc_bytes *lines, uint32_t n, struct cc_err *err)
{
    int r = mpinodes_make(&m->nodes, lines, n, m->round.world, err);

    if (r < 0)
        return r;
    if (m->cfg.kind == MPI_PMI1)
        return begin_pmi1(m, err);
    r = register_job(m, err);
    return r < 0 ? r : 1;
}

static void on_nodes(void *ctx, const struct cc_bytes *lines, uint32_t n)
{
    struct mpijob *m = ctx;
    struct cc_err  err = { 0 };
    int            r = m->is_begun ? begin_kind(m, lines, n, &err) : 1;

    if (r < 0)
        fail(m, err.msg);
    else if (r == 0)
        become_ready(m);
}

static void on_lost(void *ctx, const char *sentence)
{
    fail(ctx, sentence);
}

static const struct meeting_cbs meeting_cbs = { on_lost, on_mail };

static int meet(struct mpijob *m, struct cc_err *err)
{
    const struct meeting_cfg cfg = {
        .host = m->round.master, .port = m->round.port, .node = m->round.group_rank, .n_nodes = m->round.group_world,
    };
    int r = meeting_start(&m->meeting, m->loop, &cfg, &meeting_cbs, m, err);

    if (r == 0)
        r = meeting_exchange(m->meeting, cc_bytes_of("nodes"), cc_bytes_of(m->line), NULL, 0, on_nodes, m, err);
    return r < 0 ? r : 1;
}

int mpijob_begin(struct mpijob *m, const struct rdzv_view *round, struct cc_err *err)
{
    struct cc_bytes own;
    unsigned        i;
    int             r = 0;

    mpijob_end(m);
    m->round = *round;
    make_name(m);
    mpinodes_say(m->line, m->cfg.host, round->group_rank, m->cfg.nproc);
    own = cc_bytes_of(m->line);
    for (i = 0; i < m->cfg.nproc; i++)
        m->members[i] = (struct member) { .kill_at = UINT64_MAX };
    m->n_fences = 0;
    m->is_begun = true;
    if (m->cfg.kind == MPI_PMIX)
        r = start_pmix(m, err);
    if (r == 0)
        r = round->group_world > 1 ? meet(m, err) : begin_kind(m, &own, 1, err);
    m->is_ready = r == 0;
    return r;
}

void mpijob_end(struct mpijob *m)
{
    struct asked *a;
    struct fence *f;

    m->is_begun = m->is_ready = false;
    (void) uv_timer_stop(m->timer);
    pmi1_server_close(m->pmi1);
    pmix_close(m->pmix);
    meeting_close(m->meeting);
    mpinodes_clear(&m->nodes);
    m->pmi1 = NULL;
    m->pmix = NULL;
    m->meeting = NULL;
    while ((f = m->fences)) {
        m->fences = f->next;
        free(f);
    }
    while ((a = m->asked)) {
        m->asked = a->next;
        free(a);
    }
}

/* ---- workers */

__attribute__((format(printf, 2, 3))) static void add_env(struct mpijob *m, const char *fmt, ...)
{
    char   *line = m->lines[m->n_lines++];
    va_list ap;
    size_t  n = 0;

    while (m->env[n])
        n++;
    va_start(ap, fmt);
    (void) vsnprintf(line, ENV_LINE_MAX, fmt, ap);
    va_end(ap);
    m->env[n] = line;
    m->env[n + 1] = NULL;
}

static int add_pmi1(struct mpijob *m, unsigned local_rank, int *ret_fd, struct cc_err *err)
{
    *ret_fd = pmi1_server_open(m->pmi1, local_rank, err);
    if (*ret_fd < 0)
        return *ret_fd;
    add_env(m, "PMI_FD=%d", MPIJOB_FD);
    add_env(m, "PMI_RANK=%u", rank_of(m, local_rank));
    add_env(m, "PMI_SIZE=%u", m->round.world);
    add_env(m, "MPI_LOCALRANKID=%u", local_rank);
    add_env(m, "MPI_LOCALNRANKS=%u", m->cfg.nproc);
    return 0;
}

static int add_pmix(struct mpijob *m, unsigned local_rank, struct cc_err *err)
{
    char *const *theirs = pmix_env(m->pmix, local_rank);
    size_t       n;

    for (n = 0; theirs && theirs[n] && n < ENV_MAX - ENV_OURS_MAX; n++)
        m->env[n] = theirs[n];
    if (n == 0 || theirs[n])
        return cc_fail(err, -EPROTO, "PMIx: local rank %u has no environment", local_rank);
    m->env[n] = NULL;
    add_env(m, "JSM_JSRUN_PORT=1"); /* Open MPI 4 takes a rank for a lone process unless it sees a launcher it knows */
    add_env(m, "OMPI_MCA_btl_vader_backing_directory=%s", m->dir);
    add_env(m, "OMPI_MCA_btl_sm_backing_directory=%s", m->dir);
    add_env(m, "OMPI_MCA_orte_tmpdir_base=%s", m->dir);
    return 0;
}

int mpijob_worker(struct mpijob *m, unsigned local_rank, struct mpijob_worker *ret, struct cc_err *err)
{
    int fd = -1, r = 0;

    m->env[0] = NULL;
    m->n_lines = 0;
    if (m->pmi1)
        r = add_pmi1(m, local_rank, &fd, err);
    else if (m->pmix)
        r = add_pmix(m, local_rank, err);
    *ret = (struct mpijob_worker) { m->env, fd };
    return r;
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

/* Its last word may not have been heard yet. */
static bool is_inside(struct mpijob *m, unsigned local_rank)
{
    if (m->pmi1) {
        pmi1_server_exited(m->pmi1, local_rank);
        return pmi1_is_inside(pmi1_server_core(m->pmi1), local_rank);
    }
    if (m->pmix)
        pmix_listen(m->pmix);
    return m->members[local_rank].is_inside;
}

int mpijob_exited(struct mpijob *m, unsigned local_rank, int status, bool is_told)
{
    struct member *w = &m->members[local_rank];
    bool           was_inside = is_inside(m, local_rank);

    w->kill_at = UINT64_MAX;
    if (w->is_aborted && !is_told)
        return status_of(w->abort_code);
    if (status != 0 || is_told || m->round.world < 2)
        return status;
    w->is_missing = !w->has_begun;
    if (!was_inside && (w->has_begun || !has_anyone_begun(m)))
        return status;
    say(m, 0, "rank %u exited without %s; the others would wait for it", rank_of(m, local_rank),
        was_inside ? "MPI_Finalize" : "MPI_Init");
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
    if (m->home)
        (void) rmtree(m->home);
    free(m->home);
    free(m->dir);
    uv_close((uv_handle_t *) m->timer, on_timer_closed);
    free(m);
    return NULL;
}
