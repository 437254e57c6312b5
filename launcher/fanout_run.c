/* The head of a job: starts what leads to the agents, passes on output and signals, and knows how each node ended. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#include "agent/agent.h"
#include "agent/signals.h"
#include "launcher/fanout.h"
#include "launcher/farend.h"
#include "launcher/oneline.h"
#include "launcher/outlet.h"
#include "store/base/cleanup.h"
#include "store/base/macros.h"
#include "store/base/signame.h"
#include "store/core/siphash.h"

extern char **environ;

enum {
    DRAIN_MS = 500,      /* a connection that ssh keeps for later holds its pipes open */
    DOOM_MS = 10000,     /* agents learn of a lost one by themselves; what has not ended by then is told to */
    STOP_EXTRA_MS = 5000,
    KILL_MS = 3000, /* from SIGTERM to SIGKILL for what leads to an agent that does not answer */
    WHY_MAX = 400,
    SAID_MAX = 64,
    SSH_FAILED = 255,
    TRIES_MAX = 6, /* where a server lets in no more for now: about 8 s in all */
    AGAIN_MS = 250,
    SENTENCE_MAX = 1024,
};

enum place_state { PLACE_WAITING, PLACE_UP, PLACE_ENDED, PLACE_LOST, PLACE_ABSENT };

struct place { /* a node of the job */
    enum place_state state;
    int             status;
    struct line    *line; /* that leads, or would lead, to it */
};

struct line {
    struct run               *r;
    const struct fanout_line *cfg;
    struct cc_buf            *out; /* the block, then signals */
    pid_t                     pid, pid_was; /* 0: not started, or reaped */
    int                       in_fd, status;
    uv_poll_t                 in;
    bool                      has_in, is_exited, is_settled;
    struct outlet_stream      stream[2];
    unsigned                  n_streams;
    uv_timer_t                timer;
    unsigned                  n_tries;
    bool                      is_again; /* its timer starts it */
    char                      why[WHY_MAX]; /* the last that was printed before an agent was up */
};

struct run {
    struct fanout *f;
    uv_loop_t      loop;
    struct signals signals;
    struct outlet  outlet;
    uv_timer_t     timer;
    struct line   *lines;
    struct place  *places;
    unsigned       n_lines, max_lines;
    unsigned       n_started, n_settled, n_under_way;
    int            status;     /* of a worker or an agent, the first that is not 0 */
    int            trouble;    /* of the way there: counts when no agent has a status of its own */
    int            stopped_by; /* a signal */
    uint64_t       status_at, lost_at, doomed_at; /* ms; 0: not */
    bool           is_doomed, is_stopping, is_killing;
    uv_poll_t      leash; /* of a relay */
    bool           has_leash;
    uint64_t       said[SAID_MAX]; /* hashes of lines of ccrun's that were shown */
    unsigned       n_said;
};

