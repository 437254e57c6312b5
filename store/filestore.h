/* filestore.h - PyTorch's FileStore: a key-value store in one file, shared by the processes that name it.
 *
 * Blocking, libc only; C and PyTorch processes may share a file.  Keys get cfg.prefix in front.  Every call
 * opens the file, locks it (flock), acts and lets go; it waits for the lock and for keys until its deadline:
 * its own (timeout_ms, milliseconds; 0 asks once), or cfg.timeout_ms.  One thread at a time, but for
 * filestore_interrupt().
 *
 * Codes beside the usual: -ESTALE the file is that of another run, or was replaced; -EBADMSG it is no
 * FileStore, or somebody died while writing it; -ENOENT the last user has removed it; -ECANCELED interrupted.
 */
#ifndef STORE_FILESTORE_H
#define STORE_FILESTORE_H

#include <stdbool.h>
#include <stdint.h>

#include "store/base/buf.h"
#include "store/base/err.h"

struct filestore;
struct kv;

/* What the caller knows of the users of a file in which `users` are counted, whose keys and values are in kv.
 * True: all of them are dead, and nobody else is counted.  Else ret_who may name some, for a sentence. The
 * file is locked: it does not wait, and calls nothing of this file. */
typedef bool filestore_are_dead(void *ctx, const struct kv *kv, int64_t users, char *ret_who, size_t size);

struct filestore_cfg {
    const char *path;
    const char *prefix;     /* NULL: "/", which PyTorch puts in front of every key of the user */
    int64_t     world_size; /* users that are expected; the last of them removes the file. -1: nobody does */
    uint64_t    timeout_ms; /* of calls without a timeout of their own; 0: 300,000 as PyTorch */
    filestore_are_dead *are_dead; /* NULL: that is not known; asked during filestore_open() only */
    void               *ctx;      /* of are_dead */
};

/* Creates the file if need be and counts itself as a user.  A file whose users are all dead is begun anew.
 * -ESTALE: as many users as are expected are counted already. */
int filestore_open(struct filestore **ret, const struct filestore_cfg *cfg, struct cc_err *err);

/* One user less, but for a forked child of the user; the last of all removes the file. Accepts NULL, returns
 * NULL. */
struct filestore *filestore_free(struct filestore *f);

/* From any thread: the call that waits, and every later one but filestore_free(), returns -ECANCELED soon. */
void filestore_interrupt(struct filestore *f);

int filestore_set(struct filestore *f, struct cc_bytes key, struct cc_bytes value, struct cc_err *err);
/* Waits for the key, then adds its value to *ret. */
int filestore_get(struct filestore *f, struct cc_bytes key, uint64_t timeout_ms, struct cc_buf *ret,
                  struct cc_err *err);
int filestore_add(struct filestore *f, struct cc_bytes key, int64_t delta, int64_t *ret_sum,
                  struct cc_err *err);
/* Adds to *ret: `desired` if it was stored, else what is there (or `expected`: no such key). */
int filestore_compare_set(struct filestore *f, struct cc_bytes key, struct cc_bytes expected,
                          struct cc_bytes desired, struct cc_buf *ret, struct cc_err *err);
int filestore_delete(struct filestore *f, struct cc_bytes key, struct cc_err *err);
int filestore_num_keys(struct filestore *f, int64_t *ret, struct cc_err *err); /* with the file's own two */
int filestore_check(struct filestore *f, const struct cc_bytes *keys, uint64_t n, bool *ret_all_there,
                    struct cc_err *err);
int filestore_wait(struct filestore *f, const struct cc_bytes *keys, uint64_t n, uint64_t timeout_ms,
                   struct cc_err *err);

#endif
