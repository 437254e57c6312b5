/* endpoint.h - HOST[:PORT] of --rdzv-endpoint, as torchrun reads it. Pure: no name is looked up. */
#ifndef LAUNCHER_ENDPOINT_H
#define LAUNCHER_ENDPOINT_H

#include <stdbool.h>
#include <stdint.h>

#include "store/base/err.h"

enum { ENDPOINT_HOST_MAX = 256, ENDPOINT_NO_PORT = -1 };

struct endpoint {
    char host[ENDPOINT_HOST_MAX]; /* without brackets */
    int  port;                    /* 0..65535, or the default that was passed in */
};

/* Empty or blank: localhost and the default port.  [v6]:port, [v6]; else the last colon divides, as in
 * ::1:29500; but where that leaves no address and the whole is one (::1), the whole is meant. */
int endpoint_parse(struct endpoint *ret, const char *text, int default_port, struct cc_err *err);

/* Is that a name or an address of this machine alone: localhost, 127.*, ::1? */
bool endpoint_is_loopback(const char *host);

/* A number that no machine can have as its own: 0.0.0.0, 255.255.255.255, ::, or of a group of machines. */
bool endpoint_is_nobody(const char *host);

#endif
