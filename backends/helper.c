#include "backends/helper.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "backends/perprocess.h"
#include "backends/selfpath.h"
#include "store/base/cleanup.h"
#include "store/base/clock.h"
#include "store/base/macros.h"

enum {
    READY_FD = 3, /* in the helper */
    STOP_FD = 4,
    FIRST_FREE_FD = 5,
    ADDRESS_MAX = 64,
    STOP_MS = 2000,
};

struct helper {
    struct perprocess as; /* by host and port */
    pid_t             pid;
    int               stop; /* our end of the pipe that ends it, or -1: it watches this process */
    char             *host;
    uint16_t          port;
};

/* Groups that this process inits at the same place share one. */
static struct perprocess_list *all_helpers(void)
{
    static struct perprocess_list all = PERPROCESS_LIST;

    return &all;
}

/* ---- which address */

/* Whether a socket of this machine may have it. */
static bool is_ours(const struct sockaddr *a, socklen_t n)
{
    CC_AUTO_FD int          fd = socket(a->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_storage any = { 0 };

    if (fd < 0 || n > sizeof any)
        return false;
    memcpy(&any, a, n);
    if (a->sa_family == AF_INET6)
        ((struct sockaddr_in6 *) &any)->sin6_port = 0;
    else
        ((struct sockaddr_in *) &any)->sin_port = 0;
    return bind(fd, (const struct sockaddr *) &any, n) == 0;
}

static bool is_loopback(const struct sockaddr *a)
{
    if (a->sa_family == AF_INET)
        return ntohl(((const struct sockaddr_in *) (const void *) a)->sin_addr.s_addr) >> 24 == 127;
    return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *) (const void *) a)->sin6_addr);
}

static bool has_v6(void)
{
    CC_AUTO_FD int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);

    return fd >= 0 && access("/proc/net/if_inet6", F_OK) == 0;
}

/* A name that means a loopback address here, such as Debian's 127.0.1.1 for the host's own, means another one
 * elsewhere. */
static int find_address(const char *host, char ret[ADDRESS_MAX], struct cc_err *err)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *list = NULL;
    int             r = getaddrinfo(host, NULL, &hints, &list);
    struct in6_addr v6;
    bool            is_numeric = inet_pton(AF_INET, host, &v6) == 1 || inet_pton(AF_INET6, host, &v6) == 1;
    bool            may_loop = is_numeric || strncmp(host, "localhost", 9) == 0;

    if (r != 0)
        return cc_fail(err, -EHOSTUNREACH, "cannot serve the store on '%s': %s", host, gai_strerror(r));
    if (is_ours(list->ai_addr, list->ai_addrlen) && (may_loop || !is_loopback(list->ai_addr)))
        r = getnameinfo(list->ai_addr, list->ai_addrlen, ret, ADDRESS_MAX, NULL, 0, NI_NUMERICHOST);
    else
        (void) snprintf(ret, ADDRESS_MAX, "%s", has_v6() ? "::" : "0.0.0.0");
    freeaddrinfo(list);
    return r != 0 ? cc_fail(err, -EHOSTUNREACH, "cannot serve the store on '%s': %s", host, gai_strerror(r))
                  : 0;
}

/* ---- the process */

/* Two descriptors of the helper's choice must not be in the way of each other. */
static int move_up(int *fd)
{
    int up = fcntl(*fd, F_DUPFD_CLOEXEC, FIRST_FREE_FD);

    if (up < 0)
        return -errno;
    (void) close(*fd);
    *fd = up;
    return 0;
}

/* What the helper watches: this process, or where the kernel has no pidfd, a pipe that we hold. */
static int make_stop(int *ret_theirs, int *ret_ours)
{
    int fds[2], pidfd = (int) syscall(SYS_pidfd_open, getpid(), 0);

    *ret_ours = -1;
    if (pidfd >= 0) {
        *ret_theirs = pidfd;
        return 0;
    }
    if (pipe2(fds, O_CLOEXEC) < 0)
        return -errno;
    *ret_theirs = fds[0];
    *ret_ours = fds[1];
    return 0;
}

