/* demux.h - cut the byte stream of one worker into what may stand together on a console. Pure.
 *
 * The bytes come out in order, unchanged, in units: spans of whole lines (as many as one call of demux_feed()
 * completes, so that the owner can pass them on in one piece), states of a progress bar (text that ends in
 * `\r`), pieces of lines that are longer than the buffer, and a last line without newline.  `\r\n` is an end
 * of line, not a state; a `\r` at the end of the input is held until the next byte tells, unless is_eager is
 * set.
 */
#ifndef AGENT_CORE_DEMUX_H
#define AGENT_CORE_DEMUX_H

#include <stdbool.h>
#include <stddef.h>

enum demux_kind {
    DEMUX_LINES, /* whole lines, each with its newline */
    DEMUX_STATE, /* text with the `\r` that ended it */
    DEMUX_PIECE, /* a part of a line whose end is not known yet: what comes next goes on with it */
    DEMUX_REST,  /* the end of the stream came before the newline */
};

/* The bytes are borrowed: they are valid during the call only. */
typedef void demux_unit_fn(void *ctx, enum demux_kind kind, const char *bytes, size_t len);

struct demux {
    demux_unit_fn *on_unit;
    void          *ctx;
    char          *buf; /* borrowed from the owner: `cap` bytes, at least 2 */
    size_t         cap, used;
    bool           is_eager;
};

void demux_init(struct demux *d, char *buf, size_t cap, bool is_eager, demux_unit_fn *on_unit, void *ctx);
void demux_feed(struct demux *d, const char *bytes, size_t len);
void demux_flush(struct demux *d); /* hand out an unfinished line as a DEMUX_PIECE: a prompt */
void demux_end(struct demux *d);   /* the stream has ended */

#endif
