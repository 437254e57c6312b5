#include <criterion/criterion.h>
#include <string.h>

#include "agent/core/demux.h"

/* Units as text: `L(..)` lines, `S(..)` state, `P(..)` piece, `R(..)` rest; spans of lines are shown line by
 * line, because how many come together depends on the cuts. */
struct seen {
    char   text[4096], bytes[4096];
    size_t used, n_bytes;
};

static void add(struct seen *s, char kind, const char *bytes, size_t len)
{
    s->text[s->used++] = kind;
    s->text[s->used++] = '(';
    memcpy(s->text + s->used, bytes, len);
    s->used += len;
    s->text[s->used++] = ')';
    s->text[s->used] = '\0';
}

static void on_unit(void *ctx, enum demux_kind kind, const char *bytes, size_t len)
{
    struct seen *s = ctx;

    memcpy(s->bytes + s->n_bytes, bytes, len);
    s->n_bytes += len;
    if (kind != DEMUX_LINES) {
        add(s, "LSPR"[kind], bytes, len);
        return;
    }
    cr_assert_eq(bytes[len - 1], '\n');
    while (len > 0) {
        size_t n = (size_t) ((const char *) memchr(bytes, '\n', len) - bytes) + 1;

        add(s, 'L', bytes, n);
        bytes += n;
        len -= n;
    }
}

/* Every way to cut the input into two and into three reads gives the same units. */
static void expect(const char *in, size_t len, size_t cap, bool is_eager, const char *want)
{
    for (size_t i = 0; i <= len; i++) {
        for (size_t j = i; j <= len; j++) {
            struct seen  seen = { .used = 0 };
            struct demux d;
            char         buf[64];

            demux_init(&d, buf, cap, is_eager, on_unit, &seen);
            demux_feed(&d, in, i);
            demux_feed(&d, in + i, j - i);
            demux_feed(&d, in + j, len - j);
            demux_end(&d);
            cr_assert_eq(seen.n_bytes, len);
            cr_assert_eq(memcmp(seen.bytes, in, len), 0);
            if (want)
                cr_assert_str_eq(seen.text, want, "cut at %zu and %zu: %s", i, j, seen.text);
        }
    }
}

Test(demux, hands_out_whole_lines)
{
    expect("one\n\ntwo\n", 9, 64, false, "L(one\n)L(\n)L(two\n)");
}

Test(demux, keeps_a_last_line_without_newline)
{
    expect("one\ntwo", 7, 64, false, "L(one\n)R(two)");
}

Test(demux, a_carriage_return_ends_a_state)
{
    expect("\r10%\r20%\rdone\n", 14, 64, false, "S(\r)S(10%\r)S(20%\r)L(done\n)");
    expect("10%\r20%\r", 8, 64, false, "S(10%\r)S(20%\r)");
}

Test(demux, cr_lf_ends_a_line)
{
    expect("a\r\nb\r\r\nc\r\n", 10, 64, false, "L(a\r\n)S(b\r)L(\r\n)L(c\r\n)");
}

Test(demux, an_eager_one_does_not_wait_for_the_byte_after_a_carriage_return)
{
    struct seen  seen = { .used = 0 };
    struct demux d;
    char         buf[64];

    demux_init(&d, buf, sizeof buf, true, on_unit, &seen);
    demux_feed(&d, "10%\r", 4);
    cr_assert_str_eq(seen.text, "S(10%\r)");
}

Test(demux, bytes_are_never_changed)
{
    expect("\0\xff\xfe\r\0\n\n\r\r\n\x80", 11, 64, false, NULL);
    expect("\0\xff\xfe\r\0\n\n\r\r\n\x80", 11, 64, true, NULL);
    expect("\0\xff\xfe\r\0\n\n\r\r\n\x80", 11, 2, false, NULL);
}

Test(demux, a_line_longer_than_the_buffer_comes_in_pieces)
{
    struct seen  seen = { .used = 0 };
    struct demux d;
    char         buf[8];

    demux_init(&d, buf, sizeof buf, false, on_unit, &seen);
    demux_feed(&d, "12345", 5);
    demux_feed(&d, "67890", 5);
    demux_feed(&d, "abc\nx", 5);
    demux_end(&d);
    cr_assert_str_eq(seen.text, "P(12345)P(67890)L(abc\n)R(x)");
}

Test(demux, flush_hands_out_a_prompt)
{
    struct seen  seen = { .used = 0 };
    struct demux d;
    char         buf[64];

    demux_init(&d, buf, sizeof buf, false, on_unit, &seen);
    demux_feed(&d, "name? ", 6);
    demux_flush(&d);
    demux_flush(&d);
    demux_feed(&d, "\n", 1);
    cr_assert_str_eq(seen.text, "P(name? )L(\n)");
}
