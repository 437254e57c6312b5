#include <string.h>

#include "agent/core/rdzv_inside.h"

/* Whoever runs the nodes may start one again and again that cannot work: with a rank it is the same one each time.  Ranks and
 * incarnations, which are random, do not meet. */
static uint64_t seat_of(const struct rdzv_about *about, uint64_t incarnation)
{
    return about->wish >= 0 ? UINT64_MAX - (uint32_t) about->wish : incarnation;
}

static uint32_t find(const struct rdzv_declined *d, uint64_t seat)
{
    uint32_t i;

    for (i = 0; i < d->n && d->seats[i] != seat; i++)
        ;
    return i;
}

bool rdzv_note_declined(struct rdzv *r, uint64_t now, const struct rdzv_hello *h)
{
    struct rdzv_declined *d = &r->declined;
    uint64_t              seat = seat_of(&h->about, h->incarnation);

    if (find(d, seat) < d->n || d->n == r->cfg.nodes_cap)
        return false;
    if (d->n == 0) {
        d->first = (struct rdzv_cause) { .kind = RDZV_CAUSE_LOST, .at = now, .rank = RDZV_NO_RANK, .code = h->cause.code };
        memcpy(d->first.host, h->about.host, sizeof(d->first.host));
        memcpy(d->first.text, h->cause.text, sizeof(d->first.text));
    }
    d->seats[d->n++] = seat;
    return true;
}

void rdzv_withdraw_declined(struct rdzv *r, const struct rdzv_about *about)
{
    struct rdzv_declined *d = &r->declined;
    uint32_t              at = about->wish >= 0 ? find(d, seat_of(about, 0)) : d->n;

    if (at < d->n)
        d->seats[at] = d->seats[--d->n];
}

bool rdzv_is_hopeless(const struct rdzv *r)
{
    uint32_t n_to_come = r->cfg.expected + r->cfg.n_spares;

    n_to_come = n_to_come > r->declined.n ? n_to_come - r->declined.n : 0;
    return r->declined.n > 0 && n_to_come < r->cfg.min_nodes && r->peers.n < r->cfg.min_nodes;
}

/* Who comes when the job has ended before it began is told why, and with which status: it has not missed anything. */
bool rdzv_tell_latecomer(struct rdzv *r, const struct rdzv_event *ev)
{
    struct rdzv_view v = {
        .incarnation = ev->hello->incarnation, .seq = ++r->seq, .clock = ev->now, .echo = ev->hello->sent_at,
        .round = r->round, .phase = r->phase, .group_rank = RDZV_NO_RANK, .has_cause = true, .cause = r->why,
    };

    if (r->phase != RDZV_ENDED || r->active_round != 0 || r->why.kind != RDZV_CAUSE_LOST)
        return false;
    r->n_told++;
    r->ops->view(r->ctx, ev->link, &v);
    return true;
}
