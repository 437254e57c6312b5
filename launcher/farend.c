#include "launcher/farend.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
    f->n_block = (size_t) n;
    if (read_all(fd, f->block, f->n_block, err) < 0)
        return err->code;
    n = launchdata_read(&f->data, f->block, f->n_block, err);
    if (n == 0)
        (void) snprintf(f->mark, sizeof f->mark, "%s", f->data.mark);
    return (int) n;
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

static void tell(const struct farend *f, const char *what)
{
    struct sigaction ign = { .sa_handler = SIG_IGN }, was;
    char             line[TELL_MAX];
    int              n = snprintf(line, sizeof line, FAREND_SIGN "%s %s\n", f->mark, what);

    (void) sigaction(SIGPIPE, &ign, &was); /* a head that has gone must not take us with it: there are workers to end */
    while (write(STDERR_FILENO, line, (size_t) n) < 0 && errno == EINTR)
        ;
    (void) sigaction(SIGPIPE, &was, NULL);
}

void farend_ended(const struct farend *f, int status)
{
    char what[TELL_MAX / 2];

    (void) snprintf(what, sizeof what, "end %u %d", f->node_rank, status);
    tell(f, what);
}

static void say_up(const struct farend *f)
{
    char what[TELL_MAX / 2];

    (void) snprintf(what, sizeof what, "up %u", f->node_rank);
    tell(f, what);
}

static void on_ended(void *ctx, int status)
{
    farend_ended(ctx, status);
}

/* The keeper lives as long as the job; the environment and the secret are the agent's. */
static void on_began(void *ctx)
{
    struct farend *f = ctx;

    explicit_bzero(f->block, f->n_block);
}

struct keeper_leash farend_leash(struct farend *f)
{
    return (struct keeper_leash) { .fd = f->fd, .began = on_began, .ended = on_ended, .ctx = f };
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
    int r;

    *ret = (struct farend) { .fd = move_away(fd, err) };
    r = ret->fd < 0 ? ret->fd : read_block(ret->fd, ret, err);
    if (r >= 0 && ret->data.n_hosts == 0)
        r = find_rank(ret, here, err);
    if (r < 0)
        return r;
    if (ret->data.n_hosts == 0)
        say_up(ret); /* what is said before that is taken for ssh's own words */
    ret->env = launchdata_environ(&ret->data, here);
    return ret->env ? 0 : cc_fail(err, -ENOMEM, "no memory for the environment");
}

void farend_clear(struct farend *f)
{
    launchdata_clear(&f->data);
    free(f->env);
    if (f->block)
        explicit_bzero(f->block, f->n_block);
    free(f->block);
    *f = (struct farend) { .fd = -1 };
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
    int                    r;

    if (!tasks)
        return cc_fail(err, -ENOMEM, "no memory for the tasks of %zu nodes", n);
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
