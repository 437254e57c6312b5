#include "agent/secret.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "store/core/hmac.h"

_Static_assert((int) PROTO_PROOF_BYTES == (int) SHA256_BYTES, "a proof is an HMAC-SHA256");

struct secret {
    size_t  n;
    uint8_t bytes[];
};

struct secret *secret_new(const uint8_t *bytes, size_t n, struct cc_err *err)
{
    struct secret *s;

    if (n < 1 || n > SECRET_MAX) {
        (void) cc_fail(err, -EINVAL, "the secret of a job has 1 to %d bytes, not %zu (--job-token-file)", SECRET_MAX, n);
        return NULL;
    }
    s = calloc(1, sizeof *s + n);
    if (!s) {
        (void) cc_fail(err, -ENOMEM, "no memory for the secret of the job");
        return NULL;
    }
    s->n = n;
    memcpy(s->bytes, bytes, n);
    return s;
}

struct secret *secret_free(struct secret *s)
{
    if (!s)
        return NULL;
    explicit_bzero(s->bytes, s->n);
    free(s);
    return NULL;
}

void secret_prove(const struct secret *s, enum proto_side side, const struct proto_open *o, const struct proto_challenge *c,
                  uint8_t ret_proof[PROTO_PROOF_BYTES])
{
    uint8_t said[PROTO_TRANSCRIPT_MAX];
    size_t  n;

    memset(ret_proof, 0, PROTO_PROOF_BYTES);
    if (!s)
        return;
    n = proto_transcript(side, o, c, said);
    hmac_sha256(s->bytes, s->n, said, n, ret_proof);
}

bool secret_is_same(const uint8_t a[PROTO_PROOF_BYTES], const uint8_t b[PROTO_PROOF_BYTES])
{
    unsigned differences = 0;

    for (size_t i = 0; i < PROTO_PROOF_BYTES; i++)
        differences |= (unsigned) (a[i] ^ b[i]);
    return differences == 0;
}

void secret_make_nonce(uint8_t ret[PROTO_NONCE_BYTES])
{
    ssize_t n = getrandom(ret, PROTO_NONCE_BYTES, 0);

    assert(n == PROTO_NONCE_BYTES); /* so short a request is neither cut nor interrupted once the pool is ready */
}
