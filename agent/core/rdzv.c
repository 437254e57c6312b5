#include "agent/core/rdzv.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/admit.h"
#include "agent/core/rdzv_inside.h"
#include "store/base/macros.h"

enum { LATE_MS = 20 };

static const uint64_t never = RDZV_NEVER;

static int check_cfg(const struct rdzv_cfg *c, struct cc_err *err)
{
    if (c->min_nodes == 0 || c->min_nodes > c->max_nodes || c->max_nodes > c->nodes_cap || c->nodes_cap > RDZV_NODES_MAX)
        return cc_fail(err, -EINVAL, "%u to %u nodes, at most %u at a time: not 1 <= min <= max <= %d", c->min_nodes,
                       c->max_nodes, c->nodes_cap, RDZV_NODES_MAX);
    return 0;
}

struct rdzv *rdzv_new(const struct rdzv_cfg *cfg, uint64_t now, const struct rdzv_ops *ops, void *ctx, struct cc_err *err)
{
    CC_AUTO(rdzv_freep) struct rdzv *r = NULL;

    if (check_cfg(cfg, err) < 0)
        return NULL;
    r = calloc(1, sizeof(*r));
    if (!r || peers_init(&r->peers, cfg->nodes_cap, err) < 0) {
        (void) cc_fail(err, -ENOMEM, "no memory for %u nodes", cfg->nodes_cap);
        return NULL;
    }
    r->cfg = *cfg;
    if (r->cfg.expected == 0)
        r->cfg.expected = cfg->max_nodes;
    r->ops = ops;
    r->ctx = ctx;
    r->round = 1;
    r->is_judged = true;
    r->vital = r->n_changes = 1; /* that it is there: a successor that did not know would use its term, with another clock */
    r->gather_since = now;
    r->last_call_at = r->switch_at = r->scale_at = r->finish_at = never;
    r->budget = budget_new(&cfg->budget, err);
    if (!r->budget)
        return NULL;
    r->order = calloc(cfg->nodes_cap, sizeof(r->order[0]));
    r->scratch = calloc(cfg->nodes_cap, sizeof(r->scratch[0]));
    r->rank_host = calloc(cfg->max_nodes, sizeof(r->rank_host[0]));
    r->declined.seats = calloc(cfg->nodes_cap, sizeof(r->declined.seats[0]));
    if (!r->order || !r->scratch || !r->rank_host || !r->declined.seats) {
        (void) cc_fail(err, -ENOMEM, "no memory for %u nodes", cfg->nodes_cap);
        return NULL;
    }
    return CC_STEAL(r);
}

struct rdzv *rdzv_free(struct rdzv *r)
{
    if (!r)
        return NULL;
    budget_free(r->budget);
    peers_free(&r->peers);
    free(r->order);
    free(r->scratch);
    free(r->rank_host);
    free(r->declined.seats);
    free(r);
    return NULL;
}

/* ---- what a successor has to know has changed */

static void changed(struct rdzv *r)
{
    r->n_changes++;
}

static void changed_vitally(struct rdzv *r)
{
    r->vital = ++r->n_changes;
}

/* ---- flags of a peer and the numbers of those that have them */

static void count(uint32_t *n, bool *has, bool will)
{
    if (*has != will)
        *n += will ? 1 : UINT32_MAX;
    *has = will;
}

static void set_ready(struct rdzv *r, struct peer *p, bool will)
{
    bool is_placed = p->is_ready, is_spare = p->rank.wish >= 0 && (uint32_t) p->rank.wish >= r->cfg.max_nodes;

    if (!is_spare)
        count(&r->n_placed, &is_placed, will);
    count(&r->n_ready, &p->is_ready, will);
}

static void set_awaited(struct rdzv *r, struct peer *p, bool will)
{
    count(&r->n_awaited, &p->is_awaited, will);
}

static void set_unreported(struct rdzv *r, struct peer *p, bool will)
{
    count(&r->n_unreported, &p->is_unreported, will);
}

static void clear(struct rdzv *r, struct peer *p)
{
    set_ready(r, p, false);
    set_awaited(r, p, false);
    set_unreported(r, p, false);
}

