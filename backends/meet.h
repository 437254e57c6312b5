/* meet.h - ranks find each other: init method -> store, rank, size; and who else is there.
 *
 * Keys of a group are under "ccrun/<group>/": "who/<rank>" says how many times this rank was inited in this
 * store, and by which process; everything else has that number in front, so that what an earlier init has
 * left is not seen.
 */
#ifndef BACKENDS_MEET_H
#define BACKENDS_MEET_H

#include <stdint.h>

#include "backends/ccrun.h"
#include "backends/helper.h"
#include "backends/init_url.h"
#include "backends/keystore.h"

struct meeting {
    struct init_where where;
    struct keystore  *store;  /* with the keys of the user */
    struct helper    *helper; /* NULL, or the server that rank 0 has started */
};

/* ret->where is set once the init method has been read, whatever fails then. */
int  meet_open(struct meeting *ret, const struct ccrun_init *init, uint64_t timeout_ms, struct cc_err *err);
void meet_close(struct meeting *m);

/* One rank's place in a group, taken in the store. */
struct seat {
    struct keystore *all; /* the keys of the group, whatever the init */
    struct keystore *own; /* those of this init */
    int              rank, size;
};

/* Takes the place.  -EEXIST: another process holds this rank, and is named; -EINVAL: a rank has another world
 * size. */
int seat_take(struct seat *ret, struct keystore *store, const char *group, int rank, int size,
              struct cc_err *err);
/* Waits until all have taken theirs. -ETIMEDOUT names who has not. */
int seat_wait_all(struct seat *s, uint64_t timeout_ms, struct cc_err *err);
/* Says goodbye; then waits up to timeout_ms for the goodbye of all the others (0: not at all). */
void seat_leave(struct seat *s, uint64_t timeout_ms);
void seat_free(struct seat *s);

#endif
