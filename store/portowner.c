#include "store/portowner.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/base/cleanup.h"

enum { STATE_LISTEN = 0x0a, MAX_LISTENERS = 8, PID_MAX = 24 };

static void file_closep(FILE **f)
{
    if (*f)
        (void) fclose(*f);
}

static void dir_closep(DIR **d)
{
    if (*d)
        (void) closedir(*d);
}

/* The inodes of the sockets that listen on the port; they go behind the `n` that are there. */
static unsigned add_listeners(const char *table, uint16_t port, unsigned long *inodes, unsigned n)
{
    CC_AUTO(file_closep) FILE *f = fopen(table, "re");
    char                       line[512];

    while (f && n < MAX_LISTENERS && fgets(line, sizeof line, f)) {
        unsigned      local_port, state;
        unsigned long inode;

        if (sscanf(line, " %*u: %*[0-9A-Fa-f]:%x %*[0-9A-Fa-f]:%*x %x %*s %*s %*s %*u %*u %lu", &local_port,
                   &state, &inode) == 3 &&
            local_port == port && state == STATE_LISTEN)
            inodes[n++] = inode;
    }
    return n;
}

static bool is_digits(const char *s)
{
    return *s != '\0' && s[strspn(s, "0123456789")] == '\0';
}

static bool has_one_of(const char *pid, const unsigned long *inodes, unsigned n)
{
    char                     path[512], target[64], want[64];
    CC_AUTO(dir_closep) DIR *fds = NULL;
    struct dirent           *d;

    (void) snprintf(path, sizeof path, "/proc/%s/fd", pid);
    fds = opendir(path);
    while (fds && (d = readdir(fds)) != NULL) {
        ssize_t len = readlinkat(dirfd(fds), d->d_name, target, sizeof target - 1);

        if (len <= 0)
            continue;
        target[len] = '\0';
        for (unsigned i = 0; i < n; i++) {
            (void) snprintf(want, sizeof want, "socket:[%lu]", inodes[i]);
            if (strcmp(target, want) == 0)
                return true;
        }
    }
    return false;
}

static void describe(const char *pid, char *buf, size_t size)
{
    char           path[64], name[64] = "?";
    CC_AUTO_FD int fd = -1;
    ssize_t        n;

    (void) snprintf(path, sizeof path, "/proc/%.20s/comm", pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    n = fd >= 0 ? read(fd, name, sizeof name - 1) : -1;
    if (n > 0)
        name[n - (name[n - 1] == '\n')] = '\0';
    (void) snprintf(buf, size, "'%s' (process %s)", name, pid);
}

static bool find(uint16_t port, char ret_pid[PID_MAX])
{
    unsigned long            inodes[MAX_LISTENERS];
    unsigned                 n = add_listeners("/proc/net/tcp", port, inodes, 0);
    CC_AUTO(dir_closep) DIR *proc = NULL;
    struct dirent           *d;

    n = add_listeners("/proc/net/tcp6", port, inodes, n);
    proc = n > 0 ? opendir("/proc") : NULL;
    while (proc && (d = readdir(proc)) != NULL) {
        if (!is_digits(d->d_name) || !has_one_of(d->d_name, inodes, n))
            continue;
        (void) snprintf(ret_pid, PID_MAX, "%.20s", d->d_name);
        return true;
    }
    return false;
}

int portowner_find(uint16_t port, char *buf, size_t size)
{
    char pid[PID_MAX];

    if (!find(port, pid))
        return -ENOENT;
    describe(pid, buf, size);
    return 0;
}

bool portowner_runs_our_program(uint16_t port)
{
    char        pid[PID_MAX], path[64];
    struct stat its, ours;

    if (!find(port, pid))
        return false;
    (void) snprintf(path, sizeof path, "/proc/%s/exe", pid);
    return stat(path, &its) == 0 && stat("/proc/self/exe", &ours) == 0 && its.st_dev == ours.st_dev && its.st_ino == ours.st_ino;
}
