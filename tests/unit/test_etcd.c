#include <criterion/criterion.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "store/etcd.h"

/* A member of etcd that answers as the script says, one after the other, and remembers what it was asked. */
enum { REPLIES_MAX = 8, TEXT_MAX = 2048, TRY_MS = 500 };

struct reply {
    int         status; /* 0: none, the connection hangs; -1: it is closed */
    const char *body;
};

struct stub {
    uv_loop_t   *loop;
    uv_tcp_t     tcp;
    uint16_t     port;
    struct reply reply[REPLIES_MAX];
    long         first_ms; /* how long the first takes: nothing else happens meanwhile, who does not wait so long has given up */
    unsigned     n_asked;
    char         path[REPLIES_MAX][64], token[REPLIES_MAX][64], body[REPLIES_MAX][TEXT_MAX];
};

struct visitor {
    uv_tcp_t     tcp;
    struct stub *s;
    char         in[8192];
    size_t       n;
};

struct out {
    uv_write_t req;
    char       text[TEXT_MAX];
};

static void on_gone(uv_handle_t *h)
{
    free(h->data);
}

static void on_written(uv_write_t *w, int status)
{
    (void) status;
    free(w->data);
}

static void on_alloc(uv_handle_t *h, size_t n, uv_buf_t *ret)
{
    struct visitor *v = h->data;

    (void) n;
    *ret = uv_buf_init(v->in + v->n, (unsigned) (sizeof v->in - 1 - v->n));
}

static void give(struct visitor *v, const struct reply *r)
{
    struct out *o = calloc(1, sizeof *o);
    uv_buf_t    buf;
    bool        is_stream = strstr(v->in, "/v3/watch") != NULL;

    o->req.data = o;
    if (is_stream)
        (void) snprintf(o->text, sizeof o->text, "HTTP/1.0 %d x\r\n\r\n%s", r->status, r->body);
    else
        (void) snprintf(o->text, sizeof o->text, "HTTP/1.1 %d x\r\nContent-Length: %zu\r\n\r\n%s", r->status,
                        strlen(r->body), r->body);
    buf = uv_buf_init(o->text, (unsigned) strlen(o->text));
    cr_assert_eq(uv_write(&o->req, (uv_stream_t *) &v->tcp, &buf, 1, on_written), 0);
}

static void serve(struct visitor *v)
{
    struct stub *s = v->s;
    const char  *end = strstr(v->in, "\r\n\r\n"), *length = strstr(v->in, "Content-Length:");
    const char  *token = strstr(v->in, "Authorization: ");
    unsigned     i = s->n_asked;
    size_t       n;

    if (!end || !length)
        return;
    n = strtoul(length + 15, NULL, 10);
    if (v->n < (size_t) (end + 4 - v->in) + n)
        return;
    cr_assert_lt(i, REPLIES_MAX);
    cr_assert_eq(sscanf(v->in, "POST %63s", s->path[i]), 1);
    if (token)
        (void) sscanf(token, "Authorization: %63s", s->token[i]);
    (void) snprintf(s->body[i], TEXT_MAX, "%.*s", (int) n, end + 4);
    s->n_asked++;
    if (i == 0)
        (void) nanosleep(&(struct timespec) { 0, s->first_ms * 1000000 }, NULL);
    if (s->reply[i].status > 0)
        give(v, &s->reply[i]);
    else if (s->reply[i].status < 0)
        uv_close((uv_handle_t *) &v->tcp, on_gone);
    v->n = 0;
    memset(v->in, 0, sizeof v->in);
}

static void on_read(uv_stream_t *t, ssize_t n, const uv_buf_t *buf)
{
    struct visitor *v = t->data;

    (void) buf;
    if (n < 0) {
        uv_close((uv_handle_t *) t, on_gone);
        return;
    }
    v->n += (size_t) n;
    serve(v);
}

