#include <criterion/criterion.h>
#include <errno.h>

#include "store/base/macros.h"
#include "store/core/wire.h"

static struct cc_bytes b(const char *s)
{
    return cc_bytes_of(s);
}

static bool same(struct cc_bytes x, struct cc_bytes y)
{
    return x.n == y.n && (x.n == 0 || memcmp(x.p, y.p, x.n) == 0);
}

static const uint8_t hello[] = { 0x00, 0xce, 0xf7, 0x85, 0x3c };

/* A parser behind its handshake. */
static struct wire_in started(void)
{
    struct wire_in  w = { 0 };
    struct wire_req r;

    cr_assert_eq(wire_request(&w, hello, sizeof hello, true, &r, NULL), (ssize_t) sizeof hello);
    cr_assert_eq(r.op, WIRE_VALIDATE);
    return w;
}

Test(wire, every_request_comes_back_as_it_was_put_at_every_cut)
{
    static const struct cc_bytes items[] = { { (const uint8_t *) "k1", 2 },
                                             { (const uint8_t *) "", 0 },
                                             { (const uint8_t *) "k2", 2 },
                                             { (const uint8_t *) "v\0v", 3 } };
    for (enum wire_op op = WIRE_SET; op < WIRE_N_OPS; op++) {
        struct wire_req put = { .op = op,
                                .key = b("key"),
                                .value = b("value"),
                                .desired = b(""),
                                .number = 77 },
                        r;
        struct cc_buf buf = { 0 };
        bool   is_list = op == WIRE_CHECK || op == WIRE_WAIT || op == WIRE_MULTI_GET || op == WIRE_MULTI_SET;
        size_t n;

        cr_assert_eq(wire_put_request(&buf, b("/"), &put, items, is_list ? 4 : 0), 0);
        n = cc_buf_len(&buf);
        for (size_t cut = 0; cut <= n; cut++) {
            struct wire_in w = started();
            ssize_t        got = wire_request(&w, buf.p, cut, true, &r, NULL);

            cr_assert_eq(got, cut == n ? (ssize_t) n : 0);
            cr_assert(cut == n || (w.need > cut && w.need <= n), "op %d cut %zu need %zu of %zu", op, cut,
                      w.need, n);
            if (cut < n)
                cr_assert_eq(wire_request(&w, buf.p, n, true, &r, NULL), (ssize_t) n);
        }
        cr_assert_eq(r.op, op);
        for (unsigned i = 0; is_list && i < 4; i++) {
            struct cc_bytes s = wire_next(&r.list);

            if (op != WIRE_MULTI_SET || i % 2 == 0) {
                cr_assert_eq(*s.p, '/');
                s = (struct cc_bytes){ s.p + 1, s.n - 1 };
            }
            cr_assert(same(s, items[i]));
        }
        cr_assert(!is_list || r.list.n == 0);
        cr_assert(op != WIRE_COMPARE_SET || (same(r.value, b("value")) && r.desired.n == 0));
        cr_assert((op != WIRE_ADD && op != WIRE_BARRIER && op != WIRE_PING) || r.number == 77);
        cr_assert((op != WIRE_SET && op != WIRE_ADD) || same(r.key, b("/key")));
        cc_buf_free(&buf);
    }
}

