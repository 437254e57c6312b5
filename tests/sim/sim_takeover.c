#include <stdlib.h>

#include "tests/sim/sim_world.h"

enum { SAVE_MS = 10, SLOW_SAVE_MS = 600, TAKEOVER_MIN_MS = 300, TAKEOVER_MS = 3500, CONNECT_MS = 600 };

bool takeover_is_saved(const struct world *w)
{
    uint64_t vital;

    (void) rdzv_changes(w->coord, &vital);
    return !w->is_durable || vital <= w->saved.version;
}

bool takeover_holds(struct world *w, uint64_t link, const struct rdzv_view *v)
{
    struct agent *a = &w->agents[link % w->n];

    a->has_held = !takeover_is_saved(w);
    if (!a->has_held)
        return false;
    a->held = *v;
    a->held_link = link;
    (void) rdzv_changes(w->coord, &a->held_needs);
    return true;
}

/* The worst moment to be gone is when the job has ended and some have been told. */
static bool strikes_at_the_end(struct world *w)
{
    struct rdzv_status s;

    rdzv_status(w->coord, &s);
    if (s.phase != RDZV_ENDED || w->has_struck_end || w->now >= w->calm_at)
        return false;
    w->has_struck_end = true;
    return world_chance(w, 50000);
}

/* One at a time.  What no view depends on is not saved every time. */
void takeover_save(struct world *w)
{
    uint64_t vital, newest = rdzv_changes(w->coord, &vital);

    if (!w->is_durable)
        return;
    if (strikes_at_the_end(w)) {
        takeover_begin(w, world_chance(w, 50000));
        return;
    }
    if (w->is_saving || newest <= w->saved.version)
        return;
    if (vital <= w->saved.version && world_chance(w, 50000))
        return;
    w->is_saving = true;
    w->pending.bytes = malloc(rdzv_save_max(&w->cfg));
    if (!w->pending.bytes)
        abort();
    w->pending.n = rdzv_save(w->coord, world_coord_now(w), w->pending.bytes);
    w->pending.version = newest;
    w->pending.heard = w->heard;
    queue_push(&w->queue, (struct event) {
        .at = w->now + world_random(w, (world_chance(w, 10000) ? SLOW_SAVE_MS : SAVE_MS) * MS), .kind = EV_SAVED,
        .arg = w->term });
}

static void keep_pending(struct world *w)
{
    free(w->saved.bytes);
    w->saved = w->pending;
    w->pending = (struct image) { 0 };
    w->is_saving = false;
}

void takeover_saved(struct world *w, uint64_t term)
{
    uint32_t i;

    if (term != w->term || w->is_leaderless)
        return;
    keep_pending(w);
    for (i = 0; i < w->n; i++) {
        struct agent *a = &w->agents[i];

        if (!a->has_held || a->held_needs > w->saved.version)
            continue;
        a->has_held = false;
        world_send_view(w, a->held_link, &a->held);
    }
    world_check_coord(w);
    takeover_save(w);
}

/* The coordinator stops in the middle of whatever it did.  What it was writing may be written or not. */
void takeover_begin(struct world *w, bool agent_dies)
{
    struct agent *host = &w->agents[w->host];
    uint32_t      i;

    if (!w->is_durable || w->is_leaderless)
        return;
    if (w->is_saving && world_chance(w, 50000))
        keep_pending(w);
    free(w->pending.bytes);
    w->pending = (struct image) { 0 };
    w->is_saving = false;
    w->is_leaderless = true;
    w->term++;
    w->coord_wake_at = UINT64_MAX;
    for (i = 0; i < w->n; i++) {
        struct agent *a = &w->agents[i];

        a->has_held = false;
        a->has_flapped = true;
        a->link = ++w->last_link * w->n + i;
    }
    if (agent_dies && host->is_up) {
        host->away_since = w->now;
        world_kill_agent(host, false);
        if (world_chance(w, 75000))
            world_boot(w, w->now + 100 * MS + world_random(w, 15000 * MS), host->id);
        else
            host->is_gone = true;
    }
    queue_push(&w->queue, (struct event) {
        .at = w->now + TAKEOVER_MIN_MS * MS + world_random(w, TAKEOVER_MS * MS), .kind = EV_TAKEOVER });
}

static struct agent *find_candidate(struct world *w)
{
    uint32_t first = (uint32_t) world_random(w, w->n), i;

    for (i = 0; i < w->n; i++) {
        struct agent *a = &w->agents[(first + i) % w->n];

        if (a->is_up && !a->is_cut_in && !a->is_cut_out)
            return a;
    }
    return NULL;
}

void takeover_end(struct world *w)
{
    struct agent *host = find_candidate(w);
    struct cc_err err = { 0 };
    uint32_t      i;

    if (!host) {
        if (w->has_ended)
            return;
        w->agents[w->host].is_gone = w->agents[w->host].lacks_program = false; /* somebody has to come back, or nobody is left */
        world_boot(w, w->now, w->host);
        queue_push(&w->queue, (struct event) { .at = w->now + 1000 * MS, .kind = EV_TAKEOVER });
        return;
    }
    w->is_leaderless = false;
    w->n_takeovers++;
    w->host = host->id;
    rdzv_free(w->coord);
    w->coord_offset = world_random(w, 1000000) * MS;
    w->coord_term = UINT64_MAX; /* nobody knows it yet */
    w->coord = rdzv_new(&w->cfg, world_coord_now(w), &world_coord_ops, w, &err);
    if (!w->coord || (w->saved.n > 0 && rdzv_load(w->coord, world_coord_now(w), w->saved.bytes, w->saved.n, &err) < 0))
        world_broken(w, "takeover: %s", err.msg);
    w->saved.version = 0;
    w->heard = w->saved.heard;
    for (i = 0; i < w->n; i++)
        if (w->agents[i].is_up)
            queue_push(&w->queue, (struct event) {
                .at = w->now + world_random(w, CONNECT_MS * MS), .kind = EV_CONNECT, .agent = i, .arg = w->agents[i].boots });
    world_check_coord(w);
    takeover_save(w);
    world_arm_coord(w);
}