static void drop(struct rdzv *r, struct peer *p)
{
    clear(r, p);
    if (r->host == p)
        r->host = NULL;
    peers_remove(&r->peers, p);
    changed(r);
}

/* ---- views */

static bool is_first_forming(const struct rdzv *r)
{
    return r->active_round == 0;
}

static uint64_t gather_until(const struct rdzv *r)
{
    bool has_too_few = r->n_ready + r->n_awaited < r->cfg.min_nodes;

    if (!is_first_forming(r))
        return r->gather_since + (has_too_few ? r->cfg.replace_timeout : r->cfg.join_timeout);
    return r->last_call_at != never ? r->last_call_at : r->gather_since + r->cfg.join_timeout;
}

/* Who has declined is not waited for. */
static uint32_t n_expected(const struct rdzv *r)
{
    return r->cfg.expected > r->declined.n + r->cfg.min_nodes ? r->cfg.expected - r->declined.n : r->cfg.min_nodes;
}

static uint32_t n_wanted(const struct rdzv *r)
{
    return is_first_forming(r) ? n_expected(r) : r->n_members;
}

static uint32_t ms_left(uint64_t at, uint64_t now)
{
    if (at <= now)
        return 0;
    return at - now < UINT32_MAX ? (uint32_t) (at - now) : UINT32_MAX;
}

static void tell_ranks(const struct rdzv *r, const struct peer *p, struct rdzv_view *v)
{
    v->group_world = r->n_members;
    v->world = (uint32_t) r->sizes.world;
    v->hosts_store = p == r->host;
    if (r->host) {
        memcpy(v->master, r->host->addr, sizeof(v->master));
        v->port = r->host->port;
    }
    if (!p->is_member)
        return;
    v->group_rank = p->rank.group_rank;
    v->base_rank = p->rank.base_rank;
    v->base_role_rank = p->rank.base_role_rank;
    v->role_world = (uint32_t) r->sizes.role[p->rank.role];
}

static void tell(struct rdzv *r, struct peer *p, uint64_t now)
{
    struct rdzv_view v = {
        .incarnation = p->incarnation,
        .seq = ++r->seq,
        .clock = now,
        .echo = p->echo,
        .round = r->round,
        .phase = r->phase,
        .group_rank = RDZV_NO_RANK,
        .restarts = budget_used(r->budget),
        .n_ready = r->n_ready,
        .n_wanted = n_wanted(r),
        .n_min = r->cfg.min_nodes,
        .wait_ms = UINT32_MAX,
        .notice_at = r->notice_at,
        .has_cause = r->has_why,
    };

    if (r->phase == RDZV_SWITCH || r->phase == RDZV_ACTIVE)
        tell_ranks(r, p, &v);
    if (r->phase == RDZV_GATHER) {
        v.wait_ms = ms_left(gather_until(r), now);
        rdzv_list_nodes(r, now, is_first_forming(r), n_wanted(r));
        memcpy(v.have, r->have, sizeof(v.have));
        memcpy(v.missing, r->missing, sizeof(v.missing));
    }
    if (r->has_why)
        v.cause = r->why;
    r->ops->view(r->ctx, p->link, &v);
}

static void tell_all(struct rdzv *r, uint64_t now)
{
    struct peer *p;

    for (p = peers_next(&r->peers, NULL); p; p = peers_next(&r->peers, p))
        tell(r, p, now);
    r->has_told_all = true;
}

/* ---- from phase to phase */

static void end(struct rdzv *r, uint64_t now, enum rdzv_cause_kind kind)
{
    r->phase = RDZV_ENDED;
    r->is_judged = true; /* whatever is told from now on */
    r->switch_at = r->scale_at = r->finish_at = never;
    r->why.kind = kind;
    r->has_why = true;
    changed_vitally(r);
    tell_all(r, now);
}

static void set_why(struct rdzv *r, uint64_t now, uint32_t code, const char *host)
{
    r->why = (struct rdzv_cause) { .round = r->active_round, .at = now, .rank = RDZV_NO_RANK, .code = code };
    memcpy(r->why.host, host, strnlen(host, sizeof(r->why.host) - 1));
    r->has_why = true;
}

