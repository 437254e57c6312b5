#include "agent/preflight.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/core/workerenv.h"
#include "agent/spawn.h"
#include "agent/tree.h"
#include "store/base/buf.h"
#include "store/base/cleanup.h"
#include "store/base/macros.h"

enum {
    VERDICT_FD = 3,
    LINES_MAX = 64 * 1024,
    N_OWN_ARGS = 9,     /* at most, beside the user's */
    PATIENCE = 6,       /* the check has this many times its timeout to end by itself, */
    SLACK_MS = 5000,    /* and this */
    LEAVE_MS = 60000,   /* and others who have to leave have this in addition */
};

struct run { /* one check; lives on while the loop has its handles */
    struct preflight *p; /* NULL: nobody waits any more */
    uv_poll_t         watch;
    uv_timer_t        timer;
    unsigned          n_open;
    int               fd;
    unsigned          n_processes;
    bool              is_needed, is_waiting; /* waiting: the verdict is there, the next round is to come */
    struct cc_buf     lines;
};

struct preflight {
    uv_loop_t                  *loop;
    const struct agent_cfg     *cfg;
    const struct preflight_cbs *cbs;
    void                       *ctx;
    char                        passed[VERDICT_ID_MAX];
    struct run                 *run; /* NULL: none is under way */
};

static void on_poll(uv_poll_t *w, int status, int events);
static void on_timer(uv_timer_t *t);

/* ---- the end of a run */

static void on_closed(uv_handle_t *h)
{
    struct run *r = h->data;

    assert(r->n_open > 0);
    if (--r->n_open > 0)
        return;
    (void) close(r->fd);
    cc_buf_free(&r->lines);
    free(r);
}

void preflight_end(struct preflight *p)
{
    struct run *r = p ? p->run : NULL;

    if (!r)
        return;
    p->run = NULL;
    r->p = NULL;
    uv_close((uv_handle_t *) &r->watch, on_closed);
    uv_close((uv_handle_t *) &r->timer, on_closed);
}

static void draw(const struct run *r, struct verdict *v)
{
    const char *at = (const char *) cc_buf_data(&r->lines);
    size_t      left = cc_buf_len(&r->lines);

    *v = (struct verdict) { .n_lines = 0 };
    while (left > 0) {
        const char *end = memchr(at, '\n', left);
        char        line[VERDICT_TEXT_MAX + VERDICT_ID_MAX + 32];
        size_t      n = end ? (size_t) (end - at) : left;

        (void) snprintf(line, sizeof line, "%.*s", (int) n, at);
        verdict_take(v, line);
        n += end != NULL;
        at += n;
        left -= n;
    }
}

/* The others leave, and the round ends; but not if they cannot. */
static void wait_for_others(struct run *r)
{
    r->is_waiting = true;
    (void) uv_poll_stop(&r->watch);
    (void) uv_timer_start(&r->timer, on_timer, PATIENCE * r->p->cfg->preflight.timeout + SLACK_MS + LEAVE_MS, 0);
}

static void conclude(struct run *r)
{
    struct preflight *p = r->p;
    struct verdict    v;
    char              why[VERDICT_TEXT_MAX + 16];
    enum verdict_act  act;

    draw(r, &v);
    act = verdict_act(&v, p->cfg->preflight.policy, r->n_processes, p->cfg->party.rdzv.min_nodes, r->is_needed);
    (void) snprintf(why, sizeof why, "preflight: %s", v.text);
    if (v.word < VERDICT_OTHERS || act == VERDICT_WAIT)
        memcpy(p->passed, v.id, sizeof p->passed);
    if (act == VERDICT_WAIT) {
        wait_for_others(r);
        return;
    }
    preflight_end(p);
    switch (act) {
    case VERDICT_GO:
        if (v.word >= VERDICT_OTHERS)
            p->cbs->say(p->ctx, 0, why);
        else if (v.word == VERDICT_OK)
            p->cbs->say(p->ctx, 1, "preflight: all is well");
        p->cbs->go(p->ctx);
        break;
    case VERDICT_LEAVE:
        p->cbs->leave(p->ctx, why);
        break;
    case VERDICT_STOP:
        p->cbs->stop(p->ctx, why);
        break;
    case VERDICT_WAIT:
        break;
    }
}

