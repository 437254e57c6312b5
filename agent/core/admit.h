/* admit.h - may a node take part in the job?  If not, a sentence that names both values or the node in its way.
 *
 * Pure.
 */
#ifndef AGENT_CORE_ADMIT_H
#define AGENT_CORE_ADMIT_H

#include "agent/core/peers.h"

enum { ADMIT_NPROC_MAX = 65535 };

struct admit_cfg {
    const struct rdzv_plan *plan;
    uint64_t                now, dead_after;
};

/* 0, or -1: refused when ret->sentence is filled, and all of *ret is but for the incarnation; else to be asked again, since
 * there is no room, and may be some when those are lost that are not heard. */
int admit_check(const struct admit_cfg *cfg, const struct peers *peers, const struct rdzv_about *about,
                struct rdzv_refused *ret);

/* Another agent claims the node rank of `holder`, which may be dead without our knowing.  Only a word of it, spoken after
 * the claim, shows that both live.  -1: the claim is refused when ret->sentence is filled, else to be made again. */
int admit_rival(struct peer *holder, uint64_t now, uint64_t dead_after, struct rdzv_refused *ret);

#endif
