/* fileusers.h - are those who use a store in a file still there?  Known of ranks of libccrun on this machine,
 * from the places that they have taken in groups (meet.h); not of Python's, and not of other machines.
 */
#ifndef BACKENDS_FILEUSERS_H
#define BACKENDS_FILEUSERS_H

#include "store/filestore.h"

/* A filestore_are_dead; ctx is not looked at. */
bool fileusers_are_dead(void *ctx, const struct kv *kv, int64_t users, char *ret_who, size_t size);

#endif
