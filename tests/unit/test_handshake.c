/* Agent and host over real sockets: uplink and coordinator, and in the place of either somebody else. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/coordinator.h"
#include "agent/link.h"
#include "agent/uplink.h"
#include "store/base/ration.h"
#include "store/server.h"

struct table {
    uv_loop_t            loop;
    struct store_server *server;
    struct coordinator  *c;
    struct uplink       *u;
    struct link         *l;          /* of an impostor */
    unsigned             n_connected, n_strangers, n_said;
    bool                 is_over;
    char                 said[512];   /* by the host, to its people */
    char                 refusal[512];
    struct proto_msg     got[4];      /* by the impostor */
    unsigned             n_got;
};

static void stop(struct table *t)
{
    t->is_over = true;
    uv_stop(&t->loop);
}

/* ---- the host */

static void on_view(void *ctx, const struct rdzv_view *v)
{
    (void) ctx, (void) v;
}

static void on_refused(void *ctx, const struct rdzv_refused *r)
{
    (void) ctx, (void) r;
}

static void on_say(void *ctx, const char *sentence)
{
    struct table *t = ctx;

    t->n_said++;
    (void) snprintf(t->said, sizeof t->said, "%s", sentence);
    uv_stop(&t->loop);
}

static void on_woken(void *ctx)
{
    (void) ctx;
}

static const struct coordinator_ops coordinator_ops = {
    .view = on_view, .refused = on_refused, .say = on_say, .woken = on_woken,
};

static void on_agent(void *ctx, int fd, const uint8_t *bytes, size_t n)
{
    struct table *t = ctx;

    coordinator_accept(t->c, fd, bytes, n);
}

static const struct rdzv_cfg rdzv_cfg = {
    .nodes_cap = 8, .min_nodes = 2, .max_nodes = 2, .join_timeout = 60000, .dead_after = 60000, .settle_timeout = 60000,
    .switch_timeout = 60000,
};

static void listen_with(struct table *t, void (*other)(void *ctx, int fd, const uint8_t *bytes, size_t n))
{
    const struct store_server_cfg cfg = { .other = other, .ctx = t };
    struct cc_err                 err = { 0 };

    memset(t, 0, sizeof *t);
    cr_assert_eq(uv_loop_init(&t->loop), 0);
    cr_assert_eq(store_server_start(&t->server, &t->loop, &cfg, &err), 0, "%s", err.msg);
}

static void host(struct table *t, const char *job, const char *secret)
{
    struct coordinator_cfg cfg = { .rdzv = rdzv_cfg, .job = job, .host = "h0" };
    struct cc_err          err = { 0 };

    listen_with(t, on_agent);
    cfg.secret = (const uint8_t *) secret;
    cfg.n_secret = secret ? strlen(secret) : 0;
    t->c = coordinator_new(&t->loop, &cfg, &coordinator_ops, t, &err);
    cr_assert_not_null(t->c, "%s", err.msg);
}

/* ---- the agent */

static void on_connected(void *ctx, const char *own)
{
    struct table *t = ctx;

    cr_assert_str_eq(own, "127.0.0.1");
    t->n_connected++;
    stop(t);
}

static void on_uplink_message(void *ctx, const struct proto_msg *m)
{
    struct table *t = ctx;

    cr_assert_eq(m->type, PROTO_REFUSED);
    (void) snprintf(t->refusal, sizeof t->refusal, "%s", m->u.refused.sentence);
    stop(t);
}

static void on_uplink_broken(void *ctx, const char *why)
{
    (void) ctx, (void) why;
}

static void on_stranger(void *ctx)
{
    struct table *t = ctx;

    t->n_strangers++;
    stop(t);
}

static void on_failed(void *ctx, const struct cc_err *err)
{
    (void) ctx;
    cr_assert_fail("%s", err->msg);
}

static const struct uplink_cbs uplink_cbs = { on_connected, on_uplink_message, on_uplink_broken, on_stranger, on_failed };

static void come(struct table *t, const char *job, const char *secret)
{
    struct uplink_cfg cfg = { .host = "127.0.0.1", .port = store_server_port(t->server), .job = job };
    struct cc_err     err = { 0 };

    cfg.secret = (const uint8_t *) secret;
    cfg.n_secret = secret ? strlen(secret) : 0;
    t->u = uplink_new(&t->loop, &cfg, &uplink_cbs, t, &err);
    cr_assert_not_null(t->u, "%s", err.msg);
    while (!t->is_over)
        (void) uv_run(&t->loop, UV_RUN_DEFAULT);
}

static void wait_for_sentence(struct table *t)
{
    while (t->n_said == 0)
        (void) uv_run(&t->loop, UV_RUN_DEFAULT);
}

static void clear(struct table *t)
{
    if (t->u)
        uplink_close(t->u);
    if (t->c)
        coordinator_close(t->c);
    if (t->l)
        link_close(t->l);
    store_server_close(t->server, NULL, NULL);
    (void) uv_run(&t->loop, UV_RUN_DEFAULT);
    cr_assert_eq(uv_loop_close(&t->loop), 0);
}

