#include "agent/workers.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "store/base/clock.h"

struct workers {
    unsigned n;
    const struct workers_cbs *cbs;
    void    *ctx;
    struct spawn_batch *batch; /* while an attempt starts */
    struct worker table[];
};

struct workers *workers_new(unsigned n, const struct workers_cbs *cbs, void *ctx)
{
    struct workers *ws = calloc(1, sizeof *ws + n * sizeof ws->table[0]);

    if (ws) {
        ws->n = n;
        ws->cbs = cbs;
        ws->ctx = ctx;
    }
    return ws;
}

struct workers *workers_free(struct workers *ws)
{
    free(ws);
    return NULL;
}

struct worker *workers_get(struct workers *ws, unsigned local_rank)
{
    return &ws->table[local_rank];
}

int workers_start(struct workers *ws, unsigned local_rank, const struct spawn_req *req, struct cc_err *err)
{
    struct worker *w = &ws->table[local_rank];
    pid_t          pid;
    int            r;

    *w = (struct worker) { .started_at = cc_monotonic_ms(), .is_terminal = req->is_foreground };
    if (!ws->batch)
        ws->batch = spawn_batch_new();
    if (!ws->batch)
        return cc_fail(err, -ENOMEM, "no memory to start '%s'", req->path);
    r = spawn_begin(ws->batch, req, &pid, err);
    if (r < 0)
        return r;
    w->pid = pid;
    w->is_started = w->is_alive = true;
    return 0;
}

static struct worker *find(struct workers *ws, pid_t pid)
{
    unsigned i;

    for (i = 0; i < ws->n; i++)
        if (ws->table[i].is_alive && ws->table[i].pid == pid)
            return &ws->table[i];
    return NULL;
}

int workers_await(struct workers *ws, unsigned *ret_rank, struct cc_err *err)
{
    struct cc_err  other;
    struct worker *w;
    pid_t          pid;
    int            r, first = 0;

    while (ws->batch && (r = spawn_next(ws->batch, &pid, first ? &other : err)) != 0) {
        w = r < 0 ? find(ws, pid) : NULL;
        if (!w)
            continue;
        w->is_unborn = true;
        if (first == 0) {
            first = r;
            *ret_rank = (unsigned) (w - ws->table);
        }
    }
    ws->batch = spawn_batch_free(ws->batch);
    return first;
}

void workers_signal(struct workers *ws, int signum)
{
    unsigned i;

    for (i = 0; i < ws->n; i++)
        if (ws->table[i].is_alive)
            (void) kill(-ws->table[i].pid, signum);
}

void workers_stop(struct workers *ws, int signum)
{
    unsigned i;

    for (i = 0; i < ws->n; i++) {
        struct worker *w = &ws->table[i];

        if (!w->is_alive || kill(-w->pid, signum) < 0)
            continue;
        w->is_termed = true;
        w->is_killed |= signum == SIGKILL;
        if (w->is_stopped) /* a stopped process dies of SIGKILL only */
            (void) kill(-w->pid, SIGCONT);
    }
}

static void note(struct workers *ws, struct worker *w, int status)
{
    unsigned local_rank = (unsigned) (w - ws->table);

    if (WIFSTOPPED(status)) {
        w->is_stopped = true;
        ws->cbs->on_stopped(ws->ctx, local_rank, w);
    } else if (WIFCONTINUED(status)) {
        w->is_stopped = false;
    } else {
        w->is_alive = false;
        w->status = status;
        w->ended_at = cc_realtime_ms();
        w->ran_ms = cc_monotonic_ms() - w->started_at;
        ws->cbs->on_exit(ws->ctx, local_rank, w);
    }
}

bool workers_reap(struct workers *ws)
{
    for (;;) {
        int            status;
        pid_t          pid = waitpid(-1, &status, WNOHANG | WUNTRACED | WCONTINUED);
        struct worker *w;

        if (pid == 0)
            return false;
        if (pid < 0 && errno == EINTR)
            continue;
        if (pid < 0)
            return true; /* ECHILD */
        if (ws->cbs->on_reaped && (WIFEXITED(status) || WIFSIGNALED(status)))
            ws->cbs->on_reaped(ws->ctx, pid);
        w = find(ws, pid); /* NULL: an orphan that we adopted */
        if (w)
            note(ws, w, status);
    }
}
