#include <criterion/criterion.h>
#include <string.h>

#include "agent/core/merge.h"

/* Two workers on one console. */
struct world {
    struct logq      q;
    struct merge     m;
    struct merge_src src[2];
    struct demux     demux[2];
    struct {
        struct world *w;
        unsigned      i;
    } ctx[2];
    uint64_t now;
    char     out[1 << 18], hold[2][MERGE_HOLD_MAX], state[2][MERGE_STATE_MAX];
};

static void on_unit(void *ctx, enum demux_kind kind, const char *bytes, size_t len)
{
    struct {
        struct world *w;
        unsigned      i;
    } *c = ctx;

    merge_unit(&c->w->m, &c->w->src[c->i], kind, bytes, len, c->w->now);
}

static struct world *world(enum merge_cr cr, bool is_labelled)
{
    static struct world w;

    memset(&w, 0, offsetof(struct world, out));
    logq_init(&w.q, w.out, sizeof w.out);
    merge_init(&w.m, &w.q, cr);
    w.m.columns = 20;
    for (unsigned i = 0; i < 2; i++) {
        w.ctx[i].w = &w;
        w.ctx[i].i = i;
        merge_src_init(&w.src[i], i ? "[1] " : "[0] ", is_labelled ? 4 : 0, w.state[i]);
        demux_init(&w.demux[i], w.hold[i], MERGE_HOLD_MAX, cr == MERGE_KEEP, on_unit, &w.ctx[i]);
    }
    return &w;
}

static void in(struct world *w, unsigned i, const char *text)
{
    size_t      n;
    const char *held;

    demux_feed(&w->demux[i], text, strlen(text));
    held = w->demux[i].buf;
    n = w->demux[i].used;
    merge_peek(&w->m, &w->src[i], held, n, w->now);
}

static void end(struct world *w, unsigned i)
{
    demux_end(&w->demux[i]);
    merge_end(&w->m, &w->src[i]);
}

static void expect(struct world *w, const char *want)
{
    size_t      n;
    const char *got;

    merge_draw(&w->m);
    got = logq_peek(&w->q, &n);
    cr_assert(n == strlen(want) && !memcmp(got, want, n), "got '%.*s'", (int) n, got);
    logq_consume(&w->q, n);
}

Test(merge, lines_of_two_workers_are_never_mixed)
{
    struct world *w = world(MERGE_THIN, true);

    in(w, 0, "one ");
    in(w, 1, "two ");
    in(w, 0, "half\nand ");
    in(w, 1, "halves\n\nx\ny\n");
    expect(w, "[0] one half\n[1] two halves\n[1] \n[1] x\n[1] y\n");
    end(w, 0);
    expect(w, "[0] and \n");
}

Test(merge, without_labels_the_bytes_are_the_workers_own)
{
    struct world *w = world(MERGE_THIN, false);

    in(w, 0, "a\r\nb\nc");
    end(w, 0);
    expect(w, "a\r\nb\nc\n");
}

Test(merge, of_a_bar_the_last_state_of_a_second_becomes_a_line)
{
    struct world *w = world(MERGE_THIN, true);

    in(w, 0, "\r10%\r20%\r30%");
    in(w, 1, "\r5%\r6%\r");
    expect(w, "");
    cr_assert_eq(w->src[0].state_due, MERGE_EVERY_MS);
    merge_tick(&w->m, &w->src[0], MERGE_EVERY_MS - 1);
    expect(w, "");
    merge_tick(&w->m, &w->src[0], MERGE_EVERY_MS);
    expect(w, "[0] 20%\n");
    end(w, 1);
    expect(w, "[1] 6%\n");
    in(w, 0, "\r100%\n");
    expect(w, "[0] 100%\n");
    end(w, 0);
    expect(w, "");
}

Test(merge, a_newline_that_comes_after_the_carriage_return_keeps_the_state)
{
    struct world *w = world(MERGE_THIN, true);

    in(w, 0, "100%\r");
    in(w, 0, "\r\nnext\n");
    expect(w, "[0] 100%\n[0] next\n");
    in(w, 0, "99%\r");
    in(w, 0, "x");
    in(w, 0, "\n");
    expect(w, "[0] x\n");
}