static void on_visitor(uv_stream_t *t, int status)
{
    struct visitor *v = calloc(1, sizeof *v);

    cr_assert_eq(status, 0);
    v->s = t->data;
    v->tcp.data = v;
    (void) uv_tcp_init(v->s->loop, &v->tcp);
    cr_assert_eq(uv_accept(t, (uv_stream_t *) &v->tcp), 0);
    (void) uv_read_start((uv_stream_t *) &v->tcp, on_alloc, on_read);
}

static void open_stub(struct stub *s, uv_loop_t *loop)
{
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int                len = sizeof a;

    s->loop = loop;
    (void) uv_tcp_init(loop, &s->tcp);
    s->tcp.data = s;
    cr_assert_eq(uv_tcp_bind(&s->tcp, (struct sockaddr *) &a, 0), 0);
    cr_assert_eq(uv_listen((uv_stream_t *) &s->tcp, 16, on_visitor), 0);
    (void) uv_tcp_getsockname(&s->tcp, (struct sockaddr *) &a, &len);
    s->port = ntohs(a.sin_port);
}

/* ---- */

struct game {
    uv_loop_t          loop;
    struct stub        stub, other;
    struct etcd       *e;
    bool               has_answer;
    struct etcd_answer a;
    char               why[512], value[64], own[64];
    unsigned           n_changed, n_deleted, n_ended;
};

static void on_answer(void *ctx, const struct etcd_answer *a)
{
    struct game *g = ctx;

    cr_assert_not(g->has_answer);
    g->has_answer = true;
    g->a = *a;
    (void) snprintf(g->why, sizeof g->why, "%s", a->why);
    (void) snprintf(g->own, sizeof g->own, "%s", a->own);
    (void) snprintf(g->value, sizeof g->value, "%.*s", (int) a->kv.n, (const char *) a->kv.value);
    uv_stop(&g->loop);
}

static void open_game(struct game *g, const char *user)
{
    char            endpoints[64];
    struct etcd_cfg cfg = { .endpoints = endpoints, .user = user, .password = "secret" };
    struct cc_err   err = { 0 };

    cfg.try_timeout = TRY_MS;
    cfg.call_timeout = 5000;
    cr_assert_eq(uv_loop_init(&g->loop), 0);
    open_stub(&g->stub, &g->loop);
    open_stub(&g->other, &g->loop);
    (void) snprintf(endpoints, sizeof endpoints, "127.0.0.1:%u,http://127.0.0.1:%u/", g->stub.port, g->other.port);
    g->e = etcd_new(&g->loop, &cfg, &err);
    cr_assert(g->e, "%s", err.msg);
}

static void wait_for_answer(struct game *g)
{
    g->has_answer = false;
    (void) uv_run(&g->loop, UV_RUN_DEFAULT);
    cr_assert(g->has_answer);
}

static void close_game(struct game *g)
{
    etcd_close(g->e);
    uv_close((uv_handle_t *) &g->stub.tcp, NULL);
    uv_close((uv_handle_t *) &g->other.tcp, NULL);
    (void) uv_run(&g->loop, UV_RUN_DEFAULT); /* the stub's connections end when the client's do */
    cr_assert_eq(uv_loop_close(&g->loop), 0);
}

Test(etcd, numbers_are_texts_and_keys_and_values_are_base64)
{
    struct game g = { 0 };

    g.stub.reply[0] = (struct reply) { 200, "{\"header\":{\"revision\":\"7\"},\"ID\":\"7587862\",\"TTL\":\"3\"}" };
    g.stub.reply[1] = (struct reply) { 200, "{\"header\":{\"revision\":\"8\"},\"kvs\":[{\"key\":\"L2E=\","
                                            "\"create_revision\":\"5\",\"mod_revision\":\"6\",\"value\":\"Zm9v\","
                                            "\"lease\":\"9\"}],\"count\":\"1\"}" };
    open_game(&g, NULL);
    cr_assert_eq(etcd_grant(g.e, 3, on_answer, &g), 0);
    wait_for_answer(&g);
    cr_expect_eq(g.a.code, 0, "%s", g.why);
    cr_expect_eq(g.a.lease, 7587862);
    cr_expect_eq(g.a.ttl, 3);
    cr_expect_str_eq(g.stub.path[0], "/v3/lease/grant");
    cr_expect_str_eq(g.stub.body[0], "{\"TTL\":\"3\"}");
    cr_expect_str_eq(g.own, "127.0.0.1");
    cr_assert_eq(etcd_get(g.e, "/a", on_answer, &g), 0);
    wait_for_answer(&g);
    cr_expect(g.a.kv.is_there);
    cr_expect_str_eq(g.value, "foo");
    cr_expect_eq(g.a.kv.create_revision, 5);
    cr_expect_eq(g.a.revision, 8);
    cr_expect_str_eq(g.stub.body[1], "{\"key\":\"L2E=\"}");
    close_game(&g);
}

