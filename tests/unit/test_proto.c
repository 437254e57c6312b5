#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "agent/core/proto.h"

static void fill(char *text, size_t size)
{
    memset(text, 'x', size - 1);
    text[size - 1] = '\0';
}

static void full_cause(struct rdzv_cause *c)
{
    *c = (struct rdzv_cause) { RDZV_CAUSE_STOPPED, 7, 1ull << 63, RDZV_NO_RANK, 255, UINT64_MAX, true, "", "" };
    fill(c->host, sizeof c->host);
    fill(c->text, sizeof c->text);
}

/* Every field at its longest. */
static struct proto_msg longest(enum proto_type type)
{
    struct proto_msg m = { .type = type };

    if (type == PROTO_OPEN) {
        m.u.open.version = PROTO_VERSION;
        m.u.open.has_secret = true;
        fill(m.u.open.job, sizeof m.u.open.job);
        memset(m.u.open.nonce, 0xff, sizeof m.u.open.nonce);
    } else if (type == PROTO_CHALLENGE) {
        fill(m.u.challenge.job, sizeof m.u.challenge.job);
        fill(m.u.challenge.host, sizeof m.u.challenge.host);
        memset(m.u.challenge.nonce, 0xff, sizeof m.u.challenge.nonce);
        memset(m.u.challenge.proof, 0xff, sizeof m.u.challenge.proof);
    } else if (type == PROTO_PROOF) {
        memset(m.u.proof.proof, 0xff, sizeof m.u.proof.proof);
    } else if (type == PROTO_HELLO) {
        struct rdzv_about *a = &m.u.hello.about;

        m.u.hello = (struct rdzv_hello) { 1, 2, 3, 4, 5, RDZV_NODE_GONE, 6, 7, 8, true, true, { 0 }, { 0 } };
        *a = (struct rdzv_about) { .nproc = 8, .wish = -1, .pid = 4711, .port = 29500, .plan = { 2, 4, 77, "", "" } };
        fill(a->host, sizeof a->host);
        fill(a->addr, sizeof a->addr);
        fill(a->role, sizeof a->role);
        fill(a->plan.program, sizeof a->plan.program);
        fill(a->plan.version, sizeof a->plan.version);
        full_cause(&m.u.hello.cause);
    } else if (type == PROTO_VIEW) {
        m.u.view = (struct rdzv_view) { .incarnation = 1, .seq = UINT64_MAX, .clock = 3, .echo = 4, .round = 5 };
        m.u.view.phase = RDZV_ENDED;
        m.u.view.group_rank = RDZV_NO_RANK;
        m.u.view.port = 65535;
        m.u.view.hosts_store = m.u.view.has_cause = true;
        fill(m.u.view.master, sizeof m.u.view.master);
        fill(m.u.view.have, sizeof m.u.view.have);
        fill(m.u.view.missing, sizeof m.u.view.missing);
        full_cause(&m.u.view.cause);
    } else if (type == PROTO_REFUSED) {
        m.u.refused.why = RDZV_REFUSED_JOB;
        m.u.refused.incarnation = 9;
        fill(m.u.refused.sentence, sizeof m.u.refused.sentence);
    } else {
        m.u.ping = 0x0102030405060708u;
    }
    return m;
}

/* Feeds it in pieces of `first` bytes, then the rest. */
static struct proto_msg carry(const uint8_t *frame, size_t n, size_t first)
{
    struct proto_parser p = { 0 };
    struct proto_msg    got;
    struct cc_err       err = { 0 };
    size_t              used;

    memset(&got, 0x55, sizeof got);
    if (first < n) {
        cr_assert_eq(proto_feed(&p, frame, first, &used, &got, &err), 0, "%s", err.msg);
        cr_assert_eq(used, first);
    } else {
        first = 0;
    }
    cr_assert_eq(proto_feed(&p, frame + first, n - first, &used, &got, &err), 1, "%s", err.msg);
    cr_assert_eq(used, n - first);
    return got;
}

Test(proto, what_is_sent_arrives_wherever_it_is_cut)
{
    for (int type = PROTO_OPEN; type < PROTO_N_TYPES; type++)
        for (int is_short = 0; is_short < 2; is_short++) {
            struct proto_msg m = longest((enum proto_type) type);
            uint8_t          frame[PROTO_FRAME_MAX], again[PROTO_FRAME_MAX];
            size_t           n;

            if (is_short) {
                memset(&m.u, 0, sizeof m.u);
                m.u.open.version = type == PROTO_OPEN ? PROTO_VERSION : 0;
            }
            n = proto_encode(&m, frame);
            for (size_t cut = 0; cut <= n; cut++) {
                struct proto_msg got = carry(frame, n, cut);

                cr_assert_eq(got.type, (enum proto_type) type);
                cr_assert_eq(proto_encode(&got, again), n);
                cr_assert_arr_eq(frame, again, n);
            }
        }
}

