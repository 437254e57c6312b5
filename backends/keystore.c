#include "backends/keystore.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "store/base/cleanup.h"
#include "store/base/clock.h"
#include "store/client.h"
#include "store/filestore.h"

enum { FIRST_PAUSE_MS = 1, MAX_PAUSE_MS = 10, KEYS_MAX = 1 << 16 };

/* One file of this process: a clone must not count as one more user of it. */
struct shared_file {
    struct filestore *f;
    pthread_mutex_t   lock;
    atomic_uint       n_users;
};

struct keystore {
    struct init_where    where;
    uint64_t             timeout_ms;
    char                *prefix;
    pthread_mutex_t      turn;
    struct store_client *tcp;  /* or */
    struct shared_file  *file; /* one of the two */
    atomic_bool          is_interrupted;
};

/* ---- the file, which is asked again and again without its lock being held in between */

static struct shared_file *leave_file(struct shared_file *s)
{
    if (s && atomic_fetch_sub(&s->n_users, 1) == 1) {
        (void) filestore_free(s->f);
        (void) pthread_mutex_destroy(&s->lock);
        free(s);
    }
    return NULL;
}

static int open_file(struct keystore *s, struct cc_err *err)
{
    struct filestore_cfg cfg = { .path = s->where.path,
                                 .world_size = s->where.world_size,
                                 .timeout_ms = s->timeout_ms };
    struct shared_file  *f = calloc(1, sizeof *f);
    int                  r;

    if (!f)
        return cc_fail(err, -ENOMEM, "no memory for a store");
    (void) pthread_mutex_init(&f->lock, NULL);
    atomic_init(&f->n_users, 1);
    s->file = f;
    r = filestore_open(&f->f, &cfg, err);
    if (r < 0)
        s->file = leave_file(f);
    return r;
}

static int canceled(const struct keystore *s, struct cc_err *err)
{
    return cc_fail(err, -ECANCELED, "store '%s': interrupted", s->where.path);
}

static int wait_in_file(struct keystore *s, const struct cc_bytes *keys, size_t n, uint64_t timeout_ms,
                        struct cc_err *err)
{
    uint64_t start = cc_monotonic_ms(), pause = FIRST_PAUSE_MS;

    for (;;) {
        struct timespec t = { .tv_nsec = (long) pause * 1000000 };
        int             r;

        if (atomic_load(&s->is_interrupted))
            return canceled(s, err);
        (void) pthread_mutex_lock(&s->file->lock);
        r = filestore_wait(s->file->f, keys, n, 0, err);
        (void) pthread_mutex_unlock(&s->file->lock);
        if (r != -ETIMEDOUT)
            return r;
        if (cc_monotonic_ms() - start >= timeout_ms)
            return cc_fail(err, r, "store '%s': nobody has set '%.*s'%s within %.3g s", s->where.path,
                           keys[0].n < 100 ? (int) keys[0].n : 100, (const char *) keys[0].p,
                           n > 1 ? " or others with it" : "", (double) timeout_ms / 1000);
        (void) clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
        pause = 2 * pause < MAX_PAUSE_MS ? 2 * pause : MAX_PAUSE_MS;
    }
}

/* ---- opening */

/* Counts itself like every PyTorch client: a rank 0 in Python waits for all before it goes on. */
static int announce(const struct keystore *s, struct cc_err *err)
{
    struct store_client_cfg cfg = {
        .host = s->where.host, .port = s->where.port, .prefix = "", .timeout_ms = s->timeout_ms
    };
    struct store_client *bare = NULL;
    int64_t              n;
    int                  r = store_client_connect(&bare, &cfg, s->timeout_ms, err);

    if (r == 0)
        r = store_client_add(bare, cc_bytes_of("init/"), 1, &n, err);
    (void) store_client_free(bare);
    return r;
}

static int connect_tcp(struct keystore *s, struct cc_err *err)
{
    struct store_client_cfg cfg = { .host = s->where.host,
                                    .port = s->where.port,
                                    .timeout_ms = s->timeout_ms };

    return store_client_connect(&s->tcp, &cfg, s->timeout_ms, err);
}

static struct keystore *new_store(const struct init_where *where, uint64_t timeout_ms, const char *prefix)
{
    struct keystore *s = calloc(1, sizeof *s);

    if (!s || !(s->prefix = strdup(prefix))) {
        free(s);
        return NULL;
    }
    s->where = *where;
    s->timeout_ms = timeout_ms;
    (void) pthread_mutex_init(&s->turn, NULL);
    atomic_init(&s->is_interrupted, false);
    return s;
}

int keystore_open(struct keystore **ret, const struct init_where *where, uint64_t timeout_ms,
                  struct cc_err *err)
{
    struct keystore *s = new_store(where, timeout_ms, "");
    int              r;

