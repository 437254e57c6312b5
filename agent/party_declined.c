#include "agent/party_inside.h"
#include "store/base/clock.h"

/* Nobody has to wait for a node that will not come. */
void party_decline(struct party *p, const char *addr)
{
    const struct rdzv_cause *why = p->cfg.decline;
    uint64_t                 now = cc_monotonic_ms();
    struct proto_msg         m = { .type = PROTO_HELLO };

    party_set_about(p, addr);
    m.u.hello = (struct rdzv_hello) {
        .incarnation = p->incarnation,
        .seq = 1,
        .sent_at = now,
        .phase = RDZV_NODE_GONE,
        .has_about = true,
        .has_cause = true,
        .about = p->about,
        .cause = *why,
    };
    if (!p->coordinator) {
        uplink_send(p->uplink, &m);
        party_finish_with(p, why->code, "");
        return;
    }
    p->status = why->code;
    p->stage = STAGE_LINGERING;
    p->linger_until = now + p->cfg.exit_barrier;
    coordinator_hello(p->coordinator, now, &m.u.hello);
}

bool party_is_told(const struct party *p)
{
    struct rdzv_status s;

    if (!coordinator_is_saved(p->coordinator))
        return false; /* nor would a successor be */
    coordinator_status(p->coordinator, &s);
    return s.phase != RDZV_ENDED || (s.n_over >= p->cfg.rdzv.max_nodes && coordinator_links(p->coordinator) == 0);
}
