#include "tests/sim/sim_world.h"

#include <malloc.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const uint64_t never = UINT64_MAX;

/* ---- chance, and the order of events */

uint64_t world_random(struct world *w, uint64_t n)
{
    uint64_t z = (w->rng += 0x9e3779b97f4a7c15u);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (z ^ (z >> 31)) % n;
}

bool world_chance(struct world *w, uint32_t of_100000)
{
    return world_random(w, 100000) < of_100000;
}

void world_broken(const struct world *w, const char *fmt, ...)
{
    va_list ap;

    (void) fprintf(stderr, "seed %llu, %.3f s: ", (unsigned long long) w->seed, (double) w->now / 1e6);
    va_start(ap, fmt);
    (void) vfprintf(stderr, fmt, ap);
    va_end(ap);
    (void) fprintf(stderr, "\n");
    exit(1);
}

void world_trace(const struct world *w, const char *fmt, ...)
{
    va_list ap;

    if (!w->is_verbose)
        return;
    (void) printf("%10.3f ", (double) w->now / 1e6);
    va_start(ap, fmt);
    (void) vprintf(fmt, ap);
    va_end(ap);
    (void) printf("\n");
}

static bool is_calm(const struct world *w)
{
    return w->now >= w->calm_at;
}

/* ---- links */

static uint64_t delay(struct world *w, uint32_t agent)
{
    uint64_t d = w->latency + world_random(w, w->jitter + 1);

    if (agent == w->host)
        return 1; /* the coordinator's own node */
    if (is_calm(w))
        return d;
    if (world_chance(w, w->odds.late))
        d += world_random(w, 400 * MS);
    if (world_chance(w, w->odds.very_late))
        d += world_random(w, 20000 * MS);
    return d;
}

static void transmit(struct world *w, enum event_kind kind, uint32_t agent, uint64_t link, const struct proto_msg *m)
{
    uint8_t      frame[PROTO_FRAME_MAX];
    size_t       n = proto_encode(m, frame);
    struct blob *b;
    unsigned     copies = 1, i;

    w->n_messages++;
    w->n_bytes += n;
    if (n > w->biggest)
        w->biggest = (uint32_t) n;
    if (agent != 0 && !is_calm(w)) {
        if (world_chance(w, w->odds.lost))
            return;
        copies += world_chance(w, w->odds.doubled);
    }
    b = malloc(sizeof(*b) + n);
    if (!b)
        abort();
    b->n_uses = copies;
    b->size = (uint32_t) n;
    memcpy(b->bytes, frame, n);
    for (i = 0; i < copies; i++)
        queue_push(&w->queue,
                   (struct event) { .at = w->now + delay(w, agent), .kind = kind, .agent = agent, .arg = link, .blob = b });
}

static void receive(const struct world *w, const struct blob *b, struct proto_msg *m)
{
    struct proto_parser p = { 0 };
    struct cc_err       err = { 0 };
    size_t              used;

    if (proto_feed(&p, b->bytes, b->size, &used, m, &err) != 1 || used != b->size)
        world_broken(w, "codec: %s", err.msg);
}

/* ---- the coordinator's side */

static uint64_t clock_ns(void)
{
    struct timespec t;

    (void) clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t) t.tv_sec * 1000000000 + (uint64_t) t.tv_nsec;
}

static struct agent *agent_of_link(struct world *w, uint64_t link)
{
    return &w->agents[link % w->n];
}

/* The coordinator has forgotten an agent that is there. */
static void note_lost(struct agent *a)
{
    const struct odds *o = &a->w->odds;

    a->was_lost = true;
    if (a->away_since == 0 && !a->has_flapped && o->lost == 0 && o->very_late == 0)
        world_broken(a->w, "O11: agent %u is lost, but it was there all the time", a->id);
}

void world_send_view(struct world *w, uint64_t link, const struct rdzv_view *v)
{
    struct proto_msg m = { .type = PROTO_VIEW, .u.view = *v };

    world_check_term(w, v);
    transmit(w, EV_TO_AGENT, agent_of_link(w, link)->id, link, &m);
}