static void enter_gather(struct rdzv *r, uint64_t now)
{
    bool         was_active = r->phase == RDZV_ACTIVE;
    struct peer *p;

    assert(was_active || r->phase == RDZV_SWITCH);
    r->phase = RDZV_GATHER;
    r->round++;
    r->gather_since = now;
    r->last_call_at = r->switch_at = r->scale_at = r->finish_at = never;
    r->listed_at = 0;
    r->host = NULL;
    for (p = peers_next(&r->peers, NULL); p; p = peers_next(&r->peers, p)) {
        bool is_here = !p->is_leaving && !p->is_stuck;

        set_ready(r, p, false);
        set_awaited(r, p, is_here && p->is_known_alive);
        set_unreported(r, p, was_active && p->is_member && is_here && !p->is_done);
        p->is_member = p->is_member && was_active;
        p->is_done = false;
    }
    changed_vitally(r);
    tell_all(r, now);
}

static void choose_members(struct rdzv *r, uint64_t now)
{
    uint32_t     n = 0, i;
    struct peer *p;

    for (p = peers_next(&r->peers, NULL); p; p = peers_next(&r->peers, p)) {
        set_awaited(r, p, false);
        set_unreported(r, p, false);
        p->is_member = false;
        if (p->is_ready)
            r->order[n++] = &p->rank;
    }
    assert(n == r->n_ready && n >= r->cfg.min_nodes);
    ranks_choose(r->order, n, r->cfg.max_nodes);
    r->n_members = n < r->cfg.max_nodes ? n : r->cfg.max_nodes;
    ranks_order(r->order, r->n_members, r->cfg.max_nodes, r->scratch);
    ranks_count(r->order, r->n_members, &r->sizes);
    for (i = 0; i < r->n_members; i++)
        CC_CONTAINER_OF(r->order[i], struct peer, rank)->is_member = true;
    r->host = CC_CONTAINER_OF(r->order[0], struct peer, rank);
    r->phase = RDZV_SWITCH;
    r->switch_at = now + r->cfg.switch_timeout;
    tell(r, r->host, now);
}

static void plan_scaling(struct rdzv *r, uint64_t now)
{
    if (r->n_ready > 0 && r->n_members < r->cfg.max_nodes && r->scale_at == never && !r->cfg.scales_on_restart_only)
        r->scale_at = now + r->cfg.scale_delay;
}

static void enter_active(struct rdzv *r, uint64_t now)
{
    struct peer *p;

    assert(r->phase == RDZV_SWITCH && r->host);
    r->phase = RDZV_ACTIVE;
    r->active_round = r->round;
    r->started_at = r->earliest = now;
    r->switch_at = never;
    r->n_done = r->n_gone = 0;
    r->is_judged = r->has_failure = r->has_loss = r->has_leaver = r->has_why = false;
    for (p = peers_next(&r->peers, NULL); p; p = peers_next(&r->peers, p)) {
        p->rank.previous = p->is_member ? (int32_t) p->rank.group_rank : RANKS_NONE;
        if (!p->is_member)
            continue;
        set_ready(r, p, false);
        memcpy(r->rank_host[p->rank.group_rank], p->host, sizeof(p->host));
    }
    plan_scaling(r, now); /* for those that came too late for this one */
    changed_vitally(r);
    tell_all(r, now);
}

/* What is left of the round has done its work: is the job well?  With enough of them, what a lost node did not finish is no
 * more missing than after a round without it. */
static bool finish_if_done(struct rdzv *r, uint64_t now)
{
    if (r->n_done == 0 || r->n_done + r->n_gone < r->n_members)
        return false;
    if (r->n_gone > 0 && r->n_done < r->cfg.min_nodes) {
        end(r, now, RDZV_CAUSE_LOST);
        return true;
    }
    set_why(r, now, 0, "");
    end(r, now, RDZV_CAUSE_NONE);
    return true;
}

/* ---- how a round ended */

/* A worker that fails when a node was last heard before is taken for a victim of its loss. */
static void blame(struct rdzv *r)
{
    r->has_why = true;
    r->why = r->has_loss && (!r->has_failure || r->loss.at <= r->failure.at) ? r->loss : r->failure;
}

static uint64_t within_round(const struct rdzv *r, uint64_t now, uint64_t at)
{
    return at < r->earliest ? r->earliest : at > now ? now : at;
}

