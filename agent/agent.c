#include "agent/agent.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/attempt.h"
#include "agent/control.h"
#include "agent/core/news.h"
#include "agent/core/proto.h"
#include "agent/keeper.h"
#include "agent/preempt.h"
#include "agent/preflight.h"
#include "agent/progress.h"
#include "agent/readiness.h"
#include "agent/signals.h"
#include "agent/tell.h"
#include "agent/terminal.h"
#include "agent/tree.h"
#include "agent/workers.h"
#include "store/base/cleanup.h"
#include "store/base/clock.h"
#include "store/base/macros.h"
#include "store/base/signame.h"

/* How long after a SIGTSTP the workers may put themselves to sleep before we stop them: those in a session of their own
 * have no shell, and the kernel discards a plain SIGTSTP there. */
enum { TSTP_PATIENCE_MS = 100 };

struct agent {
    const struct agent_cfg *cfg; /* our own copy */
    char                 run_id[PROTO_JOB_MAX]; /* of a job that is named by its host */
    int                  keeper_fd;
    uv_loop_t            loop;
    uv_timer_t           timer;
    uv_poll_t            keeper_watch;
    struct signals       signals;
    struct terminal      terminal;
    struct sentry        sentry; /* open when has_sentry */
    struct party        *party;
    struct control      *control; /* NULL: --probe is not answered */
    struct logs         *logs;
    struct tell          tell;
    struct workers      *workers;
    struct attempt       attempt;
    struct preflight    *preflight; /* NULL: no check before the workers */
    struct mpijob       *mpi; /* NULL: the workers have none */
    struct preempt       preempt;
    unsigned  n_attempts;       /* that were started here */
    unsigned  n_undrained;      /* workers whose streams are not read to the end */
    bool      is_childless;     /* nothing of the job is left, as of the last reaping */
    bool      is_killed;        /* everything of the job, since somebody of it died last */
    bool      is_watching;      /* the keeper's end, if there is one */
    bool      has_sentry;
    bool      is_done;          /* everything is closing */
    unsigned  status;           /* ccrun's, once it is done */
    bool      is_preparing;     /* the check is under way, or MPI not ready, for the workers of next_round */
    bool      is_left_out;      /* by the check */
    struct rdzv_view next_round;
    bool      is_unheard;       /* the console is gone and there are no files: not dealt with yet */
    char      start_error[RDZV_TEXT_MAX]; /* why the workers could not be started; "" */
    uint64_t  stop_self_at;     /* after SIGTSTP; UINT64_MAX: not under way */
};

static void settle(struct agent *a);
static void stop_preparing(struct agent *a);
static void on_timer(uv_timer_t *t);

__attribute__((format(printf, 3, 4))) static void say(const struct agent *a, int verbosity, const char *fmt, ...)
{
    char    line[1024];
    va_list ap;
    int     n;

    if (a->cfg->verbosity < verbosity)
        return;
    va_start(ap, fmt);
    n = vsnprintf(line, sizeof line - 1, fmt, ap);
    va_end(ap);
    if (n < 0)
        return;
    if ((size_t) n > sizeof line - 2) { /* cut short, and still a line */
        n = (int) sizeof line - 2;
        line[n - 1] = '\n';
    }
    line[n] = '\0';
    if (a->logs && !a->is_done)
        logs_say(a->logs, line); /* in order with what the workers print */
    else
        (void) !write(STDERR_FILENO, line, (size_t) n); /* nobody is left to be told that stderr is gone */
}

/* ---- what the node's core asks for */

static void op_signal(void *ctx, int signum)
{
    struct agent *a = ctx;

    stop_preparing(a);
    workers_stop(a->workers, signum == SIGPIPE ? SIGTERM : signum);
}

static void op_sweep(void *ctx, int signum)
{
    struct agent *a = ctx;

    stop_preparing(a);
    if (a->is_childless)
        return;
    if (signum != SIGKILL) {
        (void) tree_signal(signum);
        return;
    }
    if (a->is_killed) /* and nobody has died since: all that are there have got it */
        return;
    a->is_killed = true;
    workers_stop(a->workers, SIGKILL);
    if (a->attempt.cgroup)
        (void) cgroup_kill(a->attempt.cgroup); /* who forks faster than we can walk does not escape this */
    tree_kill();
}

static const char *plural(unsigned n)
{
    return n == 1 ? "" : "s";
}

