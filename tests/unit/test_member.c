#include <criterion/criterion.h>
#include <signal.h>
#include <string.h>

#include "agent/core/member.h"

enum { EXIT_1 = 1 << 8, ME = 77 };

struct log {
    struct member     m;
    uint64_t          now, seq;
    struct rdzv_hello last; /* hello */
    unsigned          n_hellos, n_starts, n_signals, status, n_switched, n_noticed;
    int               signum;
    uint64_t          notice_ms;
    bool              is_finished, cannot_start, starts_none, is_clean;
    enum member_news  news;
};

static void on_hello(void *ctx, const struct rdzv_hello *h)
{
    struct log *l = ctx;

    cr_assert_gt(h->seq, l->last.seq);
    l->last = *h;
    l->n_hellos++;
}

static void on_start(void *ctx, const struct rdzv_view *v)
{
    struct log *l = ctx;

    (void) v;
    l->n_starts++;
    if (l->cannot_start) {
        member_cannot_start(&l->m, l->now, 127);
        return;
    }
    if (l->starts_none)
        return;
    member_started(&l->m);
    member_started(&l->m);
}

static void on_signal(void *ctx, int signum)
{
    struct log *l = ctx;

    l->n_signals++;
    l->signum = signum;
}

static void on_sweep(void *ctx, int signum)
{
    (void) ctx, (void) signum;
}

static unsigned on_attempt_ended(void *ctx)
{
    (void) ctx;
    return 0;
}

static void on_node_news(void *ctx, enum node_news news, int arg)
{
    (void) ctx, (void) news, (void) arg;
}

static void on_describe(void *ctx, struct rdzv_cause *c)
{
    (void) ctx;
    c->rank = 5;
    strcpy(c->text, "exit code 1");
}

static void on_host_store(void *ctx, uint32_t round)
{
    struct log *l = ctx;

    l->n_switched++;
    member_store_switched(&l->m, l->now, round);
}

static void on_notice(void *ctx, uint64_t ms_left)
{
    struct log *l = ctx;

    l->n_noticed++;
    l->notice_ms = ms_left;
}

static void on_news(void *ctx, enum member_news news, const struct rdzv_view *view)
{
    struct log *l = ctx;

    (void) view;
    l->news = news;
}

static void on_finish(void *ctx, unsigned status)
{
    struct log *l = ctx;

    cr_assert(!l->is_finished);
    l->is_finished = true;
    l->status = status;
}

static const struct member_ops ops = {
    .hello = on_hello,
    .start = on_start,
    .signal = on_signal,
    .sweep = on_sweep,
    .attempt_ended = on_attempt_ended,
    .node_news = on_node_news,
    .describe = on_describe,
    .host_store = on_host_store,
    .notice = on_notice,
    .news = on_news,
    .finish = on_finish,
};

static void init(struct log *l)
{
    struct member_cfg cfg = {
        .node = { .term_grace = 3000, .kill_grace = 500, .sweep_grace = 200 },
        .incarnation = ME,
        .about = { .nproc = 2, .wish = -1, .host = "h1" },
        .heartbeat = 1000,
        .join_timeout = 60000,
        .lost_after = 8000,
        .exit_barrier = UINT64_MAX,
    };

    *l = (struct log) { .now = 5000 };
    member_init(&l->m, &cfg, l->now, &ops, l);
}

static struct rdzv_view view_of(struct log *l, uint32_t round, enum rdzv_phase phase)
{
    return (struct rdzv_view) {
        .incarnation = ME, .seq = ++l->seq, .clock = l->now, .echo = l->now, .round = round, .phase = phase,
        .group_rank = phase == RDZV_ACTIVE ? 0 : RDZV_NO_RANK, .group_world = 1, .world = 2,
    };
}

static void see(struct log *l, uint32_t round, enum rdzv_phase phase)
{
    struct rdzv_view v = view_of(l, round, phase);

    member_view(&l->m, l->now, &v);
}

/* In round 1, with two workers. */
static void run(struct log *l)
{
    init(l);
    see(l, 1, RDZV_GATHER);
    see(l, 1, RDZV_ACTIVE);
    cr_assert_eq(l->n_starts, 1);
}

static void settle(struct log *l)
{
    member_settle(&l->m, l->now, l->m.node.n_alive == 0, true);
}

static void pass(struct log *l, uint64_t ms)
{
    uint64_t until = l->now + ms;

    for (unsigned turns = 0; member_deadline(&l->m) <= until; turns++) {
        cr_assert_lt(turns, 10000, "due for ever");
        l->now = member_deadline(&l->m) > l->now ? member_deadline(&l->m) : l->now;
        (void) member_tick(&l->m, l->now);
        settle(l);
    }
    l->now = until;
}