static void coord_view(void *ctx, uint64_t link, const struct rdzv_view *v)
{
    struct world *w = ctx;

    w->coord_term = v->seq >> RDZV_TERM_SHIFT;
    if (v->is_unknown)
        note_lost(agent_of_link(w, link));
    if (!takeover_holds(w, link, v))
        world_send_view(w, link, v);
}

static void coord_refuse(void *ctx, uint64_t link, const struct rdzv_refused *r)
{
    struct world    *w = ctx;
    struct proto_msg m = { .type = PROTO_REFUSED, .u.refused = *r };

    world_trace(w, "refused: %s", r->sentence);
    transmit(w, EV_TO_AGENT, agent_of_link(w, link)->id, link, &m);
}

const struct rdzv_ops world_coord_ops = { coord_view, coord_refuse };

static void coord_event(struct world *w, struct rdzv_event ev)
{
    uint64_t from = w->measures ? clock_ns() : 0;

    if (w->is_leaderless)
        return;
    ev.now = world_coord_now(w);
    rdzv_event(w->coord, &ev);
    decline_heard(w, &ev);
    if (w->measures)
        w->coord_ns += clock_ns() - from;
    if (!w->measures)
        world_check_coord(w);
    takeover_save(w);
    world_arm_coord(w);
}

uint64_t world_coord_now(const struct world *w)
{
    return (w->now + w->coord_offset) / MS;
}

void world_arm_coord(struct world *w)
{
    uint64_t due = rdzv_deadline(w->coord), at = due == never ? never : due * MS - w->coord_offset;

    if (due != never && at < w->coord_wake_at && !w->is_leaderless) {
        w->coord_wake_at = at > w->now ? at : w->now;
        queue_push(&w->queue, (struct event) { .at = w->coord_wake_at, .kind = EV_COORD_WAKE });
    }
}

/* ---- an agent's side */

uint64_t world_agent_now(const struct agent *a)
{
    return (a->w->now + a->offset) / MS;
}

static bool is_any_alive(const struct agent *a)
{
    unsigned i;

    for (i = 0; i < a->nproc; i++)
        if (a->procs[i].is_alive)
            return true;
    return false;
}

static void rearm(struct agent *a)
{
    uint64_t at = member_deadline(&a->m), i;

    if (!a->is_up)
        return;
    at = at == never ? never : at * MS - a->offset;
    for (i = 0; i < a->nproc; i++)
        if (a->procs[i].is_alive && !a->procs[i].is_stuck && a->procs[i].ends_at < at)
            at = a->procs[i].ends_at;
    at = at < a->w->now ? a->w->now : at;
    if (at != never && at != a->wake_at) {
        a->wake_at = at;
        queue_push(&a->w->queue, (struct event) { .at = at, .kind = EV_WAKE, .agent = a->id, .arg = a->boots });
    }
}

static void settle(struct agent *a)
{
    if (a->is_up)
        member_settle(&a->m, world_agent_now(a), !is_any_alive(a), true);
    if (a->is_up)
        rearm(a);
}

void world_send_hello(const struct agent *a, const struct rdzv_hello *h)
{
    struct proto_msg m = { .type = PROTO_HELLO, .u.hello = *h };

    transmit(a->w, EV_TO_COORD, a->id, a->link, &m);
}

static void op_hello(void *ctx, const struct rdzv_hello *h)
{
    world_check_told(ctx, h);
    world_send_hello(ctx, h);
}

static struct round *round_of(struct world *w, const struct rdzv_view *v)
{
    struct round *r = &w->rounds[v->round % N_ROUNDS_KEPT];

    if (v->round > r->number) {
        *r = (struct round) { v->round, v->group_world, v->world, v->restarts, 0, never, never, never, 0, r->owner, r->base };
        memset(r->owner, 0xff, w->n * sizeof(r->owner[0]));
    }
    if (v->round > w->newest)
        w->newest = v->round;
    return r->number == v->round ? r : NULL;
}

