#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "agent/secret.h"

static struct secret *make(const char *text)
{
    struct cc_err  err = { 0 };
    struct secret *s = secret_new((const uint8_t *) text, strlen(text), &err);

    cr_assert_not_null(s, "%s", err.msg);
    return s;
}

static const struct proto_open      open_msg = { .version = PROTO_VERSION, .has_secret = true, .job = "j", .nonce = { 1 } };
static const struct proto_challenge challenge = { .job = "j", .host = "h", .nonce = { 2 } };

Test(secret, who_knows_it_comes_to_the_same_proof_and_nobody_else)
{
    struct secret *a = make("sesame"), *b = make("sesame"), *c = make("sesame2");
    uint8_t        pa[PROTO_PROOF_BYTES], pb[PROTO_PROOF_BYTES], pc[PROTO_PROOF_BYTES];

    secret_prove(a, PROTO_HOST, &open_msg, &challenge, pa);
    secret_prove(b, PROTO_HOST, &open_msg, &challenge, pb);
    secret_prove(c, PROTO_HOST, &open_msg, &challenge, pc);
    cr_expect(secret_is_same(pa, pb));
    cr_expect(!secret_is_same(pa, pc));
    secret_prove(b, PROTO_AGENT, &open_msg, &challenge, pb);
    cr_expect(!secret_is_same(pa, pb), "the host's proof would do for an agent");
    (void) secret_free(a), (void) secret_free(b), (void) secret_free(c);
}

/* By Python: hmac.new(b"key", transcript, "sha256"), the transcript written out by hand as proto.c describes it. */
Test(secret, it_is_hmac_sha256)
{
    static const uint8_t want[] = {
        0x84, 0x29, 0x20, 0x42, 0x28, 0x6f, 0xa8, 0x4c, 0x4d, 0xfc, 0x14, 0x9e, 0x76, 0x94, 0x52, 0xde,
        0xf0, 0x10, 0x42, 0x50, 0x07, 0x86, 0x7d, 0x8d, 0x6e, 0xdb, 0x5e, 0x01, 0xba, 0x4e, 0xcb, 0x18,
    };
    struct secret       *s = make("key");
    uint8_t              got[PROTO_PROOF_BYTES];

    secret_prove(s, PROTO_AGENT, &open_msg, &challenge, got);
    cr_expect_arr_eq(got, want, sizeof got);
    (void) secret_free(s);
}

Test(secret, without_one_the_proof_is_zeros)
{
    static const uint8_t zeros[PROTO_PROOF_BYTES];
    uint8_t              got[PROTO_PROOF_BYTES] = { 1 };

    secret_prove(NULL, PROTO_HOST, &open_msg, &challenge, got);
    cr_expect(secret_is_same(got, zeros));
}

Test(secret, its_length_has_bounds)
{
    static uint8_t long_one[SECRET_MAX + 1];
    struct cc_err  err = { 0 };

    cr_expect_null(secret_new(long_one, 0, &err));
    cr_expect_eq(err.code, -EINVAL);
    cr_expect_null(secret_new(long_one, sizeof long_one, &err));
    cr_expect(strstr(err.msg, "1 to 4096 bytes, not 4097"));
    cr_expect_null(secret_free(secret_new(long_one, SECRET_MAX, &err)));
}

Test(secret, nonces_differ)
{
    uint8_t a[PROTO_NONCE_BYTES], b[PROTO_NONCE_BYTES];

    secret_make_nonce(a);
    secret_make_nonce(b);
    cr_expect_arr_neq(a, b, sizeof a);
}