static void exits(struct log *l, int status)
{
    (void) member_exited(&l->m, l->now, status, false);
    settle(l);
}

Test(member, says_who_it_is_until_it_is_known)
{
    struct log       l;
    struct rdzv_view v;

    init(&l);
    cr_expect(l.last.has_about && l.last.phase == RDZV_NODE_READY && l.last.round == 0);
    cr_expect_gt(member_deadline(&l.m), l.now);
    see(&l, 1, RDZV_GATHER);
    cr_expect(!l.last.has_about && l.last.round == 1);
    v = view_of(&l, 0, RDZV_GATHER);
    v.is_unknown = true;
    member_view(&l.m, l.now, &v);
    cr_expect(l.last.has_about);
}

Test(member, starts_when_the_round_that_it_is_ready_for_is_active)
{
    struct log l;

    run(&l);
    see(&l, 1, RDZV_ACTIVE);
    cr_expect_eq(l.n_starts, 1);
}

Test(member, is_ready_before_it_starts)
{
    struct log l;

    init(&l);
    see(&l, 4, RDZV_ACTIVE); /* it came late: says so, and starts as a member of it */
    cr_expect_eq(l.m.ready_round, 4);
    cr_expect_eq(l.last.round, 4);
}

Test(member, a_spare_does_not_start)
{
    struct log       l;
    struct rdzv_view v;

    init(&l);
    v = view_of(&l, 1, RDZV_ACTIVE);
    v.group_rank = RDZV_NO_RANK;
    member_view(&l.m, l.now, &v);
    cr_expect_eq(l.n_starts, 0);
    cr_expect_eq(l.news, MEMBER_SPARE);
    cr_expect_eq(l.last.phase, RDZV_NODE_READY);
}

Test(member, an_old_view_and_one_for_another_agent_are_not_looked_at)
{
    struct log       l;
    struct rdzv_view v;

    init(&l);
    see(&l, 1, RDZV_GATHER);
    v = view_of(&l, 1, RDZV_ACTIVE);
    see(&l, 2, RDZV_GATHER);
    member_view(&l.m, l.now, &v);
    cr_expect_eq(l.n_starts, 0);
    v = view_of(&l, 2, RDZV_ACTIVE);
    v.incarnation = ME + 1;
    member_view(&l.m, l.now, &v);
    cr_expect_eq(l.n_starts, 0);
}

Test(member, a_new_round_ends_the_workers_and_only_then_it_is_ready)
{
    struct log l;

    run(&l);
    see(&l, 2, RDZV_GATHER);
    cr_expect_eq(l.signum, SIGTERM);
    cr_expect_eq(l.news, MEMBER_HALTED);
    see(&l, 2, RDZV_ACTIVE);
    exits(&l, SIGTERM);
    cr_expect_eq(l.m.ready_round, 1);
    cr_expect_eq(l.n_starts, 1);
    exits(&l, EXIT_1);
    cr_expect_eq(l.m.ready_round, 2);
    cr_expect(!l.last.has_cause, "what ends after we told it to is no failure");
    cr_expect_eq(l.n_starts, 2);
}

Test(member, a_failure_is_told_at_once_and_by_the_coordinators_clock)
{
    struct log       l;
    struct rdzv_view v;

    run(&l);
    v = view_of(&l, 1, RDZV_ACTIVE);
    v.clock = 900;
    member_view(&l.m, l.now, &v);
    l.now += 1000;
    exits(&l, EXIT_1);
    cr_expect_eq(l.last.phase, RDZV_NODE_FAILED);
    cr_expect_eq(l.last.round, 1);
    cr_expect(l.last.has_cause && l.last.cause.code == 1 && l.last.cause.rank == 5);
    cr_expect_eq(l.last.cause.round, 1);
    cr_expect_eq(l.last.cause.at, 1900);
    cr_expect_str_eq(l.last.cause.host, "h1");
    cr_expect_eq(l.n_signals, 1, "the other worker is stopped");
}