Test(wire, a_length_over_the_limit_is_refused_before_its_bytes_come)
{
    static const struct {
        const char *bytes;
        size_t      n;
        const char *says;
    } cases[] = {
        { "\x01\x01\x20\0\0\0\0\0\0", 9, "a key length of 8193 is over the limit of 8192" },
        { "\x03\xff\xff\xff\xff\xff\xff\xff\xff", 9,
          "a key length of 18446744073709551615 is over the limit" },
        { "\x01\x01\0\0\0\0\0\0\0k\x01\0\0\x04\0\0\0\0", 18, "a value length of 67108865 is over the limit" },
        { "\x05\x01\0\x02\0\0\0\0\0", 9, "a list length of 131073 is over the limit of 131072" },
        { "\x0b\0\0\0\0\0\0\0\x80", 9, "a list length of 9223372036854775808 is over" },
        { "\x0b\x01\0\0\0\0\0\0\0\x01\x20\0\0\0\0\0\0", 17, "a key length of 8193 is over" },
        { "\x13", 1, "query type 19 is unknown" },
        { "\x00\xce\xf7\x85\x3c", 5, "query type 0 is unknown" },
    };

    for (unsigned i = 0; i < CC_COUNT(cases); i++) {
        struct wire_in  w = started();
        struct wire_req r;
        struct cc_err   err = { 0 };

        cr_assert_eq(wire_request(&w, (const uint8_t *) cases[i].bytes, cases[i].n, true, &r, &err), -EPROTO);
        cr_assert_eq(strncmp(err.msg, cases[i].says, strlen(cases[i].says)), 0, "%s", err.msg);
    }
}

Test(wire, a_message_of_many_large_values_is_refused_when_it_passes_the_limit)
{
    struct wire_in  w = started();
    struct wire_req r;
    struct cc_err   err = { 0 };
    uint8_t        *p = calloc(1, WIRE_MESSAGE_MAX + 1024), *at = p;

    *at++ = WIRE_MULTI_SET;
    at = wire_put64(at, 100);
    for (unsigned i = 0; i < 3; i++) {
        at = wire_put64(at, 0);
        at = wire_put64(at, WIRE_VALUE_MAX) + WIRE_VALUE_MAX;
    }
    at = wire_put64(at, 0);
    at = wire_put64(at, WIRE_VALUE_MAX);
    cr_assert_eq(wire_request(&w, p, (size_t) (at - p), true, &r, &err), -EPROTO);
    cr_assert_eq(strncmp(err.msg, "a message length of ", 20), 0, "%s", err.msg);
    free(p);
}

Test(wire, the_first_bytes_tell_the_dialect)
{
    static const struct {
        const char *bytes;
        size_t      n;
        int         dialect; /* -1: refused */
    } cases[] = {
        { "\0", 1, WIRE_UNDECIDED },
        { "\0\xce\xf7\x85", 4, WIRE_UNDECIDED },
        { "\0\xce\xf7\x85\x3c", 5, WIRE_C },
        { "\0\xde\xad\xbe\xef", 5, -1 },
        { "\0\x01\0\0\0", 5, WIRE_A_OR_B },
        { "\x03", 1, WIRE_A_OR_B },
        { "\x07", 1, WIRE_B },
        { "\x0b", 1, WIRE_B },
        { "\x0c", 1, -1 },
        { "\x0d\x01\0\0\0", 5, -1 },
        { "GET / HTTP/1.1", 14, -1 },
        { "\x16\x03\x01", 3, -1 },
    };

    for (unsigned i = 0; i < CC_COUNT(cases); i++) {
        struct wire_in  w = { 0 };
        struct wire_req r;
        ssize_t         k = wire_request(&w, (const uint8_t *) cases[i].bytes, cases[i].n, true, &r, NULL);

        cr_assert_eq(k < 0, cases[i].dialect < 0, "case %u", i);
        cr_assert(k < 0 || w.dialect == cases[i].dialect, "case %u: %u", i, w.dialect);
    }
}

Test(wire, op_8_is_a_delete_in_dialect_a_and_an_append_in_b)
{
    static const uint8_t del[] = "\x08\x01\0\0\0\0\0\0\0k",
                         app[] = "\x08\x01\0\0\0\0\0\0\0k\x01\0\0\0\0\0\0\0v";
    struct wire_in  w = { 0 };
    struct wire_req r;

    cr_assert_eq(wire_request(&w, del, 10, true, &r, NULL), 10);
    cr_assert_eq(r.op, WIRE_DELETE_KEY);
    w = (struct wire_in){ 0 };
    cr_assert_eq(wire_request(&w, app, 19, true, &r, NULL), 19);
    cr_assert_eq(r.op, WIRE_APPEND);
    cr_assert(same(r.value, b("v")));
    w = (struct wire_in){ 0 }; /* the kernel has more: wait for it */
    cr_assert_eq(wire_request(&w, app, 10, false, &r, NULL), 0);
    cr_assert_eq(wire_request(&w, app, 12, true, &r, NULL), 0);
    cr_assert_eq(wire_request(&w, app, 19, true, &r, NULL), 19);
    cr_assert_eq(r.op, WIRE_APPEND);
    cr_assert_eq(wire_request(&w, del, 10, true, &r, NULL), 0); /* known as B now */
}

