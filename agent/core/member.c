#include "agent/core/member.h"

#include <assert.h>
#include <string.h>

enum { TELL_EVERY_MS = 5000, LATE_MS = 500 };

static const uint64_t never = UINT64_MAX;

/* ---- ops of the node, passed on */

static void op_start(void *ctx)
{
    struct member *m = ctx;

    m->ops->start(m->ctx, &m->view);
}

static void op_signal(void *ctx, int signum)
{
    struct member *m = ctx;

    m->ops->signal(m->ctx, signum);
}

static void op_sweep(void *ctx, int signum)
{
    struct member *m = ctx;

    m->ops->sweep(m->ctx, signum);
}

static unsigned op_attempt_ended(void *ctx)
{
    struct member *m = ctx;

    return m->ops->attempt_ended(m->ctx);
}

static void op_news(void *ctx, enum node_news news, int arg)
{
    struct member *m = ctx;

    m->ops->node_news(m->ctx, news, arg);
}

/* Only noted: what follows from it is member_settle()'s, when the node is at rest. */
static void op_ended(void *ctx, enum node_end how)
{
    struct member *m = ctx;

    m->is_busy = false;
    m->is_stuck = how == NODE_END_STUCK;
    m->is_done = how == NODE_END_DONE;
    if (!m->has_cause)
        return;
    m->cause.code = m->node.policy.failure_code; /* more is known now */
    m->ops->describe(m->ctx, &m->cause);
}

static const struct node_ops node_ops = {
    .start = op_start,
    .signal = op_signal,
    .sweep = op_sweep,
    .attempt_ended = op_attempt_ended,
    .news = op_news,
    .ended = op_ended,
};

/* ---- hello */

static enum rdzv_node_phase phase(const struct member *m)
{
    if (m->is_finished)
        return RDZV_NODE_GONE;
    if (m->is_stuck)
        return RDZV_NODE_STUCK;
    if (m->is_leaving)
        return RDZV_NODE_LEAVING;
    if (m->is_busy)
        return m->has_cause ? RDZV_NODE_FAILED : RDZV_NODE_RUNNING;
    if (m->is_done)
        return RDZV_NODE_DONE;
    return m->has_cause && m->ready_round <= m->work_round ? RDZV_NODE_FAILED : RDZV_NODE_READY;
}

/* A different part of the last eighth each time: nodes that all answered to one view do not speak in chorus for ever. */
static uint64_t jitter(const struct member *m)
{
    uint64_t x = (m->cfg.incarnation ^ m->seq) * 0x9e3779b97f4a7c15u;

    return (x >> 32) % (m->cfg.heartbeat / 8 + 1);
}

static void say_hello(struct member *m, uint64_t now)
{
    struct rdzv_hello h = {
        .incarnation = m->cfg.incarnation,
        .seq = ++m->seq,
        .sent_at = now,
        .term = (uint32_t) (m->view.seq >> RDZV_TERM_SHIFT),
        .phase = phase(m),
        .store_round = m->store_round,
        .has_about = !m->is_known,
        .has_cause = m->has_cause,
    };

    h.round = h.phase == RDZV_NODE_READY ? m->ready_round : m->work_round;
    if (m->first_done != 0)
        h.first_done = m->first_done + m->ahead;
    if (m->notice_at > now)
        h.notice_ms = (uint32_t) (m->notice_at - now);
    if (h.has_about)
        h.about = m->cfg.about;
    if (h.has_cause) {
        h.cause = m->cause;
        h.cause.at += m->ahead;
    }
    m->next_hello = now + m->cfg.heartbeat - jitter(m);
    m->ops->hello(m->ctx, &h);
}

static void finish(struct member *m, uint64_t now, unsigned status)
{
    m->is_finished = true;
    say_hello(m, now);
    m->ops->finish(m->ctx, status);
}

/* ---- what happens here */

