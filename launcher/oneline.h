/* oneline.h - what a person gets to read is one line of printable text, whatever the user or the machine put
 * into it. */
#ifndef LAUNCHER_ONELINE_H
#define LAUNCHER_ONELINE_H

#include <stddef.h>

#include "store/base/err.h"

void oneline_text(char  *text,
                  size_t size); /* in place; control characters and broken UTF-8 become \n, \x1b ... */
int  oneline_err(struct cc_err *err, int r); /* the same for the message of a failure; returns r */

#endif
