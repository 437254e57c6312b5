/* fuzz_proto.c - any bytes as what an agent is sent: in one piece, and one by one.
 *
 * Both ways give the same messages and the same end, and every message, encoded again, is the frame it came from. */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "agent/core/proto.h"

enum { MESSAGES_MAX = 64 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct game {
    struct proto_parser parser;
    struct proto_msg    got[MESSAGES_MAX];
    size_t              n_got, at; /* at: where the last complete message ended */
    int                 end;
};

static void check_frame(const struct proto_msg *m, const uint8_t *frame, size_t n)
{
    uint8_t again[PROTO_FRAME_MAX];

    if (m->type == PROTO_OPEN && m->u.open.version != PROTO_VERSION)
        return;
    assert(proto_encode(m, again) == n && memcmp(frame, again, n) == 0);
}

static void play(struct game *g, const uint8_t *data, size_t size, size_t piece)
{
    size_t at = 0;

    *g = (struct game) { 0 };
    while (at < size && g->n_got < MESSAGES_MAX) {
        struct cc_err err = { 0 };
        size_t        used, n = piece < size - at ? piece : size - at;

        g->end = proto_feed(&g->parser, data + at, n, &used, &g->got[g->n_got], &err);
        if (g->end < 0) {
            assert(err.msg[0] && err.code == g->end);
            return;
        }
        assert(used <= n && (g->end == 1 || used == n));
        at += used;
        if (g->end == 1) {
            check_frame(&g->got[g->n_got++], data + g->at, at - g->at);
            g->at = at;
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct game a, b;
    size_t             i;

    play(&a, data, size, SIZE_MAX);
    play(&b, data, size, 1);
    assert(a.n_got == b.n_got && a.at == b.at && (a.end < 0) == (b.end < 0));
    for (i = 0; i < a.n_got; i++)
        assert(a.got[i].type == b.got[i].type);
    return 0;
}
