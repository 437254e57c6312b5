#include <criterion/criterion.h>
#include <cjson/cJSON.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "store/core/session.h"

enum { MAX_CONNS = 8 };

#define VECTORS "tests/unit/vectors"

/* One recorded conversation, played to sessions that share a key space. */
struct play {
    struct session_space space;
    struct session       s[MAX_CONNS];
    bool                 is_open[MAX_CONNS], is_failed[MAX_CONNS];
    const char          *name;
    size_t               cut, at; /* client bytes are cut at this place of the whole; where we are */
    bool                 is_b;
    char                 why[CC_ERR_MSG_MAX]; /* the last was closed */
};

static void on_woken(struct session *s)
{
    (void) s;
}

static void begin(struct play *p, const char *name, size_t cut)
{
    const uint64_t seed[2] = { 3, 4 };

    *p = (struct play){ .name = name, .cut = cut };
    cr_assert_eq(session_space_init(&p->space, seed, 1 << 30, on_woken), 0);
}

static void end(struct play *p)
{
    for (unsigned i = 0; i < MAX_CONNS; i++) {
        if (!p->is_open[i])
            continue;
        cr_assert_eq(cc_buf_len(&p->s[i].out), 0, "%s, cut at %zu: %zu bytes too many on connection %u",
                     p->name, p->cut, cc_buf_len(&p->s[i].out), i);
        session_end(&p->s[i]);
    }
    session_space_clear(&p->space);
    session_space_free(&p->space);
}

static void feed(struct play *p, unsigned conn, const uint8_t *bytes, size_t n, bool is_all)
{
    struct cc_err err = { 0 };

    if (!p->is_failed[conn] && session_input(&p->s[conn], bytes, n, is_all, &err) < 0)
        p->is_failed[conn] = true;
    cr_assert(!p->is_failed[conn] || err.msg[0], "%s: closed without a sentence", p->name);
    if (p->is_failed[conn])
        (void) snprintf(p->why, sizeof p->why, "%s", err.msg);
    p->at += n;
}

static unsigned digit(char c)
{
    return c <= '9' ? (unsigned) (c - '0') : (unsigned) (c - 'a' + 10);
}

static size_t unhex(const char *hex, uint8_t *to)
{
    size_t n = strlen(hex) / 2;

    for (size_t i = 0; i < n; i++)
        to[i] = (uint8_t) (digit(hex[2 * i]) << 4 | digit(hex[2 * i + 1]));
    return n;
}

static void client_sends(struct play *p, unsigned conn, const uint8_t *bytes, size_t n)
{
    size_t first = p->cut > p->at && p->cut < p->at + n ? p->cut - p->at : 0;

    if (p->cut == SIZE_MAX) { /* a byte at a time */
        for (size_t i = 0; i < n; i++)
            feed(p, conn, bytes + i, 1, !p->is_b || i + 1 == n);
        return;
    }
    if (first > 0)
        feed(p, conn, bytes, first,
             !p->is_b); /* how B's APPEND is told from A's DELETE_KEY: more is there to read */
    feed(p, conn, bytes + first, n - first, true);
}

static void server_sends(struct play *p, unsigned conn, const uint8_t *bytes, size_t n)
{
    struct session *s = &p->s[conn];

    cr_assert_geq(cc_buf_len(&s->out), n, "%s, cut at %zu: %zu bytes of answer, wanted %zu", p->name, p->cut,
                  cc_buf_len(&s->out), n);
    cr_assert_eq(memcmp(cc_buf_data(&s->out), bytes, n), 0, "%s, cut at %zu: another answer", p->name,
                 p->cut);
    session_sent(s, n);
}

static void play_events(struct play *p, const cJSON *v, uint8_t *buf)
{
    const cJSON *e;

    cJSON_ArrayForEach(e, cJSON_GetObjectItem(v, "events"))
    {
        unsigned    conn = (unsigned) cJSON_GetArrayItem(e, 0)->valueint;
        bool        is_client = cJSON_GetArrayItem(e, 1)->valuestring[0] == 'c';
        const char *hex = cJSON_GetArrayItem(e, 2)->valuestring;
        size_t      n = unhex(hex, buf);

        cr_assert_lt(conn, MAX_CONNS);
        if (!p->is_open[conn])
            session_init(&p->s[conn], &p->space);
        p->is_open[conn] = true;
        if (is_client && n > 0)
            client_sends(p, conn, buf, n);
        else if (!is_client && n > 0)
            server_sends(p, conn, buf, n);
        else if (is_client)
            p->is_failed[conn] = true; /* the server must close, but answer first what came */
        else
            cr_assert(p->is_failed[conn], "%s, cut at %zu: not closed", p->name, p->cut);
    }
}

