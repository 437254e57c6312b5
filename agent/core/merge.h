/* merge.h - the output of many workers as one console stream: whole lines, labels, progress bars. Pure.
 *
 * Units of struct demux go in, bytes go into a struct logq.  Never are bytes of two sources in one line: when
 * another source comes while a line is unfinished (a piece of a very long line, a prompt), that line is ended
 * first, and its rest gets a prefix of its own later.
 *
 * A state of a progress bar (text ended by `\r`) is, by mode, kept and the last one of each second written as
 * a line (MERGE_THIN), shown in the last row of the terminal below all finished lines (MERGE_REDRAW), or
 * passed on as it is (MERGE_KEEP).  A state that is followed by a line is overwritten by it, as on a
 * terminal.
 *
 * Whoever feeds must leave room in the queue: MERGE_SLACK bytes, and for n bytes of input n * (prefix_len +
 * 2).
 */
#ifndef AGENT_CORE_MERGE_H
#define AGENT_CORE_MERGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/core/demux.h"
#include "agent/core/logq.h"

enum {
    MERGE_STATE_MAX = 4096,     /* a longer state is written as a line at once */
    MERGE_HOLD_MAX = 64 * 1024, /* what a struct demux may hold back: a longer line comes in pieces */
    MERGE_SLACK = MERGE_HOLD_MAX + 5 * MERGE_STATE_MAX,
    MERGE_EVERY_MS = 1000,
};

enum merge_cr { MERGE_THIN, MERGE_REDRAW, MERGE_KEEP };

struct merge_src {
    const char *prefix; /* borrowed */
    size_t      prefix_len;
    char       *state; /* borrowed: MERGE_STATE_MAX bytes */
    size_t      state_len;
    uint64_t    state_due; /* MERGE_THIN: when the state must be written; UINT64_MAX: there is none */
    bool        is_bar;    /* its last unit was a state */
};

struct merge {
    struct logq      *q;
    enum merge_cr     cr;
    unsigned          columns; /* of the terminal; 0: not known */
    struct merge_src *open;    /* whose unfinished line the output ends with */
    bool              is_open_at_cr;
    struct merge_src *live; /* whose state the last row of the terminal belongs to */
    uint64_t          live_at;
    size_t            live_width; /* columns to erase: what the last row shows now */
    bool              is_live_stale;
};

void merge_init(struct merge *m, struct logq *q, enum merge_cr cr);
void merge_src_init(struct merge_src *s, const char *prefix, size_t prefix_len, char *state);

void merge_unit(struct merge *m, struct merge_src *s, enum demux_kind kind, const char *bytes, size_t len,
                uint64_t now);
/* MERGE_REDRAW: what the source has written since its last unit, for a bar whose `\r` comes before the text.
 */
void merge_peek(struct merge *m, struct merge_src *s, const char *bytes, size_t len, uint64_t now);
void merge_break(struct merge *m, struct merge_src *s); /* some of it is left out: what comes next is a line of its own */
void merge_tick(struct merge *m, struct merge_src *s, uint64_t now); /* writes a state that is due */
void merge_end(struct merge *m, struct merge_src *s); /* the source is gone; after its last unit */
void merge_draw(struct merge *m);                     /* before the queue is written out */

/* How many of the bytes fit into `columns`, and *ret_width, how many columns they take.  A UTF-8 character
 * counts as one column, a terminal control sequence as none. */
size_t merge_fit(const char *bytes, size_t len, size_t columns, size_t *ret_width);

#endif