static void check_ranks(struct agent *a, struct round *r, const struct rdzv_view *v)
{
    struct world *w = a->w;
    uint32_t      k = v->group_rank;
    struct agent *host = NULL;

    if (k >= r->group_world || v->group_world != r->group_world || v->world != r->world || v->restarts != r->restarts)
        world_broken(w, "O1: round %u is told differently to agent %u", v->round, a->id);
    if (r->owner[k] != UINT32_MAX)
        world_broken(w, "O1: rank %u of round %u starts on agents %u and %u", k, v->round, r->owner[k], a->id);
    if (r->group_world < w->cfg.min_nodes || r->group_world > w->cfg.max_nodes)
        world_broken(w, "O1: a round of %u nodes", r->group_world);
    r->owner[k] = a->id;
    r->base[k] = v->base_rank;
    if (k > 0 && r->owner[k - 1] != UINT32_MAX && r->base[k - 1] + w->agents[r->owner[k - 1]].nproc != v->base_rank)
        world_broken(w, "O1: ranks of node ranks %u and %u are not consecutive", k - 1, k);
    if (k + 1 == r->group_world && v->base_rank + a->nproc != v->world)
        world_broken(w, "O1: the last rank is not the last");
    if (v->master[0] == 'n')
        host = &w->agents[strtoul(v->master + 1, NULL, 10) % w->n];
    if (!host || host->last_store_round < v->round || v->port == 0)
        world_broken(w, "O5: round %u starts before its store has an empty key space", v->round);
}

/* Everybody else that the coordinator counts on has to have ended its workers. */
static void check_others_gone(const struct agent *me, uint32_t round)
{
    uint32_t i;

    for (i = 0; i < me->w->n; i++) {
        const struct agent *a = &me->w->agents[i];

        if (a->is_up && a->m.is_busy && a->m.work_round < round && !a->was_lost && !a->m.is_leaving &&
            rdzv_knows(me->w->coord, a->m.cfg.incarnation))
            world_broken(me->w, "O2: round %u starts while agent %u still has workers of round %u", round, a->id,
                         a->m.work_round);
    }
}

static void check_rank_is_stable(struct agent *a, const struct rdzv_view *v)
{
    const struct round *before = &a->w->rounds[a->started_round % N_ROUNDS_KEPT];
    unsigned            i;

    if (a->m.cfg.about.wish >= 0 || a->started_round == 0 || before->number != a->started_round || a->was_lost)
        return;
    for (i = 0; i < N_ROUNDS_KEPT; i++)
        if (a->w->rounds[i].number > a->started_round && a->w->rounds[i].number < v->round)
            return; /* it sat out a round: it is a newcomer */
    if (v->group_rank > a->started_rank)
        world_broken(a->w, "O7: agent %u had rank %u and gets %u", a->id, a->started_rank, v->group_rank);
}

static void start_proc(struct agent *a, struct proc *p)
{
    struct world *w = a->w;

    *p = (struct proc) { .is_alive = true, .ends_at = never };
    p->ignores_term = world_chance(w, w->odds.ignores_term);
    p->is_stuck = a->id != w->host && !is_calm(w) && world_chance(w, w->odds.stuck);
    if (!is_calm(w) && world_chance(w, w->odds.fails)) {
        p->ends_at = w->now + world_random(w, (world_chance(w, 50000) ? 15000 : 1000) * MS);
        p->status = (int) (1 + world_random(w, 3)) << 8;
    } else if (w->finish_at != never) {
        p->ends_at = (w->now > w->finish_at ? w->now : w->finish_at) + world_random(w, 2000 * MS);
    }
    member_started(&a->m);
}

