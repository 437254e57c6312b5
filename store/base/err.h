/* err.h - how a failure travels: a negative code up the stack, one sentence beside it.
 *
 * A function that can fail returns int: 0 or a count on success, a negative code on
 * failure, and takes `struct cc_err *err` last.  It fills err on failure only.  The caller
 * owns err (usually on its stack): nothing is allocated, so reporting ENOMEM works.
 * Library code (everything but launcher/) never prints and never exits.
 */
#ifndef CC_ERR_H
#define CC_ERR_H

#include <stddef.h>

enum { CC_ERR_MSG_MAX = 512 };

/* Codes below -4096 are ours; -1..-4095 are negative errno (libuv uses the same values). */
enum cc_code {
    CC_EPROTO_VERSION = -5001, /* the peer speaks another protocol version */
    CC_ERDZV_CLOSED   = -5002, /* the rendezvous no longer admits nodes */
    CC_ERDZV_TIMEOUT  = -5003, /* fewer than min_nodes arrived in time */
    CC_EWORKER        = -5004, /* a worker failed and no restart is left */
};

struct cc_err {
    int  code; /* 0, or the negative code of the innermost failure */
    char msg[CC_ERR_MSG_MAX];
};

/* Record a failure and return `code`, so that `return cc_fail(err, -EINVAL, "...")` reads as one step. */
int cc_fail(struct cc_err *err, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Put context before the message already there: "start rank 3: exec 'train': No such file". Returns err->code. */
int cc_wrap(struct cc_err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* A name for any code, ours or errno's. Static storage, never NULL. */
const char *cc_code_name(int code);

#endif
