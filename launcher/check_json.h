/* check_json.h - a report of ccrun-check for machines; the schema is in ccrun-check.1. */
#ifndef LAUNCHER_CHECK_JSON_H
#define LAUNCHER_CHECK_JSON_H

#include "launcher/check.h"

/* Text for free(), with a newline at its end; NULL: no memory. */
char *check_json(const struct check_report *r, int status, uint64_t now_ms);

#endif
