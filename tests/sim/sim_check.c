#include <stdlib.h>

#include "tests/sim/sim_world.h"

/* ---- what must hold of the coordinator at every moment */

void world_note_way(struct agent *a, const struct rdzv_view *v)
{
    uint64_t now = world_agent_now(a), way = now - v->echo;

    if (v->incarnation != a->m.cfg.incarnation || v->seq <= a->m.view.seq)
        return; /* late, or of its life before */
    if (v->seq >> RDZV_TERM_SHIFT != a->m.view.seq >> RDZV_TERM_SHIFT)
        a->best_way = UINT64_MAX;
    if (a->best_way != UINT64_MAX && a->m.seq % 8 == 0)
        a->best_way++; /* it ages: clocks drift */
    if (v->echo <= now && way < a->best_way)
        a->best_way = way;
}

/* What an agent tells of a failure is as right as the clock by which it tells it: wrong by half of the shortest way to the
 * coordinator and back at most, since the coordinator wrote its clock down somewhere on that way.  That is the tolerance of
 * O8: views that were held until the coordinator's state was saved have come a long way. */
void world_check_told(struct agent *a, const struct rdzv_hello *h)
{
    int64_t  e = (int64_t) (a->m.ahead * MS) + (int64_t) a->offset - (int64_t) a->w->coord_offset;
    uint64_t error = (uint64_t) (e < 0 ? -e : e);

    if (!h->has_cause || a->failed_at == 0 || h->term != a->w->coord_term)
        return; /* of another coordinator's clock: this one will not listen */
    if (a->best_way != UINT64_MAX && error > a->best_way * MS / 2 + 2 * MS)
        world_broken(a->w, "O8: agent %u is wrong by %llu us about the coordinator's clock, whose answer came in %llu ms", a->id,
                     (unsigned long long) error, (unsigned long long) a->best_way);
    if (error > a->told_error)
        a->told_error = error;
}

/* Clocks, and the order of views, are told apart by the term. */
void world_check_term(struct world *w, const struct rdzv_view *v)
{
    uint64_t term = v->seq >> RDZV_TERM_SHIFT;

    if (w->has_spoken && (term < w->newest_term || (term == w->newest_term && w->newest_term_by != w->n_takeovers)))
        world_broken(w, "O18: the coordinator says term %llu, as one before it did", (unsigned long long) term);
    w->has_spoken = true;
    w->newest_term = term;
    w->newest_term_by = w->n_takeovers;
}

static void check_first_cause(struct world *w)
{
    const struct agent *named;
    uint32_t            i;

    if (w->end.kind != RDZV_CAUSE_WORKER && w->end.kind != RDZV_CAUSE_SAME)
        return;
    named = &w->agents[strtoul(w->end.host + 1, NULL, 10) % w->n];
    if (!named->is_up || named->started_round != w->end.round)
        return;
    if (named->failed_at == 0)
        world_broken(w, "O8: the cause names agent %u, whose workers did not fail", named->id);
    for (i = 0; i < w->n; i++) {
        const struct agent *a = &w->agents[i];
        bool                is_there = a->is_up && !a->is_cut_in && !a->is_cut_out && !a->was_lost;
        bool                could_tell = is_there && a->away_since < a->failed_at;

        if (a->failed_at == 0 || a->started_round != w->end.round || !could_tell || !rdzv_knows(w->coord, a->m.cfg.incarnation))
            continue;
        if (a->failed_at + a->told_error + named->told_error + 3 * MS < named->failed_at)
            world_broken(w, "O8: the cause names agent %u, but %u failed %llu us before", named->id, a->id,
                         (unsigned long long) (named->failed_at - a->failed_at));
    }
}

/* A job that ended well has no member that still works. */
static void check_all_done(const struct world *w, const struct rdzv_status *s)
{
    uint32_t i;

    for (i = 0; i < w->n && s->cause.kind == RDZV_CAUSE_NONE; i++) {
        const struct agent *a = &w->agents[i];

        if (a->is_up && a->m.is_busy && !a->m.is_leaving && a->started_round == s->round &&
            rdzv_knows(w->coord, a->m.cfg.incarnation))
            world_broken(w, "O10: the job ends well, but agent %u still works", i);
    }
}

void world_check_coord(struct world *w)
{
    struct rdzv_status s;

    rdzv_status(w->coord, &s);
    if (w->has_ended && s.phase != RDZV_ENDED)
        world_broken(w, "O6: a job that had ended goes on");
    if (w->has_ended && (s.cause.kind != w->end.kind || s.cause.code != w->end.code))
        world_broken(w, "O6: a job that had ended has another cause now");
    if (s.restarts > w->n_failed_rounds - w->n_victim_rounds)
        world_broken(w, "O4: %u restarts, but workers failed in %u rounds, in %u of these because of a loss", s.restarts,
                     w->n_failed_rounds, w->n_victim_rounds);
    if (s.restarts + s.rejoins + 2 < w->n_failed_rounds)
        world_broken(w, "O4: %u restarts and %u losses, but workers failed in %u rounds", s.restarts, s.rejoins,
                     w->n_failed_rounds);
    if (s.restarts > w->cfg.budget.max_restarts && w->cfg.budget.window == 0)
        world_broken(w, "O4: %u restarts of %u", s.restarts, w->cfg.budget.max_restarts);
    if (s.phase == RDZV_ENDED && !w->has_ended && takeover_is_saved(w)) {
        w->has_ended = true;
        w->end = s.cause;
        w->ended_at = w->now;
        world_trace(w, "ended: kind %d rank %u on %s: %s", (int) s.cause.kind, s.cause.rank, s.cause.host, s.cause.text);
        promise_ended(w);
        decline_ended(w);
        check_first_cause(w);
        check_all_done(w, &s);
    }
}

bool world_is_settled(const struct world *w)
{
    struct rdzv_status s;
    uint32_t           n_busy = 0, n_waiting = 0, i;

    rdzv_status(w->coord, &s);
    if (s.phase != RDZV_ACTIVE || w->is_leaderless)
        return false;
    for (i = 0; i < w->n; i++) {
        const struct agent *a = &w->agents[i];

        if (!a->is_up || a->m.is_stuck)
            continue;
        if (a->m.view.round != s.round || (a->m.is_busy && a->m.work_round != s.round))
            return false;
        n_busy += a->m.is_busy || a->m.is_done;
        n_waiting += !a->m.is_busy && !a->m.is_done;
    }
    if (n_waiting > 0 && s.n_done == 0 && s.n_members < w->cfg.max_nodes && !w->cfg.scales_on_restart_only)
        return false;
    return n_busy <= s.n_members && n_busy + s.n_done >= s.n_members; /* who is done may have crashed since */
}
