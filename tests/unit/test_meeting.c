#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/meeting.h"
#include "store/server.h"

enum { NODES = 3 };

/* A store and three nodes on one loop. */
static uv_loop_t            loop;
static struct store_server *server;

static struct node {
    struct meeting *m;
    char            got[256]; /* parts and messages, in the order in which they came */
    unsigned        n_done, n_lost;
    char            why[256];
} nodes[NODES];

static void on_lost(void *ctx, const char *sentence)
{
    struct node *n = ctx;

    n->n_lost++;
    (void) snprintf(n->why, sizeof n->why, "%s", sentence);
}

static void add(struct node *n, struct cc_bytes b, const char *behind)
{
    size_t at = strlen(n->got);

    (void) snprintf(n->got + at, sizeof n->got - at, "%.*s%s", (int) b.n, (const char *) b.p, behind);
}

static void on_received(void *ctx, struct cc_bytes message)
{
    struct node *n = ctx;

    add(n, message, ";");
    n->n_done++;
}

static void on_done(void *ctx, const struct cc_bytes *parts, uint32_t count)
{
    struct node *n = ctx;

    for (uint32_t i = 0; i < count; i++)
        add(n, parts[i], i + 1 < count ? "," : ";");
    n->n_done++;
}

static const struct meeting_cbs cbs = { on_lost, on_received };

static void open_node(uint32_t i, const char *host)
{
    struct meeting_cfg cfg = { .host = host, .port = store_server_port(server), .node = i, .n_nodes = NODES };
    struct cc_err      err = { 0 };

    cr_assert_eq(meeting_start(&nodes[i].m, &loop, &cfg, &cbs, &nodes[i], &err), 0, "%s", err.msg);
}

static void exchange(uint32_t i, const char *name, const char *part, const uint32_t *with, uint32_t n)
{
    struct cc_err err = { 0 };

    cr_assert_eq(meeting_exchange(nodes[i].m, cc_bytes_of(name), cc_bytes_of(part), with, n, on_done, &nodes[i], &err), 0, "%s",
                 err.msg);
}

static void send_to(uint32_t from, uint32_t to, const char *text)
{
    struct cc_err err = { 0 };

    cr_assert_eq(meeting_send(nodes[from].m, to, cc_bytes_of(text), &err), 0, "%s", err.msg);
}

static void until_done(uint32_t i, unsigned n)
{
    while (nodes[i].n_done < n && nodes[i].n_lost == 0)
        (void) uv_run(&loop, UV_RUN_ONCE);
    cr_assert_eq(nodes[i].n_done, n, "%s", nodes[i].why);
}

static void setup(void)
{
    struct store_server_cfg cfg = { 0 };
    struct cc_err           err = { 0 };

    cr_assert_eq(uv_loop_init(&loop), 0);
    cr_assert_eq(store_server_start(&server, &loop, &cfg, &err), 0, "%s", err.msg);
    for (uint32_t i = 0; i < NODES; i++)
        open_node(i, "127.0.0.1");
}

static void finish(void)
{
    for (uint32_t i = 0; i < NODES; i++)
        meeting_close(nodes[i].m);
    if (server)
        store_server_close(server, NULL, NULL);
    (void) uv_run(&loop, UV_RUN_DEFAULT);
    cr_assert_eq(uv_loop_close(&loop), 0);
}

TestSuite(meeting, .init = setup, .fini = finish, .timeout = 30);

Test(meeting, all_get_the_parts_of_all_in_the_order_of_nodes)
{
    exchange(2, "nodes", "c", NULL, 0);
    exchange(0, "nodes", "", NULL, 0); /* nothing to say is a part, too */
    exchange(1, "nodes", "b", NULL, 0);
    for (uint32_t i = 0; i < NODES; i++) {
        until_done(i, 1);
        cr_assert_str_eq(nodes[i].got, ",b,c;");
    }
}

Test(meeting, some_exchange_without_the_others)
{
    static const uint32_t two[] = { 0, 2 };

    exchange(0, "fence-1", "a", two, 2);
    exchange(2, "fence-1", "c", two, 2);
    until_done(0, 1);
    until_done(2, 1);
    cr_assert_str_eq(nodes[0].got, "a,c;");
    cr_assert_str_eq(nodes[2].got, "a,c;");
    cr_assert_eq(nodes[1].n_done, 0);
}

