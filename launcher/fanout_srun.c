/* Agents by one srun: from a batch script, or from the shell of salloc, to the nodes of the job.
 *
 * One task a node, which may use all that the job has there, whatever the batch script asked for for tasks of its own.
 * srun hands its standard input on to every task, so they all get the same block, and the rank of a node is SLURM_NODEID.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/fanout.h"
#include "launcher/hetgroups.h"
#include "launcher/launchdata.h"
#include "launcher/machine.h"
#include "launcher/plan.h"
#include "launcher/taskcount.h"
#include "store/base/cleanup.h"

enum { HELP_MAX = 256 * 1024, ARGS_MAX = 24, TASKS_TEXT_MAX = 24 };

/* ---- which nodes */

static unsigned wanted_nodes(const struct options *o)
{
    unsigned n = options_is_given(o, OPTION_nnodes) ? plan_max_nodes(o->nnodes) : 0;

    return n > 0 ? n : HOSTLIST_MAX;
}

static int plain_hosts(struct fanout *f, char *const *env, struct cc_err *err)
{
    const char *list = machine_variable(env, "SLURM_JOB_NODELIST");
    int         r;

    if (!list)
        return cc_fail(err, -EINVAL, "SLURM_JOB_ID is set and SLURM_JOB_NODELIST is not: which nodes are the job's?");
    r = hostlist_nodes(&f->hosts, "SLURM_JOB_NODELIST", list, err);
    if (r == 0 && f->hosts.n == 0)
        return cc_fail(err, -EINVAL, "SLURM_JOB_NODELIST is empty: which nodes are the job's?");
    return r;
}

static int part_hosts(struct fanout *f, const struct machine *m, unsigned n, struct cc_err *err)
{
    f->part = fanout_take(f, n * sizeof *f->part);
    f->n_parts = n;
    return f->part ? hetgroups_hosts(m, n, &f->hosts, f->part, err) : cc_fail(err, -ENOMEM, "no memory for %u parts", n);
}

/* A job that asks for fewer nodes than the batch script has takes the first. */
int fanout_srun_hosts(struct fanout *f, const struct options *o, char *const *env, struct cc_err *err)
{
    const struct machine m = { .root = "", .env = env };
    const char          *id = machine_variable(env, "SLURM_JOB_ID");
    unsigned n = wanted_nodes(o), n_spares = o->spares > 0 && o->spares < HOSTLIST_MAX ? (unsigned) o->spares : 0;
    int      r, n_parts = hetgroups_count(&m, err);

    f->program = "srun";
    f->who = "Slurm";
    if (n_parts < 0)
        return n_parts;
    r = n_parts > 1 ? part_hosts(f, &m, (unsigned) n_parts, err) : plain_hosts(f, env, err);
    if (r == 0 && n > 0 && f->hosts.n > n + n_spares)
        f->hosts.n = n + n_spares;
    (void) snprintf(f->job, sizeof f->job, "%.63s", id ? id : "");
    return r;
}

/* ---- which srun */

static int read_help(int fd, char *buf, size_t size)
{
    size_t  used = 0;
    ssize_t n;

    while (used + 1 < size && (n = read(fd, buf + used, size - 1 - used)) > 0)
        used += (size_t) n;
    buf[used] = '\0';
    return (int) used;
}