static void op_start(void *ctx, const struct rdzv_view *v)
{
    struct agent *a = ctx;
    struct world *w = a->w;
    struct round *r = round_of(w, v);
    unsigned      i;
    bool          is_short; /* its workers end well soon, whatever the others do */

    world_trace(w, "agent %u starts round %u as %u of %u, base %u of %u", a->id, v->round, v->group_rank, v->group_world,
          v->base_rank, v->world);
    if (v->round <= a->started_round && a->started_round != 0)
        world_broken(w, "O1: agent %u starts round %u after %u", a->id, v->round, a->started_round);
    if (is_any_alive(a))
        world_broken(w, "O2: agent %u starts round %u beside the one before", a->id, v->round);
    if (r) {
        check_ranks(a, r, v);
        r->n_started++;
    }
    if (!w->measures)
        check_others_gone(a, v->round);
    check_rank_is_stable(a, v);
    a->started_round = v->round;
    a->started_rank = v->group_rank;
    a->failed_at = 0;
    a->n_signals = 0;
    a->was_lost = false;
    w->n_starts++;
    w->last_start_at = w->now;
    is_short = !is_calm(w) && world_chance(w, w->odds.finishes);
    for (i = 0; i < a->nproc; i++) {
        start_proc(a, &a->procs[i]);
        if (is_short && a->procs[i].ends_at == never)
            a->procs[i].ends_at = w->now + world_random(w, 10000 * MS);
    }
}

static void end_proc(struct agent *a, struct proc *p, uint64_t within, int status)
{
    p->is_ending = true;
    p->ends_at = a->w->now + 1 + (within > 0 ? world_random(a->w, within) : 0);
    p->status = status;
}

static void op_signal(void *ctx, int signum)
{
    struct agent *a = ctx;
    unsigned      i;

    if (++a->n_signals > 1 && !a->m.node.policy.is_stopped)
        world_broken(a->w, "O17: the workers of agent %u are told twice to stop", a->id);
    for (i = 0; i < a->nproc; i++) {
        struct proc *p = &a->procs[i];

        if (p->is_alive && !p->ignores_term && !p->is_ending && !p->is_stuck)
            end_proc(a, p, a->w->stop_time, world_chance(a->w, 50000) ? signum : 1 << 8);
    }
}

static void op_sweep(void *ctx, int signum)
{
    struct agent *a = ctx;
    unsigned      i;

    for (i = 0; i < a->nproc && signum == SIGKILL; i++)
        if (a->procs[i].is_alive && !a->procs[i].is_stuck)
            end_proc(a, &a->procs[i], 5 * MS, SIGKILL);
}

static unsigned op_attempt_ended(void *ctx)
{
    (void) ctx;
    return 0;
}

static void op_node_news(void *ctx, enum node_news news, int arg)
{
    (void) ctx, (void) news, (void) arg;
}

static void op_describe(void *ctx, struct rdzv_cause *c)
{
    struct agent *a = ctx;

    c->rank = a->m.view.base_rank;
    (void) snprintf(c->text, sizeof(c->text), "exit code %u", c->code);
}

static void op_host_store(void *ctx, uint32_t round)
{
    struct agent *a = ctx;

    if (is_any_alive(a))
        world_broken(a->w, "O5: agent %u switches its store under its workers", a->id);
    a->last_store_round = round;
    member_store_switched(&a->m, world_agent_now(a), round);
}

static void op_notice(void *ctx, uint64_t ms_left)
{
    promise_noticed(ctx, ms_left);
}

static void op_news(void *ctx, enum member_news news, const struct rdzv_view *view)
{
    struct agent *a = ctx;

    world_trace(a->w, "agent %u: news %d in round %u%s%s", a->id, (int) news, view->round, view->missing[0] ? ", missing " : "",
          view->missing);
}

static void push_broken(const struct agent *a, uint64_t after)
{
    queue_push(&a->w->queue, (struct event) {
        .at = a->w->now + after, .kind = EV_BROKEN, .agent = a->id, .arg = a->link, .incarnation = a->m.cfg.incarnation });
}

static void op_finish(void *ctx, unsigned status)
{
    struct agent *a = ctx;
    bool          is_left = a->m.node.policy.is_stopped;

    world_trace(a->w, "agent %u exits with %u", a->id, status);
    a->is_up = false;
    a->has_exited = true;
    a->status = status;
    a->away_since = a->w->now;
    push_broken(a, a->w->latency);
    if (is_left && !a->w->has_ended && a->id != a->w->host && world_chance(a->w, 50000)) /* another takes its place */
        world_boot(a->w, a->w->now + 500 * MS + world_random(a->w, 15000 * MS), a->id);
    else if (a->w->beheaded_at == 0 && (status == MEMBER_EXIT_ORPHAN || status == MEMBER_EXIT_REFUSED) && !is_left &&
             !a->w->has_ended)
        world_boot(a->w, a->w->now + 1000 * MS + world_random(a->w, 2000 * MS), a->id); /* whoever runs it tries again */
    else if (!a->w->has_ended)
        a->is_gone = true;
}

