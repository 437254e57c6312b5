/* record.h - the inputs of a job's cores, as they are written down to be played again.
 *
 * Pure.  A recording is a head and entries.  An entry is the length of the rest in two bytes, then what came in, when, and a
 * sum of all that the core had decided before: a replay that decides otherwise notices where.  The two cores, member and
 * rdzv, do not share anything but the file: each has a sum of its own, and its entries in the order of their coming.
 *
 * Some entries are answers to an op of the member, or come while it is in one: those of a start and of a switch of the
 * store, the code of an attempt that has ended and the description of a failure.
 */
#ifndef AGENT_CORE_RECORD_H
#define AGENT_CORE_RECORD_H

#include "agent/core/member.h"
#include "agent/core/proto.h"
#include "agent/core/rdzv.h"

enum { RECORD_VERSION = 3, RECORD_HEAD = 8, RECORD_MAX = PROTO_FRAME_MAX + 512, RECORD_PIECE = PROTO_FRAME_MAX };

enum record_kind {
    RECORD_MEMBER, /* the member is born: u.member */
    RECORD_VIEW,
    RECORD_REFUSED,
    RECORD_CONNECTED,
    RECORD_NOTICE, /* u.ms */
    RECORD_EXITED,
    RECORD_SIGNAL, /* u.number */
    RECORD_PRESSED,
    RECORD_TICK,
    RECORD_SETTLE,
    RECORD_PAUSED, /* u.ms */
    RECORD_STARTED,      /* in a start, or after it */
    RECORD_CANNOT_START, /* the same: u.number */
    RECORD_SWITCHED,     /* in host_store: u.number */
    RECORD_ENDED,        /* what attempt_ended answered: u.number */
    RECORD_DESCRIBED,    /* what describe made of a failure: u.cause */
    RECORD_COORDINATOR,  /* rdzv is born: u.rdzv; the rest is its */
    RECORD_HELLO,        /* u.heard */
    RECORD_BROKEN,       /* u.heard, without the hello */
    RECORD_DUE,          /* RDZV_EV_TICK */
    RECORD_STATE,        /* a piece of what its predecessor had saved, which it loads with the last: u.state */
    RECORD_N_KINDS
};

struct record {
    enum record_kind kind;
    uint64_t         now;
    uint32_t         sum; /* of the decisions of this core until then */
    union {
        struct member_cfg   member;
        struct rdzv_view    view;
        struct rdzv_refused refused;
        struct rdzv_cause   cause;
        struct rdzv_cfg     rdzv;
        struct { uint64_t link, incarnation; struct rdzv_hello hello; } heard;
        struct { int32_t status; bool is_terminal; } exited;
        struct { bool is_empty, is_drained; } settle;
        struct { uint32_t n_left; uint16_t n; uint8_t bytes[RECORD_PIECE]; } state; /* n_left: in the pieces that follow */
        uint64_t ms;
        uint32_t number;
    } u;
};

bool record_is_coordinators(enum record_kind kind);

void record_head(uint8_t ret[RECORD_HEAD]);

/* -EPROTO: no recording, or one of another version. */
int record_check_head(const uint8_t *bytes, size_t n, struct cc_err *err);

size_t record_encode(const struct record *r, uint8_t ret[RECORD_MAX]);

/* 1, with *ret_used of the bytes used; 0: the entry is not complete, as the last one of a process that was killed;
 * -EPROTO: this is no entry. */
int record_decode(const uint8_t *bytes, size_t n, size_t *ret_used, struct record *ret, struct cc_err *err);

enum record_decision { /* the ops of a core; hello, view and refuse are messages */
    RECORD_DOES_START = PROTO_N_TYPES,
    RECORD_DOES_SIGNAL,
    RECORD_DOES_SWEEP,
    RECORD_DOES_HOST,
    RECORD_DOES_NOTICE,
    RECORD_DOES_NEWS,
    RECORD_DOES_NODE_NEWS,
    RECORD_DOES_FINISH,
};

/* The sum with one more decision in it: number is what the op was called with. */
uint32_t record_sum_number(uint32_t sum, enum record_decision what, uint64_t number);
uint32_t record_sum_message(uint32_t sum, uint64_t link, const struct proto_msg *m);

#endif
