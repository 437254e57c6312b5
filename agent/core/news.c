#include "agent/core/news.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>

#include "store/base/signame.h"

static const char *plural(unsigned n)
{
    return n == 1 ? "" : "s";
}

static void stopping(char buf[NEWS_MAX], int signum, const struct news_node *n)
{
    char name[CC_SIGNAME_MAX];

    if (signum == SIGPIPE)
        (void) snprintf(buf, NEWS_MAX, "nobody reads the output any more: stopping %u worker%s", n->n_alive,
                        plural(n->n_alive));
    else if (n->n_alive == 0)
        (void) snprintf(buf, NEWS_MAX, "%s: stopping; no worker runs here", cc_signal_name(signum, name));
    else
        (void) snprintf(buf, NEWS_MAX, "%s: stopping %u worker%s (%" PRIu64 " s until SIGKILL)",
                        cc_signal_name(signum, name), n->n_alive, plural(n->n_alive), n->shutdown_timeout / 1000);
}

const char *news_of_node(char buf[NEWS_MAX], enum node_news news, int arg, const struct news_node *n)
{
    buf[0] = '\0';
    switch (news) {
    case NODE_STOPPING:
        stopping(buf, arg, n);
        break;
    case NODE_KILLING:
        (void) snprintf(buf, NEWS_MAX, "second SIGINT: killing %u worker%s", n->n_alive, plural(n->n_alive));
        break;
    case NODE_PRESSED:
        (void) snprintf(buf, NEWS_MAX, "Ctrl-C twice within %d s kills the job", POLICY_TWICE_MS / 1000);
        break;
    case NODE_OUT_OF_TIME:
        (void) snprintf(buf, NEWS_MAX, "%u of %u workers have not stopped after %" PRIu64 " s: SIGKILL", n->n_alive,
                        n->nproc, n->shutdown_timeout / 1000);
        break;
    case NODE_STUCK:
        break;
    }
    return buf;
}

static void waiting(char buf[NEWS_MAX], const struct rdzv_view *v)
{
    char left[48] = "";

    if (v->wait_ms != UINT32_MAX)
        (void) snprintf(left, sizeof left, "; %u s left", v->wait_ms / 1000);
    (void) snprintf(buf, NEWS_MAX, "%u/%u nodes: have %s%s%s%s", v->n_ready, v->n_wanted, v->have[0] ? v->have : "none",
                    v->missing[0] ? "; missing node rank " : "", v->missing, left);
}

const char *news_of_job(char buf[NEWS_MAX], enum member_news news, const struct rdzv_view *v, unsigned max_nodes)
{
    const char *are = v->group_world == 1 ? " is" : "s are";

    if (news == MEMBER_WAITING)
        waiting(buf, v);
    else if (v->group_world < max_nodes) /* a round goes on without this node */
        (void) snprintf(buf, NEWS_MAX, "%u node%s at work; this one takes part from the next round on", v->group_world, are);
    else
        (void) snprintf(buf, NEWS_MAX, "%u node%s at work and this one is a spare: it waits to take over", v->group_world,
                        are);
    return buf;
}

const char *news_of_restart(char buf[NEWS_MAX], const struct rdzv_view *next, const char *why, unsigned restarts,
                            unsigned max_restarts)
{
    if (next->restarts > restarts)
        (void) snprintf(buf, NEWS_MAX, "%s; restarting all %u workers, restart %u of %u",
                        why[0] ? why : "another node failed", next->world, next->restarts, max_restarts);
    else
        (void) snprintf(buf, NEWS_MAX, "%s%sround %u starts with %u worker%s on %u node%s", why, why[0] ? "; " : "",
                        next->round, next->world, plural(next->world), next->group_world, plural(next->group_world));
    return buf;
}
