/* hmac.h - SHA-256 (FIPS 180-4, RFC 6234) and HMAC with it (RFC 2104).
 *
 * Pure.  For the short proofs of agents, which come up before a library of cryptography could be loaded: that takes longer
 * than the whole start of an agent.  TLS is not done with this.
 */
#ifndef STORE_CORE_HMAC_H
#define STORE_CORE_HMAC_H

#include <stddef.h>
#include <stdint.h>

enum { SHA256_BYTES = 32, SHA256_BLOCK = 64 };

struct sha256 {
    uint32_t state[8];
    uint64_t n; /* bytes so far */
    uint8_t  block[SHA256_BLOCK];
};

void sha256_init(struct sha256 *s);
void sha256_add(struct sha256 *s, const void *bytes, size_t n);
void sha256_end(struct sha256 *s, uint8_t ret[SHA256_BYTES]); /* wipes s */

/* Any length of key; what is made of it is wiped. */
void hmac_sha256(const uint8_t *key, size_t n_key, const void *bytes, size_t n, uint8_t ret[SHA256_BYTES]);

#endif
