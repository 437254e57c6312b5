/* report_json.h - the failure report as a program reads it: the document of ccrun-report(5). */
#ifndef AGENT_REPORT_JSON_H
#define AGENT_REPORT_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/failure.h"
#include "agent/report.h"

struct report_json_attempt { /* one that ended in a restart */
    unsigned              attempt;
    size_t                n_failures;
    uint64_t              ended_ms;
    const struct failure *first;
};

struct report_json {
    const struct report_cfg          *cfg;
    const char                       *outcome;
    int                               exit_status;
    uint64_t                          started_ms, ended_ms; /* CLOCK_REALTIME */
    const struct report_json_attempt *attempts;             /* oldest first */
    size_t                            n_attempts, n_attempts_omitted;
    struct failure *const *failures; /* of the last attempt, in the order in which they were seen */
    size_t                 n, first;
    bool                   has_counts;
    unsigned               n_ok, n_stopped;
};

/* The document with a newline at its end, to be freed; NULL: out of memory. */
char *report_json_text(const struct report_json *j);

#endif