static void on_poll(uv_poll_t *w, int status, int events)
{
    struct run *r = CC_CONTAINER_OF(w, struct run, watch);
    char        bytes[4096];
    ssize_t     n;

    (void) status, (void) events;
    if (!r->p)
        return;
    n = read(r->fd, bytes, sizeof bytes);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n > 0 && cc_buf_len(&r->lines) < LINES_MAX) {
        (void) cc_buf_add(&r->lines, bytes, (size_t) n); /* what is lost is missed */
        return;
    }
    if (n <= 0)
        conclude(r); /* every process of it has ended */
}

static void on_timer(uv_timer_t *t)
{
    struct run       *r = CC_CONTAINER_OF(t, struct run, timer);
    struct preflight *p = r->p;

    if (!p)
        return;
    if (!r->is_waiting) {
        p->cbs->say(p->ctx, 0, "preflight: the check does not end on this node: killing it");
        tree_kill(); /* of the job nothing else runs yet */
        (void) uv_poll_stop(&r->watch);
        conclude(r);
        return;
    }
    preflight_end(p);
    p->cbs->stop(p->ctx, "preflight: the nodes that are to be left out have not left");
}

/* ---- the beginning */

static bool is_by_worker(const struct rdzv_view *v)
{
    return v->world / v->group_world <= PREFLIGHT_RANKS;
}

static struct workerenv_job env_of(const struct preflight *p, const struct rdzv_view *v)
{
    struct workerenv_job job = agent_env_of(p->cfg, v);

    if (is_by_worker(v))
        return job;
    job.base_rank = job.base_role_rank = v->group_rank;
    job.world_size = job.role_world_size = v->group_world;
    job.local_world_size = 1;
    return job;
}

/* The user's arguments are the last, and count. NULL: no memory. */
static char **arguments(const struct preflight *p, bool is_needed, char *timeout, size_t size)
{
    char *const *more = p->cfg->preflight.args;
    size_t       n_more = 0, n = 0;
    const char **argv;

    while (more && more[n_more])
        n_more++;
    argv = calloc(N_OWN_ARGS + n_more + 1, sizeof *argv);
    if (!argv)
        return NULL;
    (void) snprintf(timeout, size, "%.3f", (double) p->cfg->preflight.timeout / 1000);
    argv[n++] = "ccrun-check";
    argv[n++] = "--preflight";
    argv[n++] = "--agent-fd";
    argv[n++] = "3";
    argv[n++] = "--timeout";
    argv[n++] = timeout;
    argv[n++] = "--passed";
    argv[n++] = p->passed;
    if (is_needed)
        argv[n++] = "--needed";
    for (size_t i = 0; i < n_more; i++)
        argv[n++] = more[i];
    return (char **) (uintptr_t) argv;
}

static int spawn_one(const struct preflight *p, struct spawn_batch *b, struct spawn_req *req, struct workerenv *env,
                     unsigned local_rank, struct cc_err *err)
{
    const struct agent_worker *own = p->cfg->workers ? &p->cfg->workers[local_rank] : NULL;
    const struct workerenv_rank rank = {
        .local_rank = local_rank,
        .error_file = "",
        .visible_devices = own ? own->visible_devices : NULL,
    };
    pid_t pid;

    req->mask = own ? own->mask : NULL;
    req->env = workerenv_for(env, &rank);
    if (!req->env)
        return cc_fail(err, -ENOMEM, "no memory for the environment of the check");
    return spawn_begin(b, req, &pid, err);
}

