/* logdir.h - where a job's files are: log directories as torchrun lays them out, and a private one for error
 * files.
 *
 *     <root>/<run_id>_XXXXXXXX/attempt_<n>/<local_rank>/   when logs were asked for
 *     $TMPDIR/ccrun-XXXXXXXX/                              error files of a job that did not: removed at the
 * end
 *
 * A directory that exists is used as it is: a round after a membership change, which counts no attempt, goes
 * on in the same place (torchrun deletes the earlier round's logs).
 */
#ifndef AGENT_LOGDIR_H
#define AGENT_LOGDIR_H

#include <stdbool.h>

#include "store/base/err.h"

struct logdir {
    char    *run;     /* <root>/<run_id>_XXXXXXXX, absolute; NULL: no files */
    char    *attempt; /* of the newest attempt; NULL before the first */
    unsigned n_attempt;
    char    *private_dir; /* for error files; NULL: not made yet */
    /* Gets the path of the private directory before it is made, so that whoever removes it after us misses it at
     * no moment; or NULL. */
    void (*on_private)(void *ctx, const char *path);
    void *ctx;
};

/* log_dir NULL: a new directory in the temporary one, torchelastic_XXXXXXXX, mode 0700. */
int logdir_open(struct logdir *d, const char *log_dir, const char *run_id, struct cc_err *err);
/* Makes attempt_<n>/<local_rank>/ and returns its path (the caller frees it), or NULL with err. */
char *logdir_worker(struct logdir *d, unsigned attempt, unsigned local_rank, struct cc_err *err);
/* A path that a worker may write its error to (the caller frees it), or NULL: no directory can be written. */
char *logdir_error_file(struct logdir *d, unsigned attempt, unsigned local_rank);
/* A path in the private directory (the caller frees it), or NULL. */
char *logdir_private_file(struct logdir *d, const char *name);
void  logdir_close(struct logdir *d); /* removes the private directory */

#endif
