/* restarts.h - what the options about restarts say: how often, how soon, and after which ends not at all.  Pure. */
#ifndef LAUNCHER_RESTARTS_H
#define LAUNCHER_RESTARTS_H

#include <stdbool.h>
#include <stdint.h>

#include "store/base/err.h"

struct restarts_rate {
    int64_t  n;
    uint64_t window; /* ms: so many within any such time; 0: in the whole job */
};

/* N or N/WINDOW, N as Python's int().  -EINVAL: N is no number; -ERANGE: it does not fit; -EDOM: the window is none. */
int restarts_rate(const char *text, struct restarts_rate *ret);

/* MIN:MAX, or one duration for both; ms. */
int restarts_backoff(const char *text, uint64_t *ret_min, uint64_t *ret_max, struct cc_err *err);

enum { RESTARTS_CODES = 256 };

/* 1,3-5,SIGSEGV: sets the exit statuses that are named, a signal's being 128 + its number. */
int restarts_codes(const char *text, bool ret[RESTARTS_CODES], struct cc_err *err);

#endif