static size_t client_size(const cJSON *v)
{
    const cJSON *e;
    size_t       n = 0;

    cJSON_ArrayForEach(e, cJSON_GetObjectItem(v, "events"))
    {
        if (cJSON_GetArrayItem(e, 1)->valuestring[0] == 'c')
            n += strlen(cJSON_GetArrayItem(e, 2)->valuestring) / 2;
    }
    return n;
}

/* In how many ways the vector was played. */
static size_t play_vector(const cJSON *v, const char *dialect)
{
    const char *name = cJSON_GetObjectItem(v, "name")->valuestring;
    const char *backend = cJSON_GetObjectItem(v, "backend")->valuestring;
    size_t      n = client_size(v), tries = 0;
    uint8_t    *buf;
    struct play play;

    if (strcmp(cJSON_GetObjectItem(v, "replay")->valuestring, "exact") != 0 ||
        (strcmp(backend, "legacy") == 0 && *dialect == 'C'))
        return 0;
    buf = malloc(1 << 20);
    for (size_t cut = 0; cut <= n; cut++, tries++) {
        begin(&play, name, cut == n ? SIZE_MAX : cut);
        play.is_b = *dialect == 'B';
        play_events(&play, v, buf);
        end(&play);
    }
    free(buf);
    return tries;
}

static cJSON *load(const char *dir, const char *file)
{
    char   path[512], *text = calloc(1, 1 << 20);
    FILE  *f;
    cJSON *v;

    (void) snprintf(path, sizeof path, "%s/%s", dir, file);
    f = fopen(path, "r");
    cr_assert_not_null(f, "%s", path);
    cr_assert_lt(fread(text, 1, (1 << 20) - 1, f), (1 << 20) - 1);
    (void) fclose(f);
    v = cJSON_Parse(text);
    cr_assert_not_null(v, "%s is not JSON", path);
    free(text);
    return v;
}

static bool is_json(const struct dirent *d)
{
    const char *dot = strrchr(d->d_name, '.');

    return dot && strcmp(dot, ".json") == 0;
}

Test(session, answers_every_captured_vector_at_every_cut, .timeout = 50)
{
    DIR           *dir = opendir(VECTORS);
    struct dirent *d;
    unsigned       n_vectors = 0;

    cr_assert_not_null(dir);
    while ((d = readdir(dir)) != NULL) {
        cJSON *v = is_json(d) && strcmp(d->d_name, "filestore.json") != 0 ? load(VECTORS, d->d_name) : NULL;

        n_vectors += v && play_vector(v, "C") > 0;
        cJSON_Delete(v);
    }
    (void) closedir(dir);
    cr_assert_eq(n_vectors, 70, "%u", n_vectors);
}

Test(session, answers_every_torch_release_at_every_cut, .timeout = 50)
{
    DIR           *dir = opendir(VECTORS "/versions");
    struct dirent *d;
    unsigned       n_releases = 0;

    cr_assert_not_null(dir);
    while ((d = readdir(dir)) != NULL) {
        cJSON       *v = is_json(d) ? load(VECTORS "/versions", d->d_name) : NULL;
        const cJSON *one;
        unsigned     n = 0;

        if (!v)
            continue;
        cJSON_ArrayForEach(one, cJSON_GetObjectItem(v, "cases")) n +=
            play_vector(one, cJSON_GetObjectItem(v, "dialect")->valuestring) > 0;
        cr_assert_geq(n, 12, "%s", d->d_name);
        n_releases++;
        cJSON_Delete(v);
    }
    (void) closedir(dir);
    cr_assert_eq(n_releases, 10);
}

/* The vectors in which PyTorch's server is at fault, and what is right instead. */

static struct play p;

static void setup(void)
{
    begin(&p, "", 0);
    for (unsigned i = 0; i < MAX_CONNS; i++) {
        session_init(&p.s[i], &p.space);
        p.is_open[i] = true;
    }
}

static void teardown(void)
{
    end(&p);
}

static void put(unsigned conn, const struct wire_req *r, const struct cc_bytes *items, uint64_t n_items)
{
    struct cc_buf buf = { 0 };

    cr_assert_eq(wire_put_request(&buf, cc_bytes_of(""), r, items, n_items), 0);
    feed(&p, conn, cc_buf_data(&buf), cc_buf_len(&buf), true);
    cc_buf_free(&buf);
}

