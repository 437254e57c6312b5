#include "store/filestore.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "store/base/cleanup.h"
#include "store/base/clock.h"
#include "store/core/filelog.h"
#include "store/core/kv.h"

enum {
    DEFAULT_TIMEOUT_MS = 300000,
    FIRST_PAUSE_MS = 1,
    MAX_PAUSE_MS = 10,
    READ_SIZE = 64 << 10,
    FILE_MODE = 0644,
    WHO_MAX = 200, /* of a sentence */
};

struct filestore {
    char            *path, *prefix;
    int64_t          world_size;
    uint64_t         timeout_ms;
    struct kv       *kv; /* what the file says up to `off`; keys as they are there */
    struct kv_budget budget;
    struct cc_buf    in;
    off_t            off;
    dev_t            dev; /* which file it was when we opened it */
    ino_t            ino;
    bool             is_counted; /* as a user, */
    pid_t            owner;      /* which this process is: not a child of it */
    atomic_bool      is_interrupted;
};

static void wake_nobody(struct kv_wait *w)
{
    (void) w;
}

/* Sleeps for *pause, which grows. 0, -ETIMEDOUT or -ECANCELED. */
static int pause_until(struct filestore *f, uint64_t *pause, uint64_t deadline)
{
    uint64_t        now = cc_monotonic_ms(), left = deadline > now ? deadline - now : 0;
    uint64_t        ms = *pause < left ? *pause : left;
    struct timespec t = { .tv_nsec = (long) ms * 1000000 };

    if (atomic_load(&f->is_interrupted))
        return -ECANCELED;
    if (left == 0)
        return -ETIMEDOUT;
    (void) clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
    *pause = 2 * *pause < MAX_PAUSE_MS ? 2 * *pause : MAX_PAUSE_MS;
    return 0;
}

static int canceled(const struct filestore *f, struct cc_err *err)
{
    return cc_fail(err, -ECANCELED, "store '%s': interrupted", f->path);
}

/* ---- the lock */

/* Who holds the lock of this file: a process id, or 0 (another machine, another container). */
static int find_holder(const struct stat *st)
{
    char  line[160], file[64];
    int   pid = 0, holder = 0;
    FILE *locks = fopen("/proc/locks", "re");

    if (!locks)
        return 0;
    (void) snprintf(file, sizeof file, "%02x:%02x:%" PRIu64, major(st->st_dev), minor(st->st_dev),
                    (uint64_t) st->st_ino);
    while (holder == 0 && fgets(line, sizeof line, locks)) {
        char where[64];

        if (!strstr(line, "->") && /* those only wait */
            sscanf(line, "%*s FLOCK %*s %*s %d %63s", &pid, where) == 2 && strcmp(where, file) == 0)
            holder = pid;
    }
    (void) fclose(locks);
    return holder;
}

static int lock_failed(const struct filestore *f, const struct stat *st, int code, struct cc_err *err)
{
    int pid = find_holder(st);

    if (code == -ECANCELED)
        return canceled(f, err);
    if (code != -ETIMEDOUT)
        return cc_fail(err, code, "store '%s': cannot lock it: %s", f->path, strerror(-code));
    return pid > 0
               ? cc_fail(err, code, "store '%s': process %d holds its lock and does not let go", f->path, pid)
               : cc_fail(err, code, "store '%s': somebody holds its lock and does not let go", f->path);
}

