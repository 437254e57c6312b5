/* plaintext.h - text of unknown origin made fit for a terminal and for JSON: valid UTF-8 without control
 * characters.
 *
 * Pure.  A worker's message or stderr may hold anything: a stray ESC would recolour the user's terminal, one
 * invalid byte makes a JSON document unreadable.  Such bytes are written as \xNN; printable text passes
 * unchanged.
 */
#ifndef AGENT_CORE_PLAINTEXT_H
#define AGENT_CORE_PLAINTEXT_H

#include <stddef.h>

/* Length of the valid UTF-8 sequence at s (1 to 4), or 0. */
size_t plaintext_utf8(const char *s, size_t len);

/* Copies len bytes to dst as one line: control characters (tab excepted) and invalid bytes become \xNN, \n,
 * \r. What does not fit is cut at a whole character and "..." takes its place.  Always terminated; size is at
 * least 8. Returns the length of dst. */
size_t plaintext_line(char *dst, size_t size, const char *src, size_t len);

/* The last `max` lines of text: the first byte of them, and their number.  A missing last newline counts as
 * one. */
const char *plaintext_tail(const char *text, unsigned max, unsigned *ret_n);

/* What a terminal would show of one line that holds progress bars: the part after its last \r that is not its
 * end. */
const char *plaintext_after_cr(const char *line, size_t *len);

#endif