    if (!s)
        return cc_fail(err, -ENOMEM, "no memory for a store");
    r = where->scheme == INIT_FILE ? open_file(s, err) : connect_tcp(s, err);
    if (r == 0 && s->tcp)
        r = announce(s, err);
    if (r < 0)
        s = keystore_free(s);
    else
        *ret = s;
    return r;
}

int keystore_clone(struct keystore **ret, struct keystore *s, const char *prefix, struct cc_err *err)
{
    char            *whole = NULL;
    struct keystore *c = NULL;
    int              r = 0;

    if (asprintf(&whole, "%s%s", s->prefix, prefix ? prefix : "") >= 0)
        c = new_store(&s->where, s->timeout_ms, whole);
    free(whole);
    if (!c)
        return cc_fail(err, -ENOMEM, "no memory for a store");
    if (s->file) {
        c->file = s->file;
        (void) atomic_fetch_add(&c->file->n_users, 1);
    } else {
        r = connect_tcp(c, err);
    }
    if (r < 0)
        c = keystore_free(c);
    else
        *ret = c;
    return r;
}

struct keystore *keystore_free(struct keystore *s)
{
    if (!s)
        return NULL;
    (void) store_client_free(s->tcp);
    (void) leave_file(s->file);
    (void) pthread_mutex_destroy(&s->turn);
    free(s->prefix);
    free(s);
    return NULL;
}

void keystore_interrupt(struct keystore *s)
{
    atomic_store(&s->is_interrupted, true);
    if (s->tcp)
        store_client_interrupt(s->tcp);
}

bool keystore_own_address(struct keystore *s, char *ret, size_t size)
{
    return s->tcp && store_client_own_address(s->tcp, ret, size);
}

/* ---- calls */

/* Takes the turn, and makes the whole key. */
static int begin(struct keystore *s, const char *key, struct cc_buf *ret, struct cc_err *err)
{
    if (cc_buf_add(ret, s->prefix, strlen(s->prefix)) < 0 || cc_buf_add(ret, key, strlen(key)) < 0) {
        cc_buf_free(ret);
        return cc_fail(err, -ENOMEM, "no memory for a key of the store");
    }
    if (s->file && atomic_load(&s->is_interrupted)) {
        cc_buf_free(ret);
        return canceled(s, err);
    }
    (void) pthread_mutex_lock(s->file ? &s->file->lock : &s->turn);
    return 0;
}

static int end(struct keystore *s, struct cc_buf *key, int r)
{
    (void) pthread_mutex_unlock(s->file ? &s->file->lock : &s->turn);
    cc_buf_free(key);
    return r;
}

static struct cc_bytes bytes(const struct cc_buf *b)
{
    return (struct cc_bytes){ cc_buf_data(b), cc_buf_len(b) };
}

int keystore_set(struct keystore *s, const char *key, struct cc_bytes value, struct cc_err *err)
{
    struct cc_buf k = { 0 };
    int           r = begin(s, key, &k, err);

    if (r < 0)
        return r;
    return end(s, &k,
               s->tcp ? store_client_set(s->tcp, bytes(&k), value, err)
                      : filestore_set(s->file->f, bytes(&k), value, err));
}

int keystore_add(struct keystore *s, const char *key, int64_t delta, int64_t *ret_sum, struct cc_err *err)
{
    struct cc_buf k = { 0 };
    int           r = begin(s, key, &k, err);

    if (r < 0)
        return r;
    return end(s, &k,
               s->tcp ? store_client_add(s->tcp, bytes(&k), delta, ret_sum, err)
                      : filestore_add(s->file->f, bytes(&k), delta, ret_sum, err));
}

int keystore_compare_set(struct keystore *s, const char *key, struct cc_bytes expected,
                         struct cc_bytes desired, struct cc_buf *ret, struct cc_err *err)
{
    struct cc_buf k = { 0 };
    int           r = begin(s, key, &k, err);

    if (r < 0)
        return r;
    return end(s, &k,
               s->tcp ? store_client_compare_set(s->tcp, bytes(&k), expected, desired, ret, err)
                      : filestore_compare_set(s->file->f, bytes(&k), expected, desired, ret, err));
}

int keystore_delete(struct keystore *s, const char *key, struct cc_err *err)
{
    struct cc_buf k = { 0 };
    bool          was_there;
    int           r = begin(s, key, &k, err);

    if (r < 0)
        return r;
    return end(s, &k,
               s->tcp ? store_client_delete(s->tcp, bytes(&k), &was_there, err)
                      : filestore_delete(s->file->f, bytes(&k), err));
}