static void note_failure(struct member *m, uint64_t now)
{
    uint64_t at = m->held_at != 0 && !m->node.policy.is_final ? m->held_at : now;

    if (!m->node.policy.has_failure || m->has_cause || !m->is_busy)
        return;
    m->has_cause = true;
    m->cause = (struct rdzv_cause) { .kind = RDZV_CAUSE_WORKER, .round = m->work_round, .at = at, .rank = RDZV_NO_RANK };
    m->cause.code = m->node.policy.failure_code;
    m->cause.is_final = m->node.policy.is_final;
    memcpy(m->cause.host, m->cfg.about.host, sizeof(m->cause.host));
    m->ops->describe(m->ctx, &m->cause);
    say_hello(m, now);
}

static void start(struct member *m, uint64_t now)
{
    assert(!m->is_busy && m->ready_round == m->view.round && m->view.round > m->work_round);
    m->work_round = m->view.round;
    m->is_busy = true;
    m->has_cause = m->is_done = false;
    m->held_at = m->first_done = 0;
    node_next(&m->node, now);
    note_failure(m, now);
}

static void halt(struct member *m, uint64_t now)
{
    if (!m->is_busy || m->node.is_halted)
        return;
    m->ops->news(m->ctx, MEMBER_HALTED, &m->view);
    node_halt(&m->node, now);
}

/* A worker's failure was the end of the job. */
static bool has_failed(const struct member *m)
{
    enum rdzv_cause_kind k = m->view.cause.kind;

    return m->view.phase == RDZV_ENDED && (k == RDZV_CAUSE_WORKER || k == RDZV_CAUSE_SAME || k == RDZV_CAUSE_UNFINISHED);
}

/* As scancel does: every node was told to stop, and the end that the host made of it is no other one. */
static bool is_stopped_with_job(const struct member *m)
{
    return m->node.policy.is_stopped && m->view.cause.kind == RDZV_CAUSE_STOPPED;
}

static unsigned ended_status(const struct member *m)
{
    if (is_stopped_with_job(m))
        return policy_stop_status(&m->node.policy);
    if (has_failed(m))
        return m->view.cause.code;
    if (m->is_stuck)
        return m->has_cause ? m->cause.code : MEMBER_EXIT_STUCK;
    return m->view.cause.kind == RDZV_CAUSE_NONE ? 0 : m->view.cause.code;
}

/* Somebody stopped this node.  A failure that was the end before that is what decides. */
static unsigned stopped_status(const struct member *m)
{
    return has_failed(m) ? m->view.cause.code : policy_stop_status(&m->node.policy);
}

/* The coordinator had heard that the work here is done.  One that had not cannot have ended the job well. */
static bool is_known_done(const struct member *m)
{
    return m->is_done && m->view.echo >= m->done_at;
}

/* Somebody wants the end of this node, or of the job: 0, or 1 when there is nothing else to do. */
static int end_if_due(struct member *m, uint64_t now)
{
    bool is_ended = m->has_heard && m->view.phase == RDZV_ENDED;

    if (m->is_leaving) {
        if (!m->is_busy)
            finish(m, now, stopped_status(m));
        return 1;
    }
    if (!is_ended && !m->is_orphan && !m->is_refused)
        return 0;
    halt(m, now);
    if (m->is_busy)
        return 1;
    if (is_ended) {
        if (!is_stopped_with_job(m))
            m->ops->news(m->ctx, MEMBER_ENDED, &m->view);
        finish(m, now, ended_status(m));
    } else if (m->is_stuck) {
        finish(m, now, ended_status(m));
    } else if (m->is_refused) {
        finish(m, now, MEMBER_EXIT_REFUSED);
    } else {
        finish(m, now, is_known_done(m) ? 0 : MEMBER_EXIT_ORPHAN);
    }
    return 1;
}

static void tell(struct member *m, uint64_t now)
{
    bool is_spare = m->view.phase == RDZV_ACTIVE && m->view.group_rank == RDZV_NO_RANK;

    bool is_new = is_spare && !m->is_spare;

    m->is_spare = is_spare;
    if (m->is_busy)
        m->told_at = now; /* waiting begins when the workers have gone */
    if (m->is_busy || (m->view.phase != RDZV_GATHER && !is_spare) || (!is_new && now - m->told_at < TELL_EVERY_MS))
        return;
    m->told_at = now;
    m->ops->news(m->ctx, is_spare ? MEMBER_SPARE : MEMBER_WAITING, &m->view);
}

