#include "launcher/fanout.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/agent.h"
#include "launcher/allocation.h"
#include "launcher/launchdata.h"
#include "launcher/machine.h"
#include "launcher/plan.h"
#include "launcher/program.h"
#include "launcher/shellword.h"
#include "store/base/cleanup.h"
#include "store/base/pyvalue.h"

enum { PORT_TRIES = 64, SSH_FANOUT_MAX = 1024 };

/* ---- memory */

struct fanout_text {
    struct fanout_text *next;
    _Alignas(max_align_t) char bytes[];
};

void *fanout_take(struct fanout *f, size_t size)
{
    struct fanout_text *t = calloc(1, sizeof *t + size);

    if (!t)
        return NULL;
    t->next = f->texts;
    f->texts = t;
    return t->bytes;
}

char *fanout_copy(struct fanout *f, const char *text)
{
    size_t n = strlen(text) + 1;
    char  *copy = fanout_take(f, n);

    return copy ? memcpy(copy, text, n) : NULL;
}

char *fanout_format(struct fanout *f, const char *fmt, ...)
{
    va_list ap;
    char   *text = NULL;
    int     n;

    va_start(ap, fmt);
    n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n >= 0)
        text = fanout_take(f, (size_t) n + 1);
    va_start(ap, fmt);
    if (text)
        (void) vsnprintf(text, (size_t) n + 1, fmt, ap);
    va_end(ap);
    return text;
}

void fanout_forget(struct cc_buf *block)
{
    if (block->p)
        explicit_bzero(block->p, block->cap);
}

void fanout_clear(struct fanout *f)
{
    for (unsigned i = 0; i < f->n_lines; i++) {
        fanout_forget(&f->lines[i].block);
        cc_buf_free(&f->lines[i].block);
    }
    cc_buf_free(&f->common);
    hostlist_clear(&f->hosts);
    while (f->texts) {
        struct fanout_text *t = f->texts;

        f->texts = t->next;
        free(t);
    }
    explicit_bzero(f->secret, sizeof f->secret);
    *f = (struct fanout) { .way = FANOUT_NONE };
}

/* ---- the way to this program */

/* The same path as ours where it is, else ccrun on PATH: as we were called, because the environment of Python that we are in
 * chooses the interpreter, and behind a link it is another one.  No '!' and no newline: the shell there may be any. */
const char *fanout_our_path(struct fanout *f)
{
    const char *called = program_called();
    char        path[PATH_MAX];
    ssize_t     n;

    if (called && called[0] == '/')
        return fanout_copy(f, called);
    n = readlink("/proc/self/exe", path, sizeof path - 1);
    if (n <= 0)
        return "ccrun";
    path[n] = '\0';
    return fanout_copy(f, path);
}

/* ---- what is left to us */

static int set(struct options *o, enum option_id id, const char *text, const char *who, struct cc_err *err)
{
    return text ? options_suggest(o, id, text, who, err) : cc_fail(err, -ENOMEM, "no memory for the nodes");
}

static int random_text(char *buf, size_t size, struct cc_err *err)
{
    unsigned char b[16];
    size_t        i;

    if (getrandom(b, sizeof b, 0) != (ssize_t) sizeof b)
        return cc_fail(err, -errno, "no random numbers for the name of the job: %s", strerror(errno));
    for (i = 0; i < sizeof b && 2 * i + 2 < size; i++)
        (void) snprintf(buf + 2 * i, 3, "%02x", b[i]);
    return 0;
}

static bool is_free(unsigned port)
{
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons((uint16_t) port) };
    CC_AUTO_FD int     fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int                one = 1;

    if (fd < 0)
        return true;
    (void) setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    return bind(fd, (struct sockaddr *) &a, sizeof a) == 0 || errno != EADDRINUSE;
}

/* From the name of the job; on this machine one that is free, elsewhere the agent there says when it is taken. */
static unsigned choose_port(const struct fanout *f)
{
    const struct host *first = &f->hosts.host[0];
    unsigned           i, port = allocation_job_port(f->job);

    if (!host_is(first->name, f->host))
        return port;
    for (i = 0; i < PORT_TRIES; i++, port = JOB_PORT_FIRST + (port + 1 - JOB_PORT_FIRST) % JOB_PORTS)
        if (is_free(port))
            break;
    return port;
}