Test(wire, every_answer_is_taken_apart_at_every_cut)
{
    uint8_t            buf[128], *at = buf;
    struct wire_in     w = { 0 };
    struct wire_answer a = { 0 };

    at = wire_put_bytes(wire_put_bytes(at, b("one")), b(""));
    for (size_t cut = 0; cut < (size_t) (at - buf); cut++) {
        w = (struct wire_in){ 0 };
        cr_assert_eq(wire_answer(&w, WIRE_MULTI_GET, 2, buf, cut, &a, NULL), 0);
        cr_assert_eq(wire_answer(&w, WIRE_MULTI_GET, 2, buf, (size_t) (at - buf), &a, NULL), at - buf);
    }
    cr_assert(same(wire_next(&a.list), b("one")));
    cr_assert_eq(wire_next(&a.list).n, 0);
    at = wire_put_bytes(wire_put64(buf, 3), b("popped"));
    for (size_t cut = 0; cut < (size_t) (at - buf); cut++) {
        w = (struct wire_in){ 0 };
        cr_assert_eq(wire_answer(&w, WIRE_QUEUE_POP, 0, buf, cut, &a, NULL), 0);
        cr_assert_eq(wire_answer(&w, WIRE_QUEUE_POP, 0, buf, (size_t) (at - buf), &a, NULL), at - buf);
    }
    cr_assert_eq(a.number, 3);
    cr_assert(same(a.value, b("popped")));
    (void) wire_put64(buf, 0);
    cr_assert_eq(wire_answer(&w, WIRE_QUEUE_POP, 0, buf, 8, &a, NULL), 8);
    cr_assert_eq(a.number, 0);
    at = wire_put_bytes(wire_put64(buf, 1), b("/k"));
    cr_assert_eq(wire_answer(&w, WIRE_LIST_KEYS, 0, buf, (size_t) (at - buf), &a, NULL), at - buf);
    cr_assert(same(wire_next(&a.list), b("/k")));
    (void) wire_put64(buf, (uint64_t) -5);
    cr_assert_eq(wire_answer(&w, WIRE_ADD, 0, buf, 8, &a, NULL), 8);
    cr_assert_eq(a.number, -5);
    cr_assert_not(wire_has_answer(WIRE_SET, 0));
    cr_assert_not(wire_has_answer(WIRE_MULTI_GET, 0));
    cr_assert(wire_has_answer(WIRE_PING, 0));
}

Test(wire, a_request_over_a_limit_is_not_put)
{
    struct cc_buf   buf = { 0 };
    uint8_t        *long_key = calloc(1, WIRE_KEY_MAX);
    struct wire_req r = { .op = WIRE_GET, .key = { long_key, WIRE_KEY_MAX } };

    cr_assert_eq(wire_put_request(&buf, b("/"), &r, NULL, 0), -E2BIG);
    cr_assert_eq(wire_put_request(&buf, b(""), &r, NULL, 0), 0);
    r = (struct wire_req){ .op = WIRE_SET, .key = b("k"), .value = { long_key, WIRE_VALUE_MAX + 1 } };
    cr_assert_eq(wire_put_request(&buf, b(""), &r, NULL, 0), -E2BIG);
    cr_assert_eq(cc_buf_len(&buf), 9 + WIRE_KEY_MAX);
    cc_buf_free(&buf);
    free(long_key);
}
