#include <assert.h>
#include <errno.h>
#include <string.h>

#include "agent/core/fields.h"
#include "agent/core/rdzv_inside.h"

enum {
    VERSION = 2,
    HEAD_MAX = 512 + 5 * FIELDS_CAUSE_MAX + BUDGET_STATE_MAX + RANKS_MAX_ROLES * (2 + RDZV_ROLE_MAX),
    PEER_MAX = 60 + RDZV_HOST_MAX + RDZV_ADDR_MAX,
    SEAT = 8,
};

enum { /* of a peer */
    IS_MEMBER = 1,
    IS_UNREPORTED = 2,
    IS_DONE = 4,
    IS_LEAVING = 8,
    IS_STUCK = 16,
};

/* What is in a state beside the peers, in its own clock. */
struct head {
    uint32_t magic, version, min_nodes, max_nodes, max_restarts, n_peers;
    uint64_t arguments, window, saved_at, term;
    bool     has_role[RANKS_MAX_ROLES];
};

static const uint32_t magic = 0xcc5a7e00;

/* One description of a state serves both ways, as in proto.c. */
static void head(struct fields *f, struct head *h)
{
    fields_u32(f, &h->magic);
    fields_u32(f, &h->version);
    fields_u32(f, &h->min_nodes);
    fields_u32(f, &h->max_nodes);
    fields_u32(f, &h->max_restarts);
    fields_u64(f, &h->arguments);
    fields_u64(f, &h->window);
    fields_u64(f, &h->saved_at);
    fields_u64(f, &h->term);
    fields_u32(f, &h->n_peers);
}

static void optional_cause(struct fields *f, bool *has, struct rdzv_cause *c)
{
    fields_flag(f, has);
    if (*has)
        fields_cause(f, c);
}

static void job(struct fields *f, struct rdzv *r)
{
    r->phase = (enum rdzv_phase) fields_number(f, 1, r->phase, RDZV_N_PHASES - 1);
    fields_u32(f, &r->round);
    fields_u32(f, &r->active_round);
    fields_u32(f, &r->n_members);
    fields_u32(f, &r->n_rejoins);
    fields_u64(f, &r->started_at);
    fields_u64(f, &r->gather_since);
    fields_u64(f, &r->not_before);
    fields_u64(f, &r->notice_at);
    fields_u64(f, &r->peers.n_arrived);
    fields_flag(f, &r->is_judged);
    optional_cause(f, &r->has_leaver, &r->leave);
    optional_cause(f, &r->has_failure, &r->failure);
    fields_u64(f, &r->failed);
    optional_cause(f, &r->has_loss, &r->loss);
    optional_cause(f, &r->has_why, &r->why);
}

/* The name of a role is needed before the nodes that have it. */
static void roles(struct fields *f, struct rdzv *r, struct head *h)
{
    unsigned i;

    for (i = 0; i < RANKS_MAX_ROLES; i++) {
        fields_flag(f, &h->has_role[i]);
        if (h->has_role[i])
            fields_text(f, r->peers.role[i], sizeof(r->peers.role[i]));
    }
}

/* seats: room for nodes_cap of them. */
static void declined(struct fields *f, struct rdzv_declined *d, uint32_t nodes_cap)
{
    uint32_t i;

    d->n = (uint32_t) fields_number(f, 4, d->n, nodes_cap);
    for (i = 0; i < d->n && !f->bad; i++)
        fields_u64(f, &d->seats[i]);
    if (d->n > 0)
        fields_cause(f, &d->first);
}

static uint32_t flags_of(const struct peer *p)
{
    return (p->is_member ? IS_MEMBER : 0u) | (p->is_unreported ? IS_UNREPORTED : 0u) | (p->is_done ? IS_DONE : 0u) |
           (p->is_leaving ? IS_LEAVING : 0u) | (p->is_stuck ? IS_STUCK : 0u);
}

static void peer(struct fields *f, struct peer *p, uint32_t *flags)
{
    fields_u64(f, &p->incarnation);
    fields_u32(f, &p->first_round);
    fields_u32(f, flags);
    fields_i32(f, &p->rank.wish);
    fields_i32(f, &p->rank.previous);
    fields_u64(f, &p->rank.arrival);
    fields_u64(f, &p->rank.group);
    fields_u32(f, &p->rank.nproc);
    p->rank.role = (uint32_t) fields_number(f, 1, p->rank.role, RANKS_MAX_ROLES - 1);
    fields_u32(f, &p->pid);
    fields_u16(f, &p->port);
    fields_text(f, p->host, sizeof(p->host));
    fields_text(f, p->addr, sizeof(p->addr));
}

size_t rdzv_save_max(const struct rdzv_cfg *cfg)
{
    return HEAD_MAX + (size_t) cfg->nodes_cap * (PEER_MAX + SEAT);
}

