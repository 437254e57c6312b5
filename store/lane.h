/* lane.h - one connection of an asynchronous client to a TCPStore server: tries until the server has answered
 * its greeting, then carries bytes both ways.
 *
 * What lies in `out` goes out once the lane is up and lane_send() is called.  The ops are called from the
 * loop only, never from inside a call; each may call lane_free().
 */
#ifndef STORE_LANE_H
#define STORE_LANE_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "store/base/buf.h"

struct lane;
struct lane_link;

struct lane_ops {
    void (*on_up)(struct lane *l);
    void (*on_input)(struct lane *l); /* `in` has grown: take from it */
    void (*on_lost)(struct lane *l,
                    int          status);  /* over, or -ETIMEDOUT: never reached; the last but on_gone */
    void (*on_gone)(void *owner); /* after lane_free(): libuv knows nothing of it any more */
};

struct lane {
    uv_loop_t             *loop;
    const struct sockaddr *address;
    const struct lane_ops *ops;
    void                  *owner, *user; /* user: for the owner to use */
    struct cc_buf          out, in;
    bool                   is_up, is_freed;
    int                    status; /* negative: lost, and why */
    uint64_t               give_up_at, pause;
    struct lane_link      *link; /* NULL: a pause between two tries, or lost */
    uv_timer_t             timer;
    unsigned               n_open; /* handles that libuv still knows */
};

/* Begins to connect. NULL: no memory. The address is borrowed. */
struct lane *lane_new(uv_loop_t *loop, const struct sockaddr *address, uint64_t timeout_ms,
                      const struct lane_ops *ops, void *owner);
void         lane_send(struct lane *l);
/* The peer talks nonsense, say. on_lost() is called later. */
void lane_fail(struct lane *l, int status);
void lane_free(struct lane *l); /* not twice */

#endif