Test(member, the_quickest_answer_tells_the_time)
{
    struct log       l;
    struct rdzv_view v;

    init(&l);
    v = view_of(&l, 1, RDZV_GATHER); /* sent at 5000 */
    l.now = 5010;
    v.clock = 900;
    member_view(&l.m, l.now, &v);
    cr_expect_eq(l.m.ahead + 5005, 900);
    v = view_of(&l, 1, RDZV_GATHER); /* sent at 5010, back at 6010 */
    l.now = 6010;
    v.clock = 905;
    member_view(&l.m, l.now, &v);
    cr_expect_eq(l.m.ahead + 5005, 900);
    v = view_of(&l, 1, RDZV_GATHER);
    l.now = 6012;
    v.clock = 2000;
    member_view(&l.m, l.now, &v);
    cr_expect_eq(l.m.ahead + 6011, 2000);
}

Test(member, a_failure_is_told_until_the_next_start)
{
    struct log l;

    run(&l);
    exits(&l, EXIT_1);
    exits(&l, SIGTERM);
    cr_expect_eq(l.last.phase, RDZV_NODE_FAILED);
    see(&l, 2, RDZV_GATHER);
    cr_expect(l.last.phase == RDZV_NODE_READY && l.last.round == 2 && l.last.has_cause);
    see(&l, 2, RDZV_ACTIVE);
    cr_expect_eq(l.n_starts, 2);
    see(&l, 3, RDZV_GATHER);
    exits(&l, 0);
    exits(&l, 0);
    cr_expect(l.last.round == 3 && !l.last.has_cause);
}

Test(member, that_workers_cannot_start_may_be_known_later)
{
    struct log l;

    init(&l);
    l.starts_none = true;
    see(&l, 1, RDZV_GATHER);
    see(&l, 1, RDZV_ACTIVE);
    cr_assert(l.n_starts == 1 && l.last.phase != RDZV_NODE_FAILED);
    member_cannot_start(&l.m, l.now, 75);
    member_settle(&l.m, l.now, true, true);
    cr_expect_eq(l.last.phase, RDZV_NODE_FAILED);
    cr_expect(l.last.has_cause && l.last.cause.is_final && l.last.cause.code == 75);
}

Test(member, a_program_that_cannot_start_is_final)
{
    struct log l;

    init(&l);
    l.cannot_start = true;
    see(&l, 1, RDZV_GATHER);
    see(&l, 1, RDZV_ACTIVE);
    settle(&l);
    cr_expect(l.last.has_cause && l.last.cause.is_final && l.last.cause.code == 127);
    cr_expect(!l.m.is_busy);
}

Test(member, is_done_until_the_job_ends)
{
    struct log l;

    run(&l);
    exits(&l, 0);
    exits(&l, 0);
    cr_expect_eq(l.last.phase, RDZV_NODE_DONE);
    cr_expect(!l.is_finished);
    see(&l, 1, RDZV_ENDED);
    cr_expect(l.is_finished && l.status == 0);
    cr_expect_eq(l.last.phase, RDZV_NODE_GONE);
}

Test(member, who_is_done_works_again_in_the_next_round)
{
    struct log l;

    run(&l);
    exits(&l, 0);
    exits(&l, 0);
    see(&l, 2, RDZV_GATHER);
    cr_expect(l.last.phase == RDZV_NODE_READY && l.last.round == 2);
    see(&l, 2, RDZV_ACTIVE);
    cr_expect_eq(l.n_starts, 2);
}

Test(member, the_exit_barrier_is_left_in_time)
{
    struct log l;

    run(&l);
    l.m.cfg.exit_barrier = 2000;
    exits(&l, 0);
    exits(&l, 0);
    l.now += 1999;
    (void) member_tick(&l.m, l.now);
    cr_expect(!l.is_finished);
    cr_expect_leq(member_deadline(&l.m), l.now + 1);
    l.now++;
    (void) member_tick(&l.m, l.now);
    cr_expect(l.is_finished && l.status == 0);
}

Test(member, when_the_job_has_failed_all_exit_with_its_code)
{
    struct log       l;
    struct rdzv_view v;

    run(&l);
    v = view_of(&l, 1, RDZV_ENDED);
    v.has_cause = true;
    v.cause = (struct rdzv_cause) { .kind = RDZV_CAUSE_WORKER, .code = 7 };
    member_view(&l.m, l.now, &v);
    cr_expect_eq(l.n_signals, 1);
    exits(&l, SIGTERM);
    cr_expect(!l.is_finished, "one worker lives");
    exits(&l, SIGTERM);
    cr_expect(l.is_finished && l.status == 7);
}

