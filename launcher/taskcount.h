/* taskcount.h - numbers per node as Slurm writes them: "4(x2),3" is 4, 4 and 3.  Pure. */
#ifndef LAUNCHER_TASKCOUNT_H
#define LAUNCHER_TASKCOUNT_H

#include <stdbool.h>
#include <stddef.h>

#include "store/base/err.h"

enum { TASKCOUNT_MAX = 65536 };

/* The numbers of the first n nodes.  A list for more nodes is no error, since Slurm keeps that of the job in a step of fewer:
 * *ret_is_longer.  `name` is what people call the text.  -EINVAL: not such a list, or one for fewer than n nodes. */
int taskcount_parse(const char *name, const char *text, unsigned *ret, size_t n, bool *ret_is_longer, struct cc_err *err);

/* GPUs of a node: "8", "a100:4", "a100:4,v100:2", "gpu:a100:8"; 0: no such text. */
unsigned taskcount_gpus(const char *text);

#endif
