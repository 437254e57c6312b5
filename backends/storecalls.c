/* storecalls.c - the public calls of a store. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backends/pg.h"

enum { DEFAULT_TIMEOUT_MS = 1800000 };

int ccrun_store_open(struct ccrun_store **ret, const struct ccrun_init *init)
{
    struct cc_err      *err = pg_error();
    struct ccrun_store *s = calloc(1, sizeof *s);
    int                 r;

    if (!s)
        return cc_fail(err, -ENOMEM, "no memory for a store");
    s->timeout_ms = init->timeout_ms > 0 ? init->timeout_ms : DEFAULT_TIMEOUT_MS;
    r = meet_open(&s->m, init, s->timeout_ms, err);
    if (r < 0) {
        free(s);
        return r;
    }
    s->keys = s->m.store;
    s->rank = s->m.where.rank;
    s->size = s->m.where.world_size;
    *ret = s;
    return 0;
}

struct ccrun_store *ccrun_store_close(struct ccrun_store *s)
{
    if (s)
        meet_close(&s->m);
    free(s);
    return NULL;
}

int ccrun_store_rank(const struct ccrun_store *s)
{
    return s->rank;
}

int ccrun_store_size(const struct ccrun_store *s)
{
    return s->size;
}

static struct cc_bytes bytes(const void *p, size_t n)
{
    return (struct cc_bytes){ p, n };
}

static uint64_t timeout_of(const struct ccrun_store *s, uint64_t timeout_ms)
{
    return timeout_ms > 0 ? timeout_ms : s->timeout_ms;
}

/* The bytes as memory of their own, with a zero byte behind them. */
static int hand_out(struct cc_buf *v, int r, void **ret, size_t *ret_size, struct cc_err *err)
{
    size_t n = cc_buf_len(v);
    char  *p = r < 0 ? NULL : malloc(n + 1);

    if (p) {
        if (n > 0)
            memcpy(p, cc_buf_data(v), n);
        p[n] = '\0';
        *ret = p;
        *ret_size = n;
    } else if (r >= 0) {
        r = cc_fail(err, -ENOMEM, "no memory for a value of %zu bytes", n);
    }
    cc_buf_free(v);
    return r < 0 ? r : 0;
}

int ccrun_store_set(struct ccrun_store *s, const char *key, const void *value, size_t size)
{
    return keystore_set(s->keys, key, bytes(value, size), pg_error());
}

int ccrun_store_get(struct ccrun_store *s, const char *key, uint64_t timeout_ms, void **ret, size_t *ret_size)
{
    struct cc_buf v = { 0 };
    int           r = keystore_get(s->keys, key, timeout_of(s, timeout_ms), &v, pg_error());

    return hand_out(&v, r, ret, ret_size, pg_error());
}

int ccrun_store_add(struct ccrun_store *s, const char *key, int64_t delta, int64_t *ret_sum)
{
    return keystore_add(s->keys, key, delta, ret_sum, pg_error());
}

int ccrun_store_compare_set(struct ccrun_store *s, const char *key, const void *expected,
                            size_t expected_size, const void *desired, size_t desired_size, void **ret,
                            size_t *ret_size)
{
    struct cc_buf v = { 0 };
    int r = keystore_compare_set(s->keys, key, bytes(expected, expected_size), bytes(desired, desired_size),
                                 &v, pg_error());

    return hand_out(&v, r, ret, ret_size, pg_error());
}

int ccrun_store_delete(struct ccrun_store *s, const char *key)
{
    return keystore_delete(s->keys, key, pg_error());
}

int ccrun_store_check(struct ccrun_store *s, const char *const *keys, size_t n)
{
    bool all = false;
    int  r = keystore_check(s->keys, keys, n, &all, pg_error());

    return r < 0 ? r : all;
}

int ccrun_store_wait(struct ccrun_store *s, const char *const *keys, size_t n, uint64_t timeout_ms)
{
    return keystore_wait(s->keys, keys, n, timeout_of(s, timeout_ms), pg_error());
}

int ccrun_store_barrier(struct ccrun_store *s, const char *key, int64_t n, uint64_t timeout_ms)
{
    return keystore_barrier(s->keys, key, n, timeout_of(s, timeout_ms), pg_error());
}
