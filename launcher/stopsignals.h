/* stopsignals.h - the names in --signals-to-handle as numbers. Pure. */
#ifndef LAUNCHER_STOPSIGNALS_H
#define LAUNCHER_STOPSIGNALS_H

#include "launcher/warnings.h"
#include "store/base/err.h"

enum { STOPSIGNALS_MAX = 32 };

/* Fills ret with each number once, 0 at the end.  An unknown name is a warning, as for torchrun; a signal
 * that nobody can handle, or whose handling would make no sense (SIGCHLD, SIGSEGV ...), is -EINVAL. */
int stopsignals_parse(const char *text, int ret[STOPSIGNALS_MAX], struct warnings *w, struct cc_err *err);

/* One name, with or without SIG in front; 0: there is none such, or it cannot be handled. */
int stopsignals_one(const char *name);

#endif
