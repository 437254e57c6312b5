/* wire.h - the bytes of PyTorch's TCPStore protocol: requests and answers, parsed and made, for both sides.
 *
 * Pure.  Three dialects are understood on one port (A: torch 1.13 and 2.0, B: 2.1, C: 2.2 and later); op
 * numbers here are those of C.  A parser is resumable: it is called with everything that has arrived of the
 * current message, says how much more it needs, and never looks twice at what it has looked at.  Nothing is
 * copied: what it returns points into the caller's bytes.
 */
#ifndef STORE_CORE_WIRE_H
#define STORE_CORE_WIRE_H

#include <endian.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "store/base/buf.h"
#include "store/base/err.h"

enum wire_op {
    WIRE_VALIDATE,
    WIRE_SET,
    WIRE_COMPARE_SET,
    WIRE_GET,
    WIRE_ADD,
    WIRE_CHECK,
    WIRE_WAIT,
    WIRE_GETNUMKEYS,
    WIRE_DELETE_KEY,
    WIRE_APPEND,
    WIRE_MULTI_GET,
    WIRE_MULTI_SET,
    WIRE_CANCEL_WAIT,
    WIRE_PING,
    WIRE_QUEUE_PUSH,
    WIRE_QUEUE_POP,
    WIRE_QUEUE_LEN,
    WIRE_LIST_KEYS,
    WIRE_BARRIER,
    WIRE_N_OPS
};

enum wire_dialect { WIRE_UNDECIDED, WIRE_A_OR_B, WIRE_A, WIRE_B, WIRE_C };

enum {
    WIRE_STOP_WAITING = 0,
    WIRE_WAIT_CANCELED = 1
}; /* the one byte that answers WAIT, BARRIER and CANCEL_WAIT */

#define WIRE_MAGIC 0x3C85F7CEu

/* What is refused as soon as a length shows it.  PyTorch's own server stops at 8 KiB, 8 MiB and 131,072. */
#define WIRE_KEY_MAX ((uint64_t) 8192)
#define WIRE_VALUE_MAX ((uint64_t) 64 << 20)
#define WIRE_LIST_MAX ((uint64_t) 131072)
#define WIRE_MESSAGE_MAX ((uint64_t) 256 << 20) /* one request, or one answer, in all */

/* One direction of one connection.  Zeroed: nothing has come yet. */
struct wire_in {
    uint8_t     dialect; /* enum wire_dialect; requests only */
    uint8_t     op;
    const char *field; /* what comes next, NULL: between two messages */
    uint64_t    left;  /* strings still to come of a list */
    size_t      off;   /* how much of the message has been looked at */
    size_t      need;  /* at least so many bytes of it must be there for the next step */
};

/* Strings one behind the other, length in front of each. */
struct wire_list {
    const uint8_t *p;
    uint64_t       n;
};

struct wire_req {
    enum wire_op     op;
    struct cc_bytes  key, value, desired; /* COMPARE_SET: value is the expected one */
    int64_t          number;              /* ADD's delta, BARRIER's world size, PING's nonce */
    struct wire_list list;                /* keys; MULTI_SET: key, value, key, value ..., n counts both */
};

struct wire_answer {
    int64_t          number; /* also of one-byte answers */
    struct cc_bytes  value;  /* QUEUE_POP: there when number > 0 */
    struct wire_list list;   /* MULTI_GET, LIST_KEYS */
};

/* Returns how many bytes the request at p takes (it is in *ret then), 0 if it is not there in full (w->need),
 * or a negative code: -EPROTO and a sentence in err.  Call again with the same bytes and more behind them.
 * is_all: there is nothing behind p[n) that the kernel has and the caller has not read; only dialects A and B
 * need to know, whose op 8 is told apart by whether something follows the key. */
ssize_t wire_request(struct wire_in *w, const uint8_t *p, size_t n, bool is_all, struct wire_req *ret,
                     struct cc_err *err);

/* The same for the answer to `op`; n_values: how many keys a MULTI_GET asked for. An op without an answer: 0
 * bytes. */
ssize_t wire_answer(struct wire_in *w, enum wire_op op, uint64_t n_values, const uint8_t *p, size_t n,
                    struct wire_answer *ret, struct cc_err *err);
bool    wire_has_answer(enum wire_op op, uint64_t n_values);

/* Takes the next string off the list; the list must not be empty. */
struct cc_bytes wire_next(struct wire_list *l);

/* Appends a request of dialect C, each key with `prefix` in front.  Lists are given by items[0 .. n_items),
 * pairs one behind the other; r->list is not looked at.  0 or -ENOMEM (then b is as it was), -E2BIG when a
 * limit is passed. */
int wire_put_request(struct cc_buf *b, struct cc_bytes prefix, const struct wire_req *r,
                     const struct cc_bytes *items, uint64_t n_items);

static inline uint8_t *wire_put64(uint8_t *at, uint64_t n)
{
    n = htole64(n);
    memcpy(at, &n, sizeof n);
    return at + sizeof n;
}

static inline uint8_t *wire_put32(uint8_t *at, uint32_t n)
{
    n = htole32(n);
    memcpy(at, &n, sizeof n);
    return at + sizeof n;
}

static inline uint8_t *wire_put_bytes(uint8_t *at, struct cc_bytes s) /* 8 + s.n bytes */
{
    at = wire_put64(at, s.n);
    if (s.n > 0)
        memcpy(at, s.p, s.n);
    return at + s.n;
}

#endif
