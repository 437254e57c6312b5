/* filelog.h - the records of PyTorch's FileStore: a log in one file, of which the last record of a key
 * counts.
 *
 * Pure.  A record is u32 length and key, u32 length and value, little-endian, with nothing before, between or
 * behind.  "/" + key is a user's key, "-/" + key says that it is deleted; "refcount/" and "cleanup/" count
 * the users of the file that are there and that have gone.
 */
#ifndef STORE_CORE_FILELOG_H
#define STORE_CORE_FILELOG_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "store/base/buf.h"

/* PyTorch has no limits; what passes these is no log. */
#define FILELOG_KEY_MAX ((uint32_t) 64 << 10)
#define FILELOG_VALUE_MAX ((uint32_t) 64 << 20)

struct filelog_record {
    struct cc_bytes key, value;
    bool            is_deleted; /* of the key, which is without its "-" then */
};

/* How many bytes the record at p takes; 0: it is not there in full; -EBADMSG: it is none. */
ssize_t filelog_read(const uint8_t *p, size_t n, struct filelog_record *ret);

/* Appends the record of prefix + key. 0, -ENOMEM, -E2BIG. */
int filelog_put(struct cc_buf *b, const char *prefix, struct cc_bytes key, struct cc_bytes value);

#endif
