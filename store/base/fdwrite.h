/* fdwrite.h - write() until all is written, or all that is taken now. */
#ifndef CC_FDWRITE_H
#define CC_FDWRITE_H

#include <stddef.h>

#include "store/base/buf.h"

/* To a descriptor that blocks.  0, or a negative errno; *ret_done, when not NULL, is how many bytes went out in either case. */
int cc_write_all(int fd, const char *p, size_t n, size_t *ret_done);

/* To a stream socket, without blocking and without SIGPIPE: what it takes now; the rest stays in b, until it is writable again.
 * 0, or a negative errno: it takes no more, ever. */
int cc_send_some(int fd, struct cc_buf *b);

#endif