/* A node knows more of its failure when all of its workers are gone: what it said last counts. */
static void note_failure(struct rdzv *r, uint64_t now, const struct peer *p, const struct rdzv_cause *c)
{
    uint64_t at = within_round(r, now, c->at);
    bool     is_news = r->has_failure && r->failed == p->incarnation;

    if (r->is_judged || c->round != r->active_round || (r->has_failure && !is_news && r->failure.at <= at))
        return;
    if (is_news && r->failure.at < at)
        at = r->failure.at;
    r->failed = p->incarnation;
    r->failure = *c;
    r->failure.at = at;
    r->failure.kind = RDZV_CAUSE_WORKER;
    r->has_failure = true;
    blame(r);
}

static void note_loss(struct rdzv *r, const struct peer *p)
{
    if (r->is_judged || (r->has_loss && r->loss.at <= p->seen))
        return;
    r->loss = (struct rdzv_cause) { RDZV_CAUSE_LOST, r->active_round, p->seen, RDZV_NO_RANK, RDZV_EXIT_AGAIN, 0, false, "", "" };
    memcpy(r->loss.host, p->host, sizeof(r->loss.host));
    (void) snprintf(r->loss.text, sizeof(r->loss.text), "node %d was lost", p->rank.previous);
    r->has_loss = true;
    blame(r);
}

static void judge_failure(struct rdzv *r, uint64_t now)
{
    uint64_t wait = 0;

    switch (budget_ask(r->budget, now, r->gather_since - r->started_at, &r->why, &wait)) {
    case BUDGET_RESTART:
        r->not_before = now + wait;
        break;
    case BUDGET_FINAL:
    case BUDGET_SPENT:
        end(r, now, RDZV_CAUSE_WORKER);
        break;
    case BUDGET_SAME:
        end(r, now, RDZV_CAUSE_SAME);
        break;
    }
}

static uint64_t settled_at(const struct rdzv *r)
{
    return (r->gather_since > r->amnesty ? r->gather_since : r->amnesty) + r->cfg.settle_timeout;
}

/* When all have told, or have had time to: what ended the round, and who pays for it. */
static void judge(struct rdzv *r, uint64_t now)
{
    size_t n = strnlen(r->why.text, 90);

    if (r->is_judged || (r->n_unreported > 0 && now < settled_at(r)))
        return;
    r->is_judged = true;
    changed(r);
    if (r->has_loss && r->why.kind == RDZV_CAUSE_LOST) {
        if (r->n_rejoins++ >= r->cfg.max_rejoins) {
            (void) snprintf(r->why.text + n, sizeof(r->why.text) - n, "; --max-rejoins %u is spent", r->cfg.max_rejoins);
            end(r, now, RDZV_CAUSE_LOST);
        }
    } else if (r->has_failure) {
        judge_failure(r, now);
    }
}

static void give_up(struct rdzv *r, uint64_t now)
{
    size_t n = strnlen(r->why.text, 90);

    if (r->has_why) {
        (void) snprintf(r->why.text + n, sizeof(r->why.text) - n, "; %u of at least %u nodes are left", r->n_ready,
                        r->cfg.min_nodes);
    } else {
        set_why(r, now, RDZV_EXIT_AGAIN, "");
        r->why.kind = RDZV_CAUSE_TIMEOUT;
        (void) snprintf(r->why.text, sizeof(r->why.text), "%u of at least %u nodes came in %llu s: compare --rdzv-endpoint (or "
                        "--master-addr) on all nodes, and ask if a firewall closes its port",
                        r->n_ready, r->cfg.min_nodes, (unsigned long long) (now - r->gather_since) / 1000);
    }
    end(r, now, r->why.kind == RDZV_CAUSE_WORKER ? RDZV_CAUSE_LOST : r->why.kind);
}

static void end_for_declined(struct rdzv *r, uint64_t now)
{
    r->why = r->declined.first;
    end(r, now, RDZV_CAUSE_LOST);
}

static void check_first_gather(struct rdzv *r, uint64_t now)
{
    bool is_enough = r->n_ready >= r->cfg.min_nodes;

    if (!is_enough)
        r->last_call_at = never;
    else if (r->last_call_at == never)
        r->last_call_at = now + r->cfg.last_call;
    if (is_enough && (r->n_placed >= r->cfg.max_nodes || r->n_ready >= n_expected(r) || now >= r->last_call_at))
        choose_members(r, now);
    else if (rdzv_is_hopeless(r))
        end_for_declined(r, now);
    else if (now >= gather_until(r))
        give_up(r, now);
}

