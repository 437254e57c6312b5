#include "backends/keystore.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backends/fileusers.h"
#include "backends/perprocess.h"
#include "store/base/cleanup.h"
#include "store/base/clock.h"
#include "store/base/macros.h"
#include "store/client.h"
#include "store/filestore.h"

enum { FIRST_PAUSE_MS = 1, MAX_PAUSE_MS = 10, KEYS_MAX = 1 << 16 };

/* What stores of this process share that differ in their prefixes only: a connection, or the one user that a
 * process may be of a file. */
struct shared {
    struct perprocess    as;   /* of a file, by its path */
    struct store_client *tcp;  /* or */
    struct filestore    *file; /* one of the two; keys are those on the wire, with their "/" */
    pthread_mutex_t      turn;
};

struct keystore {
    struct init_where where;
    uint64_t          timeout_ms;
    char             *prefix;
    struct shared    *s;
    atomic_bool       is_interrupted;
};

static int canceled(const struct keystore *k, struct cc_err *err)
{
    return cc_fail(err, -ECANCELED, "store '%s': interrupted", k->where.path);
}

/* A file is asked again and again, and its lock is not held in between. */
static int wait_in_file(struct keystore *k, const struct cc_bytes *keys, size_t n, uint64_t timeout_ms,
                        struct cc_err *err)
{
    uint64_t start = cc_monotonic_ms(), pause = FIRST_PAUSE_MS;

    assert(keys);
    for (;;) {
        struct timespec t = { .tv_nsec = (long) pause * 1000000 };
        int             r;

        if (atomic_load(&k->is_interrupted))
            return canceled(k, err);
        (void) pthread_mutex_lock(&k->s->turn);
        r = filestore_wait(k->s->file, keys, n, 0, err);
        (void) pthread_mutex_unlock(&k->s->turn);
        if (r != -ETIMEDOUT)
            return r;
        if (cc_monotonic_ms() - start >= timeout_ms)
            return cc_fail(err, r, "store '%s': nobody has set '%.*s'%s within %.3g s", k->where.path,
                           keys[0].n < 100 ? (int) keys[0].n : 100, (const char *) keys[0].p,
                           n > 1 ? " or others with it" : "", (double) timeout_ms / 1000);
        (void) clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
        pause = 2 * pause < MAX_PAUSE_MS ? 2 * pause : MAX_PAUSE_MS;
    }
}

/* ---- opening */

static struct perprocess_list *all_files(void)
{
    static struct perprocess_list all = PERPROCESS_LIST;

    return &all;
}

/* Of a file that a fork has inherited its parent stays the user. */
static void shared_free(struct shared *s)
{
    if (!s || !perprocess_leave(all_files(), &s->as) || (s->file && !perprocess_is_ours(&s->as)))
        return;
    (void) store_client_free(s->tcp);
    (void) filestore_free(s->file);
    (void) pthread_mutex_destroy(&s->turn);
    free(s);
}

static struct shared *shared_new(void)
{
    struct shared *s = calloc(1, sizeof *s);

    if (s) {
        perprocess_init(&s->as);
        (void) pthread_mutex_init(&s->turn, NULL);
    }
    return s;
}

static int open_server(struct shared **ret, const struct init_where *where, uint64_t connect_ms,
                       uint64_t timeout_ms, struct cc_err *err)
{
    struct store_client_cfg tcp = {
        .host = where->host, .port = where->port, .prefix = "", .timeout_ms = timeout_ms
    };
    struct shared *s = shared_new();
    int            r;

    if (!s)
        return cc_fail(err, -ENOMEM, "no memory for a store");
    r = store_client_connect(&s->tcp, &tcp, connect_ms, err);
    if (r < 0)
        shared_free(s);
    else
        *ret = s;
    return r;
}

struct wish {
    const struct init_where *where;
    uint64_t                 timeout_ms;
};