/* Its errors come through the pipe on which it says that it is ready. */
static int prepare(posix_spawn_file_actions_t *files, posix_spawnattr_t *attr, int ready, int stop)
{
    sigset_t none, usual;
    int      r = 0;

    (void) sigemptyset(&none);
    (void) sigemptyset(&usual);
    (void) sigaddset(&usual, SIGTERM);
    (void) sigaddset(&usual, SIGINT);
    (void) sigaddset(&usual, SIGCHLD);
    r |= posix_spawnattr_setsigmask(attr, &none);
    r |= posix_spawnattr_setsigdefault(attr, &usual);
    /* A Ctrl-C is for the ranks: they may still need the store for their farewell. */
    r |= posix_spawnattr_setflags(attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSID);
    r |= posix_spawn_file_actions_addopen(files, 0, "/dev/null", O_RDONLY, 0);
    r |= posix_spawn_file_actions_addopen(files, 1, "/dev/null", O_WRONLY, 0);
    r |= posix_spawn_file_actions_adddup2(files, ready, 2);
    r |= posix_spawn_file_actions_adddup2(files, ready, READY_FD);
    r |= posix_spawn_file_actions_adddup2(files, stop, STOP_FD);
#if defined(__GLIBC__)
#if __GLIBC_PREREQ(2, 34)
    r |= posix_spawn_file_actions_addclosefrom_np(files, FIRST_FREE_FD);
#endif
#endif
    return r != 0 ? -ENOMEM : 0;
}

static int spawn_one(pid_t *ret, const char *program, char *const *argv, int ready, int stop)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t          attr;
    int                        r;

    if (posix_spawn_file_actions_init(&files) != 0)
        return -ENOMEM;
    if (posix_spawnattr_init(&attr) != 0) {
        (void) posix_spawn_file_actions_destroy(&files);
        return -ENOMEM;
    }
    r = prepare(&files, &attr, ready, stop);
    if (r == 0)
        r = -(strchr(program, '/') ? posix_spawn : posix_spawnp)(ret, program, &files, &attr, argv, environ);
    (void) posix_spawnattr_destroy(&attr);
    (void) posix_spawn_file_actions_destroy(&files);
    return r;
}

/* Beside us, in the bin folder that belongs to our lib folder, on PATH.  It is looked for first: where
 * vfork() is a fork, under valgrind or an emulator, posix_spawn() does not say that there is none. */
static int spawn_helper(pid_t *ret, char *address, uint16_t port, int ready, int stop)
{
    static const char *const places[] = { "ccrun-store", "../bin/ccrun-store", "../../bin/ccrun-store" };
    char                     port_text[8], path[SELFPATH_MAX];
    char *const              argv[] = { path,         "--host", address,     "--port", port_text,
                                        "--ready-fd", "3",      "--stop-fd", "4",      NULL };
    int                      r = -ENOENT;

    (void) snprintf(port_text, sizeof port_text, "%u", port);
    for (size_t i = 0; r == -ENOENT && i < CC_COUNT(places); i++)
        if (selfpath(path, places[i]) && access(path, X_OK) == 0)
            r = spawn_one(ret, path, argv, ready, stop);
    if (r == -ENOENT) {
        (void) snprintf(path, sizeof path, "ccrun-store");
        r = spawn_one(ret, path, argv, ready, stop);
    }
    return r;
}

/* ---- hearing from it */

/* One line without its end; -ETIMEDOUT, -EPIPE: it has ended without one. */
static int read_line(int fd, char *line, size_t size, uint64_t timeout_ms)
{
    uint64_t end = cc_deadline_in(timeout_ms);
    size_t   n = 0;

    while (n + 1 < size) {
        struct pollfd p = { .fd = fd, .events = POLLIN };
        uint64_t      now = cc_monotonic_ms();
        ssize_t       got;

        if (now >= end)
            return -ETIMEDOUT;
        if (poll(&p, 1, end - now < 60000 ? (int) (end - now) : 60000) <= 0)
            continue;
        got = read(fd, line + n, 1);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0 || line[n] == '\n')
            break;
        n++;
    }
    line[n] = '\0';
    return n > 0 ? 0 : -EPIPE;
}

