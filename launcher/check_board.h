/* check_board.h - how the ranks of ccrun-check talk about what they measure: over the store, never over the network that is
 * measured, so a rank that cannot communicate can still say so.
 *
 * Rank 0 collects what each rank posts, and announces what all are to know.  Who has not posted in time is silent from then
 * on: it is not waited for again.  One thread.
 */
#ifndef LAUNCHER_CHECK_BOARD_H
#define LAUNCHER_CHECK_BOARD_H

#include <stdbool.h>
#include <stdint.h>

#include "backends/ccrun.h"
#include "store/base/err.h"

enum { BOARD_KEY_MAX = 96 };

struct board {
    struct ccrun_store *store;
    int                 rank, size;
    uint64_t            timeout_ms;
    char                prefix[BOARD_KEY_MAX / 2];
    bool               *is_silent; /* rank 0: of each rank */
    int                 n_silent;
};

int  board_open(struct board *b, uint64_t timeout_ms, struct cc_err *err);
void board_close(struct board *b);

int board_post(struct board *b, const char *what, const char *text, struct cc_err *err);

/* Rank 0: one text a rank, for free(), NULL of who is silent; ret has room for `size`.  Fails only when the store does. */
int  board_collect(struct board *b, const char *what, uint64_t timeout_ms, char **ret, struct cc_err *err);
void board_texts_free(const struct board *b, char **texts);

int board_announce(struct board *b, const char *what, const char *text, struct cc_err *err); /* rank 0 */

/* What rank 0 announced, for free().  -ETIMEDOUT: it is silent. */
int board_hear(struct board *b, const char *what, uint64_t timeout_ms, char **ret, struct cc_err *err);

/* The difference between the clocks of a rank and of rank 0, which ask each other a few times. */
struct board_skew {
    int64_t  ahead_us; /* of rank 0's clock */
    uint64_t error_us; /* it can be wrong by so much: half of the way there and back */
};
int board_ask_clock(struct board *b, int rank, struct board_skew *ret, struct cc_err *err); /* rank 0 */
int board_tell_clock(struct board *b, struct cc_err *err);                                  /* that rank */

#endif