Test(etcd, numbers_that_nobody_can_mean_are_none)
{
    static const struct {
        const char *body;
        int64_t     lease, ttl;
    } all[] = {
        { "{\"ID\":1e300,\"TTL\":1e300}", 0, 0 },
        { "{\"ID\":-1e300,\"TTL\":-9223372036854775808}", 0, 0 },
        { "{\"ID\":9223372036854775808,\"TTL\":\"-1\"}", 0, 0 }, /* 2^63 is the first that does not fit */
        { "{\"ID\":\"99999999999999999999\",\"TTL\":\"9223372036854775807\"}", 0, 9000000 },
        { "{\"ID\":\"12x\",\"TTL\":-5}", 0, 0 },
        { "{\"ID\":\"-9223372036854775808\",\"TTL\":4.9}", INT64_MIN, 4 },
        { "{\"ID\":null,\"TTL\":[]}", 0, 0 },
    };

    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct game g = { 0 };

        g.stub.reply[0] = (struct reply) { 200, all[i].body };
        open_game(&g, NULL);
        cr_assert_eq(etcd_keep(g.e, 5, on_answer, &g), 0);
        wait_for_answer(&g);
        cr_expect_eq(g.a.code, 0, "%s", g.why);
        cr_expect_eq(g.a.lease, all[i].lease, "%s: %lld", all[i].body, (long long) g.a.lease);
        cr_expect_eq(g.a.ttl, all[i].ttl, "%s: %lld", all[i].body, (long long) g.a.ttl);
        close_game(&g);
    }
}

Test(etcd, a_condition_that_fails_tells_what_is_there)
{
    struct game g = { 0 };

    g.stub.reply[0] = (struct reply) { 200, "{\"header\":{\"revision\":\"7\"},\"succeeded\":true,"
                                            "\"responses\":[{\"response_put\":{}}]}" };
    g.stub.reply[1] = (struct reply) { 200, "{\"header\":{},\"responses\":[{\"response_range\":{\"kvs\":[{\"value\":\"Zm9v\","
                                            "\"create_revision\":\"4\"}]}}]}" };
    open_game(&g, NULL);
    cr_assert_eq(etcd_create(g.e, "/a", (struct etcd_value) { "x", 1 }, 5, on_answer, &g), 0);
    wait_for_answer(&g);
    cr_expect(g.a.is_done);
    cr_expect(strstr(g.stub.body[0], "\"target\":\"CREATE\",\"result\":\"EQUAL\",\"create_revision\":\"0\""), "%s",
              g.stub.body[0]);
    cr_assert_eq(etcd_create(g.e, "/a", (struct etcd_value) { "x", 1 }, 5, on_answer, &g), 0);
    wait_for_answer(&g);
    cr_expect_not(g.a.is_done);
    cr_expect_str_eq(g.value, "foo");
    cr_expect_eq(g.a.kv.create_revision, 4);
    close_game(&g);
}

