#include "agent/logdir.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/rmtree.h"
#include "store/base/cleanup.h"
#include "store/base/macros.h"

enum { N_TRIES = 100, RUN_ID_MAX = 200 };

static void random_suffix(char suffix[9])
{
    static const char digits[] = "abcdefghijklmnopqrstuvwxyz0123456789_";
    unsigned char     r[8];

    if (getrandom(r, sizeof r, 0) != (ssize_t) sizeof r)
        memset(r, 0, sizeof r);
    for (size_t i = 0; i < sizeof r; i++)
        suffix[i] = digits[r[i] % (sizeof digits - 1)];
    suffix[8] = '\0';
}

/* A new directory <parent>/<name>XXXXXXXX. Its owner's only, as torchrun makes it: output may hold secrets.
 * `announce`: say so before it is there, but never of one that somebody else has. */
static int make_unique(char **ret, const char *parent, const char *name, const struct logdir *announce)
{
    char suffix[9];

    for (unsigned i = 0; i < N_TRIES; i++) {
        CC_AUTO_FREE char *path = NULL;

        random_suffix(suffix);
        if (asprintf(&path, "%s/%s%s", parent, name, suffix) < 0) {
            path = NULL;
            return -ENOMEM;
        }
        if (announce && announce->on_private && access(path, F_OK) < 0)
            announce->on_private(announce->ctx, path);
        if (mkdir(path, 0700) == 0) {
            *ret = CC_STEAL(path);
            return 0;
        }
        if (errno != EEXIST)
            return -errno;
    }
    return -EEXIST;
}

/* In the temporary directory, by the order of Python's tempfile. */
static int make_temporary(char **ret, const char *name, const struct logdir *announce)
{
    const char *dirs[] = { getenv("TMPDIR"), getenv("TEMP"), getenv("TMP"), "/tmp", "/var/tmp" };
    int         r = -ENOENT;

    for (size_t i = 0; i < CC_COUNT(dirs); i++) {
        if (!dirs[i] || dirs[i][0] != '/') /* a worker may change its directory: nothing relative */
            continue;
        r = make_unique(ret, dirs[i], name, announce);
        if (r == 0)
            return 0;
    }
    return r;
}

static int make_parents(const char *path)
{
    CC_AUTO_FREE char *copy = strdup(path);

    if (!copy)
        return -ENOMEM;
    for (char *p = copy + 1; *p; p++) {
        if (*p != '/')
            continue;
        *p = '\0';
        if (mkdir(copy, 0777) < 0 && errno != EEXIST)
            return -errno;
        *p = '/';
    }
    return mkdir(copy, 0777) < 0 && errno != EEXIST ? -errno : 0;
}

int logdir_open(struct logdir *d, const char *log_dir, const char *run_id, struct cc_err *err)
{
    char        name[RUN_ID_MAX + 2];
    struct stat st;
    int         r;

    *d = (struct logdir){ .run = NULL };
    (void) snprintf(name, sizeof name, "%.*s_", RUN_ID_MAX, run_id);
    for (char *p = name; *p; p++)
        if (*p == '/')
            *p = '_';
    if (log_dir) {
        CC_AUTO_FREE char *root = NULL;

        if (stat(log_dir, &st) == 0 && !S_ISDIR(st.st_mode))
            return cc_fail(err, -ENOTDIR, "log directory '%s' is a file; name a directory, or one to be made",
                           log_dir);
        r = make_parents(log_dir);
        if (r < 0)
            return cc_fail(err, r, "cannot make the log directory '%s': %s", log_dir, strerror(-r));
        root = realpath(log_dir, NULL);
        r = root ? make_unique(&d->run, root, name, NULL) : -errno;
    } else {
        CC_AUTO_FREE char *root = NULL;

        log_dir = "the temporary directory";
        r = make_temporary(&root, "torchelastic_", NULL);
        if (r == 0)
            r = make_unique(&d->run, root, name, NULL);
    }
    return r < 0 ? cc_fail(err, r, "cannot write into the log directory '%s': %s", log_dir, strerror(-r)) : 0;
}

static int make_attempt(struct logdir *d, unsigned attempt)
{
    char *path;

    if (d->attempt && d->n_attempt == attempt)
        return 0;
    if (asprintf(&path, "%s/attempt_%u", d->run, attempt) < 0)
        return -ENOMEM;
    free(d->attempt);
    d->attempt = path;
    d->n_attempt = attempt;
    return mkdir(path, 0777) < 0 && errno != EEXIST ? -errno : 0;
}

char *logdir_worker(struct logdir *d, unsigned attempt, unsigned local_rank, struct cc_err *err)
{
    CC_AUTO_FREE char *path = NULL;
    int                r = make_attempt(d, attempt);

    if (r == 0 && asprintf(&path, "%s/%u", d->attempt, local_rank) < 0) {
        path = NULL;
        r = -ENOMEM;
    }
    if (r == 0 && mkdir(path, 0777) < 0 && errno != EEXIST)
        r = -errno;
    if (r < 0) {
        (void) cc_fail(err, r, "cannot make '%s/attempt_%u/%u' for logs: %s", d->run, attempt, local_rank,
                       strerror(-r));
        return NULL;
    }
    return CC_STEAL(path);
}

char *logdir_error_file(struct logdir *d, unsigned attempt, unsigned local_rank)
{
    char *path;
    int   n;

    if (d->attempt)
        n = asprintf(&path, "%s/%u/error.json", d->attempt, local_rank);
    else if (d->private_dir || make_temporary(&d->private_dir, "ccrun-", d) == 0)
        n = asprintf(&path, "%s/error_%u_%u.json", d->private_dir, attempt, local_rank);
    else
        return NULL;
    return n < 0 ? NULL : path;
}

char *logdir_private_file(struct logdir *d, const char *name)
{
    char *path;

    if (!d->private_dir && make_temporary(&d->private_dir, "ccrun-", d) < 0)
        return NULL;
    return asprintf(&path, "%s/%s", d->private_dir, name) < 0 ? NULL : path;
}

void logdir_close(struct logdir *d)
{
    if (d->private_dir)
        (void) rmtree(d->private_dir);
    free(d->run);
    free(d->attempt);
    free(d->private_dir);
    *d = (struct logdir){ .run = NULL };
}
