#include "agent/core/admit.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

__attribute__((format(printf, 3, 4))) static int refuse(struct rdzv_refused *ret, enum rdzv_refusal why, const char *fmt, ...)
{
    va_list ap;

    ret->why = why;
    va_start(ap, fmt);
    (void) vsnprintf(ret->sentence, sizeof(ret->sentence), fmt, ap);
    va_end(ap);
    return -1;
}

/* As it was typed: 2, or 2:4. */
static const char *range(uint32_t min, uint32_t max, char buf[24])
{
    (void) snprintf(buf, 24, min == max ? "%u" : "%u:%u", min, max);
    return buf;
}

static int check_plan(const struct rdzv_plan *a, const struct rdzv_about *about, struct rdzv_refused *ret)
{
    const struct rdzv_plan *b = &about->plan;
    char                    of_a[24], of_b[24];

    if (strcmp(a->version, b->version) != 0)
        return refuse(ret, RDZV_REFUSED_PLAN, "ccrun is %s in the job and %s on %s: use the same on all nodes", a->version,
                      b->version, about->host);
    if (a->min_nodes != b->min_nodes || a->max_nodes != b->max_nodes)
        return refuse(ret, RDZV_REFUSED_PLAN, "--nnodes is %s in the job and %s on %s: give all nodes the same",
                      range(a->min_nodes, a->max_nodes, of_a), range(b->min_nodes, b->max_nodes, of_b), about->host);
    if (strcmp(a->program, b->program) != 0)
        return refuse(ret, RDZV_REFUSED_PLAN, "the program is '%.100s' in the job and '%.100s' on %s: give all nodes the same",
                      a->program, b->program, about->host);
    if (a->arguments != b->arguments)
        return refuse(ret, RDZV_REFUSED_PLAN, "the arguments of '%.100s' differ: %016" PRIx64 " in the job and %016" PRIx64
                      " on %s; give all nodes the same", a->program, a->arguments, b->arguments, about->host);
    return 0;
}

/* The one that was silent for the longest time may be dead without our knowing: all of them, after a take-over. */
static bool has_doubtful(const struct peers *peers, uint64_t now, uint64_t dead_after)
{
    const struct peer *p = peers_first(peers, PEER_HEARD);

    return peers_first(peers, PEER_DOWN) || (p && (p->seq == 0 || now - p->seen > dead_after / 2));
}

int admit_check(const struct admit_cfg *cfg, const struct peers *peers, const struct rdzv_about *about,
                struct rdzv_refused *ret)
{
    const struct rdzv_plan *plan = cfg->plan;

    if (check_plan(plan, about, ret) < 0)
        return -1;
    if (about->nproc == 0 || about->nproc > ADMIT_NPROC_MAX)
        return refuse(ret, RDZV_REFUSED_PLAN, "%u workers on %s: not 1 to %d", about->nproc, about->host, ADMIT_NPROC_MAX);
    if (about->wish < RANKS_NONE || (about->wish >= 0 && (uint32_t) about->wish >= peers->cap))
        return refuse(ret, RDZV_REFUSED_RANK, "node rank %d of %s: not below %u", about->wish, about->host, peers->cap);
    if (peers->n >= peers->cap && !peers_holder(peers, about->wish)) {
        if (has_doubtful(peers, cfg->now, cfg->dead_after))
            return -1;
        return refuse(ret, RDZV_REFUSED_FULL, "the job has all of its %u nodes, spares included: no room for %s", peers->cap,
                      about->host);
    }
    if (peers_role(peers, about->role) == PEERS_NONE)
        return refuse(ret, RDZV_REFUSED_ROLE, "role '%s' of %s is one too many: at most %d", about->role, about->host,
                      RANKS_MAX_ROLES);
    return 0;
}

int admit_rival(struct peer *holder, uint64_t now, uint64_t dead_after, struct rdzv_refused *ret)
{
    bool is_first = holder->rival_since == 0 || now - holder->rival_since > dead_after;

    if (is_first)
        holder->rival_since = now;
    if (is_first || holder->seen <= holder->rival_since) {
        ret->sentence[0] = '\0';
        return -1;
    }
    holder->rival_since = 0;
    return refuse(ret, RDZV_REFUSED_RANK, "node rank %d is taken by %s (process %u), which is alive", holder->rank.wish,
                  holder->host, holder->pid);
}