Test(meeting, exchanges_of_other_names_do_not_mix)
{
    exchange(0, "b-0", "a0", NULL, 0);
    exchange(0, "b-1", "a1", NULL, 0);
    for (uint32_t i = 1; i < NODES; i++) {
        exchange(i, "b-1", "x1", NULL, 0);
        exchange(i, "b-0", "x0", NULL, 0);
    }
    until_done(0, 2);
    cr_assert(strcmp(nodes[0].got, "a0,x0,x0;a1,x1,x1;") == 0 || strcmp(nodes[0].got, "a1,x1,x1;a0,x0,x0;") == 0, "%s",
              nodes[0].got);
}

Test(meeting, nobody_goes_on_before_the_last_has_come)
{
    exchange(0, "nodes", "a", NULL, 0);
    exchange(1, "nodes", "b", NULL, 0);
    exchange(1, "after", "", (uint32_t[]){ 1 }, 1); /* alone: comes through behind it, on the same connection */
    until_done(1, 1);
    cr_assert_str_eq(nodes[1].got, ";");
    cr_assert_eq(nodes[0].n_done, 0);
    exchange(2, "nodes", "c", NULL, 0);
    until_done(0, 1);
    until_done(1, 2);
    cr_assert_str_eq(nodes[1].got, ";a,b,c;");
}

Test(meeting, messages_come_in_the_order_in_which_they_were_sent)
{
    struct cc_err err = { 0 };

    for (uint32_t i = 0; i < NODES; i++)
        exchange(i, "nodes", "", NULL, 0);
    for (uint32_t i = 0; i < NODES; i++)
        until_done(i, 1);
    send_to(0, 1, "early"); /* before it listens */
    send_to(0, 1, "second");
    cr_assert_eq(meeting_listen(nodes[1].m, &err), 0);
    until_done(1, 3);
    send_to(2, 1, "third");
    until_done(1, 4);
    cr_assert_str_eq(nodes[1].got, ",,;early;second;third;");
    cr_assert_str_eq(nodes[0].got, ",,;");
}

Test(meeting, says_once_that_the_store_is_gone)
{
    exchange(0, "nodes", "a", NULL, 0);
    exchange(0, "more", "a", (uint32_t[]){ 0 }, 1);
    until_done(0, 1);
    store_server_close(server, NULL, NULL);
    server = NULL;
    while (nodes[0].n_lost == 0)
        (void) uv_run(&loop, UV_RUN_ONCE);
    (void) uv_run(&loop, UV_RUN_NOWAIT);
    cr_assert_eq(nodes[0].n_lost, 1);
    cr_assert_eq(nodes[0].n_done, 1);
    cr_assert_neq(nodes[0].why[0], '\0');
}

Test(meeting, a_host_without_an_address_is_named)
{
    meeting_close(nodes[1].m);
    open_node(1, "no-such-host.invalid");
    exchange(1, "nodes", "b", NULL, 0);
    while (nodes[1].n_lost == 0)
        (void) uv_run(&loop, UV_RUN_ONCE);
    cr_assert(strstr(nodes[1].why, "no-such-host.invalid, cannot be resolved"), "%s", nodes[1].why);
    cr_assert_eq(nodes[1].n_done, 0);
}

Test(meeting, may_be_closed_at_any_time)
{
    exchange(0, "nodes", "a", NULL, 0); /* not even resolved */
    meeting_close(nodes[0].m);
    nodes[0].m = NULL;
    exchange(1, "alone", "b", (uint32_t[]){ 1 }, 1);
    until_done(1, 1);
    exchange(1, "nodes", "b", NULL, 0); /* under way */
    meeting_close(nodes[1].m);
    nodes[1].m = NULL;
    (void) uv_run(&loop, UV_RUN_NOWAIT);
    cr_assert_eq(nodes[0].n_done + nodes[0].n_lost + nodes[1].n_lost, 0);
}
