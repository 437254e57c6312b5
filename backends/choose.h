/* choose.h - what backend "auto" is: nccl if every rank can use it on a GPU of its own, else gloo. */
#ifndef BACKENDS_CHOOSE_H
#define BACKENDS_CHOOSE_H

#include "backends/backend.h"

/* Each rank tells the others through cfg->store what it has; all come to the same answer. */
int choose_backend(const struct backend **ret, const struct backend_cfg *cfg, struct cc_err *err);

#endif
