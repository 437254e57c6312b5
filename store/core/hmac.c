#include "store/core/hmac.h"

#include <string.h>

enum { ROUNDS = 64, LENGTH_AT = SHA256_BLOCK - 8 };

/* The first 32 bits of the fractional parts of the square roots of the first 8 primes, of the cube roots of the first 64. */
static const uint32_t first_state[8] = {
    0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
};
static const uint32_t k[ROUNDS] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t get_u32(const uint8_t *p)
{
    return (uint32_t) p[0] << 24 | (uint32_t) p[1] << 16 | (uint32_t) p[2] << 8 | p[3];
}

static void put_u32(uint8_t *p, uint32_t v)
{
    for (unsigned i = 0; i < 4; i++)
        p[i] = (uint8_t) (v >> (24 - 8 * i));
}

static uint32_t turn(uint32_t v, unsigned bits)
{
    return v >> bits | v << (32 - bits);
}

/* W of the standard: the block, and what follows from it. */
static void expand(uint32_t w[ROUNDS], const uint8_t block[SHA256_BLOCK])
{
    unsigned i;

    for (i = 0; i < 16; i++)
        w[i] = get_u32(block + 4 * i);
    for (; i < ROUNDS; i++) {
        uint32_t near = w[i - 15], late = w[i - 2];

        w[i] = w[i - 16] + w[i - 7] + (turn(near, 7) ^ turn(near, 18) ^ near >> 3) +
               (turn(late, 17) ^ turn(late, 19) ^ late >> 10);
    }
}

static void compress(uint32_t state[8], const uint8_t block[SHA256_BLOCK])
{
    uint32_t w[ROUNDS], v[8]; /* v: a to h of the standard */
    unsigned i;

    expand(w, block);
    memcpy(v, state, sizeof(v));
    for (i = 0; i < ROUNDS; i++) {
        uint32_t a = v[0], e = v[4];
        uint32_t t1 = v[7] + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & v[5]) ^ (~e & v[6])) + k[i] + w[i];
        uint32_t t2 = (turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]));

        memmove(v + 1, v, 7 * sizeof(v[0]));
        v[4] += t1;
        v[0] = t1 + t2;
    }
    for (i = 0; i < 8; i++)
        state[i] += v[i];
    explicit_bzero(w, sizeof(w));
    explicit_bzero(v, sizeof(v));
}

void sha256_init(struct sha256 *s)
{
    s->n = 0;
    memcpy(s->state, first_state, sizeof(s->state));
}

void sha256_add(struct sha256 *s, const void *bytes, size_t n)
{
    const uint8_t *p = bytes;

    while (n > 0) {
        size_t at = (size_t) (s->n % SHA256_BLOCK), take = SHA256_BLOCK - at < n ? SHA256_BLOCK - at : n;

        memcpy(s->block + at, p, take);
        s->n += take;
        p += take;
        n -= take;
        if (at + take == SHA256_BLOCK)
            compress(s->state, s->block);
    }
}

/* A one, zeros, and the length in bits end a block. */
void sha256_end(struct sha256 *s, uint8_t ret[SHA256_BYTES])
{
    static const uint8_t padding[SHA256_BLOCK] = { 0x80 };
    uint64_t             n_bits = 8 * s->n;
    size_t               at = (size_t) (s->n % SHA256_BLOCK);
    uint8_t              length[8];
    unsigned             i;

    put_u32(length, (uint32_t) (n_bits >> 32));
    put_u32(length + 4, (uint32_t) n_bits);
    sha256_add(s, padding, at < LENGTH_AT ? LENGTH_AT - at : SHA256_BLOCK + LENGTH_AT - at);
    sha256_add(s, length, sizeof(length));
    for (i = 0; i < 8; i++)
        put_u32(ret + 4 * i, s->state[i]);
    explicit_bzero(s, sizeof(*s));
}

static void begin(struct sha256 *s, const uint8_t key[SHA256_BLOCK], uint8_t with)
{
    uint8_t  block[SHA256_BLOCK];
    unsigned i;

    for (i = 0; i < SHA256_BLOCK; i++)
        block[i] = key[i] ^ with;
    sha256_init(s);
    sha256_add(s, block, sizeof(block));
    explicit_bzero(block, sizeof(block));
}

void hmac_sha256(const uint8_t *key, size_t n_key, const void *bytes, size_t n, uint8_t ret[SHA256_BYTES])
{
    struct sha256 s;
    uint8_t       block[SHA256_BLOCK] = { 0 }, inner[SHA256_BYTES];

    if (n_key > SHA256_BLOCK) {
        sha256_init(&s);
        sha256_add(&s, key, n_key);
        sha256_end(&s, block);
    } else {
        memcpy(block, key, n_key);
    }
    begin(&s, block, 0x36);
    sha256_add(&s, bytes, n);
    sha256_end(&s, inner);
    begin(&s, block, 0x5c);
    sha256_add(&s, inner, sizeof(inner));
    sha256_end(&s, ret);
    explicit_bzero(block, sizeof(block));
    explicit_bzero(inner, sizeof(inner));
}
