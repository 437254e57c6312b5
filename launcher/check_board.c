#include "launcher/check_board.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "launcher/check_words.h"
#include "store/base/cleanup.h"
#include "store/base/clock.h"

enum { N_PINGS = 4, WAIT_AT_ONCE = 256 };

static int say_so(int r, struct cc_err *err)
{
    return r < 0 ? cc_fail(err, r, "%s", ccrun_error()) : 0;
}

/* Without ccrun's agent the store outlives a restart of the workers, and what they left there. */
int board_open(struct board *b, uint64_t timeout_ms, struct cc_err *err)
{
    const struct ccrun_init init = { .timeout_ms = timeout_ms };
    const char             *attempt = getenv("TORCHELASTIC_RESTART_COUNT");
    int                     r;

    *b = (struct board) { .timeout_ms = timeout_ms };
    (void) snprintf(b->prefix, sizeof b->prefix, "ccrun-check/%.20s", attempt ? attempt : "0");
    r = ccrun_store_open(&b->store, &init);
    if (r < 0 && !getenv("RANK"))
        return cc_fail(err, r, "%s; start it by ccrun: ccrun --nproc-per-node N --no-python ccrun-check", ccrun_error());
    if (r < 0)
        return say_so(r, err);
    b->rank = ccrun_store_rank(b->store);
    b->size = ccrun_store_size(b->store);
    if (b->size < 1 || b->rank < 0)
        return cc_fail(err, -EINVAL, "RANK and WORLD_SIZE do not say who we are; start ccrun-check with ccrun");
    b->is_silent = calloc((size_t) b->size, sizeof *b->is_silent);
    return b->is_silent ? 0 : cc_fail(err, -ENOMEM, "no memory for %d ranks", b->size);
}

void board_close(struct board *b)
{
    b->store = ccrun_store_close(b->store);
    free(b->is_silent);
    b->is_silent = NULL;
}

static const char *key_of(const struct board *b, char buf[BOARD_KEY_MAX], const char *what, int rank)
{
    if (rank < 0)
        (void) snprintf(buf, BOARD_KEY_MAX, "%s/%.24s", b->prefix, what);
    else
        (void) snprintf(buf, BOARD_KEY_MAX, "%s/%.24s/%d", b->prefix, what, rank);
    return buf;
}

int board_post(struct board *b, const char *what, const char *text, struct cc_err *err)
{
    char key[BOARD_KEY_MAX];

    return say_so(ccrun_store_set(b->store, key_of(b, key, what, b->rank), text, strlen(text)), err);
}

int board_announce(struct board *b, const char *what, const char *text, struct cc_err *err)
{
    char key[BOARD_KEY_MAX];

    return say_so(ccrun_store_set(b->store, key_of(b, key, what, -1), text, strlen(text)), err);
}

int board_hear(struct board *b, const char *what, uint64_t timeout_ms, char **ret, struct cc_err *err)
{
    char   key[BOARD_KEY_MAX];
    void  *text;
    size_t n;
    int    r = ccrun_store_get(b->store, key_of(b, key, what, -1), timeout_ms, &text, &n);

    if (r == -ETIMEDOUT)
        return cc_fail(err, r, "rank 0 was not heard for %.3g s (%s)", (double) timeout_ms / 1000, what);
    if (r < 0)
        return say_so(r, err);
    *ret = text;
    return 0;
}

/* Many at a time: one question to the store, not one each.  0: all of them are there; -ETIMEDOUT: some are not. */
static int wait_some(struct board *b, const char *what, int from, int to, uint64_t timeout_ms)
{
    char        room[WAIT_AT_ONCE][BOARD_KEY_MAX];
    const char *keys[WAIT_AT_ONCE];
    size_t      n = 0;

    for (int i = from; i < to; i++)
        if (!b->is_silent[i]) {
            keys[n] = key_of(b, room[n], what, i);
            n++;
        }
    return n > 0 ? ccrun_store_wait(b->store, keys, n, timeout_ms) : 0;
}

static uint64_t left_until(uint64_t at)
{
    uint64_t now = cc_monotonic_ms();

    return at > now ? at - now : 1; /* 0 would be the store's own default */
}