static void check_gather(struct rdzv *r, uint64_t now)
{
    bool is_over;

    judge(r, now);
    if (r->phase != RDZV_GATHER || !r->is_judged)
        return;
    if (is_first_forming(r)) {
        check_first_gather(r, now);
        return;
    }
    if (r->n_ready + r->n_awaited == 0 && r->has_leaver) {
        r->why = r->leave;
        end(r, now, RDZV_CAUSE_STOPPED);
        return;
    }
    is_over = now >= gather_until(r);
    if (r->n_ready >= r->cfg.min_nodes && (r->n_awaited == 0 || is_over)) {
        if (now >= r->not_before && !r->is_handing_over)
            choose_members(r, now);
    } else if (is_over) {
        give_up(r, now);
    }
}

/* ---- nodes that go */

/* The part of a member that has not ended well is over. */
static void member_gone(struct rdzv *r, uint64_t now)
{
    if (r->phase == RDZV_ACTIVE) {
        r->n_gone++;
        if (finish_if_done(r, now))
            return;
    }
    enter_gather(r, now);
    check_gather(r, now);
}

static bool is_in_round(const struct rdzv *r, const struct peer *p)
{
    bool is_on = r->phase == RDZV_SWITCH || (r->phase == RDZV_ACTIVE && !p->is_done);

    return is_on && p->is_member && !p->is_leaving && !p->is_stuck;
}

static void lose(struct rdzv *r, struct peer *p, uint64_t now)
{
    bool was_in_round = is_in_round(r, p);

    if (p->is_unreported || (was_in_round && r->phase == RDZV_ACTIVE))
        note_loss(r, p);
    drop(r, p);
    if (was_in_round)
        member_gone(r, now);
    else if (r->phase == RDZV_GATHER)
        check_gather(r, now);
}

/* Who works on, or would have, will not: worth a word when nothing else ended the round. */
static void note_leaver(struct rdzv *r, uint64_t now, const struct peer *p, enum rdzv_node_phase phase)
{
    struct rdzv_cause c = {
        .kind = RDZV_CAUSE_STOPPED, .round = r->active_round, .at = now, .rank = RDZV_NO_RANK, .code = RDZV_EXIT_AGAIN,
    };

    memcpy(c.host, p->host, sizeof(c.host));
    (void) snprintf(c.text, sizeof(c.text), "the node was stopped");
    if (phase == RDZV_NODE_STUCK) {
        c.kind = RDZV_CAUSE_LOST;
        (void) snprintf(c.text, sizeof(c.text), "a process outlived SIGKILL");
    } else if (!r->has_leaver) {
        r->has_leaver = true;
        r->leave = c;
    }
    if (!r->has_why)
        r->why = c;
    r->has_why = true;
}

/* The node that we live on goes, and we with it: better that all hear why than that they find out. */
static bool end_without_host(struct rdzv *r, const struct peer *p, uint64_t now)
{
    if (r->phase == RDZV_ENDED || p->incarnation != r->cfg.own)
        return false;
    r->is_handing_over = r->cfg.has_successor;
    if (r->is_handing_over)
        return false;
    set_why(r, now, RDZV_EXIT_AGAIN, p->host);
    (void) snprintf(r->why.text, sizeof(r->why.text), "the node that hosts the job was stopped");
    end(r, now, RDZV_CAUSE_STOPPED);
    return true;
}

/* It says itself that it takes no further part. */
static void retire(struct rdzv *r, struct peer *p, uint64_t now, const struct rdzv_hello *h)
{
    bool was_in_round = is_in_round(r, p), is_gone = h->phase == RDZV_NODE_GONE, has_ended;

    if (h->has_cause)
        note_failure(r, now, p, &h->cause);
    if (was_in_round || p->is_unreported || p->is_awaited)
        note_leaver(r, now, p, h->phase);
    p->is_stuck = p->is_stuck || h->phase == RDZV_NODE_STUCK;
    p->is_leaving = !p->is_stuck;
    changed(r);
    clear(r, p);
    if (p->is_leaving && r->phase == RDZV_GATHER)
        judge(r, now); /* a failure that was the end comes before a stop */
    has_ended = p->is_leaving && end_without_host(r, p, now);
    if (is_gone)
        drop(r, p);
    if (was_in_round && !has_ended)
        member_gone(r, now);
    else if (r->phase == RDZV_GATHER)
        check_gather(r, now);
}