/* The first node's name as it was given; but what only this machine calls itself tells the others nothing. */
static int suggest_endpoint(struct fanout *f, struct options *o, struct cc_err *err)
{
    const char *name = f->hosts.host[0].name;
    bool        is_only_here = endpoint_is_loopback(name);
    size_t      i;

    for (i = 1; i < f->hosts.n && endpoint_is_loopback(f->hosts.host[i].name); i++)
        ;
    if (is_only_here && i < f->hosts.n)
        name = f->host;
    (void) snprintf(f->endpoint, sizeof f->endpoint, strchr(name, ':') ? "[%s]:%u" : "%s:%u", name, choose_port(f));
    return set(o, OPTION_rdzv_endpoint, f->endpoint, f->who, err);
}

static int suggest(struct fanout *f, struct options *o, struct cc_err *err)
{
    size_t spares = o->spares > 0 ? (size_t) o->spares : 0;
    int    r;

    if (spares >= f->hosts.n)
        return cc_fail(err, -EINVAL, "--spares %zu leaves none of the %zu node%s of %s to work", spares, f->hosts.n,
                       f->hosts.n == 1 ? "" : "s", f->who);
    if (f->hosts.n == 1 && options_is_given(o, OPTION_nnodes) && strtoul(o->nnodes, NULL, 10) > 1)
        return cc_fail(err, -EINVAL, "--nnodes %s needs more nodes than the one that %s names", o->nnodes, f->who);
    r = set(o, OPTION_nnodes, fanout_format(f, "%zu", f->hosts.n - spares), f->who, err);
    if (r < 0 || f->hosts.n == 1)
        return r;
    if (!f->job[0])
        r = random_text(f->job, 13, err);
    if (r == 0)
        r = set(o, OPTION_rdzv_id, f->job, f->who, err);
    if (r == 0 && !*o->rdzv_endpoint && !options_is_given(o, OPTION_master_addr))
        r = suggest_endpoint(f, o, err);
    return r;
}

static int check_count(const struct fanout *f, const struct options *o, struct cc_err *err)
{
    if (f->hosts.n < f->min_nodes)
        return cc_fail(err, -EINVAL, "--nnodes %s needs %u nodes, and %s names %zu", o->nnodes, f->min_nodes, f->who, f->hosts.n);
    if (f->hosts.n > f->max_nodes + f->n_spares)
        return cc_fail(err, -EINVAL,
                       "%s names %zu nodes, and --nnodes %s%s needs no more than %u: name fewer, or make the others --spares",
                       f->who, f->hosts.n, o->nnodes, f->n_spares > 0 ? " with its --spares" : "", f->max_nodes + f->n_spares);
    return 0;
}

/* Of the node with most workers, as far as it is known here; 0: it is not. */
static unsigned most_workers(const struct fanout *f, const struct options *o)
{
    unsigned most = 0;
    int64_t  n;
    size_t   i;

    if (options_is_given(o, OPTION_nproc_per_node))
        return pyvalue_int(o->nproc_per_node, &n) == 0 && n > 0 && n <= UINT_MAX ? (unsigned) n : 0;
    for (i = 0; i < f->hosts.n; i++) {
        if (f->hosts.host[i].slots == 0)
            return 0;
        if (f->hosts.host[i].slots > most)
            most = f->hosts.host[i].slots;
    }
    return most;
}

/* The same checks as on the nodes, once and before anything starts. */
static int check(struct fanout *f, struct options *o, struct cc_err *err)
{
    struct plan_values p;
    int                r = plan_resolve(&p, o, f->job, err);

    if (r < 0)
        return r;
    if (o->ssh_fanout < 1 || o->ssh_fanout > SSH_FANOUT_MAX)
        return cc_fail(err, -EINVAL, "--ssh-fanout %lld is out of range (1 to %d)", (long long) o->ssh_fanout, SSH_FANOUT_MAX);
    if (most_workers(f, o) > 0)
        plan_warn_local_ranks(o, most_workers(f, o));
    f->min_nodes = p.min_nodes;
    f->max_nodes = p.max_nodes;
    f->n_spares = p.n_spares;
    f->grace = p.shutdown_timeout + o->unkillable_timeout;
    f->verbosity = p.verbosity;
    f->is_keep_cr = strcmp(o->cr, "keep") == 0;
    return check_count(f, o, err);
}