Test(member, a_lost_coordinator_ends_the_workers_and_the_node)
{
    struct log l;

    run(&l);
    pass(&l, 7999);
    cr_expect_eq(l.n_signals, 0);
    pass(&l, 1);
    cr_expect_eq(l.news, MEMBER_HALTED);
    cr_expect_eq(l.n_signals, 1);
    exits(&l, SIGTERM);
    exits(&l, SIGTERM);
    cr_expect(l.is_finished && l.status == MEMBER_EXIT_ORPHAN);
}

Test(member, who_was_done_after_the_coordinator_was_lost_is_no_success)
{
    struct log l;

    run(&l);
    pass(&l, 100);
    exits(&l, 0);
    exits(&l, 0);
    pass(&l, 8000);
    cr_expect(l.is_finished && l.status == MEMBER_EXIT_ORPHAN);
}

Test(member, who_was_done_before_the_coordinator_was_lost_has_done_its_part)
{
    struct log       l;
    struct rdzv_view v;

    run(&l);
    exits(&l, 0);
    exits(&l, 0);
    pass(&l, 100);
    v = view_of(&l, 1, RDZV_ACTIVE);
    v.echo = l.now;
    member_view(&l.m, l.now, &v);
    pass(&l, 8000);
    cr_expect(l.is_finished && l.status == 0);
}

Test(member, a_coordinator_that_never_answers_is_given_the_join_timeout)
{
    struct log l;

    init(&l);
    pass(&l, 59999);
    cr_expect(!l.is_finished);
    pass(&l, 1);
    cr_expect(l.is_finished && l.status == MEMBER_EXIT_ORPHAN);
    cr_expect_eq(member_deadline(&l.m), UINT64_MAX);
}

Test(member, a_refused_node_ends)
{
    struct log          l;
    struct rdzv_refused r = { .why = RDZV_REFUSED_RANK, .incarnation = ME + 1 };

    init(&l);
    member_refused(&l.m, l.now, &r);
    cr_expect(!l.is_finished, "it was somebody else's");
    r.incarnation = ME;
    member_refused(&l.m, l.now, &r);
    cr_expect(l.is_finished && l.status == MEMBER_EXIT_REFUSED);
}

Test(member, a_signal_makes_it_leave_and_says_so_at_once)
{
    struct log l;

    run(&l);
    member_signal(&l.m, l.now, SIGTERM);
    settle(&l);
    cr_expect_eq(l.last.phase, RDZV_NODE_LEAVING);
    see(&l, 2, RDZV_GATHER);
    exits(&l, SIGTERM);
    exits(&l, SIGTERM);
    cr_expect(l.is_finished && l.status == 128 + SIGTERM);
    cr_expect_eq(l.last.phase, RDZV_NODE_GONE);
    init(&l);
    see(&l, 1, RDZV_GATHER);
    member_signal(&l.m, l.now, SIGINT); /* with no worker there is nothing to wait for */
    cr_expect(l.is_finished && l.status == 128 + SIGINT);
}

Test(member, a_job_that_is_stopped_on_all_nodes_is_a_stop_on_each_whoever_was_heard_first)
{
    struct log       l;
    struct rdzv_view v;

    for (unsigned is_last = 0; is_last < 2; is_last++) {
        run(&l);
        if (!is_last)
            member_signal(&l.m, l.now, SIGTERM);
        v = view_of(&l, 1, RDZV_ENDED);
        v.has_cause = true;
        v.cause = (struct rdzv_cause) { .kind = RDZV_CAUSE_STOPPED, .code = 75 };
        member_view(&l.m, l.now, &v);
        if (is_last)
            member_signal(&l.m, l.now, SIGTERM);
        exits(&l, SIGTERM);
        exits(&l, SIGTERM);
        cr_expect(l.is_finished && l.status == 128 + SIGTERM, "%u: status %u", is_last, l.status);
        cr_expect_neq(l.news, MEMBER_ENDED);
    }
}

Test(member, what_outlives_sigkill_is_told_and_keeps_the_node_out)
{
    struct log l;

    run(&l);
    see(&l, 2, RDZV_GATHER);
    l.now += 3000;
    (void) member_tick(&l.m, l.now);
    member_settle(&l.m, l.now, false, true);
    l.now += 500;
    (void) member_tick(&l.m, l.now);
    member_settle(&l.m, l.now, false, true);
    cr_expect_eq(l.last.phase, RDZV_NODE_STUCK);
    see(&l, 2, RDZV_ACTIVE);
    cr_expect_eq(l.n_starts, 1);
    see(&l, 2, RDZV_ENDED);
    cr_expect(l.is_finished && l.status == MEMBER_EXIT_STUCK);
}