static int await_ready(int fd, const char *host, uint16_t port, uint64_t timeout_ms, struct cc_err *err)
{
    static const char own_name[] = "ccrun-store: ";
    char              line[CC_ERR_MSG_MAX];
    const char       *says = line;
    int               r = read_line(fd, line, sizeof line, timeout_ms);

    if (r == 0 && strncmp(line, "listening on ", 13) == 0)
        return 0;
    if (r == -ETIMEDOUT)
        return cc_fail(err, r, "ccrun-store, which serves the store on %s:%u, is not ready after %.3g s",
                       host, port, (double) timeout_ms / 1000);
    if (r < 0)
        return cc_fail(err, r, "ccrun-store, which is to serve the store on %s:%u, ended at once", host,
                       port);
    if (strncmp(says, own_name, sizeof own_name - 1) == 0)
        says += sizeof own_name - 1;
    return cc_fail(err, strstr(says, "has the port") || strstr(says, "in use") ? -EADDRINUSE : -EIO,
                   "rank 0 cannot serve the store on %s:%u: %s", host, port, says);
}

static struct helper *free_helper(struct helper *h)
{
    if (h) {
        cc_fdp(&h->stop);
        free(h->host);
        free(h);
    }
    return NULL;
}

static void end_process(struct helper *h)
{
    uint64_t end = cc_monotonic_ms() + STOP_MS;

    cc_fdp(&h->stop);
    (void) kill(h->pid, SIGTERM);
    while (waitpid(h->pid, NULL, WNOHANG) == 0) { /* -1: somebody else in this process has waited for it */
        struct timespec t = { .tv_nsec = 1000000 };

        if (cc_monotonic_ms() >= end)
            (void) kill(h->pid, SIGKILL);
        (void) nanosleep(&t, NULL);
    }
}

static int start_process(struct helper *h, uint64_t timeout_ms, struct cc_err *err)
{
    CC_AUTO_FD int ready = -1, their_ready = -1, their_stop = -1;
    char           address[ADDRESS_MAX];
    int            fds[2], r;

    if ((r = find_address(h->host, address, err)) < 0)
        return r;
    if (pipe2(fds, O_CLOEXEC) < 0)
        return cc_fail(err, -errno, "cannot start ccrun-store: %s", strerror(errno));
    ready = fds[0];
    their_ready = fds[1];
    r = make_stop(&their_stop, &h->stop);
    if (r == 0)
        r = move_up(&their_ready);
    if (r == 0)
        r = move_up(&their_stop);
    if (r == 0)
        r = spawn_helper(&h->pid, address, h->port, their_ready, their_stop);
    if (r == -ENOENT)
        return cc_fail(
            err, r,
            "no agent serves the store, and ccrun-store, with which rank 0 would, is neither beside "
            "libccrun nor on PATH");
    if (r < 0)
        return cc_fail(err, r, "cannot start ccrun-store: %s", strerror(-r));
    cc_fdp(&their_ready);
    r = await_ready(ready, h->host, h->port, timeout_ms, err);
    if (r < 0)
        end_process(h);
    return r;
}

struct wish {
    const char *host;
    uint16_t    port;
    uint64_t    timeout_ms;
};

static int start_new(struct perprocess **ret, void *ctx, struct cc_err *err)
{
    const struct wish *w = ctx;
    struct helper     *h = calloc(1, sizeof *h);
    int                r;

    if (!h || !(h->host = strdup(w->host))) {
        free(h);
        return cc_fail(err, -ENOMEM, "no memory");
    }
    h->port = w->port;
    h->stop = -1;
    r = start_process(h, w->timeout_ms, err);
    if (r < 0)
        (void) free_helper(h);
    else
        *ret = &h->as;
    return r;
}

int helper_start(struct helper **ret, const char *host, uint16_t port, uint64_t timeout_ms,
                 struct cc_err *err)
{
    struct wish        w = { host, port, timeout_ms };
    struct perprocess *p = NULL;
    CC_AUTO_FREE char *name = NULL;
    int                r;

    if (asprintf(&name, "%s:%u", host, port) < 0)
        return cc_fail(err, -ENOMEM, "no memory");
    r = perprocess_take(&p, all_helpers(), name, start_new, &w, err);
    if (r == 0)
        *ret = CC_CONTAINER_OF(p, struct helper, as);
    return r;
}

struct helper *helper_stop(struct helper *h)
{
    if (!h || !perprocess_leave(all_helpers(), &h->as))
        return NULL;
    if (perprocess_is_ours(&h->as))
        end_process(h);
    return free_helper(h);
}