/* ---- blocks */

/* Where somebody is logged in, and which of many processes it is, is not the same on another machine. */
static char *const ssh_own[] = { "HOME", "USER", "LOGNAME", "SHELL", "MAIL", "HOSTNAME", "HOST", "PWD", "SSH_*", "DISPLAY",
                                 "WAYLAND_DISPLAY", "XAUTHORITY", "XDG_*", "DBUS_SESSION_BUS_ADDRESS", "KRB5CCNAME", "WINDOWID",
                                 "TMUX", "STY", "SLURM_NODEID", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_STEP*", "SLURM_TASK_PID",
                                 "SLURMD_NODENAME", "SLURM_GTIDS", "PMI_*", "PMIX_*", "OMPI_COMM_WORLD_*", "PBS_NODENUM",
                                 "PBS_TASKNUM", "JOB_COMPLETION_INDEX", NULL };
static char *const srun_own[] = { "HOSTNAME", "HOST", "PWD", "SSH_*", "DISPLAY", "XDG_*", "DBUS_SESSION_BUS_ADDRESS", NULL };
/* Of a step, of which the node knows more than we do. */
static char *const srun_prefer[] = { "SLURM_*", "SLURMD_*", "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES",
                                     "HIP_VISIBLE_DEVICES", "ZE_AFFINITY_MASK", "GPU_DEVICE_ORDINAL", NULL };

static int add_environ(struct fanout *f, char *const *env, const char *dir)
{
    char *const *own = f->way == FANOUT_SSH ? ssh_own : srun_own;
    int          r = launchdata_texts(&f->common, LAUNCHDATA_OWN, own);

    if (r == 0 && f->way == FANOUT_SRUN)
        r = launchdata_texts(&f->common, LAUNCHDATA_PREFER, srun_prefer);
    for (; r == 0 && *env; env++)
        if (!launchdata_is_listed(own, *env))
            r = launchdata_text(&f->common, LAUNCHDATA_ENV, *env);
    return r < 0 ? r : launchdata_text(&f->common, LAUNCHDATA_DIR, dir);
}

/* All nodes are there or none, and nobody starts another agent: when one is lost there is nothing to wait for. */
static bool is_static(const struct fanout *f, const struct options *o)
{
    enum option_source from = o->source[OPTION_rdzv_backend];

    return f->min_nodes == f->hosts.n && f->hosts.n > 1 && from != OPTION_ARGV && from != OPTION_ENV;
}

/* What was left to us is told; what the user said stands in the command line. */
static int add_settings(struct fanout *f, const struct options *o)
{
    const struct {
        enum option_id id;
        const char    *name, *text;
    } all[] = {
        { OPTION_nnodes, "nnodes", o->nnodes },
        { OPTION_rdzv_id, "rdzv-id", o->rdzv_id },
        { OPTION_rdzv_endpoint, "rdzv-endpoint", o->rdzv_endpoint },
    };
    int r = is_static(f, o) ? launchdata_text(&f->common, LAUNCHDATA_SET, "rdzv-backend=static") : 0;

    for (size_t i = 0; r == 0 && i < sizeof all / sizeof *all; i++)
        if (o->source[all[i].id] == OPTION_OTHER) {
            const char *text = fanout_format(f, "%s=%s", all[i].name, all[i].text);

            r = text ? launchdata_text(&f->common, LAUNCHDATA_SET, text) : -ENOMEM;
        }
    return r;
}

