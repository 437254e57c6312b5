#include "agent/shmsweep.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/base/cleanup.h"
#include "store/base/macros.h"

enum { FILES_MAX = 4096, PIDS_MAX = 4096 };

struct shmsweep {
    const char *dir;
    bool        has_mpich;
    unsigned    n_before; /* files that were there */
    unsigned    n_reaped; /* in all: the last PIDS_MAX are kept */
    bool        is_known; /* how it was before */
    ino_t       before[FILES_MAX];
    pid_t       reaped[PIDS_MAX];
};

static const struct {
    const char *prefix;
    bool        has_pid;  /* that of its maker follows, and '_' */
    bool        is_mpich; /* its maker has it mapped as long as it has this name */
} kinds[] = {
    { "torch_", true, false },
    { "__KMP_REGISTERED_LIB_", true, false },
    { "nccl-", false, false },
    { "psm_", false, false },
    { "sem.mp-", false, false },
    { "mpich_shm_", false, true },
    { "mpich_shar_tmp", false, true },
    { "vader_segment.", false, false },
    { "sm_segment.", false, false },
};

struct shmsweep *shmsweep_new(const char *dir, bool has_mpich)
{
    struct shmsweep *s = calloc(1, sizeof *s);

    if (s) {
        s->dir = dir;
        s->has_mpich = has_mpich;
    }
    return s;
}

struct shmsweep *shmsweep_free(struct shmsweep *s)
{
    free(s);
    return NULL;
}

static void close_dir(DIR **d)
{
    if (*d)
        (void) closedir(*d);
}

void shmsweep_begin(struct shmsweep *s)
{
    CC_AUTO(close_dir) DIR *d = s ? opendir(s->dir) : NULL;
    struct dirent          *e;

    if (!s)
        return;
    s->n_before = s->n_reaped = 0;
    s->is_known = false;
    while (d && (e = readdir(d))) {
        if (s->n_before == FILES_MAX)
            return; /* too many to know them again: nothing is touched */
        s->before[s->n_before++] = e->d_ino;
    }
    s->is_known = d != NULL;
}

void shmsweep_reaped(struct shmsweep *s, pid_t pid)
{
    if (s)
        s->reaped[s->n_reaped++ % PIDS_MAX] = pid;
}

static bool was_there(const struct shmsweep *s, ino_t ino)
{
    for (unsigned i = 0; i < s->n_before; i++)
        if (s->before[i] == ino)
            return true;
    return false;
}

static bool was_ours(const struct shmsweep *s, pid_t pid)
{
    unsigned n = s->n_reaped < PIDS_MAX ? s->n_reaped : PIDS_MAX;

    for (unsigned i = 0; i < n; i++)
        if (s->reaped[i] == pid)
            return true;
    return false;
}

/* Does the name alone, what our workers are, or that nobody else was there, say that a dead process of ours made it? */
static bool is_of_the_dead(const struct shmsweep *s, const char *name, bool is_alone)
{
    for (size_t i = 0; i < CC_COUNT(kinds); i++) {
        const char *rest = name + strlen(kinds[i].prefix);
        char       *end;
        long        pid;

        if (strncmp(name, kinds[i].prefix, strlen(kinds[i].prefix)) != 0)
            continue;
        if (is_alone || !kinds[i].has_pid)
            return is_alone || (kinds[i].is_mpich && s->has_mpich);
        pid = strtol(rest, &end, 10);
        return *end == '_' && pid > 1 && pid <= INT32_MAX && was_ours(s, (pid_t) pid) && kill((pid_t) pid, 0) < 0 &&
               errno == ESRCH;
    }
    return false;
}

/* The kernel grants this lease only when nobody else has the file open or mapped, in this container or in another.  Who opens
 * it meanwhile waits until we close it, and we are told by a signal that is ignored by default. */
static bool is_unused(int fd)
{
    return fcntl(fd, F_SETSIG, SIGURG) == 0 && fcntl(fd, F_SETLEASE, F_WRLCK) == 0;
}

static bool sweep_one(const struct shmsweep *s, int dir_fd, const char *name, uint64_t *bytes)
{
    CC_AUTO_FD int fd = openat(dir_fd, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct stat    st;

    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid() || was_there(s, st.st_ino))
        return false;
    if (!is_unused(fd) || unlinkat(dir_fd, name, 0) < 0)
        return false;
    *bytes += (uint64_t) st.st_blocks * 512;
    return true;
}

unsigned shmsweep_end(struct shmsweep *s, bool is_alone, uint64_t *ret_bytes)
{
    CC_AUTO(close_dir) DIR *d = s && s->is_known ? opendir(s->dir) : NULL;
    struct dirent          *e;
    unsigned                n = 0;

    *ret_bytes = 0;
    while (d && (e = readdir(d)))
        if (is_of_the_dead(s, e->d_name, is_alone))
            n += sweep_one(s, dirfd(d), e->d_name, ret_bytes);
    return n;
}

bool shmsweep_is_alone(void)
{
    CC_AUTO(close_dir) DIR *d = getpid() == 1 ? opendir("/proc") : NULL;
    struct dirent          *e;
    bool                    has_self = false;

    while (d && (e = readdir(d))) {
        if (strcmp(e->d_name, "1") == 0)
            has_self = true;
        else if (e->d_name[0] >= '1' && e->d_name[0] <= '9')
            return false;
    }
    return has_self;
}
