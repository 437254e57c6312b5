#include "launcher/farend.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/machine.h"
#include "launcher/options_rows.h"
#include "launcher/taskcount.h"
#include "store/base/cleanup.h"

enum { NODE_RANK_MAX = 1 << 20, TELL_MAX = 128 };

/* ---- the block */

static int read_all(int fd, uint8_t *p, size_t n, struct cc_err *err)
{
    size_t done = 0;

    while (done < n) {
        ssize_t r = read(fd, p + done, n - done);

        if (r < 0 && errno == EINTR)
            continue;
        if (r < 0)
            return cc_fail(err, -errno, "cannot read the data of the job from descriptor %d: %s", fd, strerror(errno));
        if (r == 0)
            return cc_fail(err, -EPIPE, "whoever started this agent was gone before all of the job's data had come");
        done += (size_t) r;
    }
    return 0;
}

static int read_block(int fd, struct farend *f, struct cc_err *err)
{
    uint8_t head[LAUNCHDATA_HEAD];
    int64_t n = read_all(fd, head, sizeof head, err);

    if (n == 0)
        n = launchdata_length(head, err);
    if (n < 0)
        return (int) n;
    f->block = malloc((size_t) n + 1);
    if (!f->block)
        return cc_fail(err, -ENOMEM, "no memory for the data of the job (%lld bytes)", (long long) n);
    if (read_all(fd, f->block, (size_t) n, err) < 0)
        return err->code;
    return launchdata_read(&f->data, f->block, (size_t) n, err);
}

/* The head says so, or it has left the order to Slurm. */
static int find_rank(struct farend *f, char *const *here, struct cc_err *err)
{
    static const char name[] = "node-rank=";
    const char       *text = machine_variable(here, "SLURM_NODEID");
    unsigned long     n, first = f->data.first ? strtoul(f->data.first, NULL, 10) : 0;
    char             *end;

    (void) allocation_switches(machine_variable(here, "SLURM_TOPOLOGY_ADDR"),
                               machine_variable(here, "SLURM_TOPOLOGY_ADDR_PATTERN"), f->group,
                               sizeof f->group);
    for (unsigned i = 0; i < f->data.n_set; i++) {
        if (strncmp(f->data.set[i], name, sizeof name - 1) != 0)
            continue;
        text = f->data.set[i] + sizeof name - 1;
        first = 0;
        f->group[0] = '\0';
    }
    n = text ? strtoul(text, &end, 10) : 0;
    if (!text || *text < '0' || *text > '9' || *end || n > NODE_RANK_MAX || first > NODE_RANK_MAX)
        return cc_fail(err, -EPROTO, "this node's rank is not known: '%.40s'", text ? text : "");
    f->node_rank = (unsigned) (first + n);
    return 0;
}

/* ---- the leash */

struct leash {
    int   fd, signal_fd;
    pid_t agent;
};

static void tell(const struct farend *f, const char *what)
{
    char line[TELL_MAX];
    int  n = snprintf(line, sizeof line, FAREND_SIGN "%.64s %s\n", f->data.mark, what);

    while (write(STDERR_FILENO, line, (size_t) n) < 0 && errno == EINTR)
        ;
}

static void take_orders(struct leash *l)
{
    uint8_t orders[64];
    ssize_t n = read(l->fd, orders, sizeof orders);

    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (n <= 0) {
        l->fd = -1;
        (void) kill(l->agent, SIGTERM);
    }
    for (ssize_t i = 0; i < n; i++)
        if (orders[i] > 0 && orders[i] <= SIGRTMAX)
            (void) kill(l->agent, orders[i]);
}

/* False: the agent has ended, with *ret_status. Others are orphans that came to us where we are process 1. */
static bool take_signals(struct leash *l, int *ret_status)
{
    struct signalfd_siginfo s;
    int                     status;
    pid_t                   pid;

    if (read(l->signal_fd, &s, sizeof s) != (ssize_t) sizeof s)
        return true;
    if (s.ssi_signo != SIGCHLD) {
        (void) kill(l->agent, (int) s.ssi_signo);
        return true;
    }
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        if (pid == l->agent) {
            *ret_status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
            return false;
        }
    return true;
}

static _Noreturn void hold(struct leash *l, const struct farend *f)
{
    struct sigaction ign = { .sa_handler = SIG_IGN };
    char             what[TELL_MAX / 2];
    int              status = 0;

    (void) prctl(PR_SET_NAME, "ccrun-leash");
    (void) sigaction(SIGPIPE, &ign, NULL);
    do {
        struct pollfd p[2] = { { .fd = l->signal_fd, .events = POLLIN }, { .fd = l->fd, .events = POLLIN } };

        (void) poll(p, 2, -1);
        if (p[1].revents)
            take_orders(l);
        if (p[0].revents && !take_signals(l, &status))
            break;
    } while (true);
    (void) snprintf(what, sizeof what, "end %u %d", f->node_rank, status);
    tell(f, what);
    _exit(status);
}