/* One step towards what the newest view asks for; each ends in an event that leads here again. */
static void reconcile(struct member *m, uint64_t now)
{
    const struct rdzv_view *v = &m->view;

    if (m->is_finished || end_if_due(m, now) || m->is_stuck || !m->has_heard)
        return;
    if (m->is_busy) {
        if (v->round > m->work_round)
            halt(m, now);
        return;
    }
    if (v->round > m->ready_round && v->round > m->work_round) {
        m->ready_round = v->round;
        m->is_done = false;
        say_hello(m, now);
    }
    if (v->round != m->ready_round || v->round == m->work_round)
        return;
    if (v->phase == RDZV_SWITCH && v->hosts_store && m->asked_round < v->round) {
        m->asked_round = v->round;
        m->ops->host_store(m->ctx, v->round);
    }
    if (v->phase == RDZV_ACTIVE && v->group_rank != RDZV_NO_RANK)
        start(m, now);
}

/* ---- what the coordinator says */

/* The answer that took the shortest way tells best what its clock shows; with time the sample ages. */
static void learn_clock(struct member *m, uint64_t now, const struct rdzv_view *v)
{
    uint64_t rtt = now - v->echo;

    if (v->echo > now)
        return;
    if (m->best_rtt != never && m->seq % 8 == 0)
        m->best_rtt++;
    if (rtt > m->best_rtt)
        return;
    m->best_rtt = rtt;
    m->ahead = v->clock - (v->echo + rtt / 2);
}

void member_view(struct member *m, uint64_t now, const struct rdzv_view *v)
{
    bool is_another; /* coordinator, with another clock */

    if (m->is_finished || v->incarnation != m->cfg.incarnation || v->seq <= m->view.seq)
        return;
    m->heard_at = now;
    is_another = v->seq >> RDZV_TERM_SHIFT != m->view.seq >> RDZV_TERM_SHIFT;
    if (is_another)
        m->best_rtt = never;
    m->view.seq = v->seq;
    learn_clock(m, now, v);
    if (is_another && m->has_cause)
        say_hello(m, now); /* what it was told of that meant nothing to it */
    m->is_known = !v->is_unknown;
    if (v->is_unknown) {
        say_hello(m, now);
        return;
    }
    m->has_heard = true;
    m->view = *v;
    if (v->notice_at != 0 && !m->has_noticed) {
        uint64_t at = v->notice_at - m->ahead;

        m->has_noticed = true;
        m->ops->notice(m->ctx, at > now ? at - now : 0);
    }
    reconcile(m, now);
    if (!m->is_finished)
        tell(m, now);
}

void member_refused(struct member *m, uint64_t now, const struct rdzv_refused *r)
{
    if (m->is_finished || r->incarnation != m->cfg.incarnation)
        return;
    m->is_refused = true;
    reconcile(m, now);
}

void member_store_switched(struct member *m, uint64_t now, uint32_t round)
{
    m->store_round = round;
    say_hello(m, now);
}

void member_connected(struct member *m, uint64_t now)
{
    if (!m->is_finished)
        say_hello(m, now);
}

void member_notice(struct member *m, uint64_t now, uint64_t ms_left)
{
    m->notice_at = now + (ms_left > 0 ? ms_left : 1);
    if (!m->is_finished)
        say_hello(m, now);
}

/* ---- what happens to processes */

/* Says at once that this node leaves: the others need not wait until its workers have gone.  A job that has ended before has
 * its cause already. */
static void leave_if_stopped(struct member *m, uint64_t now)
{
    if (!m->node.policy.is_stopped || m->is_leaving || (m->has_heard && m->view.phase == RDZV_ENDED))
        return;
    m->is_leaving = true;
    if (m->is_busy)
        say_hello(m, now);
    reconcile(m, now);
}

