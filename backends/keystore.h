/* keystore.h - the store in which ranks meet: a TCPStore or a FileStore behind one set of functions.
 *
 * Blocking, libc only.  Calls on one store take turns, whichever thread they come from; keystore_interrupt()
 * does not.  Codes are those of ccrun.h.
 */
#ifndef BACKENDS_KEYSTORE_H
#define BACKENDS_KEYSTORE_H

#include <stdbool.h>
#include <stdint.h>

#include "backends/init_url.h"
#include "store/base/buf.h"
#include "store/base/err.h"

struct keystore;

/* timeout_ms: for the connection, and of calls that do not wait for keys. */
int keystore_open(struct keystore **ret, const struct init_where *where, uint64_t timeout_ms,
                  struct cc_err *err);
/* The same store, over the same connection, with `prefix` behind what `s` puts in front of keys; NULL: with
 * the keys of the user. */
int keystore_share(struct keystore **ret, struct keystore *s, const char *prefix, struct cc_err *err);
/* The same store once more, with such a prefix.  A TCPStore gets a
 * connection of its own: a wait in one does not hold up the other. */
int keystore_clone(struct keystore **ret, struct keystore *s, const char *prefix, struct cc_err *err);
/* With a timeout_ms of its own for calls that do not wait for keys; a file has none. */
int keystore_clone_for(struct keystore **ret, struct keystore *s, const char *prefix, uint64_t timeout_ms,
                       struct cc_err *err);
struct keystore *keystore_free(struct keystore *s);
/* From any thread: what waits, and every later call, returns -ECANCELED. So with all that share its
 * connection. */
void keystore_interrupt(struct keystore *s);

/* Keys without the prefixes. timeout_ms 0 asks once. */
int keystore_set(struct keystore *s, const char *key, struct cc_bytes value, struct cc_err *err);
int keystore_get(struct keystore *s, const char *key, uint64_t timeout_ms, struct cc_buf *ret,
                 struct cc_err *err);
int keystore_add(struct keystore *s, const char *key, int64_t delta, int64_t *ret_sum, struct cc_err *err);
int keystore_compare_set(struct keystore *s, const char *key, struct cc_bytes expected,
                         struct cc_bytes desired, struct cc_buf *ret, struct cc_err *err);
int keystore_delete(struct keystore *s, const char *key, struct cc_err *err);
int keystore_check(struct keystore *s, const char *const *keys, size_t n, bool *ret_all_there,
                   struct cc_err *err);
int keystore_wait(struct keystore *s, const char *const *keys, size_t n, uint64_t timeout_ms,
                  struct cc_err *err);
/* Returns when n have called it with this key. */
int keystore_barrier(struct keystore *s, const char *key, int64_t n, uint64_t timeout_ms, struct cc_err *err);
/* The numeric address at which this process reaches the store's host: where others are likely to reach it.
 * False: a file. */
bool keystore_own_address(struct keystore *s, char *ret, size_t size);

#endif
