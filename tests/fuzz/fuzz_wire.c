/* Four clients of one store send anything, in pieces of any length.
 *
 * The input is records: a byte (client, or what happens to it), a length of two bytes, so many bytes that the
 * client sends.  It is played twice, once in those pieces and once a byte at a time: the answers must be the
 * same, nothing may be charged at the end, and the memory limit must hold all the time. */
#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "store/core/session.h"

enum { N_CLIENTS = 4, MAX_MEMORY = 4 << 20, LEAVES = 0x40, HELLO = 0x80 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct client {
    struct session s;
    struct cc_buf  got;
    bool           is_gone;
};

struct game {
    struct session_space space;
    struct client        c[N_CLIENTS];
    bool                 was_full; /* then the two games may differ */
};

static void on_woken(struct session *s)
{
    (void) s;
}

static void leave(struct game *g, struct client *c)
{
    if (c->is_gone)
        return;
    c->is_gone = true;
    session_end(&c->s);
    assert(g->space.budget.used <= g->space.budget.max);
}

static void take(struct client *c)
{
    if (cc_buf_add(&c->got, cc_buf_data(&c->s.out), cc_buf_len(&c->s.out)) < 0)
        abort();
    session_sent(&c->s, cc_buf_len(&c->s.out));
}

/* The answers to what came before the fault are sent all the same. */
static void fail(struct game *g, struct client *c, const struct cc_err *err)
{
    take(c);
    assert(err->code < 0 && err->msg[0]);
    g->was_full = g->was_full || err->code == -ENOMEM || err->code == -EFBIG;
    leave(g, c);
}

/* The client reads what there is for it. */
static void read_all(struct game *g, struct client *c)
{
    while (!c->is_gone && cc_buf_len(&c->s.out) > 0) {
        struct cc_err err = { 0 };

        assert(cc_buf_len(&c->s.out) < SESSION_OUT_HIGH + WIRE_MESSAGE_MAX);
        take(c);
        if (c->s.is_paused && session_resume(&c->s, &err) < 0)
            fail(g, c, &err);
    }
}

static void feed(struct game *g, struct client *c, const uint8_t *p, size_t n, bool is_all)
{
    struct cc_err err = { 0 };

    if (c->is_gone)
        return;
    if (session_input(&c->s, p, n, is_all, &err) < 0)
        fail(g, c, &err);
    assert(g->space.budget.used <= g->space.budget.max);
    for (unsigned i = 0; i < N_CLIENTS; i++) {
        g->was_full = g->was_full || (!g->c[i].is_gone && g->c[i].s.is_broken);
        read_all(g, &g->c[i]);
    }
}

static void record(struct game *g, uint8_t what, const uint8_t *p, size_t n, bool is_whole)
{
    struct client *c = &g->c[what % N_CLIENTS];

    if (what & LEAVES)
        leave(g, c);
    if (what & HELLO)
        feed(g, c, (const uint8_t *) "\0\xce\xf7\x85\x3c", 5, true);
    if (is_whole && n > 0)
        feed(g, c, p, n, true);
    for (size_t i = 0; !is_whole && i < n; i++)
        feed(g, c, p + i, 1, i + 1 == n);
}

static void play(struct game *g, const uint8_t *data, size_t size, bool is_whole)
{
    const uint64_t seed[2] = { 5, 6 };

    *g = (struct game){ 0 };
    if (session_space_init(&g->space, seed, MAX_MEMORY, on_woken) < 0)
        abort();
    for (unsigned i = 0; i < N_CLIENTS; i++)
        session_init(&g->c[i].s, &g->space);
    while (size >= 3) {
        size_t n = data[1] | (size_t) data[2] << 8;

        n = n < size - 3 ? n : size - 3;
        record(g, data[0], data + 3, n, is_whole);
        data += 3 + n;
        size -= 3 + n;
    }
    for (unsigned i = 0; i < N_CLIENTS; i++)
        leave(g, &g->c[i]);
    session_space_clear(&g->space); /* asserts that nothing is charged any more */
    session_space_free(&g->space);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct game a, b;

    play(&a, data, size, true);
    play(&b, data, size, false);
    for (unsigned i = 0; i < N_CLIENTS; i++) {
        assert(a.was_full || b.was_full ||
               (cc_buf_len(&a.c[i].got) == cc_buf_len(&b.c[i].got) &&
                (cc_buf_len(&a.c[i].got) == 0 ||
                 memcmp(cc_buf_data(&a.c[i].got), cc_buf_data(&b.c[i].got), cc_buf_len(&a.c[i].got)) == 0)));
        cc_buf_free(&a.c[i].got);
        cc_buf_free(&b.c[i].got);
    }
    return 0;
}
