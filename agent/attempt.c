#include "agent/attempt.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "agent/core/macros.h"
#include "agent/core/workerenv.h"
#include "store/base/cleanup.h"

/* The descriptor that becomes a worker's stdin. */
static int stdin_for(const struct attempt *a, unsigned local_rank)
{
    bool is_wanted = a->cfg->stdin_rank == -2 || a->cfg->stdin_rank == (int) local_rank;

    return is_wanted && !a->terminal->is_unusable ? STDIN_FILENO : a->terminal->null_fd;
}

static int expand(const struct attempt *a, unsigned local_rank, char ***ret, struct cc_err *err)
{
    const struct agent_cfg *c = a->cfg;
    const struct rdzv_view *r = &a->round;
    const struct macros_values v = {
        .local_rank = local_rank,
        .rank = r->base_rank + local_rank,
        .group_rank = r->group_rank,
        .world_size = r->world,
        .local_world_size = c->nproc,
        .group_world_size = r->group_world,
        .role_rank = r->base_role_rank + local_rank,
        .role_world_size = r->role_world,
        .restart_count = r->restarts,
        .max_restarts = c->max_restarts,
        .run_id = c->run_id,
        .role = c->role,
        .master_addr = r->master,
        .master_port = r->port,
    };
    size_t i, n;
    char **argv;

    for (n = 0; c->argv[n];)
        n++;
    argv = calloc(n + 1, sizeof *argv);
    for (i = 0; argv && i < n; i++)
        if (macros_expand(c->argv[i], &v, &argv[i]) < 0)
            break;
    if (!argv || i < n) {
        for (i = 0; argv && argv[i]; i++)
            free(argv[i]);
        free(argv);
        return cc_fail(err, -ENOMEM, "no memory for the arguments of local rank %u", local_rank);
    }
    *ret = argv;
    return 0;
}

static int spawn_worker(struct attempt *a, unsigned local_rank, struct spawn_req *req, char *const *more, struct cc_err *err)
{
    const struct agent_worker *own = a->cfg->workers ? &a->cfg->workers[local_rank] : NULL;
    const struct workerenv_rank rank = {
        .local_rank = local_rank,
        .error_file = logs_error_file(a->logs, local_rank),
        .visible_devices = own ? own->visible_devices : NULL,
        .more = more,
    };
    char **expanded = NULL;
    size_t i;
    int    r = 0;

    req->mask = own ? own->mask : NULL;
    req->env = workerenv_for(a->env, &rank);
    if (!req->env)
        return cc_fail(err, -ENOMEM, "no memory for the environment of local rank %u", local_rank);
    if (a->cfg->is_macros) {
        r = expand(a, local_rank, &expanded, err);
        req->argv = expanded;
    }
    if (r == 0)
        r = workers_start(a->workers, local_rank, req, err);
    for (i = 0; expanded && expanded[i]; i++)
        free(expanded[i]);
    free(expanded);
    return r;
}

/* With what its MPI library needs. */
static int spawn_member(struct attempt *a, unsigned local_rank, struct spawn_req *req, struct cc_err *err)
{
    struct mpijob_worker w = { NULL, -1 };
    int                  r = a->mpi ? mpijob_worker(a->mpi, local_rank, &w, err) : 0;

    req->has_fd3 = w.fd >= 0;
    req->fd[3] = w.fd;
    if (r == 0)
        r = spawn_worker(a, local_rank, req, w.env, err);
    if (a->mpi)
        mpijob_started(a->mpi, local_rank);
    return r;
}

static int start_worker(struct attempt *a, unsigned local_rank, struct cc_err *err)
{
    struct spawn_req req = {
        .path = a->cfg->program,
        .argv = a->cfg->argv,
        .cgroup_fd = cgroup_fd(a->cgroup),
        .pass = a->cfg->pass_fds,
        .n_pass = a->cfg->n_pass_fds,
        .umask = a->cfg->umask,
        .nofile = a->is_nofile_raised ? &a->nofile : NULL,
        .is_foreground = a->terminal->is_ours && a->cfg->stdin_rank == (int) local_rank,
    };
    struct logs_stdio io;
    int r = logs_open(a->logs, local_rank, a->number, &io, err);

    if (r < 0)
        return r;
    req.fd[0] = stdin_for(a, local_rank);
    req.fd[1] = io.out;
    req.fd[2] = io.err;
    r = spawn_member(a, local_rank, &req, err);
    logs_started(a->logs, local_rank);
    if (r < 0)
        return cc_wrap(err, "start rank %u", a->round.base_rank + local_rank);
    if (req.is_foreground)
        sentry_post(a->sentry, a->terminal->worker = workers_get(a->workers, local_rank)->pid);
    a->started(a->ctx);
    return 0;
}

/* What a shell would say of an exec that failed. */
static unsigned exec_code(int r)
{
    switch (r) {
    case -ENOENT: case -ENOTDIR: return AGENT_EXIT_NOT_FOUND;
    case -EACCES: case -ENOEXEC: case -EISDIR: case -E2BIG: case -ELOOP: return AGENT_EXIT_CANNOT_RUN;
    default: return AGENT_EXIT_INTERNAL;
    }
}

