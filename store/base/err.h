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

struct cc_err {
    int  code; /* 0, or the negative errno of the innermost failure (libuv has the same values) */
    char msg[CC_ERR_MSG_MAX];
};

/* Record a failure and return `code`, so that `return cc_fail(err, -EINVAL, "...")` reads as one step. */
int cc_fail(struct cc_err *err, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Put context before the message already there: "start rank 3: exec 'train': No such file". Returns err->code. */
int cc_wrap(struct cc_err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