/* Whatever we are sent is for the agent, but for what stops and continues us. */
static void wanted(sigset_t *set)
{
    static const int not[] = { SIGTSTP, SIGTTIN, SIGTTOU, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGSYS, SIGTRAP };

    (void) sigfillset(set);
    for (size_t i = 0; i < sizeof not / sizeof *not; i++)
        (void) sigdelset(set, not[i]);
}

static int fork_agent(struct leash *l, const struct farend *f, struct cc_err *err)
{
    sigset_t set, old;
    pid_t    us = getpid();
    char     what[TELL_MAX / 2];

    wanted(&set);
    (void) sigprocmask(SIG_BLOCK, &set, &old);
    l->signal_fd = signalfd(-1, &set, SFD_CLOEXEC);
    (void) snprintf(what, sizeof what, "up %u", f->node_rank);
    tell(f, what); /* first: what is said before that is taken for ssh's own words */
    l->agent = l->signal_fd < 0 ? -1 : fork();
    if (l->agent > 0)
        hold(l, f);
    if (l->agent < 0)
        return cc_fail(err, -errno, "start the agent: %s", strerror(errno));
    (void) close(l->signal_fd);
    (void) close(l->fd);
    (void) prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != us)
        (void) raise(SIGTERM);
    (void) sigprocmask(SIG_SETMASK, &old, NULL);
    return 0;
}

/* The agent's own standard input is another: what comes here is not for the workers. */
static int move_away(int fd, struct cc_err *err)
{
    int moved = fcntl(fd, F_DUPFD_CLOEXEC, 3);

    if (moved < 0)
        return cc_fail(err, -errno, "--agent-fd %d: %s", fd, strerror(errno));
    (void) close(fd);
    if (fd == STDIN_FILENO && open("/dev/null", O_RDONLY) != STDIN_FILENO) { /* NOLINT: it is to be inherited */
        (void) close(moved);
        return cc_fail(err, -errno, "cannot open '/dev/null': %s", strerror(errno));
    }
    return moved;
}

int farend_start(int fd, char *const *here, struct farend *ret, struct cc_err *err)
{
    struct leash l = { .fd = move_away(fd, err) };
    int          r = l.fd;

    *ret = (struct farend) { .block = NULL };
    if (r >= 0)
        r = read_block(l.fd, ret, err);
    if (r >= 0)
        r = find_rank(ret, here, err);
    if (r >= 0) {
        ret->env = launchdata_environ(&ret->data, here);
        r = ret->env ? 0 : cc_fail(err, -ENOMEM, "no memory for the environment");
    }
    return r < 0 ? r : fork_agent(&l, ret, err);
}

void farend_clear(struct farend *f)
{
    launchdata_clear(&f->data);
    free(f->env);
    free(f->block);
    *f = (struct farend) { .block = NULL };
}

/* ---- settings */

static int suggest(const struct farend *f, struct options *o, const char *setting, struct cc_err *err)
{
    size_t len = strcspn(setting, "=");

    for (unsigned i = 0; i < OPTIONS_N; i++)
        if (strncmp(option_rows[i].name, setting, len) == 0 && option_rows[i].name[len] == '\0' && setting[len] == '=')
            return options_suggest(o, (enum option_id) i, setting + len + 1, f->data.who, err);
    return cc_fail(err, -EPROTO, "the head of this job has another version of ccrun: '%.80s' is not known here", setting);
}

/* A node without tasks has a worker all the same: an agent that has none is no node. */
static int suggest_tasks(const struct farend *f, struct options *o, struct cc_err *err)
{
    size_t                 n = (size_t) f->node_rank + 1;
    CC_AUTO_FREE unsigned *tasks = calloc(n, sizeof *tasks);
    char                   text[16];
    bool                   is_longer;
    int                    r = tasks ? 0 : cc_fail(err, -ENOMEM, "no memory for the tasks of %zu nodes", n);

    if (r == 0)
        r = taskcount_parse("SLURM_TASKS_PER_NODE", f->data.tasks, tasks, n, &is_longer, err);
    if (r < 0)
        return r;
    (void) snprintf(text, sizeof text, "%u", tasks[f->node_rank] > 0 ? tasks[f->node_rank] : 1);
    return options_suggest(o, OPTION_nproc_per_node, text, "SLURM_TASKS_PER_NODE", err);
}

int farend_suggest(const struct farend *f, struct options *o, struct cc_err *err)
{
    char rank[16];
    int  r = f->data.tasks ? suggest_tasks(f, o, err) : 0;

    for (unsigned i = 0; r == 0 && i < f->data.n_set; i++)
        r = suggest(f, o, f->data.set[i], err);
    if (r == 0 && f->group[0])
        r = options_suggest(o, OPTION_node_group, f->group, "SLURM_TOPOLOGY_ADDR", err);
    (void) snprintf(rank, sizeof rank, "%u", f->node_rank);
    return r < 0 ? r : options_suggest(o, OPTION_node_rank, rank, f->data.who, err);
}