struct workerenv_job agent_env_of(const struct agent_cfg *c, const struct rdzv_view *r)
{
    return (struct workerenv_job) {
        .base_rank = r->base_rank,
        .world_size = r->world,
        .local_world_size = c->nproc,
        .group_rank = r->group_rank,
        .group_world_size = r->group_world,
        .base_role_rank = r->base_role_rank,
        .role_world_size = r->role_world,
        .role = c->role,
        .run_id = c->run_id,
        .master_addr = r->master,
        .master_port = r->port,
        .restart_count = r->restarts,
        .max_restarts = c->max_restarts,
        .omp_threads = c->omp_threads,
        .signals_to_handle = c->signals_to_handle,
        .is_virtual_local_rank = c->is_virtual_local_rank,
    };
}

static int make_env(struct attempt *a, struct cc_err *err)
{
    struct workerenv_job job = agent_env_of(a->cfg, &a->round);

    job.preempt_file = a->preempt->file;
    job.preempt_deadline = a->preempt->deadline[0] ? a->preempt->deadline : NULL;
    a->env = workerenv_free(a->env);
    return workerenv_new(&a->env, a->cfg->env, &job, err);
}

/* A shell runs a file of neither kind as a script; the kernel does not. */
static void explain_format(const char *path, const struct cc_err *was, struct cc_err *err)
{
    CC_AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    char           magic[4] = "";
    struct utsname here;
    bool           is_read = fd >= 0 && read(fd, magic, sizeof magic) == (ssize_t) sizeof magic;

    if (is_read && memcmp(magic, "\177ELF", 4) == 0 && uname(&here) == 0)
        (void) cc_fail(err, was->code, "%s; it is a compiled program, but none for this machine (%s), or it is damaged", was->msg,
                       here.machine);
    else
        (void) cc_fail(err, was->code, "%s; a script needs a first line such as '#!/bin/sh', or is run as --no-python sh %.256s",
                       was->msg, path);
}

/* What the machine refuses is usually a limit that somebody has set, or a file that only a shell would run. */
static void explain(const struct attempt *a, int r, struct cc_err *err)
{
    struct cc_err was = *err;

    if (r == -EMFILE)
        (void) cc_fail(err, r, "%s; %u workers take up to %u, and the limit is %llu (ulimit -Hn)", was.msg, a->cfg->nproc,
                       ATTEMPT_FILES_OWN + a->cfg->nproc * ATTEMPT_FILES_PER_WORKER, (unsigned long long) a->nofile.rlim_max);
    else if (r == -EAGAIN)
        (void) cc_fail(err, r, "%s; the number of processes is limited (ulimit -u, or pids.max of the cgroup)", was.msg);
    else if (r == -ENOEXEC)
        explain_format(a->cfg->program, &was, err);
}

/* The workers keep the limit that we were started with; a soft limit of 1024 is not enough for us and 200 of them, nor for the
 * agents and workers of other nodes, whose number nobody knows yet. */
void attempt_raise_nofile(struct attempt *a)
{
    rlim_t        need = ATTEMPT_FILES_OWN + (rlim_t) a->cfg->nproc * ATTEMPT_FILES_PER_WORKER;
    struct rlimit lim;

    if (getrlimit(RLIMIT_NOFILE, &a->nofile) < 0)
        return;
    lim = a->nofile;
    if (a->cfg->party.hosting != PARTY_ALONE)
        need = lim.rlim_max;
    if (lim.rlim_cur >= need)
        return;
    lim.rlim_cur = need < lim.rlim_max ? need : lim.rlim_max;
    a->is_nofile_raised = setrlimit(RLIMIT_NOFILE, &lim) == 0;
}

unsigned attempt_start(struct attempt *a, const struct rdzv_view *round, unsigned number, struct cc_err *err)
{
    struct cc_err late = { 0 };
    unsigned      i, rank;
    int           r;

    a->round = *round;
    a->number = number;
    if (a->cgroup)
        (void) cgroup_renew(a->cgroup);
    shmsweep_begin(a->shm);
    logs_set_base_rank(a->logs, round->base_rank);
    r = make_env(a, err);
    oomscore_raise(&a->oomscore);
    for (i = 0; r == 0 && i < a->cfg->nproc; i++)
        r = start_worker(a, i, err);
    if (workers_await(a->workers, &rank, &late) < 0) { /* the cause of what may have failed above */
        r = cc_wrap(&late, "start rank %u", a->round.base_rank + rank);
        *err = late;
    }
    oomscore_lower(&a->oomscore);
    if (r == 0)
        return 0;
    explain(a, r, err);
    return exec_code(r);
}

void attempt_clear(struct attempt *a)
{
    a->cgroup = cgroup_free(a->cgroup);
    a->shm = shmsweep_free(a->shm);
    a->env = workerenv_free(a->env);
}
