/* listen.h - a socket that listens on a numeric address. */
#ifndef STORE_LISTEN_H
#define STORE_LISTEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "store/base/err.h"

enum { STORE_ADDRESS_MAX = 96 };

/* Returns a descriptor that does not block, and the port.  port 0: any.  -EINVAL: host is no numeric address (fe80::1%eth0
 * is one); -EADDRINUSE names who has the port when /proc tells, unless it is only tried: walking through /proc takes time;
 * another errno of the system call that err names. */
int store_listen(const char *host, uint16_t port, bool is_tried, uint16_t *ret_port, struct cc_err *err);

/* "10.0.0.1:29400" or "[::1]:29400". */
void store_write_address(const struct sockaddr_storage *a, char buf[STORE_ADDRESS_MAX]);

#endif
