#include "store/core/siphash.h"

#include <endian.h>

struct state {
    uint64_t a, b, c, d;
};

static uint64_t rotl(uint64_t x, unsigned n)
{
    return x << n | x >> (64 - n);
}

static void mix(struct state *v)
{
    v->a += v->b;
    v->b = rotl(v->b, 13) ^ v->a;
    v->a = rotl(v->a, 32);
    v->c += v->d;
    v->d = rotl(v->d, 16) ^ v->c;
    v->a += v->d;
    v->d = rotl(v->d, 21) ^ v->a;
    v->c += v->b;
    v->b = rotl(v->b, 17) ^ v->c;
    v->c = rotl(v->c, 32);
}

static void absorb(struct state *v, uint64_t word)
{
    v->d ^= word;
    mix(v);
    v->a ^= word;
}

uint64_t siphash13(const uint64_t key[2], struct cc_bytes s)
{
    struct state v = { key[0] ^ 0x736f6d6570736575u, key[1] ^ 0x646f72616e646f6du,
                       key[0] ^ 0x6c7967656e657261u, key[1] ^ 0x7465646279746573u };
    uint64_t     word, last = (uint64_t) s.n << 56;
    size_t       i = 0;

    for (; i + 8 <= s.n; i += 8) {
        memcpy(&word, s.p + i, sizeof word);
        absorb(&v, le64toh(word));
    }
    for (unsigned shift = 0; i < s.n; i++, shift += 8)
        last |= (uint64_t) s.p[i] << shift;
    absorb(&v, last);
    v.c ^= 0xff;
    mix(&v);
    mix(&v);
    mix(&v);
    return v.a ^ v.b ^ v.c ^ v.d;
}
