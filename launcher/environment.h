/* environment.h - the environment that the workers inherit, put together: what ccrun was started with, without what
 * --clean-env takes away, with the variables of --env-file and --env on top.
 *
 * Entries are borrowed; nothing in them is changed, whatever bytes they have.
 */
#ifndef LAUNCHER_ENVIRONMENT_H
#define LAUNCHER_ENVIRONMENT_H

#include <stddef.h>

#include "store/base/err.h"

struct environment {
    char **list; /* NULL at the end */
    size_t n, cap;
};

/* All of `base`, NULL at its end.  -ENOMEM. */
int  environment_init(struct environment *e, char *const *base, struct cc_err *err);
void environment_free(struct environment *e);

const char *environment_get(const struct environment *e, const char *name); /* the value; NULL: it is not set */
int  environment_set(struct environment *e, const char *entry, struct cc_err *err); /* NAME=VALUE, in place of an earlier one */

/* Removes what the batch system or the MPI that started us says about one task, which is not what a worker of ours is: which
 * rank it has, how many there are.  `what` is "slurm" or "mpi"; -EINVAL for another. */
int environment_clean(struct environment *e, const char *what, struct cc_err *err);

#endif
