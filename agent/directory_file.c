#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/atomicfile.h"
#include "agent/directory_inside.h"
#include "agent/hosting.h"
#include "store/base/cleanup.h"
#include "store/base/clock.h"
#include "store/base/fdwrite.h"
#include "store/base/macros.h"

enum {
    TICK_MS = 500,
    BEAT_MS = 1000,    /* a host shows so often that it is there, by the time of the file */
    STALE_MS = 10000,  /* who has not for so long is gone; the clients of a network file system see changes late */
    FORGET_MS = 15000, /* a state older than this is of another run of the job */
};

/* The host writes PATH anew, which nobody does who does not hold the lock of PATH.lock, and touches it.  PATH.state is the
 * coordinator's. */
struct file_directory {
    struct directory       d;
    uv_timer_t             timer;
    char                   path[PATH_MAX - 16], lock[PATH_MAX], temporary[PATH_MAX], state[PATH_MAX];
    struct directory_owner us;
    struct directory_host  host;      /* whom we follow */
    char                   line[DIRECTORY_LINE_MAX];
    size_t                 n_line;    /* of our own candidacy; 0: we do not stand */
    bool                   is_host, has_address, is_saved_due;
    uint64_t               beat_at, version;
    char                   seen[DIRECTORY_LINE_MAX];
    struct timespec        seen_time; /* of the file, as it was when it changed last for us */
    uint64_t               seen_at;   /* by our clock */
};

static void note(struct file_directory *f, const char *why)
{
    directory_note(&f->d, why);
}

static void note_error(struct file_directory *f, const char *what, const char *path)
{
    char why[CC_ERR_MSG_MAX];

    (void) snprintf(why, sizeof why, "%s '%.300s': %s", what, path, strerror(errno));
    note(f, why);
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
static bool is_seen_gone(const struct file_directory *f, const struct directory_owner *o)
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

static int look(const struct file_directory *f, struct look *ret)
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

static int clock_of_files(const struct file_directory *f, struct timespec *ret)
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
static void find_stale(struct file_directory *f, const struct look *l, char *why, size_t size)
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
    else if (age > STALE_MS || cc_monotonic_ms() - f->seen_at > STALE_MS)
        (void) snprintf(why, size, "'%.200s' is stale: its owner, pid %" PRId64 " on %s, has not touched it for %" PRId64 " s",
                        f->path, l->owner.pid, l->host.name, (age > STALE_MS ? age : STALE_MS) / 1000);
}

/* ---- a place of our own */