void member_init(struct member *m, const struct member_cfg *cfg, uint64_t now, const struct member_ops *ops, void *ctx)
{
    *m = (struct member) {
        .cfg = *cfg, .ops = ops, .ctx = ctx, .joined_at = now, .heard_at = now, .told_at = now, .best_rtt = never,
    };
    node_init(&m->node, &m->cfg.node, &node_ops, m);
    say_hello(m, now);
}

void member_started(struct member *m)
{
    node_started(&m->node);
}

void member_cannot_start(struct member *m, uint64_t now, unsigned code)
{
    node_cannot_start(&m->node, now, code);
}

enum policy_exit member_exited(struct member *m, uint64_t now, int status, bool is_terminal)
{
    enum policy_exit how = node_exited(&m->node, now, status, is_terminal);

    if (how == POLICY_HOLD && m->held_at == 0)
        m->held_at = now;
    else if (how == POLICY_FAILURE)
        m->held_at = 0; /* the death that was held is no stop, but it was not the first sign of trouble to be named */
    if (how == POLICY_OK && m->first_done == 0) {
        m->first_done = now;
        if (m->node.n_alive > 0)
            say_hello(m, now); /* the others have their time from now on */
    }
    note_failure(m, now);
    leave_if_stopped(m, now);
    return how;
}

void member_signal(struct member *m, uint64_t now, int signum)
{
    node_signal(&m->node, now, signum);
    leave_if_stopped(m, now);
}

void member_pressed(struct member *m, uint64_t now)
{
    node_pressed(&m->node, now);
    leave_if_stopped(m, now);
}

static uint64_t silence_ends(const struct member *m)
{
    return m->has_heard ? m->heard_at + m->cfg.lost_after : m->joined_at + m->cfg.join_timeout;
}

static uint64_t barrier_ends(const struct member *m)
{
    return m->is_done && m->cfg.exit_barrier != never ? m->done_at + m->cfg.exit_barrier : never;
}

/* We were stopped or starved, and what was said meanwhile is still to be read: that is no silence of the coordinator. */
static void was_away(struct member *m, uint64_t now, uint64_t ms)
{
    m->heard_at = m->heard_at + ms < now ? m->heard_at + ms : now;
    m->joined_at = m->joined_at + ms < now ? m->joined_at + ms : now;
}

bool member_tick(struct member *m, uint64_t now)
{
    bool is_failure;

    if (m->is_finished)
        return false;
    if (now > m->next_hello + LATE_MS)
        was_away(m, now, now - m->next_hello);
    is_failure = node_tick(&m->node, now);
    note_failure(m, now);
    if (now >= silence_ends(m) && !m->is_orphan) {
        m->is_orphan = true;
        m->ops->news(m->ctx, MEMBER_ORPHANED, &m->view);
        reconcile(m, now);
    } else if (now >= barrier_ends(m)) {
        finish(m, now, 0);
    }
    if (!m->is_finished && now >= m->next_hello)
        say_hello(m, now);
    return is_failure;
}

void member_settle(struct member *m, uint64_t now, bool is_empty, bool is_drained)
{
    bool was_busy = m->is_busy;

    if (m->is_finished || !was_busy)
        return;
    note_failure(m, now); /* that workers cannot start may be known later than in start() */
    node_settle(&m->node, now, is_empty, is_drained);
    if (m->is_busy)
        return;
    if (m->is_done)
        m->done_at = now;
    reconcile(m, now);
    if (!m->is_finished && (m->is_done || m->is_stuck))
        say_hello(m, now);
}

void member_paused(struct member *m, uint64_t ms)
{
    node_paused(&m->node, ms);
    m->heard_at += ms; /* it may have spoken: nobody was there to hear it */
    m->joined_at += ms;
}

uint64_t member_deadline(const struct member *m)
{
    uint64_t at = node_deadline(&m->node);

    if (m->is_finished)
        return never;
    at = m->next_hello < at ? m->next_hello : at;
    at = barrier_ends(m) < at ? barrier_ends(m) : at;
    return !m->is_orphan && silence_ends(m) < at ? silence_ends(m) : at;
}
