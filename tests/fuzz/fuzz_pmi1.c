/* fuzz_pmi1.c - whatever ranks and other nodes say, each line has its answer and no barrier is left twice.
 *
 * An input is a byte that says how many ranks there are, then pieces: a byte that says who speaks (a rank, or another node),
 * one that says how long it is, and what it says.
 */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "agent/core/pmi1.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { RANKS_MAX = 4 };

struct game {
    struct pmi1 *p;
    unsigned     n;
    bool         is_fencing, is_gone[RANKS_MAX];
};

static void on_send(void *ctx, unsigned rank, const char *line, size_t n)
{
    struct game *g = ctx;

    assert(rank < g->n && n > 1 && line[n - 1] == '\n' && !memchr(line, '\n', n - 1));
    assert(strncmp(line, "cmd=", 4) == 0);
}

static void on_fence(void *ctx, struct cc_bytes put)
{
    struct game  *g = ctx;
    struct cc_err err = { 0 };

    assert(!g->is_fencing);
    assert(pmi1_merge(g->p, put, &err) == 0); /* it understands itself */
    g->is_fencing = true;
}

static void on_aborted(void *ctx, unsigned rank, int code)
{
    struct game *g = ctx;

    (void) code;
    assert(rank < g->n);
}

static void on_begun(void *ctx, unsigned rank)
{
    struct game *g = ctx;

    assert(pmi1_is_inside(g->p, rank));
}

static const struct pmi1_ops ops = { on_send, on_fence, on_aborted, on_begun };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct game     g = { .n = size > 0 ? 1 + data[0] % RANKS_MAX : 1 };
    struct pmi1_cfg cfg = { .n_local = g.n, .world = 8, .kvsname = "kvs", .mapping = "(vector,(0,2,4))", .max_bytes = 1 << 16 };
    size_t          at = 1;

    g.p = pmi1_new(&cfg, &ops, &g);
    while (g.p && at + 2 <= size) {
        unsigned      who = data[at] % (g.n + 2);
        size_t        n = data[at + 1] < size - at - 2 ? data[at + 1] : size - at - 2;
        struct cc_err err = { 0 };
        int           r = 0;

        if (who < g.n && !g.is_gone[who]) {
            r = pmi1_feed(g.p, who, data + at + 2, n, &err);
            g.is_gone[who] = r < 0;
        } else if (who == g.n) {
            r = pmi1_merge(g.p, (struct cc_bytes) { data + at + 2, n }, &err);
        } else if (who > g.n && g.is_fencing) {
            g.is_fencing = false;
            pmi1_release(g.p);
        }
        assert(r == 0 || err.msg[0]);
        at += 2 + n;
    }
    pmi1_free(g.p);
    return 0;
}