static int make_common(struct fanout *f, const struct options *o, char **argv, char *const *env, struct cc_err *err)
{
    char dir[PATH_MAX];
    int  r = random_text(f->mark, sizeof f->mark, err);

    if (r < 0)
        return r;
    if (getrandom(f->secret, sizeof f->secret, 0) != (ssize_t) sizeof f->secret)
        return cc_fail(err, -errno, "no random numbers for the secret of the job: %s", strerror(errno));
    if (!getcwd(dir, sizeof dir))
        return cc_fail(err, -errno, "the working directory has no name: %s", strerror(errno));
    r = launchdata_begin(&f->common);
    if (r == 0)
        r = launchdata_texts(&f->common, LAUNCHDATA_ARG, argv);
    if (r == 0)
        r = add_environ(f, env, dir);
    if (r == 0)
        r = launchdata_text(&f->common, LAUNCHDATA_WHO, f->who);
    if (r == 0)
        r = launchdata_text(&f->common, LAUNCHDATA_MARK, f->mark);
    if (r == 0)
        r = add_settings(f, o);
    return r < 0 ? cc_fail(err, r, "the data of the job cannot be written: %s", strerror(-r)) : 0;
}

/* The secret comes last: what grows moves, and what has moved cannot be wiped any more. */
int fanout_seal(const struct fanout *f, struct cc_buf *block, struct cc_err *err)
{
    int r = launchdata_add(block, LAUNCHDATA_SECRET, f->secret, sizeof f->secret);

    return r < 0 ? cc_fail(err, r, "the data of the job cannot be written: %s", strerror(-r)) : launchdata_finish(block, err);
}

/* ---- all together */

/* Nobody but us starts anything on the other nodes of the batch script. */
static bool is_slurm_head(char *const *env)
{
    const struct machine here = { .root = "", .env = env };
    struct allocation    a;
    struct cc_err        err;
    bool                 is_head = allocation_read(&a, &here, "", &err) == 0 && a.role == ALLOCATION_HEAD && a.nodes > 1 &&
                   strcmp(a.system, "Slurm") == 0;

    allocation_clear(&a);
    return is_head;
}

enum fanout_way fanout_way(const struct options *o, char *const *env)
{
    if (options_is_given(o, OPTION_agent_fd))
        return FANOUT_NONE;
    if (o->hosts || o->hostfile)
        return FANOUT_SSH;
    if (o->standalone || options_is_given(o, OPTION_node_rank) || !machine_variable(env, "SLURM_JOB_ID"))
        return FANOUT_NONE;
    if (options_is_given(o, OPTION_nnodes) && strspn(o->nnodes, "1:") == strlen(o->nnodes))
        return FANOUT_NONE;
    return is_slurm_head(env) ? FANOUT_SRUN : FANOUT_NONE;
}

int fanout_make(struct fanout *f, struct options *o, char **argv, char *const *env, struct cc_err *err)
{
    int r;

    *f = (struct fanout) { .way = fanout_way(o, env), .leash_fd = -1, .options = o };
    if (gethostname(f->host, sizeof f->host - 1) < 0 || f->host[0] == '\0')
        (void) snprintf(f->host, sizeof f->host, "localhost");
    r = f->way == FANOUT_SSH ? fanout_ssh_hosts(f, o, err) : fanout_srun_hosts(f, o, env, err);
    if (r == 0 && o->pass_fds)
        r = cc_fail(err, -EINVAL, "--pass-fds: %s starts agents on other nodes, which no descriptor of ours reaches", f->who);
    if (r == 0)
        r = suggest(f, o, err);
    if (r == 0)
        r = check(f, o, err);
    if (r == 0)
        r = make_common(f, o, argv, env, err);
    if (r == 0)
        r = f->way == FANOUT_SSH ? fanout_ssh_lines(f, o, err) : fanout_srun_lines(f, o, env, err);
    if (f->way != FANOUT_SSH)
        explicit_bzero(f->secret, sizeof f->secret);
    return r == 0 ? 0 : r == -ENOMEM ? AGENT_EXIT_INTERNAL : AGENT_EXIT_USAGE;
}

void fanout_show(FILE *to, const struct fanout *f)
{
    for (unsigned i = 0; i < f->n_lines; i++) {
        (void) fprintf(to, "%s", i == 0 ? "agents    " : "          ");
        if (f->lines[i].n == 1)
            (void) fprintf(to, "node %u (%s): ", f->lines[i].first, f->hosts.host[f->lines[i].first].name);
        else if (f->way == FANOUT_SSH)
            (void) fprintf(to, "nodes %u to %u (%s, which starts the others): ", f->lines[i].first,
                           f->lines[i].first + f->lines[i].n - 1, f->hosts.host[f->lines[i].first].name);
        shellword_line(to, f->lines[i].argv);
    }
}
