/* fields.h - the fields of a message or an image, one after the other: numbers in big endian, texts with their length.
 *
 * Pure.  One description of a message serves both ways, so that the two cannot differ: every field is passed through, and
 * comes back as it was (encoding) or as it stands in the input (decoding).  What comes in may be anything: `bad` says what
 * does not fit, and everything after it reads as zeros.
 */
#ifndef AGENT_CORE_FIELDS_H
#define AGENT_CORE_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/core/rdzv_msg.h"

enum { FIELDS_CAUSE_MAX = 256 }; /* bytes of the longest cause */

struct fields {
    uint8_t       *out; /* NULL: decoding */
    const uint8_t *in;
    size_t         n, size; /* there must be room when encoding */
    const char    *bad;     /* what does not fit, for "the message %s"; NULL: nothing so far */
};

uint64_t fields_number(struct fields *f, unsigned n_bytes, uint64_t value, uint64_t max);
void     fields_u16(struct fields *f, uint16_t *v);
void     fields_u32(struct fields *f, uint32_t *v);
void     fields_i32(struct fields *f, int32_t *v);
void     fields_u64(struct fields *f, uint64_t *v);
void     fields_flag(struct fields *f, bool *v);
/* size: of v, with the NUL.  Bytes that a terminal would act on become '?', and are refused when they come in. */
void     fields_text(struct fields *f, char *v, size_t size);
void     fields_cause(struct fields *f, struct rdzv_cause *c);

#endif