size_t rdzv_save(const struct rdzv *r, uint64_t now, uint8_t *ret)
{
    struct rdzv        copy = *r; /* nothing is written to it when encoding, but for what is written back as it was */
    struct fields      f = { .out = ret, .size = rdzv_save_max(&r->cfg) };
    const struct peer *p;
    struct head        h = {
        .magic = magic,
        .version = VERSION,
        .min_nodes = r->cfg.plan.min_nodes,
        .max_nodes = r->cfg.plan.max_nodes,
        .max_restarts = r->cfg.budget.max_restarts,
        .n_peers = r->peers.n,
        .arguments = r->cfg.plan.arguments,
        .window = r->cfg.budget.window,
        .saved_at = now,
        .term = r->seq >> RDZV_TERM_SHIFT,
    };
    unsigned i;

    for (i = 0; i < RANKS_MAX_ROLES; i++)
        h.has_role[i] = r->peers.role_uses[i] > 0;
    head(&f, &h);
    job(&f, &copy);
    budget_state(r->budget, &f, 0);
    roles(&f, &copy, &h);
    declined(&f, &copy.declined, r->cfg.nodes_cap);
    for (p = peers_next(&r->peers, NULL); p; p = peers_next(&r->peers, p)) {
        struct peer same = *p;
        uint32_t    flags = flags_of(p);

        peer(&f, &same, &flags);
    }
    return f.n;
}

/* ---- and back */

/* The same moment by our clock, which may be younger than that of the other. */
static uint64_t moved(uint64_t at, uint64_t saved_at, uint64_t now)
{
    uint64_t age = saved_at > at ? saved_at - at : 0;

    if (at == 0 || at > saved_at)
        return at == 0 ? 0 : now + (at - saved_at);
    return now > age ? now - age : 0;
}

static void move_times(struct rdzv *r, uint64_t saved_at, uint64_t now)
{
    r->started_at = moved(r->started_at, saved_at, now);
    r->gather_since = moved(r->gather_since, saved_at, now);
    r->not_before = moved(r->not_before, saved_at, now);
    r->notice_at = moved(r->notice_at, saved_at, now);
    r->failure.at = moved(r->failure.at, saved_at, now);
    r->loss.at = moved(r->loss.at, saved_at, now);
    r->leave.at = moved(r->leave.at, saved_at, now);
    r->why.at = moved(r->why.at, saved_at, now);
    r->declined.first.at = moved(r->declined.first.at, saved_at, now);
    /* How long nobody was there is not in these times, but in those of the failures that are told again (`earliest` is 0):
     * what came first stays first. */
    if (r->has_loss && r->why.kind == RDZV_CAUSE_LOST)
        r->loss.at = 0;
}

/* What the table of the nodes, and the ranks, take for granted. */
static const char *objection(struct rdzv *r, const struct peer *p, const struct head *h)
{
    int32_t at = p->rank.previous;

    if (!h->has_role[p->rank.role] || peers_find(&r->peers, p->incarnation) || p->rank.arrival >= r->peers.n_arrived)
        return "has a node twice, or one without a role";
    if (p->rank.wish < RANKS_NONE || p->rank.wish >= (int32_t) r->cfg.nodes_cap || peers_holder(&r->peers, p->rank.wish))
        return "has a node rank twice, or one that cannot be";
    if (at < RANKS_NONE || at >= (int32_t) r->cfg.max_nodes || (at >= 0 && r->scratch[at]))
        return "has a rank twice, or one that cannot be";
    if (p->rank.nproc == 0 || p->rank.nproc > UINT16_MAX)
        return "has a node without workers";
    return NULL;
}

static void load_peer(struct rdzv *r, struct fields *f, uint64_t now, const struct head *h, const char (*role)[RDZV_ROLE_MAX])
{
    struct peer  in = { 0 }, *p;
    struct rdzv_about about = { 0 };
    uint32_t     flags = 0;
    uint64_t     n_arrived = r->peers.n_arrived;

    peer(f, &in, &flags);
    if (!f->bad)
        f->bad = objection(r, &in, h);
    if (f->bad)
        return;
    about.nproc = in.rank.nproc;
    about.wish = in.rank.wish;
    about.group = in.rank.group;
    about.pid = in.pid;
    about.port = in.port;
    memcpy(about.host, in.host, sizeof(about.host));
    memcpy(about.addr, in.addr, sizeof(about.addr));
    memcpy(about.role, role[in.rank.role], sizeof(about.role));
    p = peers_add(&r->peers, now, in.incarnation, &about);
    r->peers.n_arrived = n_arrived;
    p->rank.arrival = in.rank.arrival;
    p->rank.previous = in.rank.previous;
    p->rank.group_rank = in.rank.previous >= 0 ? (uint32_t) in.rank.previous : RDZV_NO_RANK;
    p->first_round = in.first_round;
    p->is_member = (flags & IS_MEMBER) != 0;
    p->is_unreported = (flags & IS_UNREPORTED) != 0;
    p->is_done = (flags & IS_DONE) != 0;
    p->is_leaving = (flags & IS_LEAVING) != 0;
    p->is_stuck = (flags & IS_STUCK) != 0;
    if (in.rank.previous >= 0) {
        r->scratch[in.rank.previous] = &p->rank;
        memcpy(r->rank_host[in.rank.previous], p->host, sizeof(p->host));
    }
}

