/* server.h - PyTorch's TCPStore on a libuv loop, one key space for each round.
 *
 * Everything happens on the loop's thread and nothing blocks it: no name look-up ever, bounded work for each
 * client in each turn of the loop, bounded memory.  To refuse a client is to close its connection, for the
 * protocol has no error answer; `log` is told why.
 */
#ifndef STORE_SERVER_H
#define STORE_SERVER_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "store/base/err.h"

struct store_server;

enum { STORE_SERVER_ALSO_MAX = 3 };

struct store_server_cfg {
    const char *host;                             /* numeric address to listen on; NULL: 127.0.0.1 */
    const char *also[STORE_SERVER_ALSO_MAX];      /* further ones, at the same port; NULL or "": none */
    uint16_t    port;                             /* 0: any */
    bool        is_tried;                         /* the port may well be taken: do not look who has it */
    uint64_t    max_memory;                       /* bytes of keys, values and unread answers; 0: 1 GiB */
    unsigned    max_files;                        /* descriptors from this number on are not for clients; 0: all are */
    void (*log)(void *ctx, const char *sentence); /* refused connections etc., rate-limited; may be NULL; must
                                                     not call store_server_*() back */
    /* A client of a TCPStore begins with a byte below 0x80.  Who begins with another is no business of the store: fd, from
     * which bytes[n] are read already, is the callee's from now on, and no change of round drops it.  NULL: refused. */
    void (*other)(void *ctx, int fd, const uint8_t *bytes, size_t n);
    void *ctx;
};

/* Listens when it returns 0, so run the loop soon.  -EINVAL: host is no numeric address; -EADDRINUSE, on any of the
 * addresses, names who has the port when /proc tells (but see is_tried); another errno of the system call that err names. */
int      store_server_start(struct store_server **ret, uv_loop_t *loop, const struct store_server_cfg *cfg,
                            struct cc_err *err);
uint16_t store_server_port(const struct store_server *s);
/* An empty key space.  Connections accepted before are dropped; the listening socket stays. */
void store_server_new_round(struct store_server *s);
/* Between rounds there is nothing to store: clients are dropped and refused until the next round. */
void store_server_end_round(struct store_server *s);
/* Frees s before it calls on_closed (which may be NULL), from a later turn of the loop. */
void store_server_close(struct store_server *s, void (*on_closed)(void *ctx), void *ctx);

#endif
