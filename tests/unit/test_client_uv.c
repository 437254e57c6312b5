#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>

#include "store/client_uv.h"
#include "store/server.h"

/* Server and clients on one loop. */
static uv_loop_t            loop;
static struct store_server *server;
static struct store_uv     *client;
static int                  state; /* what on_state() said last; 1: nothing yet */
static char                 why[256];
static unsigned             n_called, n_closed;
static int                  last_status;
static int64_t              last_number;
static char                 last_value[64];

static void on_state(void *ctx, int status, const char *sentence)
{
    cr_assert_eq(ctx, &state);
    state = status;
    (void) snprintf(why, sizeof why, "%s", sentence);
}

static void on_answer(void *ctx, int status, const struct wire_answer *a)
{
    (void) ctx;
    n_called++;
    last_status = status;
    if (!a)
        return;
    if (a->value.n == 0)
        last_number = a->number;
    (void) snprintf(last_value, sizeof last_value, "%.*s", (int) a->value.n, (const char *) a->value.p);
}

static void on_closed(void *ctx)
{
    (void) ctx;
    n_closed++;
}

static struct store_uv *start_client(struct store_uv_cfg cfg)
{
    struct store_uv *c = NULL;
    struct cc_err    err = { 0 };

    cfg.host = "127.0.0.1";
    cfg.port = cfg.port ? cfg.port : store_server_port(server);
    cfg.on_state = on_state;
    cfg.ctx = &state;
    cr_assert_eq(store_uv_start(&c, &loop, &cfg, &err), 0, "%s", err.msg);
    return c;
}

static void setup(void)
{
    struct store_server_cfg cfg = { 0 };
    struct cc_err           err = { 0 };

    state = 1;
    cr_assert_eq(uv_loop_init(&loop), 0);
    cr_assert_eq(store_server_start(&server, &loop, &cfg, &err), 0, "%s", err.msg);
    client = start_client((struct store_uv_cfg){ 0 });
}

static void finish(void)
{
    unsigned want = (client != NULL) + (server != NULL);

    if (client)
        store_uv_close(client, on_closed, NULL);
    if (server)
        store_server_close(server, on_closed, NULL);
    n_closed = 0;
    (void) uv_run(&loop, UV_RUN_DEFAULT);
    cr_assert_eq(n_closed, want);
    cr_assert_eq(uv_loop_close(&loop), 0);
}

TestSuite(client_uv, .init = setup, .fini = finish, .timeout = 30);

static void run_until(unsigned n)
{
    while (n_called < n)
        (void) uv_run(&loop, UV_RUN_ONCE);
    cr_assert_eq(n_called, n);
}

static void ask(enum wire_op op, const char *key, const char *value)
{
    struct wire_req r = { .op = op, .key = cc_bytes_of(key), .value = cc_bytes_of(value), .number = 1 };

    cr_assert_eq(store_uv_ask(client, &r, NULL, 0, wire_has_answer(op, 0) ? on_answer : NULL, NULL), 0);
}

static void wait_for(const char *key, uint64_t timeout_ms)
{
    struct wire_req r = { .op = WIRE_WAIT };
    struct cc_bytes k = cc_bytes_of(key);

    cr_assert_eq(store_uv_wait(client, &r, &k, 1, timeout_ms, on_answer, NULL), 0);
}

Test(client_uv, what_is_asked_before_it_is_connected_is_answered_in_order)
{
    ask(WIRE_SET, "k", "value");
    for (unsigned i = 0; i < 1000; i++)
        ask(WIRE_ADD, "n", "");
    ask(WIRE_GET, "k", "");
    cr_assert_eq(n_called, 0, "never from inside the call");
    run_until(1001);
    cr_assert_eq(last_number, 1000);
    cr_assert_str_eq(last_value, "value");
    cr_assert_eq(state, 0);
}

Test(client_uv, a_get_waits_for_its_key_while_others_are_answered)
{
    cr_assert_eq(store_uv_get(client, cc_bytes_of("late"), 20000, on_answer, NULL), 0);
    ask(WIRE_ADD, "n", "");
    run_until(1);
    cr_assert_eq(last_number, 1);
    ask(WIRE_SET, "late", "here");
    run_until(2);
    cr_assert_eq(last_status, 0);
    cr_assert_str_eq(last_value, "here");
}

