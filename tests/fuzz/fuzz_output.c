/* fuzz_output.c - workers write anything, in pieces of any length, and the console shows it.
 *
 * An input is a byte for the kind of console, then pieces: a byte that says who writes or what happens, one
 * for the length, so many bytes.  Without progress bars (every \r is passed on) no byte is lost, none is
 * added but labels and ends of lines, and no line has bytes of two workers in it.  What is kept for reports
 * is plain text in whole lines.
 */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "agent/core/demux.h"
#include "agent/core/merge.h"
#include "agent/core/plaintext.h"
#include "agent/core/tail.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { N_WORKERS = 3, HOLD = 16, TAIL = 64, INPUT_MAX = 4096, QUEUE = MERGE_SLACK + 8 * INPUT_MAX };
enum { FLUSH = 4, TICK = 5, DRAW = 6, BREAK = 7, KINDS = 8 };

struct game;

struct worker {
    struct game     *g;
    struct demux     demux;
    struct merge_src src;
    struct tail      tail;
    char             hold[HOLD], state[MERGE_STATE_MAX], last[TAIL];
    size_t           n_other; /* bytes that it wrote but ends of lines */
};

struct game {
    struct worker w[N_WORKERS];
    struct merge  merge;
    struct logq   q;
    uint64_t      now;
    size_t        n_shown;
};

static const char *const labels[N_WORKERS] = { "[a]", "[b]", "" };

static void on_unit(void *ctx, enum demux_kind kind, const char *bytes, size_t len)
{
    struct worker *w = ctx;

    assert(len > 0);
    merge_unit(&w->g->merge, &w->src, kind, bytes, len, w->g->now);
}

/* The console takes what there is. */
static void show(struct game *g)
{
    size_t      n;
    const char *p = logq_peek(&g->q, &n);

    for (size_t i = 0; i < n; i++)
        g->n_shown += p[i] != '\n' && p[i] != '\r';
    logq_consume(&g->q, n);
    assert(logq_used(&g->q) == 0);
}

static void say(struct worker *w, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        w->n_other += bytes[i] != '\n' && bytes[i] != '\r';
    tail_put(&w->tail, bytes, n);
    demux_feed(&w->demux, bytes, n);
    if (w->demux.used > 0)
        merge_peek(&w->g->merge, &w->src, w->hold, w->demux.used, w->g->now);
}

static void step(struct game *g, uint8_t what, const char *bytes, size_t n)
{
    struct worker *w = &g->w[what / KINDS % N_WORKERS];

    switch (what % KINDS) {
    case FLUSH: demux_flush(&w->demux); break;
    case TICK: merge_tick(&g->merge, &w->src, g->now += n * 100); break;
    case DRAW:
        g->merge.columns = (unsigned) n;
        merge_draw(&g->merge);
        break;
    case BREAK: merge_break(&g->merge, &w->src); break;
    default: say(w, bytes, n); break;
    }
    show(g);
}

static void check_tail(const struct worker *w)
{
    char   text[TAIL + 2], line[TAIL];
    size_t n = tail_text(&w->tail, text, 5), n_lines = 0;

    assert(n < sizeof text && text[n] == '\0' && (n == 0 || text[n - 1] == '\n') && strlen(text) == n);
    for (size_t i = 0; i < n; i++)
        n_lines += text[i] == '\n';
    assert(n_lines <= 5);
    n = plaintext_line(line, sizeof line, text, n);
    assert(n < sizeof line && line[n] == '\0');
    for (size_t i = 0, k; i < n; i += k) {
        k = plaintext_utf8(line + i, n - i);
        assert(k > 0 && (line[i] == '\t' || (unsigned char) line[i] >= ' '));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct game g;
    static char        queue[QUEUE];
    enum merge_cr      cr = size > 0 ? (enum merge_cr)(data[0] % 3) : MERGE_KEEP;
    size_t             at = 1, n_said = 0;

    if (size > INPUT_MAX)
        return 0;
    g = (struct game){ .now = 1000 };
    logq_init(&g.q, queue, sizeof queue);
    merge_init(&g.merge, &g.q, cr);
    for (unsigned i = 0; i < N_WORKERS; i++) {
        struct worker *w = &g.w[i];

        w->g = &g;
        merge_src_init(&w->src, labels[i], strlen(labels[i]), w->state);
        demux_init(&w->demux, w->hold, sizeof w->hold, cr == MERGE_KEEP, on_unit, w);
        tail_init(&w->tail, w->last, sizeof w->last);
    }
    while (at + 2 <= size) {
        size_t n = data[at + 1] < size - at - 2 ? data[at + 1] : size - at - 2;

        step(&g, data[at], (const char *) data + at + 2, n);
        at += 2 + n;
    }
    for (unsigned i = 0; i < N_WORKERS; i++) {
        demux_end(&g.w[i].demux);
        merge_end(&g.merge, &g.w[i].src);
        check_tail(&g.w[i]);
        n_said += g.w[i].n_other;
    }
    show(&g);
    assert(cr != MERGE_KEEP || g.n_shown >= n_said);
    return 0;
}
