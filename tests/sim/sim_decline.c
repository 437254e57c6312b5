#include <stdio.h>

#include "tests/sim/sim_world.h"

/* Agents that cannot take part say so once; see O19 in sim_rdzv.c.  What the coordinator should make of it is counted here
 * again: one for each agent, however often it came. */

enum { DECLINED = 127, BOUND = 20000 };

void decline_say(struct agent *a, uint64_t incarnation)
{
    struct world     *w = a->w;
    struct rdzv_hello h = {
        .incarnation = incarnation, .seq = 1, .sent_at = world_agent_now(a), .phase = RDZV_NODE_GONE, .has_about = true,
        .has_cause = true, .about = a->m.cfg.about,
    };

    h.cause = (struct rdzv_cause) { .kind = RDZV_CAUSE_LOST, .rank = RDZV_NO_RANK, .code = DECLINED, .text = "no program" };
    world_trace(w, "agent %u declines", a->id);
    a->is_up = false;
    a->has_exited = true;
    a->status = DECLINED;
    world_send_hello(a, &h);
    a->is_gone = h.about.wish < 0 || incarnation == w->cfg.own || world_chance(w, 40000);
    if (a->is_gone)
        return;
    a->lacks_program = world_chance(w, 70000); /* whoever runs it tries again, or has mended it */
    world_boot(w, w->now + 500 * MS + world_random(w, 5000 * MS), a->id);
}

void decline_heard(struct world *w, const struct rdzv_event *ev)
{
    const struct rdzv_hello *h = ev->hello;
    struct rdzv_status       s;

    rdzv_status(w->coord, &s);
    w->heard.has_begun = w->heard.has_begun || s.phase == RDZV_ACTIVE;
    if (ev->kind != RDZV_EV_HELLO || w->measures || w->heard.has_begun)
        return;
    if (h->phase == RDZV_NODE_GONE && h->has_cause && h->cause.code == DECLINED)
        w->heard.declined |= UINT64_C(1) << ev->link % w->n;
    else if (h->has_about && h->about.wish >= 0 && rdzv_knows(w->coord, h->incarnation)) /* it comes after all */
        w->heard.declined &= ~(UINT64_C(1) << ev->link % w->n);
}

static bool is_hopeless(const struct world *w)
{
    const struct rdzv_cfg *c = &w->cfg;
    uint32_t               n_to_come = (c->expected > 0 ? c->expected : c->max_nodes) + c->n_spares, i;

    for (i = 0; i < w->n; i++)
        n_to_come -= n_to_come > 0 && (w->heard.declined >> i & 1);
    return w->heard.declined != 0 && n_to_come < c->min_nodes;
}

/* Nobody can take the job over. */
static bool has_host_declined(const struct world *w)
{
    return w->cfg.own != 0 && (w->heard.declined & 1) != 0;
}

bool decline_was_the_end(const struct world *w)
{
    return w->has_ended && w->end.kind == RDZV_CAUSE_LOST && w->end.code == DECLINED;
}

void decline_ended(const struct world *w)
{
    if (!decline_was_the_end(w))
        return;
    if (w->heard.has_begun)
        world_broken(w, "O19: the job had begun, but ends for a node that did not take part");
    if (!is_hopeless(w) && !has_host_declined(w))
        world_broken(w, "O19: the job ends though enough can come");
}

void decline_check(struct world *w)
{
    bool is_hard = w->odds.lost > 0 || w->odds.very_late > 0;

    if (w->has_ended || w->is_leaderless || w->heard.has_begun || (!is_hopeless(w) && !has_host_declined(w)))
        w->hopeless_at = 0;
    else if (w->hopeless_at == 0)
        w->hopeless_at = w->now;
    else if (!is_hard && w->now > w->stalled_until + BOUND * MS && w->now > w->hopeless_at + BOUND * MS)
        world_broken(w, "O19: too few can come, but those that did are not told");
}