/* The open and locked file, or a negative code. */
static int open_locked(struct filestore *f, int flags, int lock, uint64_t deadline, struct cc_err *err)
{
    CC_AUTO_FD int fd = open(f->path, flags | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, FILE_MODE);
    uint64_t       pause = FIRST_PAUSE_MS;
    struct stat    st;
    int            r = 0;

    if (fd < 0 && errno == ENOENT && f->ino != 0)
        return cc_fail(err, -ENOENT,
                       "store '%s': the file is gone: its last user or somebody else removed it", f->path);
    if (fd < 0 || fstat(fd, &st) < 0)
        return cc_fail(err, -errno, "store '%s': cannot open it: %s", f->path, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return cc_fail(err, -EINVAL, "store '%s': it is not a regular file", f->path);
    if (f->ino != 0 && (st.st_ino != f->ino || st.st_dev != f->dev || st.st_size < f->off))
        return cc_fail(err, -ESTALE, "store '%s': the file was replaced by another one", f->path);
    while (r == 0 && flock(fd, lock | LOCK_NB) < 0)
        r = errno == EWOULDBLOCK || errno == EINTR ? pause_until(f, &pause, deadline) : -errno;
    if (r < 0)
        return lock_failed(f, &st, r, err);
    f->ino = st.st_ino;
    f->dev = st.st_dev;
    return cc_steal_fd(&fd);
}

/* ---- reading */

/* Takes the whole records off f->in. */
static int take_records(struct filestore *f, struct cc_err *err)
{
    struct filelog_record r;
    ssize_t               n;
    int                   code = 0;

    while (code == 0 && (n = filelog_read(cc_buf_data(&f->in), cc_buf_len(&f->in), &r)) != 0) {
        if (n < 0)
            return cc_fail(err, (int) n, "store '%s': at byte %jd there is no record of a FileStore", f->path,
                           (intmax_t) f->off);
        if (r.is_deleted)
            (void) kv_delete(f->kv, r.key);
        else
            code = kv_set(f->kv, r.key, r.value);
        f->off += n;
        cc_buf_drop(&f->in, (size_t) n);
    }
    return code < 0 ? cc_fail(err, -ENOMEM, "store '%s': no memory for what it holds", f->path) : 0;
}

/* Reads from f->off to the end of the file, which is locked. */
static int refresh(struct filestore *f, int fd, struct cc_err *err)
{
    off_t at = f->off;
    int   r = 0;

    for (;;) {
        uint8_t *to = cc_buf_grow(&f->in, READ_SIZE);
        ssize_t  n;

        if (!to)
            return cc_fail(err, -ENOMEM, "store '%s': no memory to read it", f->path);
        n = pread(fd, to, READ_SIZE, at);
        f->in.len -= READ_SIZE - (n > 0 ? (size_t) n : 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            r = cc_fail(err, -errno, "store '%s': cannot read it: %s", f->path, strerror(errno));
        if (n <= 0)
            break;
        at += n;
        if ((r = take_records(f, err)) < 0)
            break;
    }
    /* Nobody writes while it is locked: half a record stays half a record. */
    if (r == 0 && cc_buf_len(&f->in) > 0)
        r = cc_fail(err, -EBADMSG,
                    "store '%s': the record at byte %jd is cut short: whoever wrote it died; remove the file",
                    f->path, (intmax_t) f->off);
    cc_buf_free(&f->in);
    return r;
}

/* ---- writing */

/* One write: a reader of PyTorch's waits for ever for the rest of a record, with the lock held. */
static int append(struct filestore *f, int fd, const char *prefix, struct cc_bytes key, struct cc_bytes value,
                  struct cc_err *err)
{
    struct cc_buf record = { 0 };
    off_t         end = lseek(fd, 0, SEEK_END);
    ssize_t       n = -1;
    int           r = end < 0 ? -errno : filelog_put(&record, prefix, key, value);

    if (r == 0) {
        n = write(fd, cc_buf_data(&record), cc_buf_len(&record));
        if (n < 0)
            r = -errno;
        else if ((size_t) n < cc_buf_len(&record))
            r = ftruncate(fd, end) < 0 ? -errno : -ENOSPC;
    }
    cc_buf_free(&record);
    if (r == -E2BIG)
        return cc_fail(err, r, "store '%s': a key over %u or a value over %u bytes", f->path, FILELOG_KEY_MAX,
                       FILELOG_VALUE_MAX);
    return r < 0 ? cc_fail(err, r, "store '%s': cannot write to it: %s", f->path, strerror(-r)) : 0;
}

static int add_locked(struct filestore *f, int fd, struct cc_bytes key, int64_t delta, int64_t *ret,
                      struct cc_err *err)
{
    struct cc_bytes value;
    char            text[24];
    int             r;

    if (kv_get(f->kv, key, &value) && value.n == 0)
        (void) kv_delete(f->kv, key); /* an empty value counts as 0 here, unlike in a TCPStore */
    r = kv_add(f->kv, key, delta, ret);
    if (r == -EINVAL)
        return cc_fail(err, r, "store '%s': the value of '%.*s' is not a number", f->path,
                       key.n < 100 ? (int) key.n : 100, (const char *) key.p);
    if (r < 0)
        return cc_fail(err, r, "store '%s': no memory", f->path);
    (void) snprintf(text, sizeof text, "%" PRId64, *ret);
    return append(f, fd, "", key, cc_bytes_of(text), err);
}

/* prefix + key, the key as it is in the file; for the caller to free. */
static int whole_key(const struct filestore *f, struct cc_bytes key, struct cc_buf *ret, struct cc_err *err)
{
    if (cc_buf_add(ret, f->prefix, strlen(f->prefix)) < 0 || cc_buf_add(ret, key.p, key.n) < 0)
        return cc_fail(err, -ENOMEM, "store '%s': no memory for a key", f->path);
    return 0;
}

static struct cc_bytes bytes(const struct cc_buf *b)
{
    return (struct cc_bytes){ cc_buf_data(b), cc_buf_len(b) };
}

/* ---- calls */

int filestore_set(struct filestore *f, struct cc_bytes key, struct cc_bytes value, struct cc_err *err)
{
    CC_AUTO_FD int fd = open_locked(f, O_RDWR, LOCK_EX, cc_deadline_in(f->timeout_ms), err);

    return fd < 0 ? fd : append(f, fd, f->prefix, key, value, err);
}

int filestore_delete(struct filestore *f, struct cc_bytes key, struct cc_err *err)
{
    CC_AUTO_FD int fd = open_locked(f, O_RDWR, LOCK_EX, cc_deadline_in(f->timeout_ms), err);
    struct cc_buf  whole = { 0 };
    int            r = fd < 0 ? fd : whole_key(f, key, &whole, err);

    if (r == 0)
        r = append(f, fd, "-", bytes(&whole), (struct cc_bytes){ 0 }, err);
    cc_buf_free(&whole);
    return r;
}

int filestore_add(struct filestore *f, struct cc_bytes key, int64_t delta, int64_t *ret_sum,
                  struct cc_err *err)
{
    CC_AUTO_FD int fd = open_locked(f, O_RDWR, LOCK_EX, cc_deadline_in(f->timeout_ms), err);
    struct cc_buf  whole = { 0 };
    int            r = fd < 0 ? fd : refresh(f, fd, err);

    if (r == 0)
        r = whole_key(f, key, &whole, err);
    if (r == 0)
        r = add_locked(f, fd, bytes(&whole), delta, ret_sum, err);
    cc_buf_free(&whole);
    return r;
}

int filestore_compare_set(struct filestore *f, struct cc_bytes key, struct cc_bytes expected,
                          struct cc_bytes desired, struct cc_buf *ret, struct cc_err *err)
{
    CC_AUTO_FD int  fd = open_locked(f, O_RDWR, LOCK_EX, cc_deadline_in(f->timeout_ms), err);
    struct cc_buf   whole = { 0 };
    struct cc_bytes there;
    bool            is_there;
    int             r = fd < 0 ? fd : refresh(f, fd, err);

    if (r == 0)
        r = whole_key(f, key, &whole, err);
    if (r == 0) {
        is_there = kv_get(f->kv, bytes(&whole), &there);
        if (!is_there)
            there = (struct cc_bytes){ 0 };
        if (there.n == expected.n && (there.n == 0 || memcmp(there.p, expected.p, there.n) == 0)) {
            r = append(f, fd, f->prefix, key, desired, err);
            there = desired;
        } else if (!is_there) {
            there = expected;
        }
    }
    if (r == 0 && cc_buf_add(ret, there.p, there.n) < 0)
        r = cc_fail(err, -ENOMEM, "store '%s': no memory for a value", f->path);
    cc_buf_free(&whole);
    return r;
}

/* Whether the file may have more than we know: saves the lock when it has not. */
static bool has_grown(const struct filestore *f)
{
    struct stat st;

    return stat(f->path, &st) < 0 || st.st_size != f->off || st.st_ino != f->ino;
}

static int look(struct filestore *f, uint64_t deadline, struct cc_err *err)
{
    CC_AUTO_FD int fd = -1;

    if (!has_grown(f))
        return 0;
    fd = open_locked(f, O_RDONLY, LOCK_SH, deadline, err);
    return fd < 0 ? fd : refresh(f, fd, err);
}

/* Index of the first key that is not there, n, or a negative code. */
static int64_t first_missing(struct filestore *f, const struct cc_bytes *keys, uint64_t n, struct cc_err *err)
{
    struct cc_buf whole = { 0 };
    int64_t       i = 0, r = 0;

    for (; r == 0 && (uint64_t) i < n; i++) {
        r = whole_key(f, keys[i], &whole, err);
        if (r == 0 && !kv_has(f->kv, bytes(&whole)))
            break;
        cc_buf_drop(&whole, cc_buf_len(&whole));
    }
    cc_buf_free(&whole);
    return r < 0 ? r : i;
}

int filestore_num_keys(struct filestore *f, int64_t *ret, struct cc_err *err)
{
    int r = look(f, cc_deadline_in(f->timeout_ms), err);

    if (r == 0)
        *ret = (int64_t) kv_count(f->kv);
    return r;
}

int filestore_check(struct filestore *f, const struct cc_bytes *keys, uint64_t n, bool *ret_all_there,
                    struct cc_err *err)
{
    int     r = look(f, cc_deadline_in(f->timeout_ms), err);
    int64_t i = r < 0 ? r : first_missing(f, keys, n, err);

    if (i < 0)
        return (int) i;
    *ret_all_there = (uint64_t) i == n;
    return 0;
}

int filestore_wait(struct filestore *f, const struct cc_bytes *keys, uint64_t n, uint64_t timeout_ms,
                   struct cc_err *err)
{
    uint64_t deadline = cc_deadline_in(timeout_ms), pause = FIRST_PAUSE_MS;
    int64_t  i = 0;

    for (;;) {
        /* A lock may be held for a moment by whoever brings the key: the deadline is for the key. */
        int r = look(f, timeout_ms > 0 ? deadline : cc_deadline_in(f->timeout_ms), err);

        if (r == 0)
            i = first_missing(f, keys, n, err);
        if (r < 0 || i < 0)
            return r < 0 ? r : (int) i;
        if ((uint64_t) i == n)
            return 0;
        r = pause_until(f, &pause, deadline);
        if (r == -ECANCELED)
            return canceled(f, err);
        if (r < 0)
            return cc_fail(err, r, "store '%s': nobody has set '%.*s'%s within %.3g s", f->path,
                           keys[i].n < 100 ? (int) keys[i].n : 100, (const char *) keys[i].p,
                           n > 1 ? " or others with it" : "", (double) timeout_ms / 1000);
    }
}

int filestore_get(struct filestore *f, struct cc_bytes key, uint64_t timeout_ms, struct cc_buf *ret,
                  struct cc_err *err)
{
    int             r = filestore_wait(f, &key, 1, timeout_ms, err);
    struct cc_buf   whole = { 0 };
    struct cc_bytes value = { 0 };

    if (r == 0)
        r = whole_key(f, key, &whole, err);
    if (r == 0 && kv_get(f->kv, bytes(&whole), &value) && cc_buf_add(ret, value.p, value.n) < 0)
        r = cc_fail(err, -ENOMEM, "store '%s': no memory for a value of %zu bytes", f->path, value.n);
    cc_buf_free(&whole);
    return r;
}

void filestore_interrupt(struct filestore *f)
{
    atomic_store(&f->is_interrupted, true);
}

/* ---- the users of the file */

static int64_t number_at(const struct filestore *f, const char *key)
{
    struct cc_bytes value;
    char            text[24];

    if (!kv_get(f->kv, cc_bytes_of(key), &value))
        return 0;
    (void) snprintf(text, sizeof text, "%.*s", value.n < sizeof text ? (int) value.n : 0,
                    (const char *) value.p);
    return strtoll(text, NULL, 10);
}

/* All who were counted in it are dead: nobody has it but us, who hold its lock. */
static int begin_anew(struct filestore *f, int fd, struct cc_err *err)
{
    if (ftruncate(fd, 0) < 0)
        return cc_fail(err, -errno, "store '%s': cannot empty what dead processes have left: %s", f->path,
                       strerror(errno));
    kv_clear(f->kv);
    f->off = 0;
    return 0;
}

static int check_fresh(struct filestore *f, const struct filestore_cfg *cfg, int fd, struct cc_err *err)
{
    int64_t     users = number_at(f, "refcount/");
    char        who[WHO_MAX] = "";
    struct stat st;

    if (users > 0 && cfg->are_dead && cfg->are_dead(cfg->ctx, f->kv, users, who, sizeof who))
        return begin_anew(f, fd, err);
    if (f->world_size < 0 || users < f->world_size || fstat(fd, &st) < 0)
        return 0;
    return cc_fail(err, -ESTALE,
                   "store '%s' is stale: %" PRId64 " users in a world of size %" PRId64
                   " are counted in it, last written %" PRIu64
                   " s ago%s%s; remove it, or name a fresh file for each run",
                   f->path, users, f->world_size, cc_realtime_ms() / 1000 - (uint64_t) st.st_mtime,
                   *who ? "; " : "", who);
}

/* A file that its last user removes between our open and our lock is not the one that others will find. */
static int enter(struct filestore *f, const struct filestore_cfg *cfg, struct cc_err *err)
{
    uint64_t deadline = cc_deadline_in(f->timeout_ms);
    int64_t  users;

    for (;;) {
        CC_AUTO_FD int fd = open_locked(f, O_RDWR | O_CREAT, LOCK_EX, deadline, err);
        struct stat    st;
        int            r = fd < 0 ? fd : 0;

        if (r < 0)
            return r;
        if (fstat(fd, &st) == 0 && st.st_nlink == 0) {
            f->ino = 0;
            continue;
        }
        r = refresh(f, fd, err);
        if (r == 0)
            r = check_fresh(f, cfg, fd, err);
        if (r == 0)
            r = add_locked(f, fd, cc_bytes_of("refcount/"), 1, &users, err);
        f->is_counted = r == 0;
        f->owner = getpid();
        return r;
    }
}

static void leave(struct filestore *f)
{
    CC_AUTO_FD int fd = -1;
    int64_t        gone, users;

    atomic_store(&f->is_interrupted, false);
    fd = open_locked(f, O_RDWR, LOCK_EX, cc_deadline_in(f->timeout_ms), NULL);
    if (fd < 0 || refresh(f, fd, NULL) < 0)
        return;
    if (add_locked(f, fd, cc_bytes_of("cleanup/"), 1, &gone, NULL) == 0 &&
        add_locked(f, fd, cc_bytes_of("refcount/"), -1, &users, NULL) == 0 && users == 0 &&
        f->world_size >= 0 && gone >= f->world_size)
        (void) unlink(f->path);
}

int filestore_open(struct filestore **ret, const struct filestore_cfg *cfg, struct cc_err *err)
{
    struct filestore *f = calloc(1, sizeof *f);
    uint64_t          seed[2] = { 0 };
    int               r = -ENOMEM;

    (void) getrandom(seed, sizeof seed, GRND_NONBLOCK);
    if (f) {
        f->path = strdup(cfg->path);
        f->prefix = strdup(cfg->prefix ? cfg->prefix : "/");
        f->budget.max = UINT64_MAX;
        f->kv = kv_new(seed, &f->budget, wake_nobody);
        f->world_size = cfg->world_size;
        f->timeout_ms = cfg->timeout_ms > 0 ? cfg->timeout_ms : DEFAULT_TIMEOUT_MS;
        atomic_init(&f->is_interrupted, false);
    }
    if (!f || !f->path || !f->prefix || !f->kv)
        (void) cc_fail(err, r, "no memory for a store in a file");
    else
        r = enter(f, cfg, err);
    if (r < 0)
        (void) filestore_free(f);
    else
        *ret = f;
    return r;
}

struct filestore *filestore_free(struct filestore *f)
{
    if (!f)
        return NULL;
    if (f->is_counted && f->owner == getpid())
        leave(f);
    if (f->kv)
        (void) kv_free(f->kv);
    cc_buf_free(&f->in);
    free(f->path);
    free(f->prefix);
    free(f);
    return NULL;
}