static int write_us(struct file_directory *f)
{
    CC_AUTO_FD int fd = open(f->temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

    if (fd < 0 || cc_write_all(fd, f->line, f->n_line, NULL) < 0 || rename(f->temporary, f->path) < 0)
        return -errno;
    return 0;
}

/* The state of the run that goes on; an old one is of another. */
static void hand_over_state(struct file_directory *f)
{
    CC_AUTO_FD int     fd = open(f->state, O_RDONLY | O_CLOEXEC);
    CC_AUTO_FREE uint8_t *bytes = NULL;
    struct timespec    now = { 0 };
    struct stat        st;
    ssize_t            n = 0;

    if (fd >= 0 && fstat(fd, &st) == 0 && st.st_size <= DIRECTORY_STATE_MAX && clock_of_files(f, &now) == 0 &&
        age_ms(&st.st_mtim, &now) <= FORGET_MS) {
        bytes = malloc((size_t) st.st_size + 1);
        n = bytes ? read(fd, bytes, (size_t) st.st_size) : 0;
    }
    f->d.cbs->elected(f->d.ctx, bytes, n > 0 ? (size_t) n : 0);
}

static void host(struct file_directory *f)
{
    f->is_host = true;
    f->beat_at = cc_monotonic_ms() + BEAT_MS;
    f->host = (struct directory_host) { 0 };
    note(f, "");
    hand_over_state(f);
}

/* The lock goes with the host that leaves: what was opened before is nobody's lock any more. */
static bool is_at(int fd, const char *path)
{
    struct stat open_one, there;

    return fstat(fd, &open_one) == 0 && stat(path, &there) == 0 && open_one.st_ino == there.st_ino &&
           open_one.st_dev == there.st_dev;
}

/* Between looking and writing nobody else may: all of that is done under the lock, which is never held for longer. */
static void stand(struct file_directory *f, const char *why_stale)
{
    CC_AUTO_FD int fd = open(f->lock, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    struct flock   whole = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    char           again[CC_ERR_MSG_MAX] = "";
    struct look    l;

    if (fd < 0) {
        note_error(f, "cannot open", f->lock);
        return;
    }
    if (fcntl(fd, F_OFD_SETLK, &whole) < 0) {
        if (errno != EAGAIN && errno != EACCES)
            note_error(f, "cannot lock", f->lock);
        return; /* somebody else is just doing this: look again */
    }
    if (!is_at(fd, f->lock) || look(f, &l) < 0)
        return;
    if (l.is_there)
        find_stale(f, &l, again, sizeof again);
    if (l.is_there && !again[0])
        return;
    if (write_us(f) < 0) {
        note_error(f, "cannot write", f->path);
        return;
    }
    if (l.is_there) {
        (void) snprintf(again, sizeof again, "%.400s; this node takes over", why_stale);
        f->d.cbs->say(f->d.ctx, again);
    }
    host(f);
}

static void lose(struct file_directory *f, const char *why)
{
    f->is_host = f->is_saved_due = false;
    f->d.cbs->lost(f->d.ctx, why);
}

static void touch(const char *path)
{
    (void) utimensat(AT_FDCWD, path, NULL, 0);
}

static void beat(struct file_directory *f)
{
    struct look l;
    int         r = look(f, &l);

    if (r == 0 && (!l.is_there || l.n != f->n_line || memcmp(l.line, f->line, l.n) != 0)) {
        lose(f, l.is_there ? "another agent has taken over the file" : "somebody has removed the file");
        return;
    }
    f->beat_at = cc_monotonic_ms() + BEAT_MS;
    touch(f->path);
    touch(f->state);
    if (f->is_saved_due) {
        f->is_saved_due = false;
        f->d.cbs->saved(f->d.ctx, f->version);
    }
}

/* ---- another hosts */

static void follow(struct file_directory *f, const struct look *l)
{
    if (l->host.incarnation == f->host.incarnation)
        return;
    f->host = l->host;
    f->d.cbs->host(f->d.ctx, &f->host);
}

static void look_around(struct file_directory *f)
{
    char        why[CC_ERR_MSG_MAX] = "";
    struct look l;

    if (look(f, &l) < 0) {
        note_error(f, "cannot read", f->path);
        return;
    }
    if (l.is_damaged && l.n > 0) {
        (void) snprintf(why, sizeof why, "'%.300s' is not a file of ccrun's: name another, or remove it", f->path);
        note(f, why);
        return;
    }
    if (l.is_there)
        find_stale(f, &l, why, sizeof why);
    if (l.is_there && !why[0])
        follow(f, &l);
    else if (f->n_line > 0)
        stand(f, why);
}

static void on_tick(uv_timer_t *t)
{
    struct file_directory *f = CC_CONTAINER_OF(t, struct file_directory, timer);
    char                   own[DIRECTORY_ADDR_MAX];

    if (!f->has_address) {
        f->has_address = true;
        hosting_own_address(own, sizeof own);
        f->d.cbs->address(f->d.ctx, own);
        return;
    }
    if (!f->is_host)
        look_around(f);
    else if (f->is_saved_due || cc_monotonic_ms() >= f->beat_at)
        beat(f);
}

/* ---- the operations */

static void wake(struct file_directory *f)
{
    (void) uv_timer_start(&f->timer, on_tick, 0, TICK_MS);
}

static void op_stand(struct directory *d, const char *addr, uint16_t port)
{
    struct file_directory *f = CC_CONTAINER_OF(d, struct file_directory, d);
    struct directory_host  h = { .port = port, .incarnation = d->cfg.incarnation };

    (void) snprintf(h.addr, sizeof h.addr, "%s", addr);
    (void) snprintf(h.name, sizeof h.name, "%s", d->cfg.our_host);
    f->n_line = directory_write(&h, &f->us, f->line);
    wake(f);
}

static void op_save(struct directory *d, uint64_t version, const uint8_t *state, size_t n)
{
    struct file_directory *f = CC_CONTAINER_OF(d, struct file_directory, d);
    struct cc_err          err = { 0 };

    if (!f->is_host)
        return;
    if (atomicfile_write(f->state, (const char *) state, n, &err) < 0) {
        note(f, err.msg);
        return;
    }
    f->version = version;
    f->is_saved_due = true; /* if the file is still ours when we look again */
    wake(f);
}

static void op_forget(struct directory *d)
{
    struct file_directory *f = CC_CONTAINER_OF(d, struct file_directory, d);

    if (f->is_host)
        (void) unlink(f->state);
}

static void on_closed(uv_handle_t *h)
{
    free(CC_CONTAINER_OF(h, struct file_directory, timer));
}

static void op_close(struct directory *d)
{
    struct file_directory *f = CC_CONTAINER_OF(d, struct file_directory, d);
    struct look            l;

    if (f->is_host && look(f, &l) == 0 && l.is_there && l.n == f->n_line && memcmp(l.line, f->line, l.n) == 0) {
        (void) unlink(f->path);
        (void) unlink(f->lock);
    }
    (void) unlink(f->temporary);
    uv_close((uv_handle_t *) &f->timer, on_closed);
}

static int check_folder(const char *path, struct cc_err *err)
{
    CC_AUTO_FREE char *folder = strdup(path);
    char              *slash = folder ? strrchr(folder, '/') : NULL;

    if (!slash)
        return cc_fail(err, -EINVAL, "the file of the rendezvous is an absolute path, not '%.200s'", path);
    *(slash == folder ? slash + 1 : slash) = '\0';
    if (access(folder, W_OK | X_OK) < 0)
        return cc_fail(err, -errno, "the folder '%.200s' of the rendezvous's file: %s", folder, strerror(errno));
    return 0;
}

struct directory *directory_file_new(uv_loop_t *loop, const struct directory_cfg *cfg, const struct directory_cbs *cbs,
                                     void *ctx, struct cc_err *err)
{
    struct file_directory *f = calloc(1, sizeof *f);

    if (!f || strlen(cfg->path) >= sizeof f->path - 40) {
        (void) cc_fail(err, f ? -ENAMETOOLONG : -ENOMEM, f ? "the path of the rendezvous's file is too long" : "no memory");
        free(f);
        return NULL;
    }
    f->d = (struct directory) { .stand = op_stand, .save = op_save, .forget = op_forget, .close = op_close, .cfg = *cfg,
                                .cbs = cbs, .ctx = ctx };
    (void) snprintf(f->path, sizeof f->path, "%s", cfg->path);
    (void) snprintf(f->lock, sizeof f->lock, "%s.lock", cfg->path);
    (void) snprintf(f->state, sizeof f->state, "%s.state", cfg->path);
    (void) snprintf(f->temporary, sizeof f->temporary, "%s.%" PRIx64, cfg->path, cfg->incarnation);
    find_us(&f->us);
    if (check_folder(f->path, err) < 0) {
        free(f);
        return NULL;
    }
    (void) uv_timer_init(loop, &f->timer);
    wake(f);
    return &f->d;
}
