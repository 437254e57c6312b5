/* lastwords.h - what ranks tell each other through the store when a call has failed, where the backend
 * cannot: that it has, in which call; and, by their silence, who is gone.
 *
 * Nothing is written until something fails, but for one key at the beginning.  No call takes longer than a
 * few seconds, also when the store is gone: then nobody is heard.  One thread at a time.
 */
#ifndef BACKENDS_LASTWORDS_H
#define BACKENDS_LASTWORDS_H

#include <stdbool.h>

#include "backends/keystore.h"
#include "store/base/err.h"

struct lastwords;

/* `store` has the keys of this group, and need not stay. */
int lastwords_open(struct lastwords **ret, struct keystore *store, int rank, int size, struct cc_err *err);
struct lastwords *lastwords_free(struct lastwords *w);

/* Has another rank said that it failed?  Then err is what it said, and true is returned. Asks the store once.
 */
bool lastwords_heard(struct lastwords *w, struct cc_err *err);
/* `doing` failed, or was given up, here: says so once. */
void lastwords_say(struct lastwords *w, const char *doing, const char *why);
/* Adds to err what the first one has said, unless that was this rank, or `known` is in it.  Asks the store
 * once. */
void lastwords_add_first(struct lastwords *w, const char *known, struct cc_err *err);
/* Waits a second for the others to say the same of themselves, and adds to err who did not, and who was in
 * another call (is_alike: all should be in the same). */
void lastwords_ask(struct lastwords *w, const char *doing, bool is_alike, struct cc_err *err);

#endif