static int spawn_all(struct preflight *p, struct run *r, const struct rdzv_view *v, int fd, struct cc_err *err)
{
    struct workerenv_job job = env_of(p, v);
    struct workerenv    *env = NULL;
    struct spawn_batch  *b = spawn_batch_new();
    char                 timeout[32];
    CC_AUTO_FREE char  **argv = arguments(p, r->is_needed, timeout, sizeof timeout);
    CC_AUTO_FD int       null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    struct spawn_req     req = {
        .path = p->cfg->preflight.program,
        .argv = argv,
        .cgroup_fd = -1,
        .fd = { null_fd, null_fd, STDERR_FILENO, fd },
        .has_fd3 = true,
    };
    struct cc_err late;
    pid_t         pid;
    int           x = null_fd < 0 ? cc_fail(err, -errno, "open '/dev/null': %s", strerror(errno)) : 0;

    if (x == 0 && (!b || !argv))
        x = cc_fail(err, -ENOMEM, "no memory to start ccrun-check");
    if (x == 0)
        x = workerenv_new(&env, p->cfg->env, &job, err);
    for (unsigned i = 0; x == 0 && i < r->n_processes; i++)
        x = spawn_one(p, b, &req, env, i, err);
    for (int y = 1; b && y != 0;) { /* each is told of, whatever became of the others */
        y = spawn_next(b, &pid, &late);
        if (y < 0 && x == 0) {
            x = y;
            *err = late;
        }
    }
    (void) spawn_batch_free(b);
    (void) workerenv_free(env);
    return x;
}

static int watch(struct preflight *p, struct run *r, struct cc_err *err)
{
    int x = uv_poll_init(p->loop, &r->watch, r->fd);

    if (x < 0)
        return cc_fail(err, x, "watch ccrun-check: %s", uv_strerror(x));
    (void) uv_timer_init(p->loop, &r->timer); /* cannot fail */
    r->watch.data = r->timer.data = r;
    r->n_open = 2;
    r->p = p;
    p->run = r;
    (void) uv_poll_start(&r->watch, UV_READABLE | UV_DISCONNECT, on_poll);
    (void) uv_timer_start(&r->timer, on_timer, PATIENCE * p->cfg->preflight.timeout + SLACK_MS, 0);
    return 0;
}

int preflight_begin(struct preflight *p, const struct rdzv_view *round, bool is_needed, struct cc_err *err)
{
    struct run *r = calloc(1, sizeof *r);
    int         ends[2], x;

    preflight_end(p);
    if (!r || pipe2(ends, O_CLOEXEC) < 0) {
        x = r ? -errno : -ENOMEM;
        free(r);
        return cc_fail(err, x, "start ccrun-check: %s", strerror(-x));
    }
    r->fd = ends[0];
    r->is_needed = is_needed;
    r->n_processes = is_by_worker(round) ? p->cfg->nproc : 1;
    (void) fcntl(r->fd, F_SETFL, O_NONBLOCK);
    p->cbs->say(p->ctx, 1, "preflight: ccrun-check runs before the workers");
    x = spawn_all(p, r, round, ends[1], err);
    (void) close(ends[1]);
    if (x == 0)
        x = watch(p, r, err);
    if (x < 0) {
        (void) close(r->fd);
        free(r);
    }
    return x;
}

struct preflight *preflight_new(uv_loop_t *loop, const struct agent_cfg *cfg, const struct preflight_cbs *cbs, void *ctx,
                                struct cc_err *err)
{
    struct preflight *p = calloc(1, sizeof *p);

    if (!p) {
        (void) cc_fail(err, -ENOMEM, "no memory for --preflight");
        return NULL;
    }
    *p = (struct preflight) { .loop = loop, .cfg = cfg, .cbs = cbs, .ctx = ctx };
    return p;
}

struct preflight *preflight_free(struct preflight *p)
{
    preflight_end(p);
    free(p);
    return NULL;
}
