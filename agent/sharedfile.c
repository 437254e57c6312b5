#include "agent/sharedfile.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/atomicfile.h"
#include "store/base/cleanup.h"
#include "store/base/clock.h"
#include "store/base/fdwrite.h"

static void trouble(struct sharedfile_found *ret, const char *what, const char *path, int code)
{
    ret->what = SHAREDFILE_TROUBLE;
    (void) snprintf(ret->text, sizeof ret->text, "%s '%.300s': %s", what, path, strerror(-code));
}

/* ---- who we are, and whether somebody else is there */

static uint64_t start_of(int64_t pid)
{
    CC_AUTO_FD int fd = -1;
    char           path[64], text[1024], *at;
    uint64_t       started = 0;
    ssize_t        n;

    (void) snprintf(path, sizeof path, "/proc/%" PRId64 "/stat", pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (n <= 0)
        return 0;
    text[n] = '\0';
    at = strrchr(text, ')'); /* of the name, which may be anything */
    if (!at || sscanf(at + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %" SCNu64,
                      &started) != 1)
        return 0;
    return started;
}

static void find_us(struct directory_owner *o)
{
    CC_AUTO_FD int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t        n = fd < 0 ? 0 : read(fd, o->boot, sizeof o->boot - 1);
    struct stat    st;

    o->boot[n > 0 ? n : 0] = '\0';
    o->boot[strcspn(o->boot, " \n")] = '\0';
    o->pid_space = stat("/proc/self/ns/pid", &st) == 0 ? st.st_ino : 0;
    o->pid = getpid();
    o->started = start_of(o->pid);
}

/* Its process would be in sight, and is not. */
static bool is_seen_gone(const struct sharedfile *f, const struct directory_owner *o)
{
    if (strcmp(o->boot, f->us.boot) != 0 || o->boot[0] == '-' || o->pid_space != f->us.pid_space || o->pid_space == 0)
        return false;
    return start_of(o->pid) != o->started;
}

/* ---- what stands in the file */

struct look {
    bool                   is_there, is_damaged;
    char                   line[DIRECTORY_LINE_MAX];
    size_t                 n;
    struct timespec        time;
    struct directory_host  host;
    struct directory_owner owner;
};

static int look(const struct sharedfile *f, struct look *ret)
{
    CC_AUTO_FD int fd = open(f->path, O_RDONLY | O_CLOEXEC);
    struct stat    st;
    ssize_t        n;

    *ret = (struct look) { 0 };
    if (fd < 0)
        return errno == ENOENT ? 0 : -errno;
    n = read(fd, ret->line, sizeof ret->line - 1);
    if (n < 0 || fstat(fd, &st) < 0)
        return errno == ESTALE ? 0 : -errno; /* it was replaced on the server just now */
    ret->is_there = true;
    ret->n = (size_t) n;
    ret->time = st.st_mtim;
    ret->is_damaged = directory_read(ret->line, ret->n, &ret->host, &ret->owner) < 0;
    return 0;
}

/* Ages are differences of two times of one clock: that of the file system. */
static int64_t age_ms(const struct timespec *then, const struct timespec *now)
{
    return (int64_t) (now->tv_sec - then->tv_sec) * 1000 + (now->tv_nsec - then->tv_nsec) / 1000000;
}

static int clock_of_files(const struct sharedfile *f, struct timespec *ret)
{
    CC_AUTO_FD int fd = open(f->temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    struct stat    st = { 0 };
    int            r = fd < 0 || futimens(fd, NULL) < 0 || fstat(fd, &st) < 0 ? -errno : 0;

    if (fd >= 0)
        (void) unlink(f->temporary); /* we may be killed at any time: it is not left behind */
    if (r == 0)
        *ret = st.st_mtim;
    return r;
}

/* "": the host is there as far as can be told. */
static void find_stale(struct sharedfile *f, const struct look *l, char *why, size_t size)
{
    struct timespec now = { 0 };
    bool            is_new = strcmp(l->line, f->seen) != 0 || memcmp(&l->time, &f->seen_time, sizeof l->time) != 0;
    int64_t         age = clock_of_files(f, &now) == 0 ? age_ms(&l->time, &now) : 0;

    why[0] = '\0';
    if (is_new) {
        memcpy(f->seen, l->line, sizeof f->seen);
        f->seen_time = l->time;
        f->seen_at = cc_monotonic_ms();
    }
    if (l->is_damaged && l->n == 0)
        (void) snprintf(why, size, "'%.200s' is empty", f->path);
    else if (l->is_damaged)
        return; /* it is not ours to take */
    else if (is_seen_gone(f, &l->owner))
        (void) snprintf(why, size, "'%.200s' is stale, owner pid %" PRId64 " on %s is gone", f->path, l->owner.pid, l->host.name);
    else if (age > SHAREDFILE_STALE_MS || cc_monotonic_ms() - f->seen_at > SHAREDFILE_STALE_MS)
        (void) snprintf(why, size, "'%.200s' is stale: its owner, pid %" PRId64 " on %s, has not touched it for %" PRId64 " s",
                        f->path, l->owner.pid, l->host.name, (age > SHAREDFILE_STALE_MS ? age : SHAREDFILE_STALE_MS) / 1000);
}

/* ---- a place of our own */

static int write_us(struct sharedfile *f)
{
    CC_AUTO_FD int fd = open(f->temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

    if (fd < 0 || cc_write_all(fd, f->line, f->n_line, NULL) < 0 || rename(f->temporary, f->path) < 0)
        return -errno;
    return 0;
}

/* The state of the run that goes on; an old one is of another. */
static void take_state(struct sharedfile *f, struct sharedfile_found *ret)
{
    CC_AUTO_FD int  fd = open(f->state, O_RDONLY | O_CLOEXEC);
    struct timespec now = { 0 };
    struct stat     st;
    ssize_t         n = 0;

    if (fd >= 0 && fstat(fd, &st) == 0 && st.st_size <= DIRECTORY_STATE_MAX && clock_of_files(f, &now) == 0 &&
        age_ms(&st.st_mtim, &now) <= SHAREDFILE_FORGET_MS) {
        ret->state = malloc((size_t) st.st_size + 1);
        n = ret->state ? read(fd, ret->state, (size_t) st.st_size) : 0;
    }
    ret->n_state = n > 0 ? (size_t) n : 0;
}

static bool is_ours(const struct sharedfile *f, const struct look *l)
{
    return l->is_there && f->n_line > 0 && l->n == f->n_line && memcmp(l->line, f->line, l->n) == 0;
}

/* The lock goes with the host that leaves: what was opened before is nobody's lock any more. */
static bool is_at(int fd, const char *path)
{
    struct stat open_one, there;

    return fstat(fd, &open_one) == 0 && stat(path, &there) == 0 && open_one.st_ino == there.st_ino &&
           open_one.st_dev == there.st_dev;
}

/* Between looking and writing nobody else may: all of that is done under the lock, which is never held for longer. */
static void stand(struct sharedfile *f, struct sharedfile_found *ret)
{
    CC_AUTO_FD int fd = open(f->lock, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    struct flock   whole = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    char           stale[CC_ERR_MSG_MAX] = "";
    struct look    l;
    int            r;

    if (fd < 0) {
        trouble(ret, "cannot open", f->lock, -errno);
        return;
    }
    if (fcntl(fd, F_OFD_SETLK, &whole) < 0) {
        if (errno != EAGAIN && errno != EACCES)
            trouble(ret, "cannot lock", f->lock, -errno);
        return; /* somebody else is just doing this: look again */
    }
    if (!is_at(fd, f->lock) || look(f, &l) < 0)
        return;
    if (l.is_there && !is_ours(f, &l)) {
        find_stale(f, &l, stale, sizeof stale);
        if (!stale[0])
            return;
    }
    r = write_us(f);
    if (r < 0) {
        trouble(ret, "cannot write", f->path, r);
        return;
    }
    ret->what = SHAREDFILE_OURS;
    (void) snprintf(ret->text, sizeof ret->text, "%s", stale);
    take_state(f, ret);
}

/* ---- what can be asked */

void sharedfile_look(struct sharedfile *f, struct sharedfile_found *ret)
{
    char        why[CC_ERR_MSG_MAX] = "";
    struct look l;
    int         r = look(f, &l);

    *ret = (struct sharedfile_found) { .what = SHAREDFILE_NOBODY };
    if (r < 0) {
        trouble(ret, "cannot read", f->path, r);
        return;
    }
    if (l.is_damaged && l.n > 0) {
        ret->what = SHAREDFILE_TROUBLE;
        (void) snprintf(ret->text, sizeof ret->text, "'%.300s' is not a file of ccrun's: name another, or remove it", f->path);
        return;
    }
    if (l.is_there)
        find_stale(f, &l, why, sizeof why);
    if (l.is_there && !why[0] && !is_ours(f, &l)) {
        ret->what = SHAREDFILE_ANOTHER;
        ret->host = l.host;
    } else if (f->n_line > 0) {
        stand(f, ret);
    }
}

void sharedfile_keep(struct sharedfile *f, const uint8_t *state, size_t n_state, struct sharedfile_found *ret)
{
    struct cc_err err = { 0 };
    struct look   l;
    int           r;

    *ret = (struct sharedfile_found) { .what = SHAREDFILE_TROUBLE };
    if (n_state > 0 && atomicfile_write(f->state, (const char *) state, n_state, &err) < 0) {
        (void) snprintf(ret->text, sizeof ret->text, "%.400s", err.msg);
        return;
    }
    r = look(f, &l);
    if (r == 0 && !is_ours(f, &l))
        ret->what = l.is_there ? SHAREDFILE_ANOTHER : SHAREDFILE_NOBODY;
    else if (r < 0)
        trouble(ret, "cannot read", f->path, r);
    else if (utimensat(AT_FDCWD, f->path, NULL, 0) < 0)
        trouble(ret, "cannot touch", f->path, -errno);
    else
        ret->what = SHAREDFILE_OURS;
    if (ret->what == SHAREDFILE_OURS)
        (void) utimensat(AT_FDCWD, f->state, NULL, 0);
}

void sharedfile_leave(const struct sharedfile *f, bool is_host, bool is_over)
{
    struct look l;

    if (is_host && is_over)
        (void) unlink(f->state);
    if (is_host && look(f, &l) == 0 && is_ours(f, &l)) {
        (void) unlink(f->path);
        (void) unlink(f->lock);
    }
    (void) unlink(f->temporary);
}

int sharedfile_check(const struct sharedfile *f, struct cc_err *err)
{
    CC_AUTO_FREE char *folder = strdup(f->path);
    char              *slash = folder ? strrchr(folder, '/') : NULL;

    if (!slash)
        return cc_fail(err, -EINVAL, "the file of the rendezvous is an absolute path, not '%.200s'", f->path);
    *(slash == folder ? slash + 1 : slash) = '\0';
    if (access(folder, W_OK | X_OK) < 0)
        return cc_fail(err, -errno, "the folder '%.200s' of the rendezvous's file: %s", folder, strerror(errno));
    return 0;
}

int sharedfile_init(struct sharedfile *f, const char *path, uint64_t incarnation, struct cc_err *err)
{
    *f = (struct sharedfile) { .n_line = 0 };
    if (strlen(path) >= sizeof f->path - 40)
        return cc_fail(err, -ENAMETOOLONG, "the path of the rendezvous's file is too long");
    (void) snprintf(f->path, sizeof f->path, "%s", path);
    (void) snprintf(f->lock, sizeof f->lock, "%s.lock", path);
    (void) snprintf(f->state, sizeof f->state, "%s.state", path);
    (void) snprintf(f->temporary, sizeof f->temporary, "%s.%" PRIx64, path, incarnation);
    find_us(&f->us);
    return 0;
}
