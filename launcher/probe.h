/* probe.h - ccrun --probe: ask the ccrun that runs here, as an orchestrator does from inside the container. */
#ifndef LAUNCHER_PROBE_H
#define LAUNCHER_PROBE_H

#include <stdio.h>

#include "store/base/err.h"

/* `what` is live or ready, with :PID to say which ccrun.  0 yes, 1 no, both with one line to `to`; or -EINVAL and err. */
int probe(FILE *to, const char *what, struct cc_err *err);

#endif