static int open_new_file(struct perprocess **ret, void *ctx, struct cc_err *err)
{
    const struct wish   *w = ctx;
    struct filestore_cfg file = {
        .path = w->where->path,
        .prefix = "",
        .world_size = w->where->world_size,
        .timeout_ms = w->timeout_ms,
        .are_dead = fileusers_are_dead,
    };
    struct shared *s = shared_new();
    int            r;

    if (!s)
        return cc_fail(err, -ENOMEM, "no memory for a store");
    r = filestore_open(&s->file, &file, err);
    if (r < 0)
        shared_free(s);
    else
        *ret = &s->as;
    return r;
}

static int open_file(struct shared **ret, const struct init_where *where, uint64_t timeout_ms,
                     struct cc_err *err)
{
    struct wish        w = { where, timeout_ms };
    struct perprocess *p = NULL;
    int                r = perprocess_take(&p, all_files(), where->path, open_new_file, &w, err);

    if (r == 0)
        *ret = CC_CONTAINER_OF(p, struct shared, as);
    return r;
}

static int shared_open(struct shared **ret, const struct init_where *where, uint64_t connect_ms,
                       uint64_t timeout_ms, struct cc_err *err)
{
    return where->scheme == INIT_FILE ? open_file(ret, where, timeout_ms, err)
                                      : open_server(ret, where, connect_ms, timeout_ms, err);
}

static struct keystore *new_store(const struct init_where *where, uint64_t timeout_ms, const char *before,
                                  const char *prefix)
{
    struct keystore *k = calloc(1, sizeof *k);

    if (!k || asprintf(&k->prefix, "%s%s", before, prefix) < 0) {
        free(k);
        return NULL;
    }
    k->where = *where;
    k->timeout_ms = timeout_ms;
    atomic_init(&k->is_interrupted, false);
    return k;
}

int keystore_open(struct keystore **ret, const struct init_where *where, uint64_t timeout_ms,
                  struct cc_err *err)
{
    struct keystore *k = new_store(where, timeout_ms, "/", "");
    int64_t          n;
    int              r;

    if (!k)
        return cc_fail(err, -ENOMEM, "no memory for a store");
    r = shared_open(&k->s, where, timeout_ms, timeout_ms, err);
    /* Every PyTorch client counts itself: a rank 0 in Python waits for all before it goes on. */
    if (r == 0 && k->s->tcp)
        r = store_client_add(k->s->tcp, cc_bytes_of("init/"), 1, &n, err);
    if (r < 0)
        (void) keystore_free(k);
    else
        *ret = k;
    return r;
}

int keystore_share(struct keystore **ret, struct keystore *k, const char *prefix, struct cc_err *err)
{
    struct keystore *c = new_store(&k->where, k->timeout_ms, prefix ? k->prefix : "/", prefix ? prefix : "");

    if (!c)
        return cc_fail(err, -ENOMEM, "no memory for a store");
    c->s = k->s;
    perprocess_share(&c->s->as);
    *ret = c;
    return 0;
}

int keystore_clone(struct keystore **ret, struct keystore *k, const char *prefix, struct cc_err *err)
{
    return keystore_clone_for(ret, k, prefix, k->timeout_ms, err);
}

int keystore_clone_for(struct keystore **ret, struct keystore *k, const char *prefix, uint64_t timeout_ms,
                       struct cc_err *err)
{
    struct keystore *c;
    int              r;

    if (k->s->file)
        return keystore_share(ret, k, prefix, err);
    c = new_store(&k->where, timeout_ms, k->prefix, prefix);
    if (!c)
        return cc_fail(err, -ENOMEM, "no memory for a store");
    r = shared_open(&c->s, &k->where, k->timeout_ms, timeout_ms, err);
    if (r < 0)
        (void) keystore_free(c);
    else
        *ret = c;
    return r;
}

struct keystore *keystore_free(struct keystore *k)
{
    if (!k)
        return NULL;
    shared_free(k->s);
    free(k->prefix);
    free(k);
    return NULL;
}

void keystore_interrupt(struct keystore *k)
{
    atomic_store(&k->is_interrupted, true);
    if (k->s->tcp)
        store_client_interrupt(k->s->tcp);
}

bool keystore_own_address(struct keystore *k, char *ret, size_t size)
{
    return k->s->tcp && store_client_own_address(k->s->tcp, ret, size);
}

/* ---- calls */