static int collect_one(struct board *b, const char *what, int rank, bool is_late, char **ret)
{
    char        buf[BOARD_KEY_MAX];
    const char *key = key_of(b, buf, what, rank);
    void       *text;
    size_t      n;
    int         r = is_late ? ccrun_store_check(b->store, &key, 1) : 1;

    if (r == 1)
        r = ccrun_store_get(b->store, key, b->timeout_ms, &text, &n);
    else if (r == 0)
        r = -ETIMEDOUT;
    if (r == 0)
        *ret = text;
    if (r == -ETIMEDOUT) {
        b->is_silent[rank] = true;
        b->n_silent++;
        return 0;
    }
    return r;
}

int board_collect(struct board *b, const char *what, uint64_t timeout_ms, char **ret, struct cc_err *err)
{
    uint64_t until = cc_monotonic_ms() + timeout_ms;
    int      r = 0;

    memset(ret, 0, (size_t) b->size * sizeof *ret);
    for (int from = 0; r >= 0 && from < b->size; from += WAIT_AT_ONCE) {
        int to = from + WAIT_AT_ONCE < b->size ? from + WAIT_AT_ONCE : b->size;

        r = wait_some(b, what, from, to, left_until(until));
        if (r < 0 && r != -ETIMEDOUT)
            break;
        bool is_late = r == -ETIMEDOUT;

        r = 0;
        for (int i = from; r >= 0 && i < to; i++)
            if (!b->is_silent[i])
                r = collect_one(b, what, i, is_late, &ret[i]);
    }
    if (r >= 0)
        return 0;
    board_texts_free(b, ret);
    return say_so(r, err);
}

void board_texts_free(const struct board *b, char **texts)
{
    for (int i = 0; i < b->size; i++) {
        free(texts[i]);
        texts[i] = NULL;
    }
}

/* ---- clocks */

static uint64_t now_us(clockid_t id)
{
    struct timespec t;

    (void) clock_gettime(id, &t);
    return (uint64_t) t.tv_sec * 1000000 + (uint64_t) t.tv_nsec / 1000;
}

/* One word there and one back; the clock that comes back is that of the middle of it, more or less. */
static int ask_once(struct board *b, int rank, int i, struct board_skew *ret, struct cc_err *err)
{
    char     what[BOARD_KEY_MAX / 4], key[BOARD_KEY_MAX];
    uint64_t sent = now_us(CLOCK_REALTIME), start = now_us(CLOCK_MONOTONIC), way, theirs;
    const char *at;
    void    *text;
    size_t   n;
    bool     is_clock;
    int      r;

    (void) snprintf(what, sizeof what, "ask/%d/%d", rank, i);
    r = board_announce(b, what, "?", err);
    if (r < 0)
        return r;
    (void) snprintf(what, sizeof what, "clock/%d", i);
    r = ccrun_store_get(b->store, key_of(b, key, what, rank), b->timeout_ms, &text, &n);
    if (r < 0)
        return say_so(r, err);
    way = now_us(CLOCK_MONOTONIC) - start;
    at = text;
    is_clock = check_words_number(&at, INT64_MAX, &theirs) && *at == '\0';
    free(text);
    if (!is_clock)
        return cc_fail(err, -EPROTO, "rank %d says of its clock what is no time", rank);
    if (i == 0 || way / 2 < ret->error_us) {
        ret->error_us = way / 2;
        ret->ahead_us = (int64_t) (theirs - (sent + way / 2));
    }
    return 0;
}

int board_ask_clock(struct board *b, int rank, struct board_skew *ret, struct cc_err *err)
{
    int r = 0;

    for (int i = 0; r == 0 && i < N_PINGS; i++)
        r = ask_once(b, rank, i, ret, err);
    if (r == -ETIMEDOUT && !b->is_silent[rank]) {
        b->is_silent[rank] = true;
        b->n_silent++;
    }
    return r;
}

int board_tell_clock(struct board *b, struct cc_err *err)
{
    char  what[BOARD_KEY_MAX / 4], text[32];
    char *asked = NULL;
    int   r = 0;

    for (int i = 0; r == 0 && i < N_PINGS; i++) {
        (void) snprintf(what, sizeof what, "ask/%d/%d", b->rank, i);
        /* Those before us are asked first, and each may take its time. */
        r = board_hear(b, what, 2 * b->timeout_ms, &asked, err);
        free(CC_STEAL(asked));
        (void) snprintf(what, sizeof what, "clock/%d", i);
        (void) snprintf(text, sizeof text, "%" PRIu64, now_us(CLOCK_REALTIME));
        if (r == 0)
            r = board_post(b, what, text, err);
    }
    return r;
}