Test(proto, fields_arrive_as_they_were)
{
    struct proto_msg m = longest(PROTO_HELLO), got;
    uint8_t          frame[PROTO_FRAME_MAX];

    got = carry(frame, proto_encode(&m, frame), 0);
    cr_expect_eq(got.u.hello.about.wish, -1);
    cr_expect_eq(got.u.hello.about.port, 29500);
    cr_expect_eq(got.u.hello.about.pid, 4711);
    cr_expect_eq(got.u.hello.cause.at, 1ull << 63);
    cr_expect_eq(got.u.hello.notice_ms, 7);
    cr_expect_str_eq(got.u.hello.about.plan.program, m.u.hello.about.plan.program);
    m = longest(PROTO_VIEW);
    got = carry(frame, proto_encode(&m, frame), 0);
    cr_expect_eq(got.u.view.phase, RDZV_ENDED);
    cr_expect_eq(got.u.view.group_rank, RDZV_NO_RANK);
    cr_expect(got.u.view.hosts_store && !got.u.view.is_unknown);
    cr_expect_str_eq(got.u.view.master, m.u.view.master);
}

Test(proto, a_heartbeat_is_small)
{
    struct proto_msg m = { .type = PROTO_HELLO };
    uint8_t          frame[PROTO_FRAME_MAX];

    cr_expect_lt(proto_encode(&m, frame), 56);
    m = (struct proto_msg) { .type = PROTO_VIEW };
    cr_expect_lt(proto_encode(&m, frame), 112);
}

Test(proto, the_first_byte_is_no_tcpstore_query)
{
    struct proto_msg m = { .type = PROTO_PING };
    uint8_t          frame[PROTO_FRAME_MAX];

    (void) proto_encode(&m, frame);
    cr_expect_geq(frame[0], 0x80);
}

Test(proto, messages_follow_each_other_in_one_piece)
{
    struct proto_msg    a = longest(PROTO_HELLO), b = longest(PROTO_PING), got;
    struct proto_parser p = { 0 };
    struct cc_err       err;
    uint8_t             bytes[2 * PROTO_FRAME_MAX];
    size_t              n = proto_encode(&a, bytes), all, used, used2;

    all = n + proto_encode(&b, bytes + n);
    cr_assert_eq(proto_feed(&p, bytes, all, &used, &got, &err), 1);
    cr_assert_eq(used, n);
    cr_assert_eq(proto_feed(&p, bytes + used, all - used, &used2, &got, &err), 1);
    cr_assert_eq(used + used2, all);
    cr_assert_eq(got.u.ping, 0x0102030405060708u);
}

static int feed(const uint8_t *bytes, size_t n, struct cc_err *err)
{
    struct proto_parser p = { 0 };
    struct proto_msg    got;
    size_t              used;

    return proto_feed(&p, bytes, n, &used, &got, err);
}

Test(proto, a_stranger_is_told_at_the_first_byte)
{
    struct cc_err err;

    cr_expect_eq(feed((const uint8_t *) "GET", 3, &err), -EPROTO);
    cr_expect_str_eq(err.msg, "the peer does not speak the protocol of ccrun's agents: it sent byte 0x47, not 0xcc");
    cr_expect_eq(feed((const uint8_t *) "\x16", 1, &err), -EPROTO);
}

Test(proto, an_unknown_type_and_a_monstrous_length_are_refused)
{
    struct cc_err err;

    cr_expect_eq(feed((const uint8_t *) "\xcc\x09", 2, &err), -EPROTO);
    cr_expect(strstr(err.msg, "no message of type 9"));
    cr_expect_eq(feed((const uint8_t *) "\xcc\x00", 2, &err), -EPROTO);
    cr_expect_eq(feed((const uint8_t *) "\xcc\x02\xff\xff", 4, &err), -EPROTO);
    cr_expect(strstr(err.msg, "65539 bytes, at most 1024"));
}

Test(proto, a_message_has_the_length_it_says)
{
    struct proto_msg m = longest(PROTO_VIEW);
    uint8_t          frame[PROTO_FRAME_MAX];
    struct cc_err    err;

    for (size_t n = proto_encode(&m, frame); n > PROTO_HEAD; n--) {
        frame[2] = (uint8_t) ((n - 1 - PROTO_HEAD) >> 8);
        frame[3] = (uint8_t) (n - 1 - PROTO_HEAD);
        cr_assert_eq(feed(frame, n - 1, &err), -EPROTO, "a message of %zu bytes", n - 1);
    }
    cr_expect_eq(feed((const uint8_t *) "\xcc\x05\x00\x09\0\0\0\0\0\0\0\0\0", 13, &err), -EPROTO);
    cr_expect(strstr(err.msg, "is too long"));
}

Test(proto, no_value_beyond_those_that_exist)
{
    struct proto_msg m = { .type = PROTO_REFUSED };
    uint8_t          frame[PROTO_FRAME_MAX];
    size_t           n = proto_encode(&m, frame);
    struct cc_err    err;

    frame[PROTO_HEAD] = RDZV_REFUSED_N;
    cr_expect_eq(feed(frame, n, &err), -EPROTO);
    cr_expect(strstr(err.msg, "has a value that does not exist"));
}