/* A fork has the connection of its parent, and would take the answers to it. */
static int check_owner(const struct keystore *k, struct cc_err *err)
{
    if (perprocess_is_ours(&k->s->as))
        return 0;
    return cc_fail(err, -EINVAL,
                   "the store was opened by process %d, of which this one is a fork: open it here, too",
                   (int) k->s->as.owner);
}

/* Takes the turn, and makes the whole key. */
static int begin(struct keystore *k, const char *key, struct cc_buf *ret, struct cc_err *err)
{
    int r = check_owner(k, err);

    if (r < 0)
        return r;
    if (cc_buf_add(ret, k->prefix, strlen(k->prefix)) < 0 || cc_buf_add(ret, key, strlen(key)) < 0) {
        cc_buf_free(ret);
        return cc_fail(err, -ENOMEM, "no memory for a key of the store");
    }
    if (k->s->file && atomic_load(&k->is_interrupted)) {
        cc_buf_free(ret);
        return canceled(k, err);
    }
    (void) pthread_mutex_lock(&k->s->turn);
    assert(!k->s->tcp != !k->s->file); /* it is one of them */
    return 0;
}

static int end(struct keystore *k, struct cc_buf *key, int r)
{
    (void) pthread_mutex_unlock(&k->s->turn);
    cc_buf_free(key);
    return r;
}

static struct cc_bytes bytes(const struct cc_buf *b)
{
    return (struct cc_bytes){ cc_buf_data(b), cc_buf_len(b) };
}

int keystore_set(struct keystore *k, const char *key, struct cc_bytes value, struct cc_err *err)
{
    struct cc_buf whole = { 0 };
    int           r = begin(k, key, &whole, err);

    if (r < 0)
        return r;
    return end(k, &whole,
               k->s->tcp ? store_client_set(k->s->tcp, bytes(&whole), value, err)
                         : filestore_set(k->s->file, bytes(&whole), value, err));
}

int keystore_add(struct keystore *k, const char *key, int64_t delta, int64_t *ret_sum, struct cc_err *err)
{
    struct cc_buf whole = { 0 };
    int           r = begin(k, key, &whole, err);

    if (r < 0)
        return r;
    return end(k, &whole,
               k->s->tcp ? store_client_add(k->s->tcp, bytes(&whole), delta, ret_sum, err)
                         : filestore_add(k->s->file, bytes(&whole), delta, ret_sum, err));
}

int keystore_compare_set(struct keystore *k, const char *key, struct cc_bytes expected,
                         struct cc_bytes desired, struct cc_buf *ret, struct cc_err *err)
{
    struct cc_buf whole = { 0 };
    int           r = begin(k, key, &whole, err);

    if (r < 0)
        return r;
    return end(k, &whole,
               k->s->tcp ? store_client_compare_set(k->s->tcp, bytes(&whole), expected, desired, ret, err)
                         : filestore_compare_set(k->s->file, bytes(&whole), expected, desired, ret, err));
}

int keystore_delete(struct keystore *k, const char *key, struct cc_err *err)
{
    struct cc_buf whole = { 0 };
    bool          was_there;
    int           r = begin(k, key, &whole, err);

    if (r < 0)
        return r;
    return end(k, &whole,
               k->s->tcp ? store_client_delete(k->s->tcp, bytes(&whole), &was_there, err)
                         : filestore_delete(k->s->file, bytes(&whole), err));
}

/* n keys with the prefix, one behind the other in *ret_all; for the caller to free, both. */
static int whole_keys(const struct keystore *k, const char *const *keys, size_t n, struct cc_bytes **ret,
                      struct cc_buf *ret_all, struct cc_err *err)
{
    struct cc_bytes *list = n <= KEYS_MAX ? calloc(n > 0 ? n : 1, sizeof *list) : NULL;
    size_t           off = 0;
    bool             is_full = !list;