static void sweep_shm(struct agent *a)
{
    uint64_t bytes;
    unsigned n = shmsweep_end(a->attempt.shm, shmsweep_is_alone(), &bytes);

    if (n > 0)
        say(a, 0, "ccrun: removed %u file%s of dead workers from /dev/shm (%" PRIu64 " kB)\n", n, plural(n), bytes >> 10);
}

static unsigned op_attempt_ended(void *ctx)
{
    struct agent *a = ctx;

    if (a->tell.n_failed > 0) /* who ends well tidies up */
        sweep_shm(a);
    tell_attempt_ended(&a->tell);
    return report_first_code(a->tell.report);
}

static void op_node_news(void *ctx, enum node_news news, int arg)
{
    struct agent          *a = ctx;
    const struct news_node n = { party_node(a->party)->n_alive, a->cfg->nproc, a->cfg->shutdown_timeout };
    char                   text[NEWS_MAX];

    if (news == NODE_STUCK) {
        tree_describe_left(text, sizeof text);
        say(a, -1, "ccrun: %s\n", text);
    } else if (!a->is_left_out) { /* else it was said */
        say(a, 0, "ccrun: %s\n", news_of_node(text, news, arg, &n));
    }
}

/* ---- one attempt */

/* Why the last round, or the job, ended: "h3: rank 5 exited with code 1". */
static void describe_cause(const struct agent *a, char *buf, size_t size)
{
    const struct rdzv_cause *c = party_cause(a->party);

    buf[0] = '\0';
    if (tell_is_ours(&a->tell, c)) /* then the report knows more of it */
        report_describe_first(a->tell.report, buf, size);
    if (!buf[0])
        (void) snprintf(buf, size, "%s%s%s", c->host, c->host[0] ? ": " : "", c->text);
}

/* Why the next round follows the one that has ended here; "" when this node does not know. */
static void describe_change(const struct agent *a, const struct rdzv_view *next, char *buf, size_t size)
{
    unsigned before = a->attempt.round.group_world, now = next->group_world;

    buf[0] = '\0';
    if (before > 0 && party_cause(a->party)->round == a->attempt.round.round) /* else it is that of an earlier one */
        describe_cause(a, buf, size);
    else if (now > before && before > 0) /* its workers may not have started */
        (void) snprintf(buf, size, "%u more node%s came", now - before, plural(now - before));
}

static void say_restarting(const struct agent *a, const struct rdzv_view *next)
{
    char why[400], text[NEWS_MAX];

    describe_change(a, next, why, sizeof why);
    say(a, 0, "ccrun: %s\n", news_of_restart(text, next, why, a->attempt.round.restarts, a->cfg->max_restarts));
}

static void on_started(void *ctx)
{
    struct agent *a = ctx;

    a->n_undrained++;
    party_started(a->party);
}

/* What is known by now as cfg->run_id, when the user gave it no name. */
static void take_name(struct agent *a)
{
    if (a->cfg->run_id == a->run_id)
        (void) snprintf(a->run_id, sizeof a->run_id, "%s", party_job(a->party));
}

static void cannot_start(struct agent *a, const char *why, unsigned code)
{
    tell_own_failure(why);
    (void) snprintf(a->start_error, sizeof a->start_error, "%.*s", RDZV_TEXT_MAX - 1, why);
    party_cannot_start(a->party, cc_monotonic_ms(), code);
}

static void start_workers(struct agent *a, const struct rdzv_view *round)
{
    struct cc_err err = { 0 };
    unsigned      code = attempt_start(&a->attempt, round, round->restarts, &err);

    if (code == 0) {
        tell_workers_run(&a->tell);
        return;
    }
    say(a, -1, "ccrun: %s\n", err.msg);
    cannot_start(a, err.msg, code);
}

/* What the workers' MPI needs before the first of them starts could not be had. */
static void cannot_prepare(struct agent *a, const char *why)
{
    say(a, -1, "ccrun: MPI: %s\n", why);
    cannot_start(a, why, AGENT_EXIT_INTERNAL);
}

static void begin_mpi(struct agent *a)
{
    struct cc_err err = { 0 };
    int           r = a->mpi ? mpijob_begin(a->mpi, &a->next_round, &err) : 0;

    a->is_preparing = r > 0;
    if (r < 0)
        cannot_prepare(a, err.msg);
    else if (r == 0)
        start_workers(a, &a->next_round);
}