Test(merge, a_bar_that_clears_itself_leaves_nothing)
{
    struct world *w = world(MERGE_THIN, true);

    in(w, 0, "\r10%\r   \rdone\n");
    end(w, 0);
    expect(w, "[0] done\n");
}

Test(merge, kept_carriage_returns_pass_but_are_not_glued_to_another_worker)
{
    struct world *w = world(MERGE_KEEP, true);

    in(w, 0, "10%\r20%\r");
    expect(w, "[0] 10%\r[0] 20%\r");
    in(w, 1, "hello\n");
    expect(w, "\n[1] hello\n");
    in(w, 0, "30%\r");
    in(w, 0, "\n");
    expect(w, "[0] 30%\r\n");
}

Test(merge, on_a_terminal_the_bar_stays_below_the_lines)
{
    struct world *w = world(MERGE_REDRAW, true);

    in(w, 0, "\r10%");
    expect(w, "\r[0] 10%");
    in(w, 0, "\r20%");
    expect(w, "\r[0] 20%");
    in(w, 1, "hello\n");
    expect(w, "\r       \r[1] hello\n\r[0] 20%");
    in(w, 0, "\r3%");
    expect(w, "\r[0] 3% ");
    in(w, 0, "\n");
    expect(w, "\r      \r[0] 3%\n");
}

Test(merge, the_last_row_is_cut_to_the_width_of_the_terminal)
{
    struct world *w = world(MERGE_REDRAW, true);

    in(w, 0, "\r1234567890123456789012345");
    expect(w, "\r[0] 123456789012345");
    end(w, 0);
    expect(w, "\r                   \r[0] 1234567890123456789012345\n");
}

Test(merge, one_bar_keeps_the_last_row_while_it_moves)
{
    struct world *w = world(MERGE_REDRAW, true);

    in(w, 0, "\r10%");
    in(w, 1, "\r50%");
    expect(w, "\r[0] 10%");
    w->now += MERGE_EVERY_MS;
    in(w, 1, "\r60%");
    expect(w, "\r[1] 60%");
}

Test(merge, a_line_in_pieces_goes_on_without_a_second_label_unless_another_came_between)
{
    struct world *w = world(MERGE_THIN, true);

    in(w, 0, "name? ");
    demux_flush(&w->demux[0]);
    in(w, 0, "bob\n");
    expect(w, "[0] name? bob\n");
    in(w, 0, "name? ");
    demux_flush(&w->demux[0]);
    in(w, 1, "hello\n");
    in(w, 0, "bob\n");
    expect(w, "[0] name? \n[1] hello\n[0] bob\n");
    in(w, 0, "x");
    demux_flush(&w->demux[0]);
    end(w, 0);
    expect(w, "[0] x\n");
}

Test(merge, what_follows_something_left_out_is_a_line_of_its_own)
{
    struct world *w = world(MERGE_THIN, true);

    merge_unit(&w->m, &w->src[0], DEMUX_PIECE, "abc", 3, 0);
    merge_break(&w->m, &w->src[1]); /* not its line */
    merge_break(&w->m, &w->src[0]);
    merge_unit(&w->m, &w->src[0], DEMUX_LINES, "xyz\n", 4, 0);
    expect(w, "[0] abc\n[0] xyz\n");
}

Test(merge, a_state_too_long_to_keep_is_a_line)
{
    static char   text[MERGE_STATE_MAX + 3];
    struct world *w = world(MERGE_THIN, false);

    memset(text, 'x', sizeof text - 2);
    text[sizeof text - 2] = '\r';
    in(w, 0, text);
    in(w, 0, "y");
    text[sizeof text - 2] = '\n';
    expect(w, text);
}

Test(merge, width_counts_characters_not_bytes_or_colours)
{
    size_t width;

    cr_assert_eq(merge_fit("ab\xc3\xa9z", 5, 3, &width), 4);
    cr_assert_eq(width, 3);
    cr_assert_eq(merge_fit("\033[31mred\033[0m", 12, 3, &width), 12);
    cr_assert_eq(width, 3);
    cr_assert_eq(merge_fit("\033[3", 3, 3, &width), 3);
    cr_assert_eq(width, 0);
}