static void say(struct run *r, int verbosity, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

static void say(struct run *r, int verbosity, const char *fmt, ...)
{
    char    text[SENTENCE_MAX];
    va_list ap;

    if (r->f->verbosity < verbosity || r->f->is_relay)
        return;
    va_start(ap, fmt);
    (void) vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    oneline_text(text, sizeof text);
    outlet_say(&r->outlet, text);
}

static const char *host_of(const struct run *r, unsigned rank)
{
    return r->f->hosts.host[rank - r->f->first_rank].name;
}

static struct place *place_of(const struct run *r, unsigned rank)
{
    return &r->places[rank - r->f->first_rank];
}

/* To whoever started us as a relay.  False: nobody did. */
static bool pass_up(struct run *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static bool pass_up(struct run *r, const char *fmt, ...)
{
    char    text[SENTENCE_MAX];
    va_list ap;
    int     n = snprintf(text, sizeof text, FAREND_SIGN "%s ", r->f->mark);

    if (!r->f->is_relay)
        return false;
    va_start(ap, fmt);
    (void) vsnprintf(text + n, sizeof text - (size_t) n - 1, fmt, ap);
    va_end(ap);
    n = (int) strlen(text);
    text[n] = '\n';
    text[n + 1] = '\0';
    outlet_say(&r->outlet, text);
    return true;
}

/* ---- to the agents */

static void on_writable(uv_poll_t *p, int status, int events);

static void on_in_closed(uv_handle_t *h)
{
    struct line *l = CC_CONTAINER_OF((uv_poll_t *) (void *) h, struct line, in);

    cc_fdp(&l->in_fd);
}

static void close_in(struct line *l)
{
    if (l->has_in)
        uv_close((uv_handle_t *) &l->in, on_in_closed);
    l->has_in = false;
}

static void flush(struct line *l)
{
    while (l->has_in && cc_buf_len(l->out) > 0) {
        ssize_t n = write(l->in_fd, cc_buf_data(l->out), cc_buf_len(l->out));

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN) {
            (void) uv_poll_start(&l->in, UV_WRITABLE, on_writable);
            return;
        }
        if (n < 0) { /* it has gone: its end tells why */
            close_in(l);
            return;
        }
        cc_buf_drop(l->out, (size_t) n);
    }
    if (l->has_in)
        (void) uv_poll_stop(&l->in);
    fanout_forget(l->out);
}

static void on_writable(uv_poll_t *p, int status, int events)
{
    (void) status, (void) events;
    flush(CC_CONTAINER_OF(p, struct line, in));
}

static void order(struct line *l, int signum)
{
    uint8_t byte = (uint8_t) signum;

    if (l->has_in && cc_buf_add(l->out, &byte, 1) == 0)
        flush(l);
}

/* How many of its nodes are in that state. */
static unsigned n_in(const struct line *l, enum place_state state)
{
    unsigned n = 0;

    for (unsigned i = 0; i < l->cfg->n; i++) {
        const struct place *p = place_of(l->r, l->cfg->first + i);

        n += p->line == l && p->state == state;
    }
    return n;
}

static unsigned n_up(const struct line *l)
{
    return n_in(l, PLACE_UP);
}

/* ---- the end of the whole */

static void on_timer(uv_timer_t *t);
static void line_done(struct line *l);

static void arm(struct run *r, uint64_t ms)
{
    (void) uv_timer_start(&r->timer, on_timer, ms, 0);
}

/* How long to wait for the agents: those that found out by themselves that the job is over have been at it since. */
static uint64_t time_to_end(const struct run *r)
{
    uint64_t limit = r->f->grace + STOP_EXTRA_MS, spent = r->doomed_at > 0 ? uv_now(&r->loop) - r->doomed_at : 0;

    return spent + KILL_MS > limit ? KILL_MS : limit - spent;
}

/* No more is started; what is on its way is called back, and agents that are up get the signal. */
static void stop(struct run *r, int signum)
{
    for (unsigned i = 0; i < r->n_started; i++) {
        struct line *l = &r->lines[i];

        if (l->pid > 0 && n_up(l) == 0 && !l->cfg->is_local)
            (void) kill(l->pid, SIGTERM);
        order(l, signum);
    }
    if (!r->is_stopping)
        arm(r, time_to_end(r));
    r->is_stopping = true;
    for (unsigned i = 0; i < r->n_started; i++)
        if (r->lines[i].is_again)
            line_done(&r->lines[i]);
}

static void on_timer(uv_timer_t *t)
{
    struct run *r = CC_CONTAINER_OF(t, struct run, timer);

    if (!r->is_stopping) {
        stop(r, SIGTERM);
        return;
    }
    for (unsigned i = 0; i < r->n_started; i++)
        if (r->lines[i].pid > 0) /* srun cancels its step on SIGTERM, and leaves it on SIGKILL */
            (void) kill(r->lines[i].pid, r->is_killing ? SIGKILL : SIGTERM);
    r->is_killing = true;
    arm(r, KILL_MS);
}

/* The job is over for all: at once, or when its agents have had the time to find out themselves. */
static void doom(struct run *r, uint64_t ms)
{
    if (r->is_stopping || (r->is_doomed && ms > 0))
        return;
    r->is_doomed = true;
    r->doomed_at = uv_now(&r->loop);
    if (ms == 0)
        stop(r, SIGTERM);
    else
        arm(r, ms);
}

static unsigned n_left(const struct run *r)
{
    unsigned n = 0;

    for (unsigned i = 0; i < r->f->hosts.n; i++)
        n += r->places[i].state == PLACE_WAITING || r->places[i].state == PLACE_UP;
    return n;
}

static void node_ended(struct run *r, unsigned rank, int status)
{
    struct place *p = place_of(r, rank);

    p->state = PLACE_ENDED;
    p->status = status;
    if (pass_up(r, "end %u %d", rank, status))
        return;
    if (status == 0 || r->stopped_by || (r->is_stopping && status == 128 + SIGTERM)) /* it was we who stopped it */
        return;
    if (status == AGENT_EXIT_TEMPORARY)
        r->trouble = r->trouble ? r->trouble : status;
    else if (r->status == 0) {
        r->status = status;
        r->status_at = uv_now(&r->loop);
    }
    if (n_left(r) < r->f->min_nodes)
        doom(r, DOOM_MS);
}

/* status: of what led to it; why: what was said there, or "". */
static void node_lost(struct run *r, unsigned rank, int status, const char *why)
{
    place_of(r, rank)->state = PLACE_LOST;
    if (pass_up(r, "lost %u %d %s", rank, status, why))
        return;
    r->lost_at = uv_now(&r->loop);
    r->trouble = r->trouble ? r->trouble : AGENT_EXIT_TEMPORARY;
    if (!r->is_stopping || r->is_killing)
        say(r, -1, "ccrun: the agent on node %u (%s) is lost: %s ended with status %d%s%s", rank, host_of(r, rank), r->f->program,
            status, why[0] ? ": " : "", why);
    if (n_left(r) < r->f->min_nodes)
        doom(r, DOOM_MS);
}

/* Why there is no agent: 255 is ssh's own, 127 and 126 are the shell's there. */
static void node_absent(struct run *r, unsigned rank, int status, const char *why)
{
    char by[64];
    int  code = AGENT_EXIT_TEMPORARY;

    place_of(r, rank)->state = PLACE_ABSENT;
    if (status > 128 && status != SSH_FAILED)
        (void) snprintf(by, sizeof by, "%s was killed by signal %d", r->f->program, status - 128);
    else
        (void) snprintf(by, sizeof by, "%s ended with status %d", r->f->program, status);
    if (pass_up(r, "absent %u %d %s", rank, status, why[0] ? why : by) || r->is_stopping)
        return;
    if (status == AGENT_EXIT_NOT_FOUND || status == AGENT_EXIT_CANNOT_RUN) {
        code = status;
        say(r, -1, "ccrun: error: node %u (%s): there is no ccrun that can be run (%s); install it there, or see --launch-agent",
            rank, host_of(r, rank), why[0] ? why : by);
    } else {
        say(r, -1, "ccrun: error: node %u (%s): no agent could be started: %s", rank, host_of(r, rank), why[0] ? why : by);
    }
    r->trouble = r->trouble ? r->trouble : code;
    if (n_left(r) < r->f->min_nodes)
        doom(r, 0);
}

/* A host that others could not reach may be within our reach: hosts that may not log in on each other are as common. */
static bool go_direct(struct run *r, unsigned rank, const char *before)
{
    const struct fanout_line *cfg;
    struct line              *l;

    if (r->is_stopping || r->n_lines == r->max_lines)
        return false;
    cfg = fanout_ssh_direct(r->f, rank, before);
    if (!cfg)
        return false;
    l = &r->lines[r->n_lines++];
    *l = (struct line) { .r = r, .cfg = cfg, .out = (struct cc_buf *) (uintptr_t) &cfg->block, .in_fd = -1 };
    (void) uv_timer_init(&r->loop, &l->timer);
    place_of(r, rank)->line = l;
    return true;
}

/* l leads to several, or is the second try. */
static void node_missed(struct line *l, unsigned rank, int status, const char *why)
{
    char text[2 * WHY_MAX];

    if (l->r->f->way == FANOUT_SSH && l->cfg->n > 1 && rank != l->cfg->first && go_direct(l->r, rank, why))
        return;
    (void) snprintf(text, sizeof text, l->cfg->before ? "%s; and %s" : "%s", why, l->cfg->before);
    node_absent(l->r, rank, status, text);
}

/* ---- from the agents */

static void settled(struct line *l)
{
    struct run *r = l->r;

    if (!l->is_settled)
        r->n_under_way--;
    l->is_settled = true;
    if (r->n_under_way == 0 && r->n_started == r->n_lines) /* no block is written any more */
        explicit_bzero(r->f->secret, sizeof r->f->secret);
}

static void start_more(struct run *r);

/* The place may not be the line's any more. */
static bool is_in(const struct line *l, unsigned long rank)
{
    return rank >= l->cfg->first && rank - l->cfg->first < l->cfg->n && place_of(l->r, (unsigned) rank)->line == l;
}

static void node_is_up(struct line *l, unsigned rank)
{
    struct run *r = l->r;

    place_of(r, rank)->state = PLACE_UP;
    l->why[0] = '\0';
    l->n_tries = 1;
    if (!pass_up(r, "up %u", rank))
        say(r, 1, "ccrun: node %u (%s): the agent is up", rank, host_of(r, rank));
}

/* "up RANK", "end RANK STATUS"; of a relay also "lost RANK STATUS WHY", "absent RANK STATUS WHY". */
static void hear(struct line *l, const char *text)
{
    char          verb[8] = "", via[WHY_MAX + 320], *end;
    const char   *at = strchr(text, ' ');
    unsigned long rank = at ? strtoul(at, &end, 10) : 0;
    int           status;

    if (!at || !is_in(l, rank))
        return;
    (void) snprintf(verb, sizeof verb, "%.*s", (int) (at - text), text);
    status = (int) strtol(end, &end, 10);
    (void) snprintf(via, sizeof via, "by way of %s:%.*s", host_of(l->r, l->cfg->first), (int) strcspn(end, "\n"), end);
    if (strcmp(verb, "up") == 0)
        node_is_up(l, (unsigned) rank);
    else if (strcmp(verb, "end") == 0)
        node_ended(l->r, (unsigned) rank, status);
    else if (strcmp(verb, "lost") == 0)
        node_lost(l->r, (unsigned) rank, status, via);
    else if (strcmp(verb, "absent") == 0)
        node_missed(l, (unsigned) rank, status, via);
    if (n_in(l, PLACE_WAITING) == 0)
        settled(l);
    start_more(l->r);
}

/* The same sentence of ccrun's from many nodes is one. */
static bool is_said(struct run *r, const char *line, size_t len)
{
    static const uint64_t key[2] = { 0, 0 }; /* whoever aims for a collision hides a line of his own */
    uint64_t              hash = siphash13(key, (struct cc_bytes) { (const uint8_t *) line, len });

    for (unsigned i = 0; i < r->n_said && i < SAID_MAX; i++)
        if (r->said[i] == hash)
            return true;
    r->said[r->n_said++ % SAID_MAX] = hash;
    return false;
}

static void keep_why(struct line *l, const char *text, size_t len)
{
    while (len > 0 && (text[len - 1] == '\n' || text[len - 1] == '\r'))
        len--;
    if (len > 0)
        (void) snprintf(l->why, sizeof l->why, "%.*s", (int) (len < WHY_MAX ? len : WHY_MAX - 1), text);
}

static size_t on_error_line(void *ctx, const char *text, size_t len)
{
    struct line *l = ctx;
    struct run  *r = l->r;
    char         sign[sizeof FAREND_SIGN + FANOUT_MARK_MAX + 1], copy[2 * WHY_MAX];
    int          n = snprintf(sign, sizeof sign, FAREND_SIGN "%s ", r->f->mark);
    const char  *at = memchr(text, sign[0], len) ? memmem(text, len, sign, (size_t) n) : NULL;

    if (at) {
        (void) snprintf(copy, sizeof copy, "%.*s", (int) (text + len - at - n), at + n);
        hear(l, copy);
        return (size_t) (at - text);
    }
    if (n_up(l) == 0) { /* what ssh has to say, and a log-in's greetings */
        keep_why(l, text, len);
        return r->f->verbosity > 0 ? len : 0;
    }
    return r->f->hosts.n > 1 && len > 7 && memcmp(text, "ccrun: ", 7) == 0 && is_said(r, text, len) ? 0 : len;
}

/* ---- programs */

static void on_again(uv_timer_t *t);

/* No agent was there yet, and its server was only too busy.  Not all of them come back at once.  True: it is started later. */
static bool is_tried_again(struct line *l)
{
    struct run *r = l->r;
    uint64_t    ms;

    if (r->is_stopping || r->f->way != FANOUT_SSH || l->status != SSH_FAILED || n_in(l, PLACE_WAITING) < l->cfg->n ||
        l->n_tries >= TRIES_MAX || !fanout_ssh_is_crowd(l->why) || fanout_ssh_block(r->f, l->cfg, l->out) < 0)
        return false;
    ms = (uint64_t) AGAIN_MS << (l->n_tries - 1);
    ms = ms / 2 + (uint64_t) l->pid_was * 7919 % ms;
    say(r, 1, "ccrun: node %u (%s): %s; once more in %.1f s", l->cfg->first, host_of(r, l->cfg->first), l->why,
        (double) ms / 1000);
    l->is_again = true;
    (void) uv_timer_start(&l->timer, on_again, ms, 0);
    return true;
}

static void line_done(struct line *l)
{
    struct run *r = l->r;
    size_t      n = strlen(l->why);

    if (is_tried_again(l))
        return;
    l->is_again = false;
    (void) uv_timer_stop(&l->timer);
    if (l->n_tries > 1)
        (void) snprintf(l->why + n, sizeof l->why - n, "%s(tried %u times)", n > 0 ? " " : "", l->n_tries);
    for (unsigned i = 0; i < l->cfg->n; i++) {
        unsigned      rank = l->cfg->first + i;
        struct place *p = place_of(r, rank);

        if (p->line == l && p->state == PLACE_UP)
            node_lost(r, rank, l->status, l->why);
        else if (p->line == l && p->state == PLACE_WAITING)
            node_missed(l, rank, l->status, l->why);
    }
    settled(l);
    r->n_settled++;
    start_more(r);
}

static void on_stream_end(void *ctx)
{
    struct line *l = ctx;

    l->n_streams--;
    if (l->n_streams == 0 && l->is_exited)
        line_done(l);
}

static void on_drain(uv_timer_t *t)
{
    struct line *l = CC_CONTAINER_OF(t, struct line, timer);

    outlet_end(&l->stream[1]);
    outlet_end(&l->stream[0]);
}

static void exited(struct line *l, int status)
{
    l->pid_was = l->pid;
    l->pid = 0;
    l->is_exited = true;
    l->status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    close_in(l);
    if (l->n_streams == 0)
        line_done(l);
    else
        (void) uv_timer_start(&l->timer, on_drain, DRAIN_MS, 0);
}

static void reap(struct run *r)
{
    int   status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        for (unsigned i = 0; i < r->n_started; i++)
            if (r->lines[i].pid == pid) {
                exited(&r->lines[i], status);
                break;
            }
}

struct ends {
    int mine, its;
};

static int make_pipes(struct ends p[3])
{
    int fds[2];

    for (int i = 0; i < 3; i++)
        p[i] = (struct ends) { -1, -1 };
    for (int i = 0; i < 3; i++) {
        if (pipe2(fds, O_CLOEXEC) < 0)
            return -errno;
        p[i] = (struct ends) { fds[i == 0], fds[i != 0] };
        if (fcntl(p[i].mine, F_SETFL, O_NONBLOCK) < 0)
            return -errno;
    }
    return 0;
}

static int set_up_child(posix_spawn_file_actions_t *a, posix_spawnattr_t *attr, const struct fanout_line *cfg,
                        const struct ends p[3])
{
    sigset_t none, all;
    int      r = posix_spawn_file_actions_adddup2(a, p[0].its, cfg->is_local ? FANOUT_LOCAL_FD : STDIN_FILENO);

    (void) sigemptyset(&none);
    (void) sigfillset(&all);
    if (r == 0 && cfg->is_local && !cfg->has_stdin)
        r = posix_spawn_file_actions_addopen(a, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (r == 0)
        r = posix_spawn_file_actions_adddup2(a, p[1].its, STDOUT_FILENO);
    if (r == 0)
        r = posix_spawn_file_actions_adddup2(a, p[2].its, STDERR_FILENO);
    if (r == 0)
        r = posix_spawnattr_setsigmask(attr, &none);
    if (r == 0)
        r = posix_spawnattr_setsigdefault(attr, &all);
    /* A session of its own: what a terminal signals is for us alone to pass on. */
    return r ? r : posix_spawnattr_setflags(attr, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
}

static int spawn(struct line *l, const struct ends p[3])
{
    posix_spawn_file_actions_t a;
    posix_spawnattr_t          attr;
    int                        r = posix_spawn_file_actions_init(&a);

    if (r)
        return -r;
    r = posix_spawnattr_init(&attr);
    if (r == 0) {
        r = set_up_child(&a, &attr, l->cfg, p);
        if (r == 0)
            r = posix_spawnp(&l->pid, l->cfg->argv[0], &a, &attr, l->cfg->argv, l->cfg->env ? l->cfg->env : environ);
        (void) posix_spawnattr_destroy(&attr);
    }
    (void) posix_spawn_file_actions_destroy(&a);
    if (r)
        l->pid = 0;
    return -r;
}

/* From here on the streams have their descriptors. */
static int watch(struct line *l, struct ends p[3], struct cc_err *err)
{
    int r = uv_poll_init(&l->r->loop, &l->in, p[0].mine);

    if (r < 0)
        return cc_fail(err, r, "watch a pipe: %s", uv_strerror(r));
    l->in_fd = p[0].mine;
    l->has_in = true;
    p[0].mine = -1;
    for (unsigned i = 0; i < 2; i++) {
        l->stream[i] = (struct outlet_stream) { .on_line = i == 1 ? on_error_line : NULL, .on_end = on_stream_end, .ctx = l };
        r = outlet_read(&l->r->outlet, &l->stream[i], p[i + 1].mine, i, err);
        p[i + 1].mine = -1;
        if (r < 0)
            return r;
        l->n_streams++;
    }
    return 0;
}

static void start(struct line *l)
{
    struct run   *r = l->r;
    struct ends   p[3];
    struct cc_err err = { 0 };
    int           e = make_pipes(p);

    if (!l->is_again)
        r->n_under_way++;
    l->is_exited = l->is_again = false;
    l->n_tries++;
    if (e == 0)
        e = spawn(l, p);
    if (e == 0 && watch(l, p, &err) < 0) {
        (void) snprintf(l->why, sizeof l->why, "%.390s", err.msg);
        (void) kill(l->pid, SIGKILL);
    }
    for (int i = 0; i < 3; i++) {
        cc_fdp(&p[i].its);
        cc_fdp(&p[i].mine);
    }
    if (e < 0) {
        (void) snprintf(l->why, sizeof l->why, "'%.300s' cannot be run: %s", l->cfg->argv[0], strerror(-e));
        l->is_exited = true;
        line_done(l);
        return;
    }
    flush(l);
}

static void on_again(uv_timer_t *t)
{
    struct line *l = CC_CONTAINER_OF(t, struct line, timer);

    l->why[0] = '\0';
    start(l);
}

static void finish(struct run *r);

static void start_more(struct run *r)
{
    while (!r->is_stopping && r->n_started < r->n_lines && r->n_under_way < FANOUT_WINDOW)
        start(&r->lines[r->n_started++]);
    if (r->n_settled == r->n_started && (r->is_stopping || r->n_started == r->n_lines))
        finish(r);
}

/* ---- signals of ours */

static bool is_stop(int signum)
{
    return signum == SIGTERM || signum == SIGINT || signum == SIGHUP || signum == SIGQUIT;
}

static void order_all(struct run *r, int signum)
{
    for (unsigned i = 0; i < r->n_started; i++)
        order(&r->lines[i], signum);
}

static void obey(struct run *r, int signum)
{
    char name[CC_SIGNAME_MAX];

    if (is_stop(signum)) {
        if (!r->stopped_by)
            say(r, 0, "ccrun: %s: stopping %u node%s", cc_signal_name(signum, name), n_left(r), n_left(r) == 1 ? "" : "s");
        r->stopped_by = r->stopped_by ? r->stopped_by : signum;
        stop(r, signum);
        start_more(r);
    } else if (signum != SIGWINCH) {
        order_all(r, signum);
    }
}

static void on_signal(void *ctx, const struct signalfd_siginfo *info)
{
    struct run *r = ctx;
    int         signum = (int) info->ssi_signo;

    if (signum == SIGCHLD) {
        reap(r);
    } else if (signum == SIGTSTP) {
        order_all(r, signum); /* agents stop their workers and stay awake: others would take them for lost */
        (void) raise(SIGSTOP);
    } else {
        obey(r, signum);
    }
}

/* Of a relay: what comes is for all, and the end of it is the end. */
static void on_leash(uv_poll_t *p, int status, int events)
{
    struct run *r = CC_CONTAINER_OF(p, struct run, leash);
    uint8_t     orders[64];
    ssize_t     n = read(r->f->leash_fd, orders, sizeof orders);

    (void) status, (void) events;
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    for (ssize_t i = 0; i < n; i++)
        if (orders[i] > 0 && orders[i] <= SIGRTMAX)
            obey(r, orders[i]);
    if (n > 0 || !r->has_leash)
        return;
    uv_close((uv_handle_t *) &r->leash, NULL);
    r->has_leash = false;
    obey(r, SIGTERM);
}

static void on_lost(void *ctx)
{
    struct run *r = ctx;

    say(r, 0, "ccrun: nobody reads the output any more: stopping %u node%s", n_left(r), n_left(r) == 1 ? "" : "s");
    r->stopped_by = r->stopped_by ? r->stopped_by : SIGPIPE;
    stop(r, SIGTERM);
}

/* ---- the start and the end */

static void finish(struct run *r)
{
    if (uv_is_closing((uv_handle_t *) &r->timer))
        return;
    uv_close((uv_handle_t *) &r->timer, NULL);
    for (unsigned i = 0; i < r->n_lines; i++)
        uv_close((uv_handle_t *) &r->lines[i].timer, NULL);
    if (r->has_leash)
        uv_close((uv_handle_t *) &r->leash, NULL);
    r->has_leash = false;
    uv_stop(&r->loop);
}

/* An agent stops when the way to it breaks, and that is how it ends: 128 + SIGTERM. */
static bool is_by_loss(const struct run *r)
{
    uint64_t a = r->status_at, b = r->lost_at;

    return r->status == 128 + SIGTERM && b > 0 && !r->stopped_by && (a > b ? a - b : b - a) < DOOM_MS;
}

static int exit_status(const struct run *r)
{
    unsigned n_good = 0;

    for (unsigned i = 0; i < r->f->hosts.n; i++)
        n_good += r->places[i].state == PLACE_ENDED && r->places[i].status == 0;
    if (is_by_loss(r))
        return r->trouble;
    if (r->status || r->stopped_by)
        return r->status ? r->status : 128 + r->stopped_by;
    return n_good < r->f->min_nodes ? r->trouble : 0; /* a job that needed no more has not suffered */
}

/* Three descriptors a program; the limit goes to our children, too, so it is not raised without need. */
static void raise_limit(const struct fanout *f)
{
    struct rlimit lim;

    if (getrlimit(RLIMIT_NOFILE, &lim) < 0 || lim.rlim_cur > 3 * (rlim_t) f->n_lines + 64)
        return;
    lim.rlim_cur = lim.rlim_max;
    (void) setrlimit(RLIMIT_NOFILE, &lim);
}

static int watch_leash(struct run *r, struct cc_err *err)
{
    int n = uv_poll_init(&r->loop, &r->leash, r->f->leash_fd);

    if (n < 0)
        return cc_fail(err, n, "watch who started us: %s", uv_strerror(n));
    r->has_leash = true;
    (void) uv_poll_start(&r->leash, UV_READABLE, on_leash);
    return 0;
}

static int set_up(struct run *r, struct cc_err *err)
{
    int n;

    r->n_lines = r->f->n_lines;
    r->max_lines = r->n_lines + (fanout_is_tree(r->f) ? (unsigned) r->f->hosts.n : 0);
    r->lines = calloc(r->max_lines, sizeof *r->lines);
    r->places = calloc(r->f->hosts.n, sizeof *r->places);
    if (!r->lines || !r->places) {
        (void) cc_fail(err, -ENOMEM, "no memory for %zu nodes", r->f->hosts.n);
        return -ENOMEM;
    }
    n = uv_loop_init(&r->loop);
    if (n < 0)
        return cc_fail(err, n, "cannot make an event loop: %s", uv_strerror(n));
    n = outlet_init(&r->outlet, &r->loop, r->f->is_keep_cr, err);
    if (n == 0)
        n = signals_start(&r->signals, &r->loop, NULL, on_signal, r, err);
    if (n < 0)
        return n;
    r->outlet.on_lost = on_lost;
    r->outlet.ctx = r;
    (void) uv_timer_init(&r->loop, &r->timer);
    for (unsigned i = 0; i < r->n_lines; i++) {
        struct fanout_line *cfg = &r->f->lines[i];

        r->lines[i] = (struct line) { .r = r, .cfg = cfg, .out = &cfg->block, .in_fd = -1 };
        (void) uv_timer_init(&r->loop, &r->lines[i].timer);
        for (unsigned j = 0; j < cfg->n; j++)
            place_of(r, cfg->first + j)->line = &r->lines[i];
    }
    raise_limit(r->f);
    return r->f->leash_fd < 0 ? 0 : watch_leash(r, err);
}

int fanout_run(struct fanout *f)
{
    struct run    r = { .f = f, .signals.fd = -1 };
    struct cc_err err = { 0 };
    sigset_t      mask;
    int           status;

    if (set_up(&r, &err) < 0) {
        (void) dprintf(STDERR_FILENO, "ccrun: error: %s\n", err.msg);
        return AGENT_EXIT_INTERNAL;
    }
    start_more(&r);
    (void) uv_run(&r.loop, UV_RUN_DEFAULT);
    status = f->is_relay ? 0 : exit_status(&r); /* of a relay only what it says counts */
    signals_let_through(&r.signals, &mask);
    (void) outlet_flush(&r.outlet, &mask);
    outlet_close(&r.outlet);
    signals_close(&r.signals);
    (void) uv_run(&r.loop, UV_RUN_DEFAULT);
    (void) uv_loop_close(&r.loop);
    outlet_free(&r.outlet);
    free(r.lines);
    free(r.places);
    return status;
}
