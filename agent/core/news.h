/* news.h - what an agent tells its user of the node and of the job, as sentences. Pure. */
#ifndef AGENT_CORE_NEWS_H
#define AGENT_CORE_NEWS_H

#include <stddef.h>
#include <stdint.h>

#include "agent/core/member.h"
#include "agent/core/node.h"
#include "agent/core/rdzv_msg.h"

enum { NEWS_MAX = 640 };

struct news_node {
    unsigned n_alive, nproc; /* workers here */
    uint64_t shutdown_timeout; /* ms */
};

/* Not of NODE_STUCK, which it takes a look at the machine to tell. */
const char *news_of_node(char buf[NEWS_MAX], enum node_news news, int arg, const struct news_node *n);

/* MEMBER_WAITING and MEMBER_SPARE. */
const char *news_of_job(char buf[NEWS_MAX], enum member_news news, const struct rdzv_view *v, unsigned max_nodes);

/* The next round; `restarts` are those of the one before. why: "" when it is not known. */
const char *news_of_restart(char buf[NEWS_MAX], const struct rdzv_view *next, const char *why, unsigned restarts,
                            unsigned max_restarts);

#endif
