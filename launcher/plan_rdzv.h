/* plan_rdzv.h - the part of the plan that says how the nodes of the job meet; for plan.c only.  Pure. */
#ifndef LAUNCHER_PLAN_RDZV_H
#define LAUNCHER_PLAN_RDZV_H

#include "launcher/plan.h"

/* After min_nodes, max_nodes, n_spares and conf are known.  Fills the backend, the name of the job, the addresses, the node
 * rank and the timings.  -EINVAL: one sentence. */
int plan_rendezvous(struct plan_values *ret, struct options *o, const char *random_id, struct cc_err *err);

#endif