static const struct member_ops ops = {
    op_hello, op_start, op_signal, op_sweep, op_attempt_ended, op_node_news, op_describe, op_host_store, op_notice, op_news,
    op_finish,
};

static void boot(struct world *w, struct agent *a)
{
    struct member_cfg cfg = {
        .node = { .term_grace = TERM_GRACE, .kill_grace = KILL_GRACE, .sweep_grace = SWEEP_GRACE },
        .about = a->m.cfg.about,
        .heartbeat = 1000,
        .join_timeout = w->cfg.join_timeout,
        .lost_after = LOST_AFTER,
        .exit_barrier = never,
    };

    if (a->is_up || a->is_gone || (w->has_ended && !decline_was_the_end(w)))
        return;
    a->boots++;
    a->link = ++w->last_link * w->n + a->id;
    a->is_up = true;
    a->has_exited = false;
    a->started_round = 0;
    memset(a->procs, 0, sizeof(a->procs)); /* what its predecessor could not end is on another machine */
    a->wake_at = never;
    cfg.incarnation = world_random(w, never);
    if (a->id == 0 && a->boots == 1 && w->cfg.own != 0)
        cfg.incarnation = w->cfg.own;
    if (a->lacks_program) {
        decline_say(a, cfg.incarnation);
        return;
    }
    world_trace(w, "agent %u boots", a->id);
    a->best_way = never;
    member_init(&a->m, &cfg, world_agent_now(a), &ops, a);
    rearm(a);
}

/* ---- workers */

/* What one failure does to the others of its round: they fail on their broken connections. */
static void cascade(struct world *w, const struct agent *from, uint32_t round, uint64_t within)
{
    uint32_t i;
    unsigned k;

    if (!world_chance(w, w->odds.cascades))
        return;
    for (i = 0; i < w->n; i++) {
        struct agent *a = &w->agents[i];

        if (a == from || !a->is_up || !a->m.is_busy || a->started_round != round)
            continue;
        for (k = 0; k < a->nproc; k++)
            if (a->procs[k].is_alive && !a->procs[k].is_ending && !a->procs[k].is_stuck)
                end_proc(a, &a->procs[k], within, 1 << 8);
        rearm(a);
    }
}

static void note_failure(struct agent *a)
{
    struct world *w = a->w;
    struct round *r = &w->rounds[a->started_round % N_ROUNDS_KEPT];

    if (a->failed_at != 0)
        return;
    world_trace(w, "agent %u: a worker fails in round %u", a->id, a->started_round);
    a->failed_at = w->now;
    a->told_error = 0;
    if (r->number == a->started_round && r->first_failure == never) { /* once a round: some work on in an old one */
        w->n_failed_rounds++;
        w->n_victim_rounds += r->first_loss != never;
    }
    if (r->number == a->started_round && w->now < r->first_failure) {
        r->first_failure = w->now;
        cascade(w, a, a->started_round, world_chance(w, 50000) ? 60 * MS : 300 * MS);
    }
}

static void wake(struct agent *a)
{
    enum policy_exit how;
    unsigned         i;

    a->wake_at = never;
    for (i = 0; i < a->nproc && a->is_up; i++) {
        struct proc *p = &a->procs[i];

        if (!p->is_alive || p->is_stuck || p->ends_at > a->w->now)
            continue;
        p->is_alive = false;
        how = member_exited(&a->m, world_agent_now(a), p->status, false);
        if (how == POLICY_FAILURE)
            note_failure(a);
        else if (how == POLICY_OK)
            promise_done(a);
    }
    if (a->is_up && world_agent_now(a) >= member_deadline(&a->m) && member_tick(&a->m, world_agent_now(a)))
        note_failure(a);
    settle(a);
}

