#include "agent/readiness.h"

#include <stdio.h>
#include <string.h>

static const char *plural(unsigned n)
{
    return n == 1 ? "" : "s";
}

static bool is_being_stopped(const struct node *n)
{
    enum group_state s = n->group.state;

    return s == GROUP_STOPPING || s == GROUP_KILLING || s == GROUP_SWEEPING;
}

static void describe_workers(const struct node *n, const struct rdzv_view *v, char ret[CONTROL_TEXT_MAX])
{
    (void) snprintf(ret, CONTROL_TEXT_MAX, "round %u, %u worker%s here, %u on %u node%s", v->round, n->n_alive,
                    plural(n->n_alive), v->world, v->group_world, plural(v->group_world));
}

static void describe_wait(const struct node *n, const struct rdzv_view *v, char ret[CONTROL_TEXT_MAX])
{
    if (n->policy.is_stopped)
        (void) snprintf(ret, CONTROL_TEXT_MAX, "the job is being stopped");
    else if (is_being_stopped(n))
        (void) snprintf(ret, CONTROL_TEXT_MAX, "the workers of round %u are being stopped", v->round);
    else if (v->phase == RDZV_ENDED)
        (void) snprintf(ret, CONTROL_TEXT_MAX, "the job has ended");
    else if (v->phase == RDZV_ACTIVE && v->group_rank == RDZV_NO_RANK)
        (void) snprintf(ret, CONTROL_TEXT_MAX, "this node is a spare");
    else if (v->n_wanted > 1)
        (void) snprintf(ret, CONTROL_TEXT_MAX, "waiting for nodes: %u of %u are there", v->n_ready, v->n_wanted);
    else
        (void) snprintf(ret, CONTROL_TEXT_MAX, "no worker has been started yet");
}

bool readiness_answer(const struct party *p, const char *question, char ret_text[CONTROL_TEXT_MAX])
{
    const struct node      *n = party_node(p);
    const struct rdzv_view *v = party_view(p);
    bool                    is_live = strcmp(question, "live") == 0, is_at_work;

    if (!is_live && strcmp(question, "ready") != 0) {
        (void) snprintf(ret_text, CONTROL_TEXT_MAX, "this version of ccrun does not know '%.20s'", question);
        return false;
    }
    is_at_work = n->n_alive > 0 && !n->policy.is_stopped && !is_being_stopped(n);
    if (is_at_work)
        describe_workers(n, v, ret_text);
    else
        describe_wait(n, v, ret_text);
    return is_live || is_at_work;
}
