/* logmask.h - what --redirects, --tee and --local-ranks-filter say about each local rank.  Pure.
 *
 * A mask is LOGS_OUT | LOGS_ERR of agent/logs.h, torchrun's 0, 1, 2, 3.  `n` is the number of workers; with n
 * = 0 the text is only checked.  Ranks that do not exist are ignored (logmask_beyond() finds them), and the last word about a
 * rank counts, as for torchrun; other than torchrun we can name local ranks above 9.
 */
#ifndef LAUNCHER_LOGMASK_H
#define LAUNCHER_LOGMASK_H

#include <stdbool.h>
#include <stdint.h>

#include "store/base/err.h"

/* `option` is for the message: "--tee". -EINVAL: torchrun's sentence. */
int logmask_parse(const char *option, const char *text, uint8_t *masks, unsigned n, struct cc_err *err);

/* The empty text lets every rank through. */
int logmask_filter(const char *text, bool *is_on_console, unsigned n, struct cc_err *err);

/* The first item of a good text, RANK:WHAT or RANK, whose rank is none of n workers, and its length; or NULL. */
const char *logmask_beyond(const char *text, unsigned n, int *ret_len);

#endif