static void hello(unsigned conn)
{
    struct wire_req r = { .op = WIRE_VALIDATE, .number = WIRE_MAGIC };

    put(conn, &r, NULL, 0);
}

static void wait_for(unsigned conn, const char *key)
{
    struct wire_req r = { .op = WIRE_WAIT };
    struct cc_bytes k = cc_bytes_of(key);

    put(conn, &r, &k, 1);
}

static void op(unsigned conn, enum wire_op what, const char *key, const char *value)
{
    struct wire_req r = {
        .op = what, .key = cc_bytes_of(key), .value = cc_bytes_of(value), .desired = cc_bytes_of("d")
    };

    put(conn, &r, NULL, 0);
}

TestSuite(faults, .init = setup, .fini = teardown);

Test(faults, who_was_woken_by_a_queue_once_is_no_longer_on_its_list)
{
    hello(0), hello(1);
    wait_for(0, "q");
    op(1, WIRE_QUEUE_PUSH, "q", "1");
    server_sends(&p, 0, (const uint8_t *) "", 1);
    wait_for(0, "k");
    op(1, WIRE_QUEUE_PUSH, "q", "2");
    cr_assert_eq(cc_buf_len(&p.s[0].out), 0);
    op(1, WIRE_SET, "k", "v");
    server_sends(&p, 0, (const uint8_t *) "", 1);
}

Test(faults, a_compare_set_that_stores_nothing_wakes_nobody)
{
    hello(0), hello(1);
    wait_for(0, "k");
    op(1, WIRE_COMPARE_SET, "k", "expected");
    cr_assert_eq(cc_buf_len(&p.s[0].out), 0);
    session_sent(&p.s[1], cc_buf_len(&p.s[1].out));
}

Test(faults, a_filled_queue_is_not_missing_in_a_wait)
{
    struct wire_req r = { .op = WIRE_WAIT };

    hello(0), hello(1);
    op(1, WIRE_QUEUE_PUSH, "q", "1");
    put(0, &r, (const struct cc_bytes[]){ cc_bytes_of("q"), cc_bytes_of("k") }, 2);
    cr_assert_eq(cc_buf_len(&p.s[0].out), 0);
    op(1, WIRE_SET, "k", "v");
    server_sends(&p, 0, (const uint8_t *) "", 1);
}

Test(faults, a_second_wait_replaces_the_first)
{
    hello(0), hello(1);
    wait_for(0, "a");
    wait_for(0, "b");
    op(1, WIRE_SET, "a", "");
    cr_assert_eq(cc_buf_len(&p.s[0].out), 0);
    op(1, WIRE_SET, "b", "");
    server_sends(&p, 0, (const uint8_t *) "", 1);
}

Test(faults, a_wait_that_is_answered_at_once_replaces_the_first_too)
{
    hello(0), hello(1);
    op(1, WIRE_SET, "there", "");
    wait_for(0, "a");
    wait_for(0, "there");
    server_sends(&p, 0, (const uint8_t *) "", 1);
    op(1, WIRE_SET, "a", "");
    cr_assert_eq(cc_buf_len(&p.s[0].out), 0);
}

Test(faults, a_multi_set_that_stops_half_way_stores_nothing)
{
    struct wire_req r = { .op = WIRE_MULTI_SET };
    struct cc_buf   buf = { 0 };
    struct cc_bytes items[4] = { cc_bytes_of("a"), cc_bytes_of("1"), cc_bytes_of("b"), cc_bytes_of("2") }, v;

    hello(0);
    cr_assert_eq(wire_put_request(&buf, cc_bytes_of(""), &r, items, 4), 0);
    feed(&p, 0, cc_buf_data(&buf), cc_buf_len(&buf) - 1, true);
    cr_assert_not(kv_get(p.space.kv, cc_bytes_of("a"), &v));
    feed(&p, 0, (const uint8_t *) "2", 1, true);
    cr_assert(kv_get(p.space.kv, cc_bytes_of("b"), &v));
    cc_buf_free(&buf);
}

Test(faults, before_its_hello_a_client_is_served_nothing)
{
    static const char *const starts[] = { "\x0d\x07\0\0\0", "\0\xde\xad\xbe\xef", "GET / HTTP/1.1\r\n",
                                          "\x16\x03\x01\x00" };

    for (unsigned i = 0; i < 4; i++) {
        feed(&p, i, (const uint8_t *) starts[i], 5, true);
        cr_assert(p.is_failed[i]);
        cr_assert_eq(cc_buf_len(&p.s[i].out), 0);
    }
}

