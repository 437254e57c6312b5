/* report_text.h - the failure report as people read it on stderr: at most 15 lines and a stderr tail. */
#ifndef AGENT_REPORT_TEXT_H
#define AGENT_REPORT_TEXT_H

#include <stddef.h>
#include <stdio.h>

#include "agent/failure.h"
#include "agent/report.h"

struct report_text {
    const struct report_cfg *cfg;
    struct failure *const   *failures; /* of the last attempt, in the order in which they were seen */
    size_t                   n, first; /* first: index of the root cause; n is at least 1 */
    unsigned                 n_ok, n_stopped;
};

/* Writes to `to`, which is usually a memory stream: errors stay in its ferror(). -ENOMEM. */
int report_text_write(const struct report_text *t, FILE *to);

#endif