/* The job could not form with nodes that are fit for it: the same command may do with others. */
static void refuse_job(struct agent *a, const char *why)
{
    a->is_preparing = false;
    say(a, -1, "ccrun: %s\n", why);
    cannot_start(a, why, AGENT_EXIT_TEMPORARY);
}

static void op_start(void *ctx, const struct rdzv_view *round)
{
    struct agent *a = ctx;
    struct cc_err err = { 0 };

    if (a->n_attempts++ > 0) {
        say_restarting(a, round);
        report_restarted(a->tell.report);
    }
    take_name(a);
    a->is_childless = a->is_killed = false;
    tell_round(&a->tell, round, round->restarts);
    a->next_round = *round;
    a->is_preparing = a->preflight != NULL;
    if (!a->preflight)
        begin_mpi(a);
    else if (preflight_begin(a->preflight, round, party_is_needed(a->party), &err) < 0)
        refuse_job(a, err.msg);
}

/* Whoever stops a round that is being prepared has stopped it. */
static void stop_preparing(struct agent *a)
{
    preflight_end(a->preflight);
    if (a->is_preparing && a->mpi)
        mpijob_end(a->mpi);
    a->is_preparing = false;
}

/* ---- the end of the job */

/* The loop ends when everything is closed; also what of it a failed set_up() has made. */
static void close_all(struct agent *a, unsigned status)
{
    a->is_done = true;
    a->status = status;
    uv_close((uv_handle_t *) &a->timer, NULL);
    if (a->is_watching)
        uv_close((uv_handle_t *) &a->keeper_watch, NULL);
    signals_close(&a->signals);
    if (a->has_sentry)
        sentry_close(&a->sentry);
    control_close(a->control);
    if (a->logs)
        logs_close(a->logs);
    if (a->party)
        party_close(a->party);
    a->mpi = a->attempt.mpi = mpijob_free(a->mpi);
    a->preflight = preflight_free(a->preflight);
}

/* A console that nobody reads must not hold us against a signal, nor for long once there was one. */
static void op_finish(void *ctx, unsigned status, const char *error)
{
    struct agent *a = ctx;
    struct cc_err err = { 0 };
    sigset_t      mask;
    uint64_t      limit = party_node(a->party)->policy.is_stopped ? a->cfg->logs.drain_ms : UINT64_MAX;

    if (a->preempt.deadline[0] && a->n_attempts > 0 && a->tell.n_failed == 0)
        status = a->cfg->preempt_exit_code; /* every worker ended well */
    if (a->is_left_out)
        status = AGENT_EXIT_TEMPORARY;
    if (error) {
        say(a, -1, "ccrun: error: %s\n", error);
        tell_own_failure(error);
    }
    signals_let_through(&a->signals, &mask);
    if (logs_flush(a->logs, limit, &mask) < 0)
        limit = 0; /* what is said from here on is written where that goes at once */
    if (tell_job_ended(&a->tell, party_view(a->party), status, &err) < 0)
        say(a, -1, "ccrun: %s\n", err.msg);
    (void) logs_flush(a->logs, limit, &mask);
    close_all(a, status);
}

static bool is_no_restart_code(const struct agent *a, unsigned code)
{
    return a->cfg->no_restart_codes && a->cfg->no_restart_codes[code & 255];
}

/* What the others are told of the failure here. */
static void op_describe(void *ctx, struct rdzv_cause *c)
{
    struct agent *a = ctx;

    c->code = party_node(a->party)->policy.failure_code;
    c->is_final = c->is_final || is_no_restart_code(a, c->code);
    if (a->cfg->progress_file)
        c->progress = progress_fingerprint(a->cfg->progress_file);
    if (party_node(a->party)->policy.is_final) /* who was ended for it is not the cause */
        memcpy(c->text, a->start_error, sizeof c->text);
    else
        tell_describe(&a->tell, c);
}

/* The workers go on: what they do about it is theirs. */
static void announce_preemption(struct agent *a, uint64_t ms_left)
{
    unsigned      n = party_node(a->party)->n_alive;
    struct cc_err err = { 0 };

    if (!preempt_announce(&a->preempt, ms_left, &err))
        return;
    if (err.msg[0])
        say(a, 0, "ccrun: %s\n", err.msg);
    say(a, 0, "ccrun: this job will be pre-empted in %" PRIu64 " s: told %u worker%s\n", ms_left / 1000, n, plural(n));
    workers_signal(a->workers, a->cfg->preempt_signal);
}

