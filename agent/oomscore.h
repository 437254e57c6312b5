/* oomscore.h - where the kernel runs out of memory it takes a worker, and leaves those who tell why.
 *
 * Lowering a score needs CAP_SYS_RESOURCE; without it everything stays as it was.  Children inherit the score, so it is
 * raised again while they are started: to do that in the child would change ours too, as long as it runs in our memory.
 */
#ifndef AGENT_OOMSCORE_H
#define AGENT_OOMSCORE_H

#include <stdbool.h>

enum { OOMSCORE_OURS = -500 };

struct oomscore {
    int  inherited;
    bool is_lowered;
};

void oomscore_lower(struct oomscore *s); /* *s zeroed at first */
void oomscore_raise(struct oomscore *s); /* to what it was */

#endif