/* n keys with the prefix, one behind the other in *ret_all; for the caller to free, both. */
static int whole_keys(const struct keystore *s, const char *const *keys, size_t n, struct cc_bytes **ret,
                      struct cc_buf *ret_all, struct cc_err *err)
{
    struct cc_bytes *list = n <= KEYS_MAX ? calloc(n > 0 ? n : 1, sizeof *list) : NULL;
    size_t           off = 0;
    bool             is_full = !list;

    for (size_t i = 0; !is_full && i < n; i++)
        is_full = cc_buf_add(ret_all, s->prefix, strlen(s->prefix)) < 0 ||
                  cc_buf_add(ret_all, keys[i], strlen(keys[i])) < 0;
    if (is_full) {
        free(list);
        return n > KEYS_MAX ? cc_fail(err, -EINVAL, "%zu keys at once are more than %d", n, KEYS_MAX)
                            : cc_fail(err, -ENOMEM, "no memory for %zu keys of the store", n);
    }
    for (size_t i = 0; i < n; i++) {
        list[i] = (struct cc_bytes){ cc_buf_data(ret_all) + off, strlen(s->prefix) + strlen(keys[i]) };
        off += list[i].n;
    }
    *ret = list;
    return 0;
}

int keystore_check(struct keystore *s, const char *const *keys, size_t n, bool *ret_all_there,
                   struct cc_err *err)
{
    CC_AUTO_FREE struct cc_bytes *list = NULL;
    struct cc_buf                 all = { 0 }, none = { 0 };
    int                           r = whole_keys(s, keys, n, &list, &all, err);

    if (r == 0)
        r = begin(s, "", &none, err);
    if (r == 0)
        r = end(s, &none,
                s->tcp ? store_client_check(s->tcp, list, n, ret_all_there, err)
                       : filestore_check(s->file->f, list, n, ret_all_there, err));
    cc_buf_free(&all);
    return r;
}

int keystore_wait(struct keystore *s, const char *const *keys, size_t n, uint64_t timeout_ms,
                  struct cc_err *err)
{
    CC_AUTO_FREE struct cc_bytes *list = NULL;
    struct cc_buf                 all = { 0 }, none = { 0 };
    int                           r = whole_keys(s, keys, n, &list, &all, err);

    if (r == 0 && s->file)
        r = wait_in_file(s, list, n, timeout_ms, err);
    else if (r == 0 && (r = begin(s, "", &none, err)) == 0)
        r = end(s, &none, store_client_wait(s->tcp, list, n, timeout_ms, err));
    cc_buf_free(&all);
    return r;
}

int keystore_get(struct keystore *s, const char *key, uint64_t timeout_ms, struct cc_buf *ret,
                 struct cc_err *err)
{
    struct cc_buf k = { 0 };
    int           r = s->file ? keystore_wait(s, &key, 1, timeout_ms, err) : 0;

    if (r == 0)
        r = begin(s, key, &k, err);
    if (r < 0)
        return r;
    return end(s, &k,
               s->tcp ? store_client_get(s->tcp, bytes(&k), timeout_ms, ret, err)
                      : filestore_get(s->file->f, bytes(&k), 0, ret, err));
}

/* In a file as PyTorch does it there: the last one tells the others. */
static int barrier_in_file(struct keystore *s, const char *key, int64_t n, uint64_t timeout_ms,
                           struct cc_err *err)
{
    CC_AUTO_FREE char *members = NULL, *last = NULL;
    int64_t            here = 0;
    int                r;

    if (asprintf(&members, "%s/num_members", key) < 0 || asprintf(&last, "%s/last_member", key) < 0)
        return cc_fail(err, -ENOMEM, "no memory for a barrier in the store");
    r = keystore_add(s, members, 1, &here, err);
    if (r == 0 && here >= n)
        r = keystore_set(s, last, cc_bytes_of("1"), err);
    if (r == 0)
        r = keystore_wait(s, (const char *const *) &last, 1, timeout_ms, err);
    if (r == -ETIMEDOUT)
        r = cc_fail(err, r,
                    "store '%s': %" PRId64 " of %" PRId64 " came to the barrier '%.100s' within %.3g s",
                    s->where.path, here, n, key, (double) timeout_ms / 1000);
    return r;
}

int keystore_barrier(struct keystore *s, const char *key, int64_t n, uint64_t timeout_ms, struct cc_err *err)
{
    struct cc_buf k = { 0 };
    int           r;

    if (s->file)
        return barrier_in_file(s, key, n, timeout_ms, err);
    r = begin(s, key, &k, err);
    return r < 0 ? r : end(s, &k, store_client_barrier(s->tcp, bytes(&k), n, timeout_ms, err));
}