/* ---- faults */

void world_kill_agent(struct agent *a, bool is_seen)
{
    struct world *w = a->w;
    struct round *r = &w->rounds[a->started_round % N_ROUNDS_KEPT];

    if (is_seen && !a->is_cut_out)
        push_broken(a, delay(w, a->id));
    if (a->m.is_busy && r->number == a->started_round && r->first_loss == never)
        r->first_loss = w->now;
    memset(a->procs, 0, sizeof(a->procs));
    a->is_up = false;
    cascade(w, a, a->started_round, 2000 * MS);
}

static void cut(struct agent *a, enum fault fault, uint64_t heals_in)
{
    struct world *w = a->w;

    a->away_since = w->now;
    a->is_cut_in = a->is_cut_in || fault != FAULT_CUT_OUT;
    a->is_cut_out = a->is_cut_out || fault != FAULT_CUT_IN;
    cascade(w, a, a->started_round, 2000 * MS);
    queue_push(&w->queue, (struct event) { .at = w->now + heals_in, .kind = EV_HEAL, .agent = a->id });
}

static void partition(struct world *w, uint64_t heals_in)
{
    uint32_t i;

    for (i = 0; i < w->n; i++)
        if (w->agents[i].is_up && i != w->host && world_chance(w, 50000))
            cut(&w->agents[i], FAULT_CUT, heals_in);
}

static void strike(struct world *w, struct agent *a, enum fault fault)
{
    uint64_t heals_in = 100 * MS + world_random(w, 20000 * MS);

    if (fault == FAULT_STALL) {
        heals_in = w->now + 500 * MS + world_random(w, 5000 * MS);
        w->stalled_until = heals_in > w->stalled_until ? heals_in : w->stalled_until;
        return;
    }
    if (fault == FAULT_DEPOSE || fault == FAULT_USURP) {
        takeover_begin(w, fault == FAULT_USURP);
        return;
    }
    if (fault == FAULT_BEHEAD) {
        promise_behead(w);
        return;
    }
    if (fault == FAULT_PARTITION) {
        partition(w, heals_in);
        return;
    }
    if (!a->is_up || (a->id == w->host && (w->is_durable || (fault != FAULT_TERM && fault != FAULT_NOTICE))))
        return;
    world_trace(w, "agent %u: fault %d", a->id, (int) fault);
    if (fault != FAULT_FLAP && fault != FAULT_TERM && fault != FAULT_NOTICE)
        a->away_since = w->now;
    if (fault == FAULT_CRASH || fault == FAULT_POWER) {
        world_kill_agent(a, fault == FAULT_CRASH);
        if (!w->measures && world_chance(w, 75000))
            world_boot(w, w->now + 100 * MS + world_random(w, 15000 * MS), a->id);
        else
            a->is_gone = true;
    } else if (fault == FAULT_FLAP) {
        a->has_flapped = true;
        push_broken(a, delay(w, a->id));
        a->link = ++w->last_link * w->n + a->id;
        queue_push(&w->queue, (struct event) {
            .at = w->now + world_random(w, 600 * MS), .kind = EV_CONNECT, .agent = a->id, .arg = a->boots });
    } else if (fault == FAULT_NOTICE) {
        promise_announce(a);
        rearm(a);
    } else if (fault == FAULT_TERM) {
        if (a->id == w->host && a->boots == 1) /* not one that came after it: here, the coordinator may outlive its agent */
            promise_host_leaves(w);
        member_signal(&a->m, world_agent_now(a), SIGTERM);
        settle(a);
    } else {
        cut(a, fault, heals_in);
    }
}

/* ---- the world turns */

static void to_coord(struct world *w, const struct event *e)
{
    struct proto_msg m;

    if (w->agents[e->agent].link != e->arg || w->agents[e->agent].is_cut_out)
        return;
    if (!w->agents[e->agent].is_up && !w->agents[e->agent].has_exited)
        return;
    receive(w, e->blob, &m);
    coord_event(w, (struct rdzv_event) { .kind = RDZV_EV_HELLO, .link = e->arg, .hello = &m.u.hello });
}