/* What this srun can be told: options came and went over the years. */
static int ask_srun(char *buf, size_t size, char *const *env, struct cc_err *err)
{
    static char *const         argv[] = { "srun", "--help", NULL };
    posix_spawn_file_actions_t a;
    int                        fds[2], r;
    pid_t                      pid = 0;

    if (pipe2(fds, O_CLOEXEC) < 0)
        return cc_fail(err, -errno, "ask srun for its options: %s", strerror(errno));
    r = posix_spawn_file_actions_init(&a);
    if (r == 0) {
        r = posix_spawn_file_actions_adddup2(&a, fds[1], STDOUT_FILENO);
        if (r == 0)
            r = posix_spawnp(&pid, "srun", &a, NULL, argv, env);
        (void) posix_spawn_file_actions_destroy(&a);
    }
    (void) close(fds[1]);
    if (r == 0) {
        (void) read_help(fds[0], buf, size);
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    (void) close(fds[0]);
    if (r == 0)
        return 0;
    return cc_fail(err, -r,
                   "this is a Slurm job of several nodes, and srun, which would start an agent on each, cannot be run: %s; "
                   "use 'srun --ntasks-per-node=1 ccrun ...' outside, or --standalone for this node alone",
                   strerror(r));
}

/* ---- its environment and command line */

/* What srun would take for its own from the batch script's options: how its tasks are made, bound and printed. */
static char *const not_for_srun[] = {
    "SLURM_NTASKS*", "SLURM_NPROCS", "SLURM_TASKS_PER_NODE", "SLURM_CPUS_PER_*", "SRUN_CPUS_PER_TASK", "SLURM_TRES_PER_*",
    "SLURM_GPUS_PER_TASK", "SLURM_GPUS_PER_SOCKET", "SLURM_GPU_BIND*", "SLURM_CPU_BIND*", "SLURM_MEM_BIND*",
    "SLURM_MEM_PER_*", "SLURM_DISTRIBUTION", "SLURM_HINT", "SLURM_EXACT", "SLURM_OVERLAP", "SLURM_WHOLE", "SLURM_EXCLUSIVE",
    "SLURM_LABELIO", "SLURM_UNBUFFEREDIO", "SLURM_STDINMODE", "SLURM_STDOUTMODE", "SLURM_STDERRMODE", "SLURM_KILL_BAD_EXIT",
    "SLURM_WAIT", "SLURM_EXPORT_ENV", "SLURM_MPI_TYPE", "SLURM_NO_KILL", "SLURM_MULTI_PROG", "SLURM_STEP_*",
    "SLURM_OVERCOMMIT", "SLURM_CORE_SPEC", "SLURM_THREADS", "SLURM_RESV_PORTS", "SLURM_ARRAY_INX", NULL,
};

static char **srun_environ(struct fanout *f, char *const *env)
{
    size_t n = 0;
    char **mine;

    while (env[n])
        n++;
    mine = fanout_take(f, (n + 1) * sizeof *mine);
    for (n = 0; mine && *env; env++)
        if (!launchdata_is_listed(not_for_srun, *env))
            mine[n++] = (char *) (uintptr_t) *env;
    return mine;
}

static bool knows(const char *help, const char *option)
{
    return strstr(help, option) != NULL;
}

/* Options that matter to us and that every srun or only some know.  --kill-on-bad-exit=0, --no-kill: what happens when a
 * node fails is for the job to decide.  --mpi=none: agents are no MPI ranks.  --mem=0: all that the job has. */
static const struct {
    const char *text, *needs;
} srun_options[] = {
    { "--ntasks-per-node=1", NULL }, { "--kill-on-bad-exit=0", NULL }, { "--no-kill", NULL }, { "--wait=0", NULL },
    { "--input=all", NULL }, { "--export=ALL", NULL }, { "--mpi=none", "--mpi" }, { "--mem=0", NULL },
    { "--cpu-bind=none", "--cpu-bind" }, { "--external-launcher", "--external-launcher" },
};

/* One task on each of the n nodes of the line. */
static int srun_argv(struct fanout *f, struct fanout_line *l, const struct options *o, const char *help, int part)
{
    char **argv = fanout_take(f, ARGS_MAX * sizeof *argv);
    size_t n = 0;

    if (!argv)
        return -ENOMEM;
    argv[n++] = fanout_copy(f, "srun");
    if (part >= 0)
        argv[n++] = fanout_format(f, "--het-group=%d", part);
    argv[n++] = fanout_format(f, "--nodes=%u", l->n);
    argv[n++] = fanout_format(f, "--ntasks=%u", l->n);
    for (size_t i = 0; i < sizeof srun_options / sizeof *srun_options; i++)
        if (!srun_options[i].needs || knows(help, srun_options[i].needs))
            argv[n++] = fanout_copy(f, srun_options[i].text);
    /* Another step of the job must neither wait for us nor hold us up. */
    if (!knows(help, "--external-launcher") && knows(help, "--overlap"))
        argv[n++] = fanout_copy(f, "--overlap");
    argv[n++] = fanout_copy(f, "sh");
    argv[n++] = fanout_copy(f, "-c");
    if (o->launch_agent) {
        argv[n++] = fanout_format(f, "%s --agent-fd=0", o->launch_agent);
    } else {
        argv[n++] = fanout_copy(f, "test -x \"$0\" || set ccrun; exec \"${1:-$0}\" --agent-fd=0");
        argv[n++] = (char *) (uintptr_t) fanout_our_path(f);
    }
    for (size_t i = 0; i < n; i++)
        if (!argv[i])
            return -ENOMEM;
    l->argv = argv;
    return 0;
}

/* ---- how many workers each node has */

/* Of n nodes, as the batch script asked for tasks; 0: it did not, what is in `ret` then is no wish of anybody.  `part`: of a
 * heterogeneous job, else -1. */
static int read_tasks(const struct machine *m, int part, unsigned *ret, size_t n, struct cc_err *err)
{
    static const char *const wishes[] = { "SLURM_NTASKS", "SLURM_NTASKS_PER_NODE" };
    const char              *name = "SLURM_TASKS_PER_NODE", *text;
    bool                     is_wish = false, is_longer;

    for (size_t i = 0; i < sizeof wishes / sizeof *wishes; i++)
        is_wish |= (part < 0 ? machine_env(m, wishes[i]) : hetgroups_env(m, wishes[i], (unsigned) part)) != NULL;
    text = part < 0 ? machine_env(m, name) : hetgroups_env(m, name, (unsigned) part);
    if (!text && part < 0)
        text = machine_env(m, wishes[1]); /* in a container that has little of it */
    if (!is_wish || !text)
        return 0;
    if (text == machine_env(m, wishes[1])) {
        for (size_t i = 0; i < n; i++)
            ret[i] = (unsigned) strtoul(text, NULL, 10);
        return 1;
    }
    return taskcount_parse(name, text, ret, n, &is_longer, err) < 0 ? -EINVAL : 1;
}

static int add_runs(struct fanout *f, struct cc_buf *text, const unsigned *tasks)
{
    int r = 0;

    for (size_t i = 0, n; r == 0 && i < f->hosts.n; i += n) {
        char item[TASKS_TEXT_MAX];
        int  len;

        for (n = 1; i + n < f->hosts.n && tasks[i + n] == tasks[i]; n++)
            ;
        len = snprintf(item, sizeof item, "%s%u(x%zu)", i > 0 ? "," : "", tasks[i], n);
        r = cc_buf_add(text, item, (size_t) len);
    }
    return r < 0 ? r : cc_buf_add(text, "", 1);
}

/* The tasks of the batch script, where a node has more than one: so many workers, not so many agents.  A part of a
 * heterogeneous job that asked for none has one a node, as srun would make it.  Empty: nobody has more. */
static int find_tasks(struct fanout *f, struct cc_buf *ret, char *const *env, struct cc_err *err)
{
    const struct machine   m = { .root = "", .env = env };
    CC_AUTO_FREE unsigned *tasks = calloc(f->hosts.n, sizeof *tasks);
    unsigned               most = 0;
    int                    r = 0;

    if (!tasks)
        return cc_fail(err, -ENOMEM, "no memory for %zu nodes", f->hosts.n);
    for (size_t i = 0; i < f->hosts.n; i++)
        tasks[i] = 1;
    if (f->n_parts == 0)
        r = read_tasks(&m, -1, tasks, f->hosts.n, err);
    for (size_t i = 0, at = 0; r >= 0 && i < f->n_parts && at < f->hosts.n; at += f->part[i++])
        r = read_tasks(&m, (int) i, tasks + at, at + f->part[i] > f->hosts.n ? f->hosts.n - at : f->part[i], err);
    for (size_t i = 0; r >= 0 && i < f->hosts.n; i++)
        most = tasks[i] > most ? tasks[i] : most;
    if (r < 0 || most < 2)
        return r < 0 ? r : 0;
    r = add_runs(f, ret, tasks);
    return r < 0 ? cc_fail(err, r, "no memory for the tasks of %zu nodes", f->hosts.n) : 0;
}

/* ---- the lines */

static int make_block(struct fanout *f, struct fanout_line *l, const char *tasks, struct cc_err *err)
{
    char first[16];
    int  r = cc_buf_add(&l->block, cc_buf_data(&f->common), cc_buf_len(&f->common));

    (void) snprintf(first, sizeof first, "%u", l->first);
    if (r == 0)
        r = launchdata_text(&l->block, LAUNCHDATA_FIRST, first);
    if (r == 0 && tasks)
        r = launchdata_text(&l->block, LAUNCHDATA_TASKS, tasks);
    return r < 0 ? cc_fail(err, r, "the data of the job cannot be written: %s", strerror(-r)) : fanout_seal(f, &l->block, err);
}

/* Each part of a heterogeneous job has a srun of its own: one for all parts, with colons between, hands its standard input
 * to the tasks of the first alone (seen with 22.05). */
int fanout_srun_lines(struct fanout *f, const struct options *o, char *const *env, struct cc_err *err)
{
    unsigned           n_lines = f->n_parts > 0 ? f->n_parts : 1, first = 0, left = (unsigned) f->hosts.n;
    CC_AUTO_FREE char *help = malloc(HELP_MAX);
    char             **mine = srun_environ(f, env);
    struct cc_buf      tasks = { 0 };
    int                r;

    f->lines = fanout_take(f, n_lines * sizeof *f->lines);
    if (!help || !f->lines || !mine)
        return cc_fail(err, -ENOMEM, "no memory for %zu nodes", f->hosts.n);
    r = find_tasks(f, &tasks, env, err);
    if (r == 0)
        r = ask_srun(help, HELP_MAX, mine, err);
    assert(r < 0 || f->lines);
    for (; r == 0 && left > 0; first += f->lines[f->n_lines - 1].n) {
        int                 part = f->n_parts > 0 ? (int) f->n_lines : -1;
        struct fanout_line *l = &f->lines[f->n_lines++];

        l->first = first;
        l->n = part >= 0 && f->part[part] < left ? (unsigned) f->part[part] : left;
        l->env = mine;
        left -= l->n;
        if (srun_argv(f, l, o, help, part) < 0)
            r = cc_fail(err, -ENOMEM, "no memory for the command line of srun");
        else
            r = make_block(f, l, cc_buf_len(&tasks) > 0 ? (const char *) cc_buf_data(&tasks) : NULL, err);
    }
    cc_buf_free(&tasks);
    return r;
}
