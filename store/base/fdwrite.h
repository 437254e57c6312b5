/* fdwrite.h - write() until all is written. For descriptors that block. */
#ifndef CC_FDWRITE_H
#define CC_FDWRITE_H

#include <stddef.h>

/* 0, or a negative errno; *ret_done, when not NULL, is how many bytes went out in either case. */
int cc_write_all(int fd, const char *p, size_t n, size_t *ret_done);

#endif
