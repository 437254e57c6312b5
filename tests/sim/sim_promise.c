#include <signal.h>
#include <stdlib.h>

#include "tests/sim/sim_world.h"

/* What a job promises beyond its rounds: see O14 to O17 in sim_rdzv.c. */

enum { SOON = 1000, SLACK = 3000, NOTICE_SOON = 500 }; /* no heartbeat comes as soon as a notice must */

/* It has been there all the time, and nothing stood between it and the coordinator. */
static bool is_undisturbed(const struct agent *a)
{
    const struct odds *o = &a->w->odds;

    return a->is_up && a->away_since == 0 && !a->has_flapped && a->boots == 1 && o->lost == 0 && o->late == 0 &&
           o->very_late == 0;
}

static bool is_past(const struct world *w, uint64_t at, uint64_t ms)
{
    return w->now > (at > w->stalled_until ? at : w->stalled_until) + ms * MS;
}

/* ---- the node that hosts the job */

void promise_host_leaves(struct world *w)
{
    if (w->host_left_at == 0)
        w->host_left_at = w->now;
}

static void check_host(const struct world *w)
{
    if (w->host_left_at != 0 && !w->has_ended && is_past(w, w->host_left_at, SOON))
        world_broken(w, "O14: the host has left, but the job goes on");
}

/* ---- the coordinator is gone, and nobody takes over */

void promise_behead(struct world *w)
{
    struct agent *host = &w->agents[w->host];

    if (w->is_durable || w->has_ended || w->beheaded_at != 0 || !host->is_up)
        return;
    world_trace(w, "the host and its coordinator are gone for good");
    w->beheaded_at = w->now;
    w->is_leaderless = true;
    host->is_gone = true;
    world_kill_agent(host, false);
}

static void check_orphans(const struct world *w)
{
    uint32_t i;

    for (i = 0; i < w->n && w->beheaded_at != 0; i++) {
        const struct agent *a = &w->agents[i];

        uint64_t            since = a->heard_at > w->beheaded_at ? a->heard_at : w->beheaded_at; /* its last word came late */

        if (a->is_up && a->m.has_heard && w->now > since + ORPHAN_BOUND * MS)
            world_broken(w, "O12: agent %u is still there, but has long lost the coordinator", i);
    }
}

void promise_orphans_ended(const struct world *w)
{
    uint32_t i;

    for (i = 0; i < w->n; i++) {
        const struct agent *a = &w->agents[i];
        bool                is_other = a->m.is_stuck || a->m.is_done || a->m.is_refused || a->m.node.policy.is_stopped ||
                                       a->lacks_program;

        if (a->has_exited && !is_other && a->status != RDZV_EXIT_AGAIN)
            world_broken(w, "O12: agent %u has lost the coordinator and exits with %u", i, a->status);
    }
}

/* ---- a pre-emption */

void promise_announce(struct agent *a)
{
    struct world *w = a->w;

    if (w->noticed_at == 0 && is_undisturbed(a) && !w->is_durable) {
        w->noticed_at = w->now;
        w->notice_from = a->id;
    }
    member_notice(&a->m, world_agent_now(a), NOTICE_MS);
}

void promise_noticed(const struct agent *a, uint64_t ms_left)
{
    const struct world *w = a->w;
    uint64_t            due = w->noticed_at + NOTICE_MS * (uint64_t) MS, said = w->now + ms_left * MS;

    if (w->noticed_at == 0 || !is_undisturbed(a) || !is_undisturbed(&w->agents[w->notice_from]))
        return;
    if (w->stalled_until < w->noticed_at && (said > due + SOON * MS || due > said + SOON * MS))
        world_broken(w, "O16: agent %u has heard of a pre-emption in %llu ms, which is wrong", a->id,
                     (unsigned long long) ms_left);
}

static void check_notice(const struct world *w)
{
    const struct agent *from = &w->agents[w->notice_from];
    uint32_t            i;

    if (w->noticed_at == 0 || w->is_leaderless || !from->m.is_known || !is_undisturbed(from) ||
        !is_past(w, w->noticed_at, NOTICE_SOON + 2 * w->latency / MS))
        return;
    for (i = 0; i < w->n && !w->has_ended; i++) {
        const struct agent *a = &w->agents[i];
        bool                is_new = world_agent_now(a) < a->m.joined_at + SOON;

        if (is_undisturbed(a) && a->m.has_heard && !is_new && !a->m.has_noticed)
            world_broken(w, "O16: agent %u was not told of the pre-emption", i);
    }
}

/* ---- a worker is done, and others are not */

void promise_done(struct agent *a)
{
    struct round *r = &a->w->rounds[a->started_round % N_ROUNDS_KEPT];

    if (r->number != a->started_round || a->w->now >= r->first_done)
        return;
    r->first_done = a->w->now;
    r->first_done_by = a->id;
}

static void check_finish(const struct world *w)
{
    struct rdzv_status  s;
    const struct round *r;

    rdzv_status(w->coord, &s);
    r = &w->rounds[s.round % N_ROUNDS_KEPT];
    if (w->cfg.finish_timeout == 0 || w->is_leaderless || w->n_takeovers > 0 || s.phase != RDZV_ACTIVE || r->number != s.round ||
        r->first_done == UINT64_MAX || !is_undisturbed(&w->agents[r->first_done_by]))
        return;
    if (is_past(w, r->first_done + w->cfg.finish_timeout * MS, SLACK))
        world_broken(w, "O15: the round goes on, but its first worker was done %llu s ago",
                     (unsigned long long) (w->now - r->first_done) / 1000 / MS);
}

void promise_ended(const struct world *w)
{
    const struct round *r = &w->rounds[w->end.round % N_ROUNDS_KEPT];

    if (w->end.kind != RDZV_CAUSE_UNFINISHED)
        return;
    if (r->number != w->end.round || r->first_done == UINT64_MAX ||
        w->now + SOON / 2 * MS < r->first_done + w->cfg.finish_timeout * MS)
        world_broken(w, "O15: the job ends too early for unfinished workers");
}

void promise_check(const struct world *w)
{
    check_host(w);
    check_orphans(w);
    check_notice(w);
    check_finish(w);
}