/* ---- what a node says */

static void hello_gather(struct rdzv *r, struct peer *p, uint64_t now, const struct rdzv_hello *h)
{
    if (h->has_cause)
        note_failure(r, now, p, &h->cause);
    if (h->phase == RDZV_NODE_READY && h->round == r->round) {
        set_unreported(r, p, false);
        set_awaited(r, p, false);
        set_ready(r, p, true);
    }
    check_gather(r, now);
}

static void note_first_done(struct rdzv *r, uint64_t now, const struct rdzv_hello *h)
{
    uint64_t at = within_round(r, now, h->first_done) + r->cfg.finish_timeout;

    if (r->cfg.finish_timeout > 0 && h->first_done != 0 && h->term == r->seq >> RDZV_TERM_SHIFT && at < r->finish_at)
        r->finish_at = at;
}

/* The first worker was done long ago, and others are not. */
static void end_unfinished(struct rdzv *r, uint64_t now)
{
    const struct peer *p = peers_next(&r->peers, NULL);
    char               where[48] = "";
    bool               is_whole = r->cfg.finish_timeout % 1000 == 0;

    while (p && (!p->is_member || p->is_done))
        p = peers_next(&r->peers, p);
    if (r->n_members > 1)
        (void) snprintf(where, sizeof(where), " on %u of %u nodes", r->n_members - r->n_done - r->n_gone, r->n_members);
    set_why(r, now, RDZV_EXIT_UNFINISHED, p ? p->host : "");
    (void) snprintf(r->why.text, sizeof(r->why.text), "workers%s still run %llu %s after the first was done (--finish-timeout)",
                    where, (unsigned long long) r->cfg.finish_timeout / (is_whole ? 1000 : 1), is_whole ? "s" : "ms");
    end(r, now, RDZV_CAUSE_UNFINISHED);
}

static void hello_member(struct rdzv *r, struct peer *p, uint64_t now, const struct rdzv_hello *h)
{
    if (h->round != r->round)
        return;
    if (h->phase != RDZV_NODE_READY) /* what it says of a worker then is of an older round */
        note_first_done(r, now, h);
    if (h->phase == RDZV_NODE_FAILED) {
        if (h->has_cause)
            note_failure(r, now, p, &h->cause);
        enter_gather(r, now);
        hello_gather(r, p, now, h);
    } else if (h->phase == RDZV_NODE_DONE && !p->is_done) {
        p->is_done = true;
        r->n_done++;
        (void) finish_if_done(r, now);
    }
}

/* In SWITCH and ACTIVE: somebody waits for the next round. */
static void hello_waiting(struct rdzv *r, struct peer *p, uint64_t now, const struct rdzv_hello *h)
{
    if (h->phase != RDZV_NODE_READY || h->round != r->round)
        return;
    set_ready(r, p, true);
    if (r->phase == RDZV_ACTIVE)
        plan_scaling(r, now);
}

static void hear(struct rdzv *r, struct peer *p, uint64_t now, const struct rdzv_hello *h)
{
    bool is_retired = h->phase == RDZV_NODE_LEAVING || h->phase == RDZV_NODE_STUCK || h->phase == RDZV_NODE_GONE;

    if (h->round >= p->first_round)
        p->is_known_alive = true;
    if (is_retired || p->is_leaving || p->is_stuck) {
        if (is_retired)
            retire(r, p, now, h);
        return;
    }
    switch (r->phase) {
    case RDZV_GATHER:
        hello_gather(r, p, now, h);
        break;
    case RDZV_SWITCH:
        if (!p->is_member)
            hello_waiting(r, p, now, h);
        else if (p == r->host && h->store_round == r->round)
            enter_active(r, now);
        break;
    case RDZV_ACTIVE:
        if (p->is_member)
            hello_member(r, p, now, h);
        else
            hello_waiting(r, p, now, h);
        break;
    case RDZV_ENDED:
    case RDZV_N_PHASES:
        break;
    }
}

