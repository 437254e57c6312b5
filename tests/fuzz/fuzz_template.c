/* fuzz_template.c - the template of a console prefix, and the bytes of two workers behind it.
 *
 * The input is cut at its first NUL: a template, then what the workers write, in turns of which every byte
 * 0x01 ends one.  Whatever comes: the prefix fits, the queue has room, the last line is complete, and with
 * carriage returns kept no byte is lost.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/demux.h"
#include "agent/core/merge.h"
#include "agent/core/prefix.h"

enum { INPUT_MAX = 4096, HOLD = 64, OUT = MERGE_SLACK + INPUT_MAX * (PREFIX_MAX + 2) };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct side {
    struct merge    *m;
    struct merge_src src;
    struct demux     demux;
    size_t           n_in;
    char             hold[HOLD], state[MERGE_STATE_MAX];
};

static void on_unit(void *ctx, enum demux_kind kind, const char *bytes, size_t len)
{
    struct side *s = ctx;

    assert(len > 0 && (kind != DEMUX_LINES || bytes[len - 1] == '\n'));
    s->n_in += len;
    merge_unit(s->m, &s->src, kind, bytes, len, 0);
}

/* Everything that was fed comes out of the demux, and the last line is complete. */
static void merge_two(const char *bytes, size_t len, enum merge_cr cr, const char *prefix, size_t prefix_len)
{
    static char        out[OUT];
    static struct side side[2];
    struct logq        q;
    struct merge       m;
    const char        *end = bytes + len, *got;
    size_t             n;

    logq_init(&q, out, sizeof out);
    merge_init(&m, &q, cr);
    for (unsigned i = 0; i < 2; i++) {
        side[i].m = &m;
        side[i].n_in = 0;
        merge_src_init(&side[i].src, prefix, prefix_len, side[i].state);
        demux_init(&side[i].demux, side[i].hold, HOLD, cr == MERGE_KEEP, on_unit, &side[i]);
    }
    for (unsigned turn = 0; bytes < end; turn++) {
        const char  *stop = memchr(bytes, 1, (size_t) (end - bytes));
        struct side *s = &side[turn % 2];

        stop = stop ? stop + 1 : end;
        demux_feed(&s->demux, bytes, (size_t) (stop - bytes));
        merge_peek(&m, &s->src, s->demux.buf, s->demux.used, turn);
        merge_draw(&m);
        bytes = stop;
    }
    for (unsigned i = 0; i < 2; i++) {
        demux_end(&side[i].demux);
        merge_end(&m, &side[i].src);
    }
    assert(side[0].n_in + side[1].n_in == len);
    got = logq_peek(&q, &n);
    assert(n == 0 || cr == MERGE_REDRAW || got[n - 1] == '\n');
    assert(cr != MERGE_KEEP || prefix_len > 0 || n >= len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char template[INPUT_MAX + 1];
    struct prefix_vars vars = { .role_name = "default", .rank = 4294967295u, .local_rank = 7 };
    char               prefix[PREFIX_MAX];
    size_t             n = size < INPUT_MAX ? size : INPUT_MAX, used, prefix_len;

    memcpy(template, data, n);
    template[n] = '\0';
    used = strlen(template);
    prefix_len = prefix_tee(prefix, template, &vars);
    assert(prefix_len < PREFIX_MAX && strlen(prefix) == prefix_len);
    assert(strchr(template, '$') || used == 0 || used >= PREFIX_MAX || !strcmp(prefix, template));
    if (used < n)
        for (int cr = MERGE_THIN; cr <= MERGE_KEEP; cr++)
            merge_two(template + used + 1, n - used - 1, (enum merge_cr) cr, prefix, prefix_len);
    return 0;
}