static void op_notice(void *ctx, uint64_t ms_left)
{
    struct agent *a = ctx;

    if (a->cfg->preempt_signal > 0)
        announce_preemption(a, ms_left);
}

static void say_ended(const struct agent *a, const struct rdzv_view *v)
{
    char why[400];

    if (v->cause.kind == RDZV_CAUSE_SAME)
        say(a, 0, "ccrun: rank %u failed in the same way again and again, soon after each start: another restart would not "
                  "help\n", v->cause.rank);
    if (v->cause.is_final && is_no_restart_code(a, v->cause.code))
        say(a, 0, "ccrun: status %u is one of --no-restart-codes: no restart\n", v->cause.code);
    if (v->cause.kind == RDZV_CAUSE_NONE || tell_is_ours(&a->tell, &v->cause))
        return; /* the report says it */
    if (a->start_error[0] && strcmp(v->cause.text, a->start_error) == 0)
        return; /* it was said */
    describe_cause(a, why, sizeof why);
    say(a, -1, "ccrun: the job has ended: %s\n", why);
}

static void op_news(void *ctx, enum member_news news, const struct rdzv_view *v)
{
    struct agent *a = ctx;
    char          text[NEWS_MAX];

    switch (news) {
    case MEMBER_WAITING:
    case MEMBER_SPARE:
        say(a, 0, "ccrun: %s\n", news_of_job(text, news, v, a->cfg->party.rdzv.max_nodes));
        break;
    case MEMBER_HALTED:
    case MEMBER_ORPHANED: /* the party has said it */
        break;
    case MEMBER_ENDED:
        say_ended(a, v);
        break;
    }
}

static void op_say(void *ctx, int verbosity, const char *sentence)
{
    say(ctx, verbosity, "ccrun: %s\n", sentence);
}

static void op_woken(void *ctx)
{
    settle(ctx);
}

static const struct party_ops party_ops = {
    .start = op_start,
    .signal = op_signal,
    .sweep = op_sweep,
    .attempt_ended = op_attempt_ended,
    .node_news = op_node_news,
    .describe = op_describe,
    .notice = op_notice,
    .news = op_news,
    .say = op_say,
    .finish = op_finish,
    .woken = op_woken,
};

/* ---- events */

static void on_exit_(void *ctx, unsigned local_rank, struct worker *w)
{
    struct agent *a = ctx;

    logs_exited(a->logs, local_rank);
    if (a->mpi)
        w->status = mpijob_exited(a->mpi, local_rank, w->status, w->is_termed);
    if (w->is_terminal) {
        a->terminal.worker = 0;
        sentry_recall(&a->sentry);
        keeper_reclaim_terminal(a->keeper_fd);
    }
    if (w->status != 0 && !w->is_unborn)
        tell_failed(&a->tell, local_rank);
    w->is_failure = party_exited(a->party, cc_monotonic_ms(), w->status, w->is_terminal) == POLICY_FAILURE;
}

/* ^Z at the worker's terminal stopped the worker only: pass it on, so that the shell gets its prompt back. */
static void on_stopped(void *ctx, unsigned local_rank, struct worker *w)
{
    struct agent *a = ctx;

    (void) local_rank;
    if (w->is_terminal && a->stop_self_at == UINT64_MAX)
        a->stop_self_at = cc_monotonic_ms();
}

static void on_reaped(void *ctx, pid_t pid)
{
    struct agent *a = ctx;

    shmsweep_reaped(a->attempt.shm, pid);
}

static const struct workers_cbs workers_cbs = { on_exit_, on_stopped, on_reaped };

static void on_mpi_ready(void *ctx, const char *why)
{
    struct agent *a = ctx;

    a->is_preparing = false;
    if (a->is_done)
        return;
    if (why)
        cannot_prepare(a, why);
    else
        start_workers(a, &a->next_round);
    settle(a);
}

static void on_mpi_says(void *ctx, int verbosity, const char *sentence)
{
    op_say(ctx, verbosity, sentence);
}

static void on_mpi_kills(void *ctx, unsigned local_rank)
{
    const struct agent  *a = ctx;
    const struct worker *w = workers_get(a->workers, local_rank);

    if (w->is_alive)
        (void) kill(-w->pid, SIGKILL);
}

static const struct mpijob_cbs mpijob_cbs = { on_mpi_ready, on_mpi_says, on_mpi_kills };