Test(member, hosts_the_store_when_told_and_no_worker_lives)
{
    struct log       l;
    struct rdzv_view v;

    init(&l);
    see(&l, 1, RDZV_GATHER);
    v = view_of(&l, 1, RDZV_SWITCH);
    v.hosts_store = true;
    member_view(&l.m, l.now, &v);
    cr_expect_eq(l.n_switched, 1);
    cr_expect_eq(l.last.store_round, 1);
    v.seq = ++l.seq;
    member_view(&l.m, l.now, &v);
    cr_expect_eq(l.n_switched, 1, "once");
}

Test(member, a_preemption_notice_travels_both_ways)
{
    struct log       l;
    struct rdzv_view v;

    run(&l);
    member_notice(&l.m, l.now, 60000);
    cr_expect_eq(l.last.notice_ms, 60000);
    v = view_of(&l, 1, RDZV_ACTIVE);
    v.clock = 100;
    v.notice_at = 100 + 50000;
    l.m.best_rtt = UINT64_MAX;
    member_view(&l.m, l.now, &v);
    cr_expect_eq(l.notice_ms, 50000);
    v.seq = ++l.seq;
    member_view(&l.m, l.now, &v);
    cr_expect_eq(l.n_noticed, 1);
    cr_expect_eq(l.n_signals, 0);
}

Test(member, speaks_each_heartbeat)
{
    struct log l;
    unsigned   before;

    run(&l);
    before = l.n_hellos;
    for (unsigned i = 0; i < 10; i++) {
        cr_assert_leq(member_deadline(&l.m), l.now + 1000);
        l.now = member_deadline(&l.m);
        (void) member_tick(&l.m, l.now);
        see(&l, 1, RDZV_ACTIVE);
    }
    cr_expect_eq(l.n_hellos, before + 10);
    cr_expect_leq(l.now, 15000);
    cr_expect_geq(l.now, 5000 + 10 * 875);
}

Test(member, was_away_itself_and_does_not_call_that_the_coordinators_silence)
{
    struct log l;

    run(&l);
    l.now += 60000; /* SIGSTOP, or a machine that was asleep */
    (void) member_tick(&l.m, l.now);
    settle(&l);
    cr_expect_eq(l.n_signals, 0);
    pass(&l, 9000);
    cr_expect_eq(l.n_signals, 1, "but now it is silent");
}

Test(member, the_workers_of_a_failed_attempt_get_one_signal)
{
    struct log l;

    run(&l);
    exits(&l, EXIT_1);
    cr_expect_eq(l.n_signals, 1);
    see(&l, 2, RDZV_GATHER);
    cr_expect_eq(l.n_signals, 1);
}

Test(member, says_when_its_first_worker_is_done)
{
    struct log l;

    run(&l);
    l.now += 100;
    exits(&l, 0);
    cr_expect_eq(l.last.phase, RDZV_NODE_RUNNING);
    cr_expect_eq(l.last.first_done, l.now + l.m.ahead);
    see(&l, 2, RDZV_GATHER);
    exits(&l, SIGTERM);
    see(&l, 2, RDZV_ACTIVE);
    pass(&l, 1000);
    cr_expect_eq(l.last.first_done, 0);
}

/* Somebody kills a worker, and other nodes see their connections break before we are sure that it was no stop. */
Test(member, a_death_by_sigterm_is_told_with_its_time_though_the_round_is_over)
{
    struct log l;
    uint64_t   died;

    run(&l);
    l.now += 1000;
    died = l.now;
    exits(&l, SIGTERM);
    cr_expect(!l.last.has_cause);
    l.now += 20;
    see(&l, 2, RDZV_GATHER);
    exits(&l, EXIT_1);
    cr_expect_eq(l.m.ready_round, 1, "it is not known yet how the attempt ended");
    pass(&l, POLICY_TERM_HOLD_MS);
    cr_expect_eq(l.m.ready_round, 2);
    cr_expect(l.last.has_cause && l.last.cause.code == 128 + SIGTERM);
    cr_expect_eq(l.last.cause.at, died + l.m.ahead);
}

Test(member, a_death_that_was_held_when_all_were_killed_is_forgotten)
{
    struct log l;

    run(&l);
    exits(&l, SIGTERM);
    see(&l, 2, RDZV_GATHER);
    l.m.node.group.deadline = l.now; /* no grace at all */
    (void) member_tick(&l.m, l.now);
    exits(&l, SIGKILL);
    cr_expect_eq(l.m.ready_round, 2);
    pass(&l, 2 * POLICY_TERM_HOLD_MS);
    cr_expect(!l.last.has_cause);
}