static void to_agent(struct world *w, const struct event *e)
{
    struct agent    *a = &w->agents[e->agent];
    struct proto_msg m;

    if (!a->is_up || a->is_cut_in || a->link != e->arg)
        return;
    receive(w, e->blob, &m);
    a->heard_at = w->now;
    if (m.type == PROTO_VIEW)
        world_note_way(a, &m.u.view);
    if (m.type == PROTO_VIEW)
        member_view(&a->m, world_agent_now(a), &m.u.view);
    else
        member_refused(&a->m, world_agent_now(a), &m.u.refused);
    settle(a);
}

static void handle(struct world *w, const struct event *e)
{
    struct agent *a = &w->agents[e->agent];

    switch (e->kind) {
    case EV_TO_COORD:
        to_coord(w, e);
        break;
    case EV_TO_AGENT:
        to_agent(w, e);
        break;
    case EV_WAKE:
        if (a->is_up && e->arg == a->boots && e->at == a->wake_at)
            wake(a);
        break;
    case EV_COORD_WAKE:
        if (e->at != w->coord_wake_at || w->is_leaderless)
            break;
        w->coord_wake_at = never;
        coord_event(w, (struct rdzv_event) { .kind = RDZV_EV_TICK });
        break;
    case EV_BOOT:
        boot(w, a);
        break;
    case EV_FAULT:
        if (!is_calm(w))
            strike(w, a, (enum fault) e->arg);
        break;
    case EV_HEAL:
        a->is_cut_in = a->is_cut_out = false;
        a->away_since = w->now;
        break;
    case EV_BROKEN:
        coord_event(w, (struct rdzv_event) { .kind = RDZV_EV_BROKEN, .link = e->arg, .incarnation = e->incarnation });
        break;
    case EV_CONNECT:
        if (a->is_up && e->arg == a->boots) {
            member_connected(&a->m, world_agent_now(a));
            rearm(a);
        }
        break;
    case EV_SAVED:
        takeover_saved(w, e->arg);
        break;
    case EV_TAKEOVER:
        takeover_end(w);
        break;
    case EV_FAIL:
        if (a->is_up && a->procs[0].is_alive && !a->procs[0].is_ending) {
            end_proc(a, &a->procs[0], 0, 1 << 8);
            rearm(a);
        }
        break;
    }
}

/* O3: a round with an absent member ends in bounded time. */
static void check_absent(struct world *w)
{
    uint64_t           bound = (2 * w->cfg.dead_after + 6000 + 2000) * MS;
    struct rdzv_status s;
    struct round      *r;
    uint32_t           k;

    w->last_check = w->now;
    rdzv_status(w->coord, &s);
    r = &w->rounds[s.round % N_ROUNDS_KEPT];
    for (k = 0; s.phase == RDZV_ACTIVE && !w->is_leaderless && r->number == s.round && k < r->group_world; k++) {
        const struct agent *a = r->owner[k] == UINT32_MAX ? NULL : &w->agents[r->owner[k]];

        if (a && a->started_round == s.round && (!a->is_up || a->is_cut_out) && !a->m.is_done && w->now - a->away_since > bound)
            world_broken(w, "O3: round %u goes on without agent %u", s.round, a->id);
    }
    promise_check(w);
    decline_check(w);
    for (k = 0; k < w->n; k++) {
        const struct agent *a = &w->agents[k];

        if (a->is_up && a->is_cut_in && a->m.is_busy && w->now - a->away_since > ORPHAN_BOUND * MS)
            world_broken(w, "O12: agent %u works on, but has long lost the coordinator", k);
    }
}