static void refuse(struct rdzv *r, const struct rdzv_event *ev, struct rdzv_refused *why)
{
    why->incarnation = ev->hello->incarnation;
    if (why->sentence[0]) /* else it is to ask again */
        r->ops->refuse(r->ctx, ev->link, why);
}

/* NULL: refused, or to be decided when it says hello again. */
static struct peer *admit_newcomer(struct rdzv *r, const struct rdzv_event *ev)
{
    const struct rdzv_about *about = &ev->hello->about;
    struct rdzv_refused      why = { .why = RDZV_REFUSED_ENDED };
    struct peer             *holder = peers_holder(&r->peers, about->wish), *p;

    if (r->phase == RDZV_ENDED) {
        (void) snprintf(why.sentence, sizeof(why.sentence), "the job has ended: %s",
                        r->why.kind == RDZV_CAUSE_NONE ? "all of its workers are done" : r->why.text);
        refuse(r, ev, &why);
        return NULL;
    }
    if (admit_check(&(struct admit_cfg) { &r->cfg.plan, ev->now, r->cfg.dead_after }, &r->peers, about, &why) < 0) {
        refuse(r, ev, &why);
        return NULL;
    }
    if (holder && holder->list == PEER_DOWN) {
        lose(r, holder, ev->now);
        holder = NULL;
    }
    if (holder && admit_rival(holder, ev->now, r->cfg.dead_after, &why) != 0) {
        refuse(r, ev, &why);
        return NULL;
    }
    p = peers_add(&r->peers, ev->now, ev->hello->incarnation, about);
    rdzv_catch_up(r, ev->hello);
    p->first_round = r->round;
    rdzv_withdraw_declined(r, about);
    changed(r);
    return p;
}

/* A node that cannot do its part (its program is missing) says so instead of taking it.  Before the first round those that
 * are still to come may be too few without it; later ones it does not touch. */
static void decline(struct rdzv *r, const struct rdzv_event *ev)
{
    const struct rdzv_hello *h = ev->hello;
    struct rdzv_refused      no = { .why = RDZV_REFUSED_N };

    if (!is_first_forming(r))
        return;
    if (admit_check(&(struct admit_cfg) { &r->cfg.plan, ev->now, r->cfg.dead_after }, &r->peers, &h->about, &no) < 0) {
        refuse(r, ev, &no);
        return;
    }
    if (rdzv_note_declined(r, ev->now, h))
        changed_vitally(r); /* it says so once, and is not there to say it again */
    if (r->phase == RDZV_GATHER && h->incarnation == r->cfg.own && !r->cfg.has_successor)
        end_for_declined(r, ev->now);
    else if (r->phase == RDZV_GATHER)
        check_gather(r, ev->now);
}

static void hello(struct rdzv *r, const struct rdzv_event *ev)
{
    const struct rdzv_hello *h = ev->hello;
    struct peer             *p = peers_find(&r->peers, h->incarnation);

    if (!p && h->phase == RDZV_NODE_GONE) {
        if (h->has_about && h->has_cause)
            decline(r, ev);
        return;
    }
    if (!p && rdzv_tell_latecomer(r, ev))
        return;
    if (!p && !h->has_about) {
        struct rdzv_view v = { .incarnation = h->incarnation, .seq = ++r->seq, .clock = ev->now, .echo = h->sent_at };

        v.is_unknown = true;
        r->ops->view(r->ctx, ev->link, &v);
        return;
    }
    if (!p)
        p = admit_newcomer(r, ev);
    if (!p || h->seq <= p->seq)
        return; /* late, or doubled */
    p->seq = h->seq;
    p->link = ev->link;
    p->echo = h->sent_at;
    peers_heard(&r->peers, p, ev->now);
    r->has_told_all = false;
    if (h->notice_ms > 0 && r->notice_at == 0) {
        r->notice_at = ev->now + h->notice_ms;
        changed(r);
        tell_all(r, ev->now);
    }
    /* When a failure was is told by the clock of the coordinator before this one: the answer is this one's. */
    if (!h->has_cause || h->term == r->seq >> RDZV_TERM_SHIFT)
        hear(r, p, ev->now, h);
    if (!r->has_told_all && peers_find(&r->peers, h->incarnation) == p)
        tell(r, p, ev->now);
}

