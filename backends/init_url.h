/* init_url.h - where a process group meets: an init method, read by PyTorch's rules.
 *
 * Pure: the environment is a function that the caller passes in; no name is looked up, no file is opened.
 * tcp://HOST:PORT, file:///PATH and env://, each with ?rank=R&world_size=N.  Where torch.distributed refuses
 * with a sentence of its own, this is the sentence, word for word.  Of its oddities these are kept: the host
 * part of a file:// URL is dropped, nothing is percent-decoded, of a doubled query key the last one counts.
 */
#ifndef BACKENDS_INIT_URL_H
#define BACKENDS_INIT_URL_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "store/base/err.h"

enum { INIT_HOST_MAX = 256, INIT_NOT_GIVEN = -1, INIT_WORLD_MAX = 1 << 24 };
enum init_scheme { INIT_TCP, INIT_FILE, INIT_ENV };

struct init_args {
    const char *url;              /* NULL: env:// */
    int64_t     rank, world_size; /* what the caller passed beside the URL, or INIT_NOT_GIVEN */
    const char *(*env)(void *ctx, const char *name); /* NULL: not set */
    void *ctx;
};

struct init_where {
    enum init_scheme scheme;
    int              rank, world_size;
    char             host[INIT_HOST_MAX]; /* tcp and env; without brackets */
    uint16_t         port;
    char             path[PATH_MAX]; /* file */
    bool             has_server;     /* an agent serves the store at host:port; else rank 0 has to */
};

/* 0; -EINVAL and a sentence, -ENOMEM. */
int init_url_read(struct init_where *ret, const struct init_args *args, struct cc_err *err);

#endif
