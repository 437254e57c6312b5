#include <criterion/criterion.h>
#include <signal.h>
#include <string.h>

#include "agent/core/news.h"

static char buf[NEWS_MAX];

Test(news, a_stop_says_how_many_it_is_for)
{
    struct news_node n = { .n_alive = 3, .nproc = 4, .shutdown_timeout = 30000 };

    cr_expect_str_eq(news_of_node(buf, NODE_STOPPING, SIGTERM, &n), "SIGTERM: stopping 3 workers (30 s until SIGKILL)");
    cr_expect_str_eq(news_of_node(buf, NODE_OUT_OF_TIME, 0, &n), "3 of 4 workers have not stopped after 30 s: SIGKILL");
    n.n_alive = 1;
    cr_expect_str_eq(news_of_node(buf, NODE_STOPPING, SIGPIPE, &n),
                     "nobody reads the output any more: stopping 1 worker");
    cr_expect_str_eq(news_of_node(buf, NODE_KILLING, 0, &n), "second SIGINT: killing 1 worker");
    n.n_alive = 0;
    cr_expect_str_eq(news_of_node(buf, NODE_STOPPING, SIGINT, &n), "SIGINT: stopping; no worker runs here");
}

Test(news, who_waits_says_for_whom_and_how_long)
{
    struct rdzv_view v = { .n_ready = 1, .n_wanted = 3, .wait_ms = 61500, .have = "h1", .missing = "1, 2" };

    cr_expect_str_eq(news_of_job(buf, MEMBER_WAITING, &v, 3), "1/3 nodes: have h1; missing node rank 1, 2; 61 s left");
    v = (struct rdzv_view) { .n_wanted = 2, .wait_ms = UINT32_MAX };
    cr_expect_str_eq(news_of_job(buf, MEMBER_WAITING, &v, 3), "0/2 nodes: have none");
}

Test(news, who_is_not_in_a_round_says_why)
{
    struct rdzv_view v = { .group_world = 1 };

    cr_expect_str_eq(news_of_job(buf, MEMBER_SPARE, &v, 2), "1 node is at work; this one takes part from the next round on");
    v.group_world = 2;
    cr_expect_str_eq(news_of_job(buf, MEMBER_SPARE, &v, 2),
                     "2 nodes are at work and this one is a spare: it waits to take over");
}

Test(news, a_restart_is_not_another_round)
{
    struct rdzv_view v = { .round = 3, .world = 8, .group_world = 2, .restarts = 1 };

    cr_expect_str_eq(news_of_restart(buf, &v, "rank 1 failed", 0, 2),
                     "rank 1 failed; restarting all 8 workers, restart 1 of 2");
    cr_expect_str_eq(news_of_restart(buf, &v, "", 0, 2), "another node failed; restarting all 8 workers, restart 1 of 2");
    cr_expect_str_eq(news_of_restart(buf, &v, "", 1, 2), "round 3 starts with 8 workers on 2 nodes");
    cr_expect_str_eq(news_of_restart(buf, &v, "node 2 was lost", 1, 2),
                     "node 2 was lost; round 3 starts with 8 workers on 2 nodes");
}

Test(news, texts_have_room)
{
    struct rdzv_view v = { .n_ready = UINT32_MAX, .n_wanted = UINT32_MAX, .wait_ms = UINT32_MAX - 1 };

    memset(v.have, 'h', sizeof v.have - 1);
    memset(v.missing, 'm', sizeof v.missing - 1);
    cr_expect_lt(strlen(news_of_job(buf, MEMBER_WAITING, &v, 3)), NEWS_MAX - 1);
}