static int feed_view(const struct rdzv_view *v, struct cc_err *err)
{
    struct proto_msg m = { .type = PROTO_VIEW, .u.view = *v };
    uint8_t          frame[PROTO_FRAME_MAX];

    return feed(frame, proto_encode(&m, frame), err);
}

Test(proto, nobody_starts_with_a_rank_that_is_none)
{
    struct rdzv_view good = { .phase = RDZV_ACTIVE, .group_rank = 1, .group_world = 2, .base_rank = 3, .world = 6 }, v;
    struct cc_err    err = { 0 };

    good.role_world = 1;
    cr_expect_eq(feed_view(&good, &err), 1, "%s", err.msg);
    v = good;
    v.group_rank = RDZV_NO_RANK; /* a spare */
    v.role_world = 0;
    cr_expect_eq(feed_view(&v, &err), 1, "%s", err.msg);
    v = good;
    v.group_world = 0;
    cr_expect_eq(feed_view(&v, &err), -EPROTO);
    v = good;
    v.world = 3;
    cr_expect_eq(feed_view(&v, &err), -EPROTO);
    v = good;
    v.base_role_rank = 1;
    cr_expect_eq(feed_view(&v, &err), -EPROTO);
    cr_expect(strstr(err.msg, "has ranks that cannot be"), "%s", err.msg);
}

Test(proto, bytes_that_steer_a_terminal_neither_leave_nor_enter)
{
    struct proto_msg m = { .type = PROTO_REFUSED, .u.refused.sentence = "a\x1b[2Jb\n" }, got;
    uint8_t          frame[PROTO_FRAME_MAX];
    struct cc_err    err;
    size_t           n = proto_encode(&m, frame);

    got = carry(frame, n, 0);
    cr_expect_str_eq(got.u.refused.sentence, "a?[2Jb?");
    frame[n - 1] = '\n';
    cr_expect_eq(feed(frame, n, &err), -EPROTO);
    frame[n - 1] = '\0';
    cr_expect_eq(feed(frame, n, &err), -EPROTO);
}

Test(proto, another_version_is_read_so_far_that_it_can_be_named)
{
    struct proto_parser p = { 0 };
    struct proto_msg    got;
    struct cc_err       err;
    size_t              used;

    cr_assert_eq(proto_feed(&p, (const uint8_t *) "\xcc\x01\x00\x05\x00\x02\xff\x00\x01", 9, &used, &got, &err), 1);
    cr_expect_eq(got.u.open.version, 2);
    cr_expect_str_eq(got.u.open.job, "");
}

/* Whatever is exchanged between two fields, or is another, makes another transcript. */
Test(proto, no_two_exchanges_have_the_same_transcript)
{
    struct proto_open      o = { .version = PROTO_VERSION, .has_secret = true, .job = "ab", .nonce = { 1 } };
    struct proto_challenge c = { .job = "ab", .host = "h", .nonce = { 2 } };
    uint8_t                all[8][PROTO_TRANSCRIPT_MAX];
    size_t                 n[8], k = 0;

    memset(all, 0, sizeof all);
    n[k] = proto_transcript(PROTO_HOST, &o, &c, all[k]), k++;
    n[k] = proto_transcript(PROTO_AGENT, &o, &c, all[k]), k++;
    o.nonce[31] = 1;
    n[k] = proto_transcript(PROTO_HOST, &o, &c, all[k]), k++;
    o.nonce[31] = 0, c.nonce[31] = 1;
    n[k] = proto_transcript(PROTO_HOST, &o, &c, all[k]), k++;
    c.nonce[31] = 0;
    (void) strcpy(c.job, "abh"), c.host[0] = '\0';
    n[k] = proto_transcript(PROTO_HOST, &o, &c, all[k]), k++;
    (void) strcpy(c.job, "ab"), c.host[0] = 'h';
    o.job[0] = '\0';
    n[k] = proto_transcript(PROTO_HOST, &o, &c, all[k]), k++;
    for (size_t i = 0; i < k; i++)
        for (size_t j = 0; j < i; j++)
            cr_expect(n[i] != n[j] || memcmp(all[i], all[j], n[i]) != 0, "%zu and %zu", i, j);
    (void) strcpy(o.job, "ab");
    c.proof[0] = 9;
    cr_expect_eq(proto_transcript(PROTO_HOST, &o, &c, all[7]), n[0]);
    cr_expect_arr_eq(all[7], all[0], n[0]);
}

Test(proto, the_longest_transcript_fits)
{
    struct proto_msg o = longest(PROTO_OPEN), c = longest(PROTO_CHALLENGE);
    uint8_t          said[PROTO_TRANSCRIPT_MAX];

    cr_expect_leq(proto_transcript(PROTO_AGENT, &o.u.open, &c.u.challenge, said), sizeof said);
}