static void on_checked(void *ctx)
{
    begin_mpi(ctx);
    settle(ctx);
}

static void on_refused(void *ctx, const char *why)
{
    refuse_job(ctx, why);
    settle(ctx);
}

static void on_left_out(void *ctx, const char *why)
{
    struct agent *a = ctx;

    a->is_preparing = false;
    a->is_left_out = true;
    say(a, -1, "ccrun: %s; this node leaves the job\n", why);
    party_signal(a->party, cc_monotonic_ms(), SIGTERM);
    settle(a);
}

static const struct preflight_cbs preflight_cbs = { on_checked, on_refused, on_left_out, op_say };

static bool is_stop(const struct agent *a, int signum)
{
    const int *s;

    for (s = a->cfg->stop_signals; s && *s; s++)
        if (*s == signum)
            return true;
    return signum == SIGTERM || signum == SIGINT || signum == SIGHUP || signum == SIGQUIT;
}

static void on_signal(void *ctx, const struct signalfd_siginfo *info)
{
    struct agent *a = ctx;
    int           signum = (int) info->ssi_signo;

    if (a->is_done)
        return;
    if (signum == SIGCHLD) {
        a->is_killed = false;
        a->is_childless = workers_reap(a->workers);
    } else if (signum == a->cfg->preempt_signal && !a->preempt.deadline[0]) {
        announce_preemption(a, a->cfg->preempt_deadline); /* here also when the others cannot be told */
        party_notice(a->party, cc_monotonic_ms(), a->cfg->preempt_deadline);
    } else if (is_stop(a, signum)) {
        party_signal(a->party, cc_monotonic_ms(), signum);
    } else {
        workers_signal(a->workers, signum);
    }
    if (signum == SIGTSTP && !is_stop(a, signum))
        a->stop_self_at = cc_monotonic_ms() + TSTP_PATIENCE_MS;
    if (signum == SIGCONT) {
        a->stop_self_at = UINT64_MAX; /* told to go on before it had stopped */
        terminal_give(&a->terminal);
    }
    settle(a);
}

static void on_press(void *ctx)
{
    struct agent *a = ctx;

    if (a->is_done || a->terminal.worker == 0)
        return;
    party_pressed(a->party, cc_monotonic_ms());
    settle(a);
}

static void on_drained(void *ctx, unsigned local_rank)
{
    struct agent *a = ctx;

    (void) local_rank;
    a->n_undrained--;
    settle(a);
}

static void on_console_lost(void *ctx)
{
    struct agent *a = ctx;

    /* Nobody reads what they print, as in `ccrun ... | head`.  It may be our own line that found out, in the middle of
     * something: the loop draws the conclusion. */
    a->is_unheard = !logs_attempt_dir(a->logs);
    if (!a->is_done)
        (void) uv_timer_start(&a->timer, on_timer, 0, 0);
}

static void on_notice(void *ctx, const char *sentence)
{
    say(ctx, -1, "ccrun: %s\n", sentence);
}

static const struct logs_cbs logs_cbs = { on_drained, on_console_lost, on_notice };

/* The keeper was killed: nobody would end the tree after us, so it ends now, all of it. */
static void on_keeper_gone(uv_poll_t *p, int status, int events)
{
    struct agent *a = CC_CONTAINER_OF(p, struct agent, keeper_watch);

    (void) status, (void) events;
    if (a->is_done)
        return;
    if (a->attempt.cgroup)
        (void) cgroup_kill(a->attempt.cgroup);
    (void) tree_kill_all(a->cfg->unkillable_timeout, NULL);
    say(a, -1, "ccrun: the process that kept this job was killed; all workers were ended\n");
    close_all(a, AGENT_EXIT_INTERNAL);
}

/* Stop with our workers, as the shell wants it, and go on with all deadlines moved by the time that passed. */
static void stop_self(struct agent *a)
{
    uint64_t before = cc_monotonic_ms();

    a->stop_self_at = UINT64_MAX;
    workers_signal(a->workers, SIGSTOP);
    if (a->cfg->is_led)
        return;
    (void) raise(SIGSTOP);
    party_paused(a->party, cc_monotonic_ms() - before);
}