/* ---- time */

static uint64_t dead_at(const struct rdzv *r, const struct peer *p)
{
    return (p->seen > r->amnesty ? p->seen : r->amnesty) + r->cfg.dead_after;
}

static void lose_the_silent(struct rdzv *r, uint64_t now)
{
    struct peer *p;

    while ((p = peers_first(&r->peers, PEER_DOWN)) && now >= p->down_at + r->cfg.reset_grace)
        lose(r, p, now);
    while ((p = peers_first(&r->peers, PEER_HEARD)) && now >= dead_at(r, p))
        lose(r, p, now);
}

static void tick(struct rdzv *r, uint64_t now)
{
    lose_the_silent(r, now);
    if (r->phase == RDZV_GATHER)
        check_gather(r, now);
    if (r->phase == RDZV_SWITCH && now >= r->switch_at) {
        r->host->is_known_alive = false; /* it says hello, but hears nothing: not to be waited for */
        enter_gather(r, now);
    }
    if (r->phase == RDZV_ACTIVE && now >= r->finish_at)
        end_unfinished(r, now);
    if (r->phase == RDZV_ACTIVE && now >= r->scale_at) {
        r->scale_at = never;
        if (r->n_ready > 0 && r->n_done == 0)
            enter_gather(r, now);
    }
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t gather_deadline(const struct rdzv *r)
{
    if (!r->is_judged)
        return settled_at(r);
    if (!is_first_forming(r) && r->n_ready >= r->cfg.min_nodes && (r->n_awaited == 0 || r->is_handing_over))
        return r->is_handing_over ? never : r->not_before; /* or it would have begun */
    return gather_until(r);
}

uint64_t rdzv_deadline(const struct rdzv *r)
{
    const struct peer *heard = peers_first(&r->peers, PEER_HEARD), *down = peers_first(&r->peers, PEER_DOWN);
    uint64_t           at = earlier(earlier(r->switch_at, r->scale_at), r->finish_at);

    if (heard)
        at = earlier(at, dead_at(r, heard));
    if (down)
        at = earlier(at, down->down_at + r->cfg.reset_grace);
    return r->phase == RDZV_GATHER ? earlier(at, gather_deadline(r)) : at;
}

/* This process was stopped or starved for so long, and what the nodes said meanwhile is still to be read. */
static void grant_amnesty(struct rdzv *r, uint64_t now, uint64_t late)
{
    uint64_t at = now + (late < r->cfg.dead_after ? late : r->cfg.dead_after) + 10 * LATE_MS;

    at = at > r->cfg.dead_after ? at - r->cfg.dead_after : 0;
    if (at > r->amnesty)
        r->amnesty = at;
}

void rdzv_event(struct rdzv *r, const struct rdzv_event *ev)
{
    uint64_t     due = rdzv_deadline(r);
    struct peer *p;

    if (ev->now > due && ev->now - due > LATE_MS)
        grant_amnesty(r, ev->now, ev->now - due);
    switch (ev->kind) {
    case RDZV_EV_HELLO:
        hello(r, ev);
        break;
    case RDZV_EV_BROKEN:
        p = peers_find(&r->peers, ev->incarnation);
        if (p && p->link == ev->link && p->list == PEER_HEARD)
            peers_broken(&r->peers, p, ev->now);
        break;
    case RDZV_EV_TICK:
        tick(r, ev->now);
        break;
    }
}

bool rdzv_knows(const struct rdzv *r, uint64_t incarnation)
{
    return peers_find(&r->peers, incarnation) != NULL;
}

void rdzv_status(const struct rdzv *r, struct rdzv_status *ret)
{
    *ret = (struct rdzv_status) {
        .phase = r->phase,
        .round = r->round,
        .n_known = r->peers.n,
        .n_members = r->n_members,
        .n_done = r->n_done,
        .n_ready = r->n_ready,
        .restarts = budget_used(r->budget),
        .rejoins = r->n_rejoins,
        .n_over = r->n_told + r->declined.n,
        .cause = r->why,
    };
}
