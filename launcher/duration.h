/* duration.h - lengths of time as people write them: 90, 1.5, 30s, 10m, 2h, 1d; a number alone is seconds. Pure. */
#ifndef LAUNCHER_DURATION_H
#define LAUNCHER_DURATION_H

#include <stdint.h>

int duration_parse(const char *text, uint64_t *ret_ms); /* -EINVAL: no duration; -ERANGE: below 0 or above 30 years */

#endif
