#include "agent/preempt.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/atomicfile.h"
#include "store/base/clock.h"

bool preempt_announce(struct preempt *p, uint64_t ms_left, struct cc_err *err)
{
    uint64_t at = cc_realtime_ms() + ms_left;
    char     line[sizeof p->deadline + 1];

    if (p->deadline[0])
        return false;
    (void) snprintf(p->deadline, sizeof p->deadline, "%" PRIu64 ".%03u", at / 1000, (unsigned) (at % 1000));
    (void) snprintf(line, sizeof line, "%s\n", p->deadline);
    if (p->file && atomicfile_write(p->file, line, strlen(line), err) < 0)
        (void) cc_wrap(err, "write '%s'", p->file);
    return true;
}

void preempt_clear(struct preempt *p)
{
    free(p->file);
    *p = (struct preempt) { .file = NULL };
}
