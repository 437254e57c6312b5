/* pmix.h - ccrun-pmix, the process that speaks PMIx with the workers of a round: started, talked to, ended.
 *
 * It is one of the job's processes: who empties the tree kills it, too, and it ends when its socket is closed.
 */
#ifndef AGENT_PMIX_H
#define AGENT_PMIX_H

#include <uv.h>

#include "store/base/err.h"
#include "store/base/pmixmsg.h"

struct pmix_server;

struct pmix_cfg { /* needed until pmix_start() returns */
    const char  *program;   /* path of ccrun-pmix */
    const char  *directory; /* for its files */
    const char  *host;      /* of this node, as the job calls it */
    char *const *env;
    unsigned     n_local;
};

struct pmix_cbs { /* each may call pmix_close() */
    void (*said)(void *ctx, const struct pmixmsg *m); /* all but PMIXMSG_ENV and _FAILED; good until it returns */
    void (*failed)(void *ctx, const char *sentence);  /* it is gone or cannot go on; the last */
};

int  pmix_start(struct pmix_server **ret, uv_loop_t *loop, const struct pmix_cfg *cfg, const struct pmix_cbs *cbs, void *ctx,
                struct cc_err *err);
int  pmix_tell(struct pmix_server *s, const struct pmixmsg *m, struct cc_err *err);
void pmix_listen(struct pmix_server *s); /* takes what it has said by now */

/* What it has said about the environment of a worker, NULL-terminated; NULL: nothing yet. */
char *const *pmix_env(const struct pmix_server *s, unsigned local_rank);

void pmix_close(struct pmix_server *s); /* freed in a later turn of the loop.  NULL is accepted */

#endif