TestSuite(handshake, .timeout = 30);

Test(handshake, with_the_same_secret_or_none_they_meet)
{
    static const char *const secrets[] = { NULL, "sesame" };

    for (size_t i = 0; i < 2; i++) {
        struct table t;

        host(&t, "job7", secrets[i]);
        come(&t, "job7", secrets[i]);
        cr_expect_eq(t.n_connected, 1);
        cr_expect_eq(t.n_said, 0);
        cr_expect_str_eq(uplink_trouble(t.u), "");
        clear(&t);
    }
}

Test(handshake, an_agent_without_a_job_takes_the_hosts)
{
    struct table t;

    host(&t, "job7", NULL);
    come(&t, "", NULL);
    cr_expect_eq(t.n_connected, 1);
    cr_expect_str_eq(uplink_job(t.u), "job7");
    clear(&t);
}

/* What the two ends say. */
static void expect_refusal(const char *job, const char *secret, const char *sentence)
{
    struct table t;

    host(&t, "job7", "sesame");
    come(&t, job, secret);
    wait_for_sentence(&t);
    cr_expect_eq(t.n_connected, 0);
    cr_expect_str_eq(t.refusal, sentence);
    cr_expect_eq(strncmp(t.said, "the agent at 127.0.0.1 was turned away: ", 40), 0, "%s", t.said);
    cr_expect_str_eq(t.said + 40, sentence);
    clear(&t);
}

Test(handshake, both_ends_say_why_an_agent_was_refused)
{
    expect_refusal("job7", "simsim", "the secret of job 'job7', run by h0, is another one (--job-token-file)");
    expect_refusal("job7", NULL, "job 'job7', run by h0, has a secret, and the agent brings none (--job-token-file)");
    expect_refusal("job8", "sesame",
                   "the agent is for job 'job8', and this is job 'job7', run by h0; give all nodes of a job the same --rdzv-id");
}

Test(handshake, a_secret_that_the_host_has_not_is_remarked_upon)
{
    struct table t;

    host(&t, "job7", NULL);
    come(&t, "job7", "sesame");
    cr_expect_str_eq(t.refusal, "job 'job7', run by h0, has no secret, and the agent brings one (--job-token-file)");
    clear(&t);
}

/* ---- somebody else in the place of the host */

static void on_impostor_message(void *ctx, struct link *l, const struct proto_msg *m)
{
    struct table    *t = ctx;
    struct proto_msg challenge = { .type = PROTO_CHALLENGE };

    challenge.u.challenge = (struct proto_challenge) { .job = "job7", .host = "h0", .proof = { 1, 2, 3 } };

    cr_assert_lt(t->n_got, 4);
    t->got[t->n_got++] = *m;
    if (m->type == PROTO_OPEN)
        link_send(l, &challenge);
    if (m->type == PROTO_PROOF || m->type == PROTO_REFUSED)
        stop(t);
}

static void on_impostor_broken(void *ctx, struct link *l, const char *why)
{
    struct table *t = ctx;

    (void) why;
    link_close(l);
    t->l = NULL;
    stop(t);
}

static const struct link_cbs impostor_cbs = { on_impostor_message, on_impostor_broken };

static void on_agent_at_impostor(void *ctx, int fd, const uint8_t *bytes, size_t n)
{
    struct table *t = ctx;
    struct cc_err err = { 0 };

    t->l = link_new(&t->loop, fd, &impostor_cbs, t, &err);
    cr_assert_not_null(t->l);
    link_input(t->l, bytes, n);
}

Test(handshake, a_false_host_gets_no_proof)
{
    static const uint8_t zeros[PROTO_PROOF_BYTES];
    struct table         t;

    listen_with(&t, on_agent_at_impostor);
    come(&t, "job7", "sesame");
    while (t.n_got < 2)
        (void) uv_run(&t.loop, UV_RUN_DEFAULT);
    cr_expect_eq(t.n_connected, 0);
    cr_expect_str_eq(t.refusal, "the secret of job 'job7', run by h0, is another one (--job-token-file)");
    cr_expect_eq(t.got[0].type, PROTO_OPEN);
    cr_expect_eq(t.got[1].type, PROTO_PROOF);
    cr_expect_arr_eq(t.got[1].u.proof.proof, zeros, sizeof zeros);
    clear(&t);
}

static void on_agent_at_silence(void *ctx, int fd, const uint8_t *bytes, size_t n)
{
    (void) ctx, (void) fd, (void) bytes, (void) n;
}

Test(handshake, who_says_nothing_is_a_stranger_within_three_seconds)
{
    struct table t;
    uint64_t     from = uv_hrtime();

    listen_with(&t, on_agent_at_silence);
    come(&t, "job7", NULL);
    cr_expect_eq(t.n_strangers, 1);
    cr_expect_lt(uv_hrtime() - from, 3000000000u);
    cr_expect(strstr(uplink_trouble(t.u), "what listens there does not answer as a ccrun does"), "%s", uplink_trouble(t.u));
    clear(&t);
}