Test(client_uv, a_wait_ends_in_time_and_its_lane_serves_the_next)
{
    for (unsigned i = 1; i <= 5; i++) {
        wait_for("never", 20);
        run_until(i);
        cr_assert_eq(last_status, -ETIMEDOUT);
    }
    wait_for("k", 20000);
    ask(WIRE_SET, "k", "");
    run_until(6);
    cr_assert_eq(last_status, 0);
}

Test(client_uv, more_waits_than_lanes_are_all_served)
{
    char key[16];

    for (unsigned i = 0; i < 100; i++) {
        (void) snprintf(key, sizeof key, "k%u", i);
        wait_for(key, 25000);
    }
    for (unsigned i = 0; i < 100; i++) {
        (void) snprintf(key, sizeof key, "k%u", 99 - i);
        ask(WIRE_SET, key, "");
    }
    run_until(100);
    cr_assert_eq(last_status, 0);
}

Test(client_uv, a_barrier_is_a_wait)
{
    struct wire_req r = { .op = WIRE_BARRIER, .key = cc_bytes_of("bar"), .number = 3 };

    for (unsigned i = 0; i < 3; i++)
        cr_assert_eq(store_uv_wait(client, &r, NULL, 0, 20000, on_answer, NULL), 0);
    run_until(3);
    cr_assert_eq(last_status, 0);
}

Test(client_uv, bounds_are_kept)
{
    struct store_uv *small = start_client((struct store_uv_cfg){ .max_requests = 2 });
    struct wire_req  r = { .op = WIRE_PING, .number = 7 };

    cr_assert_eq(store_uv_ask(small, &r, NULL, 0, on_answer, NULL), 0);
    cr_assert_eq(store_uv_ask(small, &r, NULL, 0, on_answer, NULL), 0);
    cr_assert_eq(store_uv_ask(small, &r, NULL, 0, on_answer, NULL), -ENOBUFS);
    run_until(2);
    cr_assert_eq(store_uv_ask(small, &r, NULL, 0, on_answer, NULL), 0);
    run_until(3);
    store_uv_close(small, NULL, NULL);
    small = start_client((struct store_uv_cfg){ .max_bytes = 10 });
    r = (struct wire_req){ .op = WIRE_SET, .key = cc_bytes_of("k"), .value = cc_bytes_of("v") };
    cr_assert_eq(store_uv_ask(small, &r, NULL, 0, NULL, NULL), 0);
    cr_assert_eq(store_uv_ask(small, &r, NULL, 0, NULL, NULL), -ENOBUFS);
    store_uv_close(small, NULL, NULL);
}

Test(client_uv, closing_ends_what_is_under_way)
{
    wait_for("never", 25000);
    ask(WIRE_ADD, "n", "");
    store_uv_close(client, on_closed, NULL);
    run_until(2);
    cr_assert_eq(last_status, -ECANCELED);
    while (n_closed == 0)
        (void) uv_run(&loop, UV_RUN_ONCE);
    client = NULL;
}

Test(client_uv, a_server_that_goes_ends_everything_once)
{
    struct wire_req r = { .op = WIRE_PING };

    wait_for("never", 25000);
    ask(WIRE_PING, "", "");
    run_until(1);
    store_server_new_round(server); /* drops every connection */
    run_until(2);
    cr_assert_eq(last_status, -ECONNRESET);
    while (state == 0)
        (void) uv_run(&loop, UV_RUN_ONCE);
    cr_assert_eq(state, -ECONNRESET);
    cr_assert_not_null(strstr(why, "the server closed the connection"), "%s", why);
    cr_assert_eq(store_uv_ask(client, &r, NULL, 0, on_answer, NULL), -ECONNRESET);
}

Test(client_uv, a_server_that_is_not_there_is_given_up_in_time)
{
    struct store_uv *lonely = start_client((struct store_uv_cfg){ .port = 1, .connect_timeout_ms = 50 });
    struct wire_req  r = { .op = WIRE_PING };
    uint64_t         start = uv_hrtime();

    cr_assert_eq(store_uv_ask(lonely, &r, NULL, 0, on_answer, NULL), 0);
    run_until(1);
    cr_assert_eq(last_status, -ETIMEDOUT);
    cr_assert_geq(uv_hrtime() - start, 45000000);
    store_uv_close(lonely, NULL, NULL);
}