Test(etcd, another_member_is_asked_when_one_has_no_leader_or_hangs_or_is_gone)
{
    struct game g = { 0 };

    g.stub.reply[0] = (struct reply) { 503, "{\"error\":\"etcdserver: no leader\",\"code\":14,"
                                            "\"message\":\"etcdserver: no leader\"}" };
    g.other.reply[0] = (struct reply) { 200, "{\"header\":{},\"kvs\":[{\"value\":\"Zm9v\"}]}" };
    g.other.reply[1] = (struct reply) { 0, "" };
    g.stub.reply[1] = g.stub.reply[2] = (struct reply) { -1, "" };
    g.other.reply[2] = (struct reply) { 200, "{\"header\":{},\"kvs\":[{\"value\":\"YmFy\"}]}" };
    open_game(&g, NULL);
    cr_assert_eq(etcd_get(g.e, "/a", on_answer, &g), 0);
    wait_for_answer(&g);
    cr_expect_str_eq(g.value, "foo");
    cr_assert_eq(etcd_get(g.e, "/a", on_answer, &g), 0);
    wait_for_answer(&g);
    cr_expect_str_eq(g.value, "bar", "%s", g.why);
    cr_expect_geq(g.stub.n_asked, 2, "libcurl itself may have tried a closed connection again");
    cr_expect_eq(g.other.n_asked, 3);
    close_game(&g);
}

Test(etcd, a_call_ends_when_nobody_answers)
{
    struct game g = { 0 };

    open_game(&g, NULL);
    cr_assert_eq(etcd_get(g.e, "/a", on_answer, &g), 0);
    wait_for_answer(&g);
    cr_expect_eq(g.a.code, -ETIMEDOUT);
    cr_expect(strstr(g.why, "does not answer"), "%s", g.why);
    cr_expect_eq(g.stub.n_asked + g.other.n_asked, 4, "each twice");
    close_game(&g);
}

Test(etcd, who_is_told_that_the_token_has_ended_logs_in_again)
{
    struct game g = { 0 };

    g.stub.reply[0] = (struct reply) { 200, "{\"header\":{},\"token\":\"one.1\"}" };
    g.stub.reply[1] = (struct reply) { 200, "{\"header\":{}}" };
    g.stub.reply[2] = (struct reply) { 401, "{\"error\":\"etcdserver: invalid auth token\",\"code\":16}" };
    g.stub.reply[3] = (struct reply) { 200, "{\"header\":{},\"token\":\"two.2\"}" };
    g.stub.reply[4] = (struct reply) { 200, "{\"header\":{},\"kvs\":[{\"value\":\"Zm9v\"}]}" };
    open_game(&g, "root");
    cr_assert_eq(etcd_get(g.e, "/a", on_answer, &g), 0);
    wait_for_answer(&g);
    cr_expect_str_eq(g.stub.path[0], "/v3/auth/authenticate");
    cr_expect_str_eq(g.stub.body[0], "{\"name\":\"root\",\"password\":\"secret\"}");
    cr_expect_str_eq(g.stub.token[1], "one.1");
    cr_expect_not(g.a.kv.is_there);
    cr_assert_eq(etcd_get(g.e, "/a", on_answer, &g), 0);
    wait_for_answer(&g);
    cr_expect_str_eq(g.stub.token[4], "two.2");
    cr_expect_str_eq(g.value, "foo");
    close_game(&g);
}

/* Who gives up and asks again only makes it slower: a password is checked slowly on purpose, for one agent after the other. */
Test(etcd, a_login_may_take_longer_than_a_try)
{
    struct game g = { 0 };

    g.stub.reply[0] = (struct reply) { 200, "{\"header\":{},\"token\":\"one.1\"}" };
    g.stub.first_ms = TRY_MS + 200;
    g.stub.reply[1] = (struct reply) { 200, "{\"header\":{},\"kvs\":[{\"value\":\"Zm9v\"}]}" };
    open_game(&g, "root");
    cr_assert_eq(etcd_get(g.e, "/a", on_answer, &g), 0);
    wait_for_answer(&g);
    cr_expect_eq(g.a.code, 0, "%s", g.why);
    cr_expect_eq(g.stub.n_asked, 2);
    cr_expect_eq(g.other.n_asked, 0);
    cr_expect_str_eq(g.stub.token[1], "one.1");
    cr_expect_str_eq(g.value, "foo");
    close_game(&g);
}

