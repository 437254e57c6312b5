#include "agent/secret.h"

#include <assert.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "store/base/macros.h"

/* HMAC() and EVP_sha256() of OpenSSL, the same in 1.0.2 to 3.x. */
typedef const void *sha256_fn(void);
typedef unsigned char *hmac_fn(const void *md, const void *key, int n_key, const unsigned char *d, size_t n,
                               unsigned char *ret, unsigned *ret_n);

/* Where OpenSSL's own headers are installed, ours are held against them. */
#if __has_include(<openssl/hmac.h>)
#include <openssl/hmac.h>
_Static_assert(_Generic(&EVP_sha256, const EVP_MD *(*) (void): 1, default: 0), "EVP_sha256() is what we call");
_Static_assert(_Generic(&HMAC, unsigned char *(*) (const EVP_MD *, const void *, int, const unsigned char *, size_t,
                                                   unsigned char *, unsigned int *): 1, default: 0),
               "HMAC() is what we call");
#endif

struct secret {
    void      *library;
    sha256_fn *sha256;
    hmac_fn   *hmac;
    size_t     n;
    uint8_t    bytes[];
};

static void *open_library(void)
{
    static const char *const names[] = { "libcrypto.so.3", "libcrypto.so.1.1", "libcrypto.so.1.0.2", "libcrypto.so" };
    void                    *library = NULL;

    for (size_t i = 0; !library && i < CC_COUNT(names); i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    return library;
}

int secret_library(char *ret, size_t n)
{
    const char *(*version)(int) = NULL; /* "OpenSSL 3.0.16 11 Feb 2025" */
    void       *library = open_library(), *symbol = library ? dlsym(library, "OpenSSL_version") : NULL;
    const char *text;
    size_t      n_name;

    if (library && !symbol)
        symbol = dlsym(library, "SSLeay_version"); /* of 1.0.2 */
    if (symbol) {
        memcpy(&version, &symbol, sizeof symbol); /* ISO C has no cast for this */
        text = version(0);
        n_name = strcspn(text, " ");
        n_name += text[n_name] ? 1 + strcspn(text + n_name + 1, " ") : 0;
        (void) snprintf(ret, n, "%.*s", (int) n_name, text);
    }
    if (library)
        (void) dlclose(library);
    return symbol ? 0 : -ENOENT;
}

static int load(struct secret *s, struct cc_err *err)
{
    void *sha256, *hmac;

    s->library = open_library();
    if (!s->library)
        return cc_fail(err, -ENOSYS, "--job-token-file needs OpenSSL's libcrypto (libcrypto.so.3 or libcrypto.so.1.1), which "
                                     "cannot be loaded; install it, or leave the option out on all nodes");
    sha256 = dlsym(s->library, "EVP_sha256");
    hmac = dlsym(s->library, "HMAC");
    if (!sha256 || !hmac)
        return cc_fail(err, -ENOSYS, "--job-token-file needs HMAC() and EVP_sha256() of OpenSSL's libcrypto, and the one of this "
                                     "machine lacks them");
    memcpy(&s->sha256, &sha256, sizeof s->sha256); /* ISO C has no cast for this */
    memcpy(&s->hmac, &hmac, sizeof s->hmac);
    return 0;
}

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
    return load(s, err) < 0 ? secret_free(s) : s;
}

struct secret *secret_free(struct secret *s)
{
    if (!s)
        return NULL;
    if (s->library)
        (void) dlclose(s->library);
    explicit_bzero(s->bytes, s->n);
    free(s);
    return NULL;
}

void secret_prove(const struct secret *s, enum proto_side side, const struct proto_open *o, const struct proto_challenge *c,
                  uint8_t ret_proof[PROTO_PROOF_BYTES])
{
    uint8_t  said[PROTO_TRANSCRIPT_MAX];
    unsigned n_proof = 0;
    size_t   n;

    memset(ret_proof, 0, PROTO_PROOF_BYTES);
    if (!s)
        return;
    n = proto_transcript(side, o, c, said);
    (void) s->hmac(s->sha256(), s->bytes, (int) s->n, said, n, ret_proof, &n_proof);
    assert(n_proof == PROTO_PROOF_BYTES); /* zeros would be no secret at all */
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
