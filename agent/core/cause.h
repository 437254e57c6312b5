/* cause.h - which of several failures was the first: the one that the user has to look at.
 *
 * Pure.  Ranks of one job fall over together within milliseconds, and the one whose exit we saw first is
 * often a victim.  What is known of each failure:
 *   detected_ms  when its exit was seen: a worker that raised may have spent a second in its exit handlers
 *   file_s       when the exception was raised, from the error file, which holds whole seconds only
 *   file_ms      when that file was last written: the same moment to the millisecond, if the clocks agree
 * The rules:
 *   1. A failure happened at its error file's time when that lies in the worker's life, else when seen.
 *   2. Times are compared to the millisecond when all are known that well, else in whole seconds.
 *   3. A tie goes to the one seen first, as in torchrun.
 *   4. A worker that we had signalled never wins, unless its error file was written before anything else went
 *      wrong: then it was raising already, and the others died of it.
 *
 * All times are CLOCK_REALTIME of one machine.
 */
#ifndef AGENT_CORE_CAUSE_H
#define AGENT_CORE_CAUSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cause_failure {
    uint64_t started_ms, detected_ms;
    int64_t  file_s;  /* 0: none */
    uint64_t file_ms; /* 0: unknown */
    bool     is_ours; /* we had sent it TERM or KILL before it ended */
};

/* When it happened, by rule 1; *ret_is_exact says whether the milliseconds mean something. */
uint64_t cause_time(const struct cause_failure *f, bool *ret_is_exact);

/* Index of the first of n failures, given in the order in which they were seen.  When all of them are ours,
 * the first of those.  n is at least 1. */
size_t cause_first(const struct cause_failure *f, size_t n);

#endif
