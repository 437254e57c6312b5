/* ration.h - sentences of which somebody else could cause any number: so many in a while, and then how many were left out.
 *
 * Pure.  All zeros is a new one.
 */
#ifndef CC_RATION_H
#define CC_RATION_H

#include <stdbool.h>
#include <stdint.h>

enum { CC_RATION_MAX = 20, CC_RATION_WINDOW_MS = 10000 };

struct cc_ration {
    uint64_t since; /* the window's begin */
    unsigned n_said, n_kept;
};

/* True: say it.  *ret_kept: how many were left out before; when it is not 0, say that first. */
bool cc_ration_take(struct cc_ration *r, uint64_t now, unsigned *ret_kept);

#endif
