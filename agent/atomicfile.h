/* atomicfile.h - write a small file whole or not at all: a reader never sees half of it.
 *
 * The bytes go to a new file beside `path`, which then takes its name.  Where no file may be made in that
 * directory but `path` itself is writable, it is written in place.
 */
#ifndef AGENT_ATOMICFILE_H
#define AGENT_ATOMICFILE_H

#include <stddef.h>

#include "store/base/err.h"

/* 0, or the negative errno of the step that failed (-ENOSPC, -EACCES, ...); nothing is left behind then. */
int atomicfile_write(const char *path, const char *data, size_t len, struct cc_err *err);

#endif