static uint64_t min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static void on_timer(uv_timer_t *t)
{
    struct agent *a = CC_CONTAINER_OF(t, struct agent, timer);
    uint64_t      now = cc_monotonic_ms();
    unsigned      i;

    if (a->is_unheard) {
        a->is_unheard = false;
        party_signal(a->party, now, SIGPIPE);
    }
    if (now >= a->stop_self_at)
        stop_self(a);
    if (party_tick(a->party, cc_monotonic_ms())) /* nobody stopped the job: who died of SIGTERM has failed after all */
        for (i = 0; i < a->tell.n_failed; i++)
            workers_get(a->workers, a->tell.failed[i])->is_failure = true;
    settle(a);
}

static void rearm(struct agent *a)
{
    uint64_t now = cc_monotonic_ms();
    uint64_t at = min_u64(party_deadline(a->party), a->stop_self_at);

    if (a->is_unheard)
        at = now;
    uv_update_time(&a->loop);
    if (at == UINT64_MAX)
        (void) uv_timer_stop(&a->timer);
    else
        (void) uv_timer_start(&a->timer, on_timer, at > now ? at - now : 0, 0);
}

/* Draw the conclusions from what has just happened. Every callback ends here. */
static void settle(struct agent *a)
{
    if (a->is_done)
        return;
    if (a->is_preparing) /* there is nothing to conclude from that no worker lives, but it may be told to stop */
        (void) party_tick(a->party, cc_monotonic_ms());
    if (a->is_preparing) {
        rearm(a);
        return;
    }
    if (party_node(a->party)->n_alive == 0) {
        if (a->mpi)
            mpijob_end(a->mpi); /* it has a process, too */
        a->is_childless = workers_reap(a->workers);
    }
    party_settle(a->party, cc_monotonic_ms(), a->is_childless, a->n_undrained == 0);
    if (!a->is_done)
        rearm(a);
}

/* ---- set-up */

static int watch_keeper(struct agent *a, struct cc_err *err)
{
    int r;

    if (a->keeper_fd < 0)
        return 0;
    r = uv_poll_init(&a->loop, &a->keeper_watch, a->keeper_fd);
    a->is_watching = r == 0;
    if (r == 0)
        r = uv_poll_start(&a->keeper_watch, UV_READABLE | UV_DISCONNECT, on_keeper_gone);
    return r < 0 ? cc_fail(err, r, "watch the keeper: %s", uv_strerror(r)) : 0;
}

static int make_tables(struct agent *a, struct cc_err *err)
{
    int r = tell_init(&a->tell, a->cfg, err);

    a->workers = workers_new(a->cfg->nproc, &workers_cbs, a);
    if (r == 0 && !a->workers)
        r = cc_fail(err, -ENOMEM, "no memory for %u workers", a->cfg->nproc);
    a->tell.workers = a->workers;
    a->tell.policy = &party_node(a->party)->policy;
    return r;
}

static int start_logs(struct agent *a, struct cc_err *err)
{
    struct logs_cfg cfg = a->cfg->logs;
    const char     *dir;
    int             r;

    cfg.keeper_fd = a->keeper_fd;
    r = logs_new(&a->logs, &a->loop, &cfg, &logs_cbs, a, err);
    dir = r == 0 ? logs_run_dir(a->logs) : NULL;
    if (dir) /* nobody can guess a directory that we made up */
        say(a, cfg.log_dir ? 1 : 0, "ccrun: log files: %s\n", dir);
    return r;
}

static int make_mpi(struct agent *a, struct cc_err *err)
{
    const struct mpijob_cfg cfg = {
        .kind = a->cfg->mpi,
        .nproc = a->cfg->nproc,
        .run_id = a->cfg->run_id,
        .host = a->cfg->host,
        .helper = a->cfg->mpi_helper,
        .env = a->cfg->env,
        .keeper_fd = a->keeper_fd,
    };

    if (cfg.kind == MPI_NONE)
        return 0;
    a->mpi = a->attempt.mpi = mpijob_new(&a->loop, &cfg, &mpijob_cbs, a, err);
    return a->mpi ? 0 : -ENOMEM;
}

static int make_preflight(struct agent *a, struct cc_err *err)
{
    if (a->cfg->preflight.program && !(a->preflight = preflight_new(&a->loop, a->cfg, &preflight_cbs, a, err)))
        return -ENOMEM;
    return 0;
}

