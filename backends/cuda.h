/* cuda.h - one GPU of this process, through the driver's library, which is loaded when it is asked for.
 *
 * A `struct cuda` is used by one thread at a time, between cuda_enter() and cuda_leave(), which make its
 * context that of the thread.  It has two streams: nothing in `copy` ever waits for other ranks, so waiting
 * for it takes no longer than copying.  Codes: -ENODEV no GPU, or not this one; -ENOENT the driver is too
 * old; -EINVAL a name that is none; -ENOMEM; -EIO the rest.
 */
#ifndef BACKENDS_CUDA_H
#define BACKENDS_CUDA_H

#include <stdbool.h>
#include <stddef.h>

#include "backends/cuda_api.h"
#include "store/base/err.h"

struct cuda {
    struct cuda_api api;
    int             ordinal; /* as this process counts them */
    cu_device       device;
    cu_context      context;
    cu_stream       work, copy;
    bool            has_context;
};

/* Where a buffer is. */
enum cuda_place { CUDA_HOST, CUDA_HERE, CUDA_ELSEWHERE };

/* What "cuda:N" means, or, for NULL, LOCAL_RANK: only looks, and leaves the GPU alone. ret_id tells it from
 * every other GPU of all machines. */
int  cuda_probe(const char *name, char *ret_id, size_t size, struct cc_err *err);
int  cuda_open(struct cuda *ret, const char *name, struct cc_err *err);
void cuda_close(struct cuda *c); /* also of one that did not open */

void cuda_enter(struct cuda *c);
void cuda_leave(struct cuda *c);

/* "cannot <doing>: what the driver says"; returns a negative code. */
int cuda_fail(const struct cuda *c, cu_result result, struct cc_err *err, const char *doing);

int cuda_alloc(struct cuda *c, size_t size, cu_address *ret, struct cc_err *err);
/* When what is in the stream now is over. */
void cuda_free(struct cuda *c, cu_address address, cu_stream stream);
int  cuda_to_device(struct cuda *c, cu_address to, const void *from, size_t size, struct cc_err *err);
int  cuda_to_host(struct cuda *c, void *to, cu_address from, size_t size, struct cc_err *err);
enum cuda_place cuda_place_of(const struct cuda *c, const void *p, int *ret_ordinal);

/* "cuda:3" -> 3; -EINVAL. */
int cuda_parse(const char *name, int *ret, struct cc_err *err);

#endif