/* The failure that was the first until now: when it was by this one's clock, only its node can tell.  A verdict before that
 * would take one that came later, and is told by this clock, for the first. */
static bool has_failed_first(const struct rdzv *r, const struct peer *p)
{
    return r->has_failure && !r->is_judged && p->incarnation == r->failed;
}

static void begin_round(struct rdzv *r, uint64_t now)
{
    bool         was_active = r->phase == RDZV_ACTIVE, was_gathering = r->phase == RDZV_GATHER;
    struct peer *p;

    r->phase = RDZV_GATHER;
    r->round++;
    r->amnesty = now; /* nobody has had a chance to say anything */
    if (was_active) {
        r->why = (struct rdzv_cause) { RDZV_CAUSE_LOST, r->active_round, now, RDZV_NO_RANK, 1, 0, false, "",
                                       "the coordinator was lost" };
        r->has_why = true; /* until more is known: whether its node is lost too, and whether something had failed */
    }
    if (!was_gathering || r->active_round == 0 || r->is_judged)
        r->gather_since = now;
    for (p = peers_next(&r->peers, NULL); p; p = peers_next(&r->peers, p)) {
        bool is_here = !p->is_leaving && !p->is_stuck;

        p->is_known_alive = true;
        p->is_awaited = is_here;
        if (was_active)
            p->is_unreported = p->is_member && is_here && !p->is_done;
        p->is_member = p->is_member && (was_active || was_gathering);
        p->is_done = false;
        if (p->is_unreported)
            p->seen = 0; /* should it say nothing more: how long it had been gone is not known any more */
        else
            p->is_unreported = is_here && has_failed_first(r, p);
        r->n_awaited += p->is_awaited;
        r->n_unreported += p->is_unreported;
    }
}

int rdzv_load(struct rdzv *r, uint64_t now, const uint8_t *bytes, size_t n, struct cc_err *err)
{
    struct fields f = { .in = bytes, .size = n };
    struct head   h = { 0 };
    char          role[RANKS_MAX_ROLES][RDZV_ROLE_MAX];
    uint32_t      i;

    assert(r->peers.n == 0 && r->round == 1 && r->phase == RDZV_GATHER);
    head(&f, &h);
    if (f.bad || h.magic != magic || h.version != VERSION)
        return cc_fail(err, -EINVAL, "the saved state of the job cannot be read: it is of another version, or damaged");
    if (h.arguments != r->cfg.plan.arguments || h.min_nodes != r->cfg.plan.min_nodes || h.max_nodes != r->cfg.plan.max_nodes ||
        h.max_restarts != r->cfg.budget.max_restarts || h.window != r->cfg.budget.window)
        return cc_fail(err, -ESTALE, "the saved state is of a job with another program or other options");
    if (h.n_peers > r->cfg.nodes_cap)
        return cc_fail(err, -EINVAL, "the saved state of the job has %u nodes, at most %u can be", h.n_peers, r->cfg.nodes_cap);
    job(&f, r);
    budget_state(r->budget, &f, now - h.saved_at);
    roles(&f, r, &h);
    declined(&f, &r->declined, r->cfg.nodes_cap);
    memcpy(role, r->peers.role, sizeof(role));
    memset(r->scratch, 0, r->cfg.nodes_cap * sizeof(r->scratch[0]));
    for (i = 0; i < h.n_peers && !f.bad; i++)
        load_peer(r, &f, now, &h, (const char (*)[RDZV_ROLE_MAX]) role);
    if (!f.bad && (f.n < f.size || r->round == UINT32_MAX || r->n_members > r->cfg.max_nodes))
        f.bad = "has more in it than it can have";
    if (f.bad)
        return cc_fail(err, -EINVAL, "the saved state of the job is damaged: it %s", f.bad);
    move_times(r, h.saved_at, now);
    r->seq = (h.term + 1) << RDZV_TERM_SHIFT;
    if (r->phase != RDZV_ENDED)
        begin_round(r, now);
    r->vital = ++r->n_changes;
    return 0;
}

uint64_t rdzv_changes(const struct rdzv *r, uint64_t *ret_vital)
{
    *ret_vital = r->vital;
    return r->n_changes;
}

void rdzv_catch_up(struct rdzv *r, const struct rdzv_hello *h)
{
    bool         is_real = h->round > 0 && h->round < UINT32_MAX / 2; /* there is room above it for all that may come */
    uint32_t     next = is_real && h->phase != RDZV_NODE_READY ? h->round + 1 : h->round;
    struct peer *p;

    if (!is_real || r->phase != RDZV_GATHER || r->active_round != 0 || next <= r->round)
        return;
    r->round = next;
    r->n_ready = r->n_placed = 0;
    for (p = peers_next(&r->peers, NULL); p; p = peers_next(&r->peers, p))
        p->is_ready = false;
    r->vital = ++r->n_changes;
}
