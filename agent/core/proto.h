/* proto.h - the protocol between agents, on the wire.
 *
 * Pure.  A frame is 0xCC, the type, the length of the rest in two bytes (big endian, as all numbers), then the message.
 * The clients of a TCPStore begin with a byte below 0x80, so one port serves both.  The first frame of an agent is OPEN,
 * the host's answer CHALLENGE, with the host's proof that it knows the job's secret, and only then comes the agent's PROOF:
 * who merely listens on the port gets none.  What follows is hello and view (rdzv_msg.h), ping and pong, and REFUSED at any
 * time.  An agent that leaves says hello with GONE.
 * Texts are cut at their room; bytes that could steer a terminal are refused, and a round with a rank that is none.
 *
 * The heads of frames, the version in OPEN and REFUSED are the same in all versions, so that others can be told apart.
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
    PROTO_NONCE_BYTES = 32,
    PROTO_PROOF_BYTES = 32,
    PROTO_TRANSCRIPT_MAX = 512,
};

enum proto_type {
    PROTO_OPEN = 1,
    PROTO_HELLO,
    PROTO_VIEW,
    PROTO_REFUSED,
    PROTO_PING,
    PROTO_PONG,
    PROTO_CHALLENGE,
    PROTO_PROOF,
    PROTO_N_TYPES
};

struct proto_open {
    uint16_t version; /* another than PROTO_VERSION: nothing else of it is known */
    bool     has_secret;
    char     job[PROTO_JOB_MAX]; /* "": whichever is there */
    uint8_t  nonce[PROTO_NONCE_BYTES];
};

struct proto_challenge {
    char    job[PROTO_JOB_MAX], host[RDZV_HOST_MAX]; /* what is there, and who runs it */
    uint8_t nonce[PROTO_NONCE_BYTES];
    uint8_t proof[PROTO_PROOF_BYTES]; /* that the host knows the secret; zeros: there is none */
};

struct proto_proof { /* the same of the agent */
    uint8_t proof[PROTO_PROOF_BYTES];
};

struct proto_msg {
    enum proto_type type;
    union {
        struct proto_open      open;
        struct proto_challenge challenge;
        struct proto_proof     proof;
        struct rdzv_hello      hello;
        struct rdzv_view       view;
        struct rdzv_refused    refused;
        uint64_t               ping; /* comes back in the pong */
    } u;
};

/* Length of the frame. Bytes that a terminal would act on become '?'. */
size_t proto_encode(const struct proto_msg *m, uint8_t frame[PROTO_FRAME_MAX]);

enum proto_side { PROTO_HOST, PROTO_AGENT };

/* What the proof of this side is about, as bytes: never the same for two connections, nor for the two sides of one. c->proof
 * does not matter.  Returns the length. */
size_t proto_transcript(enum proto_side side, const struct proto_open *o, const struct proto_challenge *c,
                        uint8_t ret[PROTO_TRANSCRIPT_MAX]);

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
