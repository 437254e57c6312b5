/* nccl_lib.h - libnccl.so.2, loaded when it is asked for, and what it says when something fails. */
#ifndef BACKENDS_NCCL_LIB_H
#define BACKENDS_NCCL_LIB_H

#include "backends/nccl_api.h"
#include "store/base/err.h"

enum { NCCL_VERSION_TEXT_MAX = 48, NCCL_OLDEST = 21400 };

/* The file that CCRUN_NCCL names, or libnccl.so.2 by the rules of dlopen().  -ENOENT: it is not there, or too
 * old. It stays loaded: it has threads. */
int nccl_load(struct nccl_api *ret, struct cc_err *err);
/* NCCL's words for `result`, and what it remembers of it; a negative code of ccrun.h. */
int nccl_fail(const struct nccl_api *api, nccl_result result, nccl_comm comm, struct cc_err *err);
/* 21403 -> "2.14.3"; before 2.9 they were counted in another way. */
const char *nccl_version_text(int version, char buf[NCCL_VERSION_TEXT_MAX]);
int         nccl_version_order(int version); /* bigger is newer, whichever way it was counted */

#endif
