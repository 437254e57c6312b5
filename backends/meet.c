#include "backends/meet.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/whois.h"
#include "store/base/cleanup.h"
#include "store/base/clock.h"

enum { KEY_MAX = 64, LIST_MAX = 160, CLAIM_TRIES = 100 };

/* ---- the place */

static const char *get_variable(void *ctx, const char *name)
{
    (void) ctx;
    return getenv(name);
}

static int read_where(struct init_where *ret, const struct ccrun_init *init, struct cc_err *err)
{
    bool             has_size = init->world_size > 0;
    struct init_args a = { .url = init->init_method, .env = get_variable };

    /* A rank 0 beside no size is a field that was left out. */
    a.world_size = has_size || init->world_size < -1 ? init->world_size : INIT_NOT_GIVEN;
    a.rank = init->rank != 0 || has_size ? init->rank : INIT_NOT_GIVEN;
    return init_url_read(ret, &a, err);
}

int meet_open(struct meeting *ret, const struct ccrun_init *init, uint64_t timeout_ms, struct cc_err *err)
{
    struct meeting m = { 0 };
    int            r = read_where(&m.where, init, err);

    if (r < 0)
        return r;
    ret->where = m.where;
    if (m.where.scheme != INIT_FILE && m.where.port == 0)
        return cc_fail(err, -EINVAL, "the store's port is 0, at which nobody can be found");
    if (m.where.scheme != INIT_FILE && !m.where.has_server && m.where.rank == 0)
        r = helper_start(&m.helper, m.where.host, m.where.port, timeout_ms, err);
    if (r == 0)
        r = keystore_open(&m.store, &m.where, timeout_ms, err);
    if (r < 0)
        meet_close(&m);
    else
        *ret = m;
    return r;
}

void meet_close(struct meeting *m)
{
    m->store = keystore_free(m->store);
    m->helper = helper_stop(m->helper);
}

/* ---- a seat */

static struct cc_bytes text_of(const struct cc_buf *b)
{
    return (struct cc_bytes){ cc_buf_data(b), cc_buf_len(b) };
}

/* What "who/<rank>" holds: the number of the init, and the process or nothing when it has left. */
static uint64_t read_claim(const struct cc_buf *b, struct whois *ret)
{
    char     text[WHOIS_TEXT_MAX + 24], *end;
    uint64_t n;

    (void) snprintf(text, sizeof text, "%.*s", (int) cc_buf_len(b), (const char *) cc_buf_data(b));
    n = strtoull(text, &end, 10);
    whois_read(ret, end);
    return n;
}

static int check_holder(const struct whois *holder, const struct whois *me, int rank, struct cc_err *err)
{
    if (!holder->pid || whois_is_same(holder, me) || whois_is_gone(holder, me) ||
        holder->attempt < me->attempt)
        return 0;
    return cc_fail(err, -EEXIST,
                   "rank %d is already taken, by process %d on %s: two processes were given the same rank",
                   rank, holder->pid, holder->host);
}

/* The number of this init of the rank: one more than the last one's, whose process must have left or ended.
 */
static int claim(struct keystore *all, int rank, uint64_t *ret_n, struct cc_err *err)
{
    char          key[KEY_MAX], mine[WHOIS_TEXT_MAX + 24], who[WHOIS_TEXT_MAX];
    struct cc_buf seen = { 0 }, got = { 0 };
    struct whois  me, holder;
    bool          is_mine = false;
    int           r = 0;

    (void) snprintf(key, sizeof key, "who/%d", rank);
    whois_self(&me);
    (void) whois_write(&me, who);
    for (int i = 0; r == 0 && !is_mine && i < CLAIM_TRIES; i++) {
        *ret_n = cc_buf_len(&seen) > 0 ? read_claim(&seen, &holder) + 1 : 1;
        (void) snprintf(mine, sizeof mine, "%" PRIu64 " %s", *ret_n, who);
        r = keystore_compare_set(all, key, text_of(&seen), cc_bytes_of(mine), &got, err);
        is_mine =
            r == 0 && cc_buf_len(&got) == strlen(mine) && memcmp(cc_buf_data(&got), mine, strlen(mine)) == 0;
        if (r < 0 || is_mine)
            break;
        (void) read_claim(&got, &holder);
        r = check_holder(&holder, &me, rank, err);
        cc_buf_free(&seen);
        seen = got;
        got = (struct cc_buf){ 0 };
    }
    cc_buf_free(&seen);
    cc_buf_free(&got);
    if (r == 0 && !is_mine)
        r = cc_fail(err, -EEXIST, "rank %d is taken again and again by other processes", rank);
    return r;
}

