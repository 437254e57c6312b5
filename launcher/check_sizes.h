/* check_sizes.h - the message sizes of ccrun-check as people write them: "8:64M:4,1G".
 *
 * Items with commas between them, each SIZE, MIN:MAX or MIN:MAX:FACTOR; a range is multiplied by FACTOR (2) from MIN on,
 * and MAX is always one of it.  Pure.
 */
#ifndef LAUNCHER_CHECK_SIZES_H
#define LAUNCHER_CHECK_SIZES_H

#include <stdint.h>

#include "store/base/err.h"

enum { CHECK_SIZES_MAX = 64, CHECK_SIZE_MIN = 4 };
#define CHECK_SIZE_LIMIT (UINT64_C(1) << 40)

struct check_sizes {
    uint64_t bytes[CHECK_SIZES_MAX]; /* multiples of 4, rising */
    unsigned n;
};

/* -EINVAL: the sentence names the item. */
int check_sizes_parse(const char *text, struct check_sizes *ret, struct cc_err *err);

#endif
