#include "backends/calltext.h"

#include <stdio.h>

#include "backends/reduce.h"
#include "store/base/macros.h"

const char *calltext_name(enum ccrun_what what)
{
    static const char *const names[] = {
        [CCRUN_ALL_REDUCE] = "all-reduce",
        [CCRUN_REDUCE] = "reduce",
        [CCRUN_BROADCAST] = "broadcast",
        [CCRUN_ALL_GATHER] = "all-gather",
        [CCRUN_GATHER] = "gather",
        [CCRUN_SCATTER] = "scatter",
        [CCRUN_REDUCE_SCATTER] = "reduce-scatter",
        [CCRUN_ALL_TO_ALL] = "all-to-all",
        [CCRUN_BARRIER] = "barrier",
        [CCRUN_SEND] = "send",
        [CCRUN_RECV] = "recv",
    };

    return (unsigned) what < CC_COUNT(names) ? names[what] : NULL;
}

const char *calltext(const struct ccrun_call *c, char buf[CALLTEXT_MAX])
{
    char of[48] = "", whom[40] = "";

    if (c->what != CCRUN_BARRIER)
        (void) snprintf(of, sizeof of, " of %zu %s", c->count, type_name(c->type));
    switch (c->what) {
    case CCRUN_ALL_REDUCE:
    case CCRUN_REDUCE_SCATTER: (void) snprintf(whom, sizeof whom, " (%s)", op_name(c->op)); break;
    case CCRUN_REDUCE: (void) snprintf(whom, sizeof whom, " (%s) to rank %d", op_name(c->op), c->peer); break;
    case CCRUN_GATHER: (void) snprintf(whom, sizeof whom, " to rank %d", c->peer); break;
    case CCRUN_BROADCAST:
    case CCRUN_SCATTER: (void) snprintf(whom, sizeof whom, " from rank %d", c->peer); break;
    case CCRUN_SEND: (void) snprintf(whom, sizeof whom, " to rank %d, tag %d", c->peer, c->tag); break;
    case CCRUN_RECV: (void) snprintf(whom, sizeof whom, " from rank %d, tag %d", c->peer, c->tag); break;
    case CCRUN_ALL_GATHER:
    case CCRUN_ALL_TO_ALL:
    case CCRUN_BARRIER:
    default: break;
    }
    (void) snprintf(buf, CALLTEXT_MAX, "%s%s%s", calltext_name(c->what), of, whom);
    return buf;
}