/* The first one of this init says how large the world is. */
static int check_size(struct seat *s, struct cc_err *err)
{
    char          mine[80], first[80];
    struct cc_buf got = { 0 };
    long          size;
    char         *end;
    int           r;

    (void) snprintf(mine, sizeof mine, "%d %d", s->size, s->rank);
    r = keystore_compare_set(s->own, "world", (struct cc_bytes){ 0 }, cc_bytes_of(mine), &got, err);
    if (r == 0) {
        (void) snprintf(first, sizeof first, "%.*s", (int) cc_buf_len(&got),
                        (const char *) cc_buf_data(&got));
        size = strtol(first, &end, 10);
        if (size != s->size)
            r = cc_fail(err, -EINVAL, "rank %d was told that the world size is %d, but rank%s that it is %ld",
                        s->rank, s->size, end, size);
    }
    cc_buf_free(&got);
    return r;
}

int seat_take(struct seat *ret, struct keystore *store, const char *group, int rank, int size,
              struct cc_err *err)
{
    CC_AUTO_FREE char *prefix = NULL;
    struct seat        s = { .rank = rank, .size = size };
    char               key[KEY_MAX];
    uint64_t           n = 0;
    int                r;

    if (asprintf(&prefix, "ccrun/%s/", group) < 0)
        return cc_fail(err, -ENOMEM, "no memory");
    r = keystore_share(&s.all, store, prefix, err);
    if (r == 0)
        r = claim(s.all, rank, &n, err);
    (void) snprintf(key, sizeof key, "%" PRIu64 "/", n);
    if (r == 0)
        r = keystore_share(&s.own, s.all, key, err);
    if (r == 0)
        r = check_size(&s, err);
    (void) snprintf(key, sizeof key, "here/%d", rank);
    if (r == 0)
        r = keystore_set(s.own, key, cc_bytes_of("1"), err);
    if (r < 0)
        seat_free(&s);
    else
        *ret = s;
    return r;
}

/* "1, 4-6" of those ranks whose key is not there. */
static int list_missing(struct seat *s, char list[LIST_MAX], struct cc_err *err)
{
    size_t n = 0;
    int    r = 0;

    list[0] = '\0';
    for (int i = 0, run = 0; r == 0 && i <= s->size; i++) {
        char        key[KEY_MAX];
        const char *one = key;
        bool        is_here = true;

        (void) snprintf(key, sizeof key, "here/%d", i);
        if (i < s->size)
            r = keystore_check(s->own, &one, 1, &is_here, err);
        if (r == 0 && !is_here) {
            run++;
        } else if (run > 0) {
            if (n + 32 > LIST_MAX)
                return snprintf(list + n, LIST_MAX - n, " ...") < 0 ? -EINVAL : 0;
            n += (size_t) (run == 1 ? snprintf(list + n, LIST_MAX - n, "%s%d", n > 0 ? ", " : "", i - 1)
                                    : snprintf(list + n, LIST_MAX - n, "%s%d-%d", n > 0 ? ", " : "", i - run,
                                               i - 1));
            run = 0;
        }
    }
    return r;
}

int seat_wait_all(struct seat *s, uint64_t timeout_ms, struct cc_err *err)
{
    CC_AUTO_FREE const char **keys = calloc((size_t) s->size, sizeof *keys);
    CC_AUTO_FREE char        *text = malloc((size_t) s->size * KEY_MAX);
    char                      list[LIST_MAX];
    int                       r;

    if (!keys || !text)
        return cc_fail(err, -ENOMEM, "no memory");
    for (int i = 0; i < s->size; i++) {
        keys[i] = text + (size_t) i * KEY_MAX;
        (void) snprintf(text + (size_t) i * KEY_MAX, KEY_MAX, "here/%d", i);
    }
    r = keystore_wait(s->own, keys, (size_t) s->size, timeout_ms, err);
    if (r == -ETIMEDOUT && list_missing(s, list, err) == 0)
        r = cc_fail(err, r, "rank%s %s of %d did not come within %.3g s", strpbrk(list, ",-") ? "s" : "",
                    list, s->size, (double) timeout_ms / 1000);
    return r;
}

void seat_leave(struct seat *s, uint64_t timeout_ms)
{
    char          key[KEY_MAX];
    const char   *all = "gone/all";
    struct cc_buf claim_now = { 0 };
    struct whois  who;
    int64_t       n = 0;

    /* Only the number stays, so that the next one of this rank takes the next. */
    (void) snprintf(key, sizeof key, "who/%d", s->rank);
    if (keystore_get(s->all, key, 0, &claim_now, NULL) == 0) {
        char left[24];

        (void) snprintf(left, sizeof left, "%" PRIu64, read_claim(&claim_now, &who));
        (void) keystore_set(s->all, key, cc_bytes_of(left), NULL);
    }
    cc_buf_free(&claim_now);
    if (keystore_add(s->own, "gone/n", 1, &n, NULL) == 0 && n >= s->size)
        (void) keystore_set(s->own, all, cc_bytes_of("1"), NULL);
    else if (timeout_ms > 0)
        (void) keystore_wait(s->own, &all, 1, timeout_ms, NULL);
}

void seat_free(struct seat *s)
{
    s->own = keystore_free(s->own);
    s->all = keystore_free(s->all);
}
