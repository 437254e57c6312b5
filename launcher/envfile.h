/* envfile.h - the variables in a file that --env-file names.
 *
 * Pure.  A file with a NUL byte is what `env -0` writes: NAME=VALUE and a NUL, every value byte for byte.  Any other has lines:
 * NAME=VALUE up to the end of the line, untouched; or with a value in quotes, which is read as a shell would and may go over
 * several lines, so that what `ccrun --print-env` writes can be read.  "export" before a name, empty lines and lines that begin
 * with # are passed over.
 */
#ifndef LAUNCHER_ENVFILE_H
#define LAUNCHER_ENVFILE_H

#include <stddef.h>

#include "store/base/err.h"

/* Changes `text`, which has one byte of room after its `len`.  *ret: a list of entries in it, NULL at the end, to be freed.
 * -EINVAL: a sentence that begins with name:line; -ENOMEM. */
int envfile_parse(char *text, size_t len, const char *name, char ***ret, struct cc_err *err);

#endif