    for (size_t i = 0; !is_full && i < n; i++)
        is_full = cc_buf_add(ret_all, k->prefix, strlen(k->prefix)) < 0 ||
                  cc_buf_add(ret_all, keys[i], strlen(keys[i])) < 0;
    if (is_full) {
        free(list);
        return n > KEYS_MAX ? cc_fail(err, -EINVAL, "%zu keys at once are more than %d", n, KEYS_MAX)
                            : cc_fail(err, -ENOMEM, "no memory for %zu keys of the store", n);
    }
    for (size_t i = 0; i < n; i++) {
        list[i] = (struct cc_bytes){ cc_buf_data(ret_all) + off, strlen(k->prefix) + strlen(keys[i]) };
        off += list[i].n;
    }
    *ret = list;
    return 0;
}

int keystore_check(struct keystore *k, const char *const *keys, size_t n, bool *ret_all_there,
                   struct cc_err *err)
{
    CC_AUTO_FREE struct cc_bytes *list = NULL;
    struct cc_buf                 all = { 0 }, none = { 0 };
    int                           r = whole_keys(k, keys, n, &list, &all, err);

    if (r == 0)
        r = begin(k, "", &none, err);
    if (r == 0)
        r = end(k, &none,
                k->s->tcp ? store_client_check(k->s->tcp, list, n, ret_all_there, err)
                          : filestore_check(k->s->file, list, n, ret_all_there, err));
    cc_buf_free(&all);
    return r;
}

int keystore_wait(struct keystore *k, const char *const *keys, size_t n, uint64_t timeout_ms,
                  struct cc_err *err)
{
    CC_AUTO_FREE struct cc_bytes *list = NULL;
    struct cc_buf                 all = { 0 }, none = { 0 };
    int                           r = whole_keys(k, keys, n, &list, &all, err);

    if (r == 0)
        r = check_owner(k, err);
    if (r == 0 && k->s->file)
        r = wait_in_file(k, list, n, timeout_ms, err);
    else if (r == 0 && (r = begin(k, "", &none, err)) == 0)
        r = end(k, &none, store_client_wait(k->s->tcp, list, n, timeout_ms, err));
    cc_buf_free(&all);
    return r;
}

int keystore_get(struct keystore *k, const char *key, uint64_t timeout_ms, struct cc_buf *ret,
                 struct cc_err *err)
{
    struct cc_buf whole = { 0 };
    int           r = k->s->file ? keystore_wait(k, &key, 1, timeout_ms, err) : 0;

    if (r == 0)
        r = begin(k, key, &whole, err);
    if (r < 0)
        return r;
    return end(k, &whole,
               k->s->tcp ? store_client_get(k->s->tcp, bytes(&whole), timeout_ms, ret, err)
                         : filestore_get(k->s->file, bytes(&whole), 0, ret, err));
}

/* In a file as PyTorch does it there: the last one tells the others. */
static int barrier_in_file(struct keystore *k, const char *key, int64_t n, uint64_t timeout_ms,
                           struct cc_err *err)
{
    CC_AUTO_FREE char *members = NULL, *last = NULL;
    int64_t            here = 0;
    int                r;

    if (asprintf(&members, "%s/num_members", key) < 0 || asprintf(&last, "%s/last_member", key) < 0)
        return cc_fail(err, -ENOMEM, "no memory for a barrier in the store");
    r = keystore_add(k, members, 1, &here, err);
    if (r == 0 && here >= n)
        r = keystore_set(k, last, cc_bytes_of("1"), err);
    if (r == 0)
        r = keystore_wait(k, (const char *const *) &last, 1, timeout_ms, err);
    if (r == -ETIMEDOUT)
        r = cc_fail(err, r,
                    "store '%s': %" PRId64 " of %" PRId64 " came to the barrier '%.100s' within %.3g s",
                    k->where.path, here, n, key, (double) timeout_ms / 1000);
    return r;
}

int keystore_barrier(struct keystore *k, const char *key, int64_t n, uint64_t timeout_ms, struct cc_err *err)
{
    struct cc_buf whole = { 0 };
    int           r;

    if (k->s->file)
        return barrier_in_file(k, key, n, timeout_ms, err);
    r = begin(k, key, &whole, err);
    return r < 0 ? r : end(k, &whole, store_client_barrier(k->s->tcp, bytes(&whole), n, timeout_ms, err));
}
