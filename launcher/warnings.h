/* warnings.h - sentences about things that are odd but can be lived with, kept until somebody prints them.
 *
 * Pure and bounded: what does not fit is counted.  With --strict the first one is an error.
 */
#ifndef LAUNCHER_WARNINGS_H
#define LAUNCHER_WARNINGS_H

#include "store/base/err.h"

enum { WARNINGS_MAX = 16, WARNING_LEN = 320 };

struct warnings {
    unsigned n, n_dropped;
    char     text[WARNINGS_MAX][WARNING_LEN];
};

void warnings_add(struct warnings *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int  warnings_as_error(const struct warnings *w,
                       struct cc_err         *err); /* -EINVAL when there is one; for --strict */

#endif
