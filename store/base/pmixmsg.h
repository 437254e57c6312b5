/* pmixmsg.h - what the agent and ccrun-pmix, which speaks PMIx for it, say to each other over a socketpair.
 *
 * Pure.  A message is its length (32 bits, little endian, of what follows), a type, two numbers, a text and bytes.
 */
#ifndef CC_PMIXMSG_H
#define CC_PMIXMSG_H

#include <stdint.h>
#include <sys/types.h>

#include "store/base/buf.h"

enum pmixmsg_type {
    /* To it. id: our node; number: our first rank; text: the namespace; blob: "HOST,...", NUL, "0,1;2,...", NUL */
    PMIXMSG_REGISTER = 1,
    PMIXMSG_ENV,          /* to us. id: a local rank; blob: NAME=VALUE, each with its NUL */
    PMIXMSG_READY,        /* to us. Workers may start */
    PMIXMSG_FAILED,       /* to us. text: why it cannot go on */
    /* To us. id; text: a name, the same on all nodes, then ":RANK,..." when not all ranks take part; blob: data */
    PMIXMSG_FENCE,
    PMIXMSG_FENCE_DONE,   /* to it. id; number: 0, or a negative errno; blob: the data of all, in the order of the nodes */
    PMIXMSG_ASK,          /* both. id; number: a rank of the other side, whose data are wanted */
    PMIXMSG_ANSWER,       /* both. id; number: 0, or a negative errno; blob: the data */
    PMIXMSG_ABORTED,      /* to us. id: a rank; number: the code */
    PMIXMSG_INSIDE,       /* to us. id: a rank; number: 1 it has begun, 0 it has finalized */
    PMIXMSG_N_TYPES
};

#define PMIXMSG_MAX ((uint32_t) 256 << 20) /* of one message */

struct pmixmsg {
    enum pmixmsg_type type;
    uint32_t          id;
    int32_t           number;
    struct cc_bytes   text, blob; /* point into the bytes that were taken */
};

int pmixmsg_put(struct cc_buf *b, const struct pmixmsg *m); /* 0, -ENOMEM or -E2BIG */

/* How many bytes the message at p takes; 0: it is not there in full; -EPROTO: this is none. */
ssize_t pmixmsg_take(const uint8_t *p, size_t n, struct pmixmsg *ret);

#endif