Test(session, who_does_not_read_is_not_answered_without_limit, .init = setup, .fini = teardown)
{
    size_t        n = 100000, got = 0;
    char         *value = calloc(1, n + 1);
    struct cc_err err;

    memset(value, 'v', n);
    hello(0);
    op(0, WIRE_SET, "k", value);
    for (unsigned i = 0; i < 100; i++)
        op(0, WIRE_GET, "k", "");
    cr_assert(p.s[0].is_paused);
    cr_assert_leq(cc_buf_len(&p.s[0].out), SESSION_OUT_HIGH + n + 8);
    got = cc_buf_len(&p.s[0].out) - 1;
    session_sent(&p.s[0], got); /* that some of it was read does not make the server read on */
    cr_assert(p.s[0].is_paused);
    while (cc_buf_len(&p.s[0].out) > 0) {
        got += cc_buf_len(&p.s[0].out);
        session_sent(&p.s[0], cc_buf_len(&p.s[0].out));
        cr_assert_eq(session_resume(&p.s[0], &err), 0);
    }
    cr_assert_eq(got, 100 * (n + 8));
    free(value);
}

Test(session, what_passes_the_memory_limit_is_refused_and_the_others_are_served)
{
    const uint64_t seed[2] = { 0 };
    char           text[2000] = { 0 };

    p = (struct play){ 0 };
    cr_assert_eq(session_space_init(&p.space, seed, 100000, on_woken), 0);
    for (unsigned i = 0; i < 3; i++) {
        session_init(&p.s[i], &p.space);
        p.is_open[i] = true;
        hello(i);
    }
    memset(text, 'x', sizeof text - 1);
    for (unsigned i = 0; i < 100 && !p.is_failed[0]; i++)
        op(0, WIRE_APPEND, "k", text);
    cr_assert(p.is_failed[0]);
    op(1, WIRE_SET, "small", "x");
    op(1, WIRE_GET, "small", "");
    server_sends(&p, 1, (const uint8_t *) "\1\0\0\0\0\0\0\0x", 9);
    cr_assert_not(p.is_failed[1]);
    end(&p);
}

Test(session, an_agent_of_torchrun_is_told_from_a_worker_of_a_job, .init = setup, .fini = teardown)
{
    hello(0);
    op(0, WIRE_SET, "torch.rendezvous.none", "");
    cr_expect(!p.is_failed[0], "a store that stands alone serves whoever comes");
    p.space.is_of_job = true;
    for (unsigned i = 1; i < 5; i++)
        hello(i);
    op(1, WIRE_COMPARE_SET, "/torch.rendezvous.none", "");
    cr_expect(p.is_failed[1]);
    cr_expect_neq(strstr(p.why, "an agent of torchrun"), NULL, "%s", p.why);
    op(2, WIRE_SET, "init/", "1");
    op(2, WIRE_SET, "none/torchelastic/role_info/1", "{}");
    cr_expect(p.is_failed[2], "the static backend's");
    op(3, WIRE_SET, "default_pg/0//torch.rendezvous", "{}");
    op(3, WIRE_SET, "torch.rendezvous", "{}");
    cr_expect(!p.is_failed[3]);
    for (unsigned i = 0; i < 8; i++)
        op(4, WIRE_SET, "a", "b");
    op(4, WIRE_SET, "torch.rendezvous.none", "{}");
    cr_expect(!p.is_failed[4], "a worker may write what it likes");
}

Test(session, a_shut_store_shakes_hands_and_no_more, .init = setup, .fini = teardown)
{
    struct wire_req ping = { .op = WIRE_PING, .number = 7 };

    p.space.is_of_job = p.space.is_shut = true;
    hello(0);
    put(0, &ping, NULL, 0);
    cr_expect_eq(cc_buf_len(&p.s[0].out), 4);
    session_sent(&p.s[0], 4);
    op(0, WIRE_SET, "a", "b");
    cr_expect(p.is_failed[0]);
    cr_expect_eq(kv_count(p.space.kv), 0);
    hello(1);
    op(1, WIRE_COMPARE_SET, "torch.rendezvous.none", "");
    cr_expect(p.is_failed[1]);
    cr_expect_neq(strstr(p.why, "is an agent of torchrun"), NULL, "%s", p.why);
}