Test(handshake, a_store_of_torch_is_a_stranger)
{
    struct table t;

    listen_with(&t, NULL);
    come(&t, "job7", NULL);
    cr_expect_eq(t.n_strangers, 1);
    cr_expect(strstr(uplink_trouble(t.u), "what answers there is no ccrun"), "%s", uplink_trouble(t.u));
    clear(&t);
}

/* ---- somebody else in the place of the agent */

static int dial(const struct table *t)
{
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int                fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    a.sin_port = htons(store_server_port(t->server));
    cr_assert_eq(connect(fd, (struct sockaddr *) &a, sizeof a), 0);
    return fd;
}

static void knock(struct table *t, const struct proto_msg *m, size_t n)
{
    struct cc_err err = { 0 };

    t->l = link_new(&t->loop, dial(t), &impostor_cbs, t, &err);
    for (size_t i = 0; i < n; i++)
        link_send(t->l, &m[i]);
    t->is_over = false;
    while (!t->is_over)
        (void) uv_run(&t->loop, UV_RUN_DEFAULT);
}

Test(handshake, a_proof_is_good_for_one_connection_only)
{
    struct proto_msg m[2] = { { .type = PROTO_OPEN }, { .type = PROTO_PROOF } };
    struct table     t;

    host(&t, "job7", "sesame");
    m[0].u.open = (struct proto_open) { .version = PROTO_VERSION, .has_secret = true, .job = "job7" };
    for (int again = 0; again < 2; again++) { /* the host's own, sent back; and the same nonce once more */
        knock(&t, m, 2);
        cr_assert_eq(t.n_got, 2);
        cr_expect_eq(t.got[0].type, PROTO_CHALLENGE);
        cr_expect_eq(t.got[1].type, PROTO_REFUSED);
        memcpy(m[1].u.proof.proof, t.got[0].u.challenge.proof, PROTO_PROOF_BYTES);
        t.n_got = 0;
        if (t.l)
            link_close(t.l);
        t.l = NULL;
    }
    cr_expect_eq(t.n_said, 2);
    clear(&t);
}

Test(handshake, nobody_is_heard_before_it_has_proved_itself)
{
    struct proto_msg m[3] = { { .type = PROTO_HELLO }, { .type = PROTO_PING }, { .type = PROTO_OPEN } };
    struct table     t;
    struct rdzv_status s;

    host(&t, "job7", "sesame");
    m[0].u.hello = (struct rdzv_hello) { .incarnation = 5, .seq = 1, .has_about = true };
    m[2].u.open = (struct proto_open) { .version = PROTO_VERSION + 1 };
    knock(&t, m, 3);
    cr_expect_eq(t.n_got, 1);
    cr_expect_eq(t.got[0].type, PROTO_REFUSED);
    cr_expect_str_eq(t.got[0].u.refused.sentence,
                     "its protocol is version 2, and that of job 'job7', run by h0, is 1; use the same ccrun on all nodes");
    coordinator_status(t.c, &s);
    cr_expect_eq(s.n_known, 0);
    clear(&t);
}

Test(handshake, a_crowd_of_strangers_is_bounded_and_keeps_no_agent_out)
{
    enum { CROWD = 200, BOUND = 2 * 8 + 64 }; /* 8: nodes_cap */
    struct table t;
    int          fd[CROWD];
    unsigned     n_open = 0;

    host(&t, "job7", NULL);
    for (size_t i = 0; i < CROWD; i++) {
        fd[i] = dial(&t);
        cr_assert_eq(send(fd[i], "\xcc", 1, MSG_NOSIGNAL), 1);
    }
    come(&t, "job7", NULL);
    cr_expect_eq(t.n_connected, 1);
    cr_expect_leq(coordinator_links(t.c), BOUND);
    for (size_t i = 0; i < CROWD; i++) {
        uint8_t byte;

        n_open += recv(fd[i], &byte, 1, MSG_DONTWAIT) < 0;
        (void) close(fd[i]);
    }
    cr_expect_leq(n_open, BOUND);
    cr_expect_geq(n_open, BOUND - 1);
    clear(&t);
}

Test(handshake, who_knocks_again_and_again_fills_nobodys_screen)
{
    const struct proto_msg m = { .type = PROTO_OPEN, .u.open.version = PROTO_VERSION + 1 };
    struct table           t;

    host(&t, "job7", NULL);
    for (unsigned i = 0; i < 2 * CC_RATION_MAX; i++) {
        knock(&t, &m, 1);
        cr_assert_eq(t.n_got, 1);
        t.n_got = 0;
        if (t.l)
            link_close(t.l);
        t.l = NULL;
    }
    cr_expect_eq(t.n_said, CC_RATION_MAX);
    clear(&t);
}