static int set_up(struct agent *a, struct cc_err *err)
{
    const struct agent_cfg *c = a->cfg;
    int                     r = tree_adopt(err);

    (void) uv_timer_init(&a->loop, &a->timer); /* cannot fail */
    a->attempt.cfg = c;
    a->attempt.shm = shmsweep_new("/dev/shm", c->mpi == MPI_PMI1);
    attempt_raise_nofile(&a->attempt);
    a->party = party_new(&a->loop, &c->party, &party_ops, a, err);
    if (!a->party)
        return -ENOMEM;
    if (r == 0)
        r = signals_start(&a->signals, &a->loop, c->stop_signals, on_signal, a, err);
    if (r == 0)
        r = make_tables(a, err);
    if (r == 0)
        r = terminal_take(&a->terminal, c->is_terminal_wanted, err);
    if (r == 0 && a->terminal.is_ours) {
        r = sentry_open(&a->sentry, &a->loop, on_press, a, err);
        a->has_sentry = r == 0;
    }
    if (r == 0) {
        r = start_logs(a, err);
        a->status = r < 0 && r != -ENOMEM ? AGENT_EXIT_USAGE : AGENT_EXIT_INTERNAL;
    }
    a->tell.logs = a->attempt.logs = a->logs;
    a->attempt.preempt = &a->preempt;
    if (r == 0 && c->preempt_signal > 0)
        a->preempt.file = logs_private_file(a->logs, "preempt");
    a->attempt.workers = a->workers;
    a->attempt.terminal = &a->terminal;
    a->attempt.sentry = &a->sentry;
    a->attempt.started = on_started;
    a->attempt.ctx = a;
    if (r == 0)
        r = make_mpi(a, err);
    if (r == 0)
        r = make_preflight(a, err);
    if (r == 0)
        r = watch_keeper(a, err);
    return r;
}

static bool on_asked(void *ctx, const char *question, char ret_text[CONTROL_TEXT_MAX])
{
    const struct agent *a = ctx;

    return readiness_answer(a->party, question, ret_text);
}

static void answer_probes(struct agent *a)
{
    struct cc_err err = { 0 };

    if (control_open(&a->control, &a->loop, a->keeper_fd >= 0 ? getppid() : getpid(), on_asked, a, &err) < 0)
        say(a, 1, "ccrun: %s\n", err.msg); /* the job does not depend on it */
}

static void find_cgroup(struct agent *a)
{
    a->attempt.cgroup = a->cfg->is_cgroup ? cgroup_new(NULL) : NULL;
    if (a->attempt.cgroup)
        keeper_remove_later(a->keeper_fd, cgroup_path(a->attempt.cgroup)); /* before it is there: we may be killed any time */
}

static void tear_down(struct agent *a)
{
    attempt_clear(&a->attempt);
    preempt_clear(&a->preempt);
    a->party = party_free(a->party);
    a->logs = logs_free(a->logs);
    tell_clear(&a->tell);
    a->workers = workers_free(a->workers);
    terminal_close(&a->terminal);
}

int agent_run(const struct agent_cfg *given, int keeper_fd)
{
    struct agent_cfg cfg = *given;
    struct agent     a = {
        .cfg = &cfg,
        .keeper_fd = keeper_fd,
        .signals.fd = -1,
        .terminal.null_fd = -1,
        .stop_self_at = UINT64_MAX,
        .status = AGENT_EXIT_INTERNAL,
    };
    struct cc_err err = { 0 };
    int           r = uv_loop_init(&a.loop);

    if (r < 0) {
        say(&a, -1, "ccrun: error: cannot make an event loop: %s\n", uv_strerror(r));
        return AGENT_EXIT_INTERNAL;
    }
    if (cfg.party.hosting != PARTY_ALONE && cfg.party.job[0] == '\0') {
        (void) snprintf(a.run_id, sizeof a.run_id, "%s", cfg.run_id);
        cfg.run_id = a.run_id;
    }
    r = set_up(&a, &err);
    if (r == 0) {
        find_cgroup(&a);
        answer_probes(&a);
        r = party_start(a.party, &err);
        a.status = party_is_address_trouble(r) ? AGENT_EXIT_USAGE : AGENT_EXIT_INTERNAL;
    }
    if (r < 0) {
        close_all(&a, a.status);
        say(&a, -1, "ccrun: error: %s\n", err.msg);
        tell_own_failure(err.msg);
    } else {
        settle(&a);
    }
    (void) uv_run(&a.loop, UV_RUN_DEFAULT);
    tear_down(&a);
    (void) uv_loop_close(&a.loop);
    return (int) a.status;
}
