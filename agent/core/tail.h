/* tail.h - the last bytes of a stream, and the last whole lines of them as text for a report. Pure. */
#ifndef AGENT_CORE_TAIL_H
#define AGENT_CORE_TAIL_H

#include <stddef.h>

struct tail {
    char  *buf; /* borrowed from the owner */
    size_t cap, used, pos;
};

void tail_init(struct tail *t, char *buf, size_t cap);
void tail_put(struct tail *t, const char *bytes, size_t len);
/* The last `max_lines` lines into `out` (t->cap + 2 bytes), each ended by one newline.  A first line of which
 * the start is gone is left out, of a progress bar only the last state stays, and a NUL becomes a blank.
 * Returns the length. */
size_t tail_text(const struct tail *t, char *out, unsigned max_lines);

#endif