void world_run(struct world *w, uint64_t until)
{
    while (w->queue.n > 0 && w->queue.heap[0].at <= until) {
        struct event e = queue_pop(&w->queue);
        bool         is_coords = e.kind == EV_TO_COORD || e.kind == EV_COORD_WAKE || e.kind == EV_BROKEN;

        w->now = e.at;
        w->n_handled++;
        if (is_coords && w->now < w->stalled_until) {
            e.at = w->stalled_until + (e.kind == EV_COORD_WAKE); /* what has come in is read before the timers run */
            if (e.kind == EV_COORD_WAKE && w->now == w->coord_wake_at)
                w->coord_wake_at = e.at;
            queue_push(&w->queue, e);
            continue;
        }
        handle(w, &e);
        blob_drop(e.blob);
        if (!w->measures && w->now - w->last_check > 1000 * MS)
            check_absent(w);
    }
    w->now = until;
}

static uint64_t bytes_used(void)
{
    struct mallinfo2 m = mallinfo2();

    return m.uordblks + m.hblkhd;
}

void world_init(struct world *w, uint64_t seed, uint32_t n_agents, const struct rdzv_cfg *cfg)
{
    struct cc_err err = { 0 };
    uint32_t      i;

    *w = (struct world) {
        .seed = seed, .rng = seed * 77, .n = n_agents, .cfg = *cfg, .finish_at = never, .coord_wake_at = never,
        .latency = 100, .jitter = 4 * MS, .stop_time = 100 * MS,
    };
    w->agents = calloc(n_agents, sizeof(w->agents[0]));
    for (i = 0; i < N_ROUNDS_KEPT; i++) {
        w->rounds[i].owner = calloc(n_agents, sizeof(uint32_t));
        w->rounds[i].base = calloc(n_agents, sizeof(uint32_t));
        if (!w->rounds[i].owner || !w->rounds[i].base)
            abort();
    }
    w->coord_bytes = bytes_used();
    w->coord = rdzv_new(cfg, 0, &world_coord_ops, w, &err);
    w->coord_bytes = bytes_used() - w->coord_bytes;
    if (!w->coord || !w->agents)
        world_broken(w, "%s", err.msg);
    for (i = 0; i < n_agents; i++) {
        struct agent      *a = &w->agents[i];
        struct rdzv_about *about = &a->m.cfg.about;

        *a = (struct agent) { .w = w, .id = i, .wake_at = never, .nproc = 1, .offset = world_random(w, 1000000) * MS };
        *about = (struct rdzv_about) { .nproc = 1, .wish = -1, .port = 29500, .plan = cfg->plan };
        (void) snprintf(about->host, sizeof(about->host), "n%u", i);
        (void) snprintf(about->addr, sizeof(about->addr), "n%u", i);
    }
}

void world_free(struct world *w)
{
    uint64_t i;

    queue_free(&w->queue);
    for (i = 0; i < N_ROUNDS_KEPT; i++) {
        free(w->rounds[i].owner);
        free(w->rounds[i].base);
    }
    rdzv_free(w->coord);
    free(w->saved.bytes);
    free(w->pending.bytes);
    free(w->agents);
}

void world_boot(struct world *w, uint64_t at, uint32_t agent)
{
    queue_push(&w->queue, (struct event) { .at = at, .kind = EV_BOOT, .agent = agent });
}

void world_fault(struct world *w, uint64_t at, uint32_t agent, enum fault fault)
{
    queue_push(&w->queue, (struct event) { .at = at, .kind = EV_FAULT, .agent = agent, .arg = fault });
}

void world_fail(struct world *w, uint64_t at, uint32_t agent)
{
    queue_push(&w->queue, (struct event) { .at = at, .kind = EV_FAIL, .agent = agent });
}

void world_finish(struct world *w)
{
    uint32_t i;
    unsigned k;

    w->finish_at = w->now;
    for (i = 0; i < w->n; i++) {
        struct agent *a = &w->agents[i];

        for (k = 0; k < a->nproc && a->is_up; k++)
            if (a->procs[k].is_alive && !a->procs[k].is_ending) {
                a->procs[k].is_stuck = a->m.node.group.state != GROUP_RUNNING && a->procs[k].is_stuck;
                a->procs[k].ends_at = w->now + world_random(w, 2000 * MS);
                a->procs[k].status = 0;
            }
        rearm(a);
    }
}
