/* failure.h - all that is known of one worker's bad end, copied and cut to a bounded size. */
#ifndef AGENT_FAILURE_H
#define AGENT_FAILURE_H

#include <stddef.h>
#include <stdint.h>

#include "agent/core/cause.h"
#include "agent/evidence.h"
#include "agent/report.h"

enum { FAILURE_TAIL_LINES = 20 };
#define FAILURE_RECORD_URL "https://pytorch.org/docs/stable/elastic/errors.html"

struct failure {
    struct report_failure f;         /* its strings are ours; stderr_tail has at most FAILURE_TAIL_LINES */
    char                 *message;   /* from the error file; NULL: none */
    char                 *callstack; /* or NULL */
    char                 *note;      /* why an error file was ignored, or NULL */
    int64_t               file_s;    /* the error file's timestamp, 0: none */
    uint64_t              file_ms;
    struct evidence       evidence;
};

/* Reads the error file and the evidence. NULL: out of memory. */
struct failure *failure_new(const struct report_failure *f, struct evidence_watch *w, uint64_t grace_ms);
struct failure *failure_free(struct failure *x);

struct cause_failure failure_cause(const struct failure *x);
uint64_t             failure_time(const struct failure *x); /* CLOCK_REALTIME in ms */
/* As torchrun counts: the code, or minus the signal. */
int failure_exitcode(const struct failure *x);
/* NULL when the worker left no usable one, or when it goes away with ccrun. */
const char *failure_error_file(const struct failure *x);
/* Why, in one line: the message, or torchrun's words for a worker without one. */
void failure_why(const struct failure *x, char *buf, size_t size);
/* "train.py:12 in main": where the exception was raised; "" when the call stack does not tell. */
void failure_where(const struct failure *x, char *buf, size_t size);

#endif