Test(etcd, a_refusal_names_the_member_and_its_reason)
{
    struct game g = { 0 };

    g.stub.reply[0] = (struct reply) { 404, "{\"error\":\"etcdserver: requested lease not found\",\"code\":5}" };
    g.stub.reply[1] = (struct reply) { 403, "{\"error\":\"etcdserver: permission denied\",\"code\":7}" };
    g.stub.reply[2] = (struct reply) { 404, "404 page not found" };
    g.stub.reply[3] = (struct reply) { 200, "<html>" };
    open_game(&g, NULL);
    cr_assert_eq(etcd_revoke(g.e, 9, on_answer, &g), 0);
    wait_for_answer(&g);
    cr_expect_eq(g.a.code, -ENOENT);
    cr_assert_eq(etcd_get(g.e, "/a", on_answer, &g), 0);
    wait_for_answer(&g);
    cr_expect_eq(g.a.code, -EACCES);
    cr_expect(strstr(g.why, "permission denied"), "%s", g.why);
    cr_assert_eq(etcd_get(g.e, "/a", on_answer, &g), 0);
    wait_for_answer(&g);
    cr_expect_eq(g.a.code, -EPROTO);
    cr_expect(strstr(g.why, "is it etcd v3?"), "%s", g.why);
    cr_assert_eq(etcd_get(g.e, "/a", on_answer, &g), 0);
    wait_for_answer(&g);
    cr_expect(strstr(g.why, "is no etcd"), "%s", g.why);
    close_game(&g);
}

static void on_changed(void *ctx, const struct etcd_kv *kv)
{
    struct game *g = ctx;

    g->n_changed++;
    g->n_deleted += !kv->is_there;
}

static void on_ended(void *ctx, const char *why)
{
    struct game *g = ctx;

    (void) why;
    g->n_ended++;
    uv_stop(&g->loop);
}

Test(etcd, a_watch_tells_each_change_and_its_end)
{
    static const struct etcd_watch_cbs cbs = { on_changed, on_ended };
    struct game                        g = { 0 };

    g.stub.reply[0] = (struct reply) { 200, "{\"result\":{\"created\":true}}\n"
                                            "{\"result\":{\"events\":[{\"kv\":{\"value\":\"Zm9v\"}},"
                                            "{\"type\":\"DELETE\",\"kv\":{}}]}}\n"
                                            "{\"result\":{\"canceled\":true}}\n" };
    open_game(&g, NULL);
    cr_assert(etcd_watch(g.e, "/a", 12, &cbs, &g));
    (void) uv_run(&g.loop, UV_RUN_DEFAULT);
    cr_expect_eq(g.n_changed, 2);
    cr_expect_eq(g.n_deleted, 1);
    cr_expect_eq(g.n_ended, 1);
    cr_expect_str_eq(g.stub.body[0], "{\"create_request\":{\"key\":\"L2E=\",\"start_revision\":\"12\"}}");
    close_game(&g);
}

Test(etcd, endpoints_and_protocol_are_checked)
{
    struct etcd_cfg cfg = { .endpoints = " , ", .try_timeout = 1, .call_timeout = 1 };
    uv_loop_t       loop;
    struct cc_err   err = { 0 };

    cr_assert_eq(uv_loop_init(&loop), 0);
    cr_expect_null(etcd_new(&loop, &cfg, &err));
    cr_expect(strstr(err.msg, "no etcd endpoint"), "%s", err.msg);
    cfg.endpoints = "h:1";
    cfg.protocol = "ftp";
    cr_expect_null(etcd_new(&loop, &cfg, &err));
    cr_expect_str_eq(err.msg, "The protocol must be HTTP or HTTPS.");
    cfg.protocol = "https";
    cfg.ca_file = "/dev/null";
    cfg.cert_file = "/nowhere/client.pem";
    cr_expect_null(etcd_new(&loop, &cfg, &err));
    cr_expect_eq(err.code, -EINVAL);
    cr_expect_str_eq(err.msg, "the client certificate '/nowhere/client.pem' cannot be read: No such file or directory");
    cr_assert_eq(uv_loop_close(&loop), 0);
}
