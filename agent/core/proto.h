/* proto.h - the protocol between agents, on the wire.
 *
 * Pure.  A frame is 0xCC, the type, the length of the rest in two bytes (big endian, as all numbers), then the message.
 * The clients of a TCPStore begin with a byte below 0x80, so one port serves both.  The first frame of an agent is OPEN;
 * what follows is hello and view (rdzv_msg.h), refused, ping and pong.  An agent that leaves says hello with GONE.
 * Texts are cut at their room, and bytes that could steer a terminal are refused.
 */
#ifndef AGENT_CORE_PROTO_H
#define AGENT_CORE_PROTO_H

#include <stddef.h>

#include "agent/core/rdzv_msg.h"
#include "store/base/err.h"

enum {
    PROTO_MAGIC = 0xCC,
    PROTO_VERSION = 1,
    PROTO_HEAD = 4,
    PROTO_FRAME_MAX = 1024, /* of the longest message, with its head */
    PROTO_JOB_MAX = 128,
    PROTO_PROOF_BYTES = 32,
};

enum proto_type { PROTO_OPEN = 1, PROTO_HELLO, PROTO_VIEW, PROTO_REFUSED, PROTO_PING, PROTO_PONG, PROTO_N_TYPES };

struct proto_open {
    uint16_t version; /* another than PROTO_VERSION: nothing else of it is known */
    char     job[PROTO_JOB_MAX];
    uint8_t  proof[PROTO_PROOF_BYTES]; /* that it knows the job's secret; zeros: there is none */
};

struct proto_msg {
    enum proto_type type;
    union {
        struct proto_open   open;
        struct rdzv_hello   hello;
        struct rdzv_view    view;
        struct rdzv_refused refused;
        uint64_t            ping; /* comes back in the pong */
    } u;
};

/* Length of the frame. Bytes that a terminal would act on become '?'. */
size_t proto_encode(const struct proto_msg *m, uint8_t frame[PROTO_FRAME_MAX]);

/* A zeroed parser is at the beginning of a stream. */
struct proto_parser {
    size_t  n;
    uint8_t frame[PROTO_FRAME_MAX];
};

/* Takes bytes until a message is complete: 1, with *ret_used of them used and *ret filled; 0 when all are used and none is;
 * -EPROTO when this is not the protocol: close the connection.  ret->u.hello.about and .cause are zeros when absent. */
int proto_feed(struct proto_parser *p, const uint8_t *bytes, size_t n, size_t *ret_used, struct proto_msg *ret,
               struct cc_err *err);

#endif
