#include "agent/control.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "store/base/cleanup.h"
#include "store/base/clock.h"
#include "store/base/macros.h"

enum { PER_TURN = 16, NAME_MAX_ = 64 };

struct control {
    uv_poll_t   poll;
    int         fd;
    control_fn *answer;
    void       *ctx;
};

/* "ccrun-4026531836-": which PID namespace, since a network may serve several. */
static int name_prefix(char buf[NAME_MAX_])
{
    char    target[NAME_MAX_];
    ssize_t n = readlink("/proc/self/ns/pid", target, sizeof target - 1);
    char   *id;

    target[n > 0 ? n : 0] = '\0';
    id = strchr(target, '[');
    return snprintf(buf, NAME_MAX_, "ccrun-%.*s-", id ? (int) strcspn(id + 1, "]") : 0, id ? id + 1 : "");
}

static socklen_t address_of(pid_t pid, struct sockaddr_un *ret)
{
    char name[NAME_MAX_ + 16];
    int  n = name_prefix(name);

    n += snprintf(name + n, 16, "%d", (int) pid);
    *ret = (struct sockaddr_un) { .sun_family = AF_UNIX };
    memcpy(ret->sun_path + 1, name, (size_t) n);
    return (socklen_t) (offsetof(struct sockaddr_un, sun_path) + 1 + (size_t) n);
}

/* ---- the agent's side */

static bool may_ask(const struct msghdr *h)
{
    const struct cmsghdr *c = CMSG_FIRSTHDR(h);
    struct ucred          who;

    if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_CREDENTIALS)
        return false;
    memcpy(&who, CMSG_DATA(c), sizeof who);
    return who.uid == geteuid() || who.uid == 0;
}

/* False: nothing is there to be read. */
static bool serve_one(const struct control *c)
{
    union {
        struct cmsghdr align;
        char           bytes[CMSG_SPACE(sizeof(struct ucred))];
    } control;
    char               question[32], answer[CONTROL_TEXT_MAX + 2], text[CONTROL_TEXT_MAX] = "";
    struct sockaddr_un from;
    struct iovec       iov = { question, sizeof question - 1 };
    struct msghdr      h = { .msg_name = &from, .msg_namelen = sizeof from, .msg_iov = &iov, .msg_iovlen = 1,
                             .msg_control = &control, .msg_controllen = sizeof control };
    ssize_t            n = recvmsg(c->fd, &h, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    bool               is_yes;

    if (n < 0)
        return errno == EINTR;
    if (h.msg_namelen <= offsetof(struct sockaddr_un, sun_path) || !may_ask(&h))
        return true;
    question[n] = '\0';
    is_yes = c->answer(c->ctx, question, text);
    (void) snprintf(answer, sizeof answer, "%d %.*s", is_yes, CONTROL_TEXT_MAX - 1, text);
    (void) sendto(c->fd, answer, strlen(answer), MSG_DONTWAIT | MSG_NOSIGNAL, (struct sockaddr *) &from, h.msg_namelen);
    return true; /* who asked and does not listen gets no answer */
}

static void on_readable(uv_poll_t *p, int status, int events)
{
    struct control *c = CC_CONTAINER_OF(p, struct control, poll);

    (void) status, (void) events;
    for (int i = 0; i < PER_TURN && serve_one(c); i++)
        ;
}

static int bind_to(pid_t pid, struct cc_err *err)
{
    CC_AUTO_FD int     fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const int          on = 1;
    struct sockaddr_un at;
    socklen_t          n = address_of(pid, &at);

    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) < 0)
        return cc_fail(err, -errno, "no socket for --probe: %s", strerror(errno));
    if (bind(fd, (struct sockaddr *) &at, n) < 0)
        return cc_fail(err, -errno, "the socket @%s, for --probe: %s", at.sun_path + 1, strerror(errno));
    return cc_steal_fd(&fd);
}

int control_open(struct control **ret, uv_loop_t *loop, pid_t pid, control_fn *answer, void *ctx, struct cc_err *err)
{
    struct control *c = calloc(1, sizeof *c);
    int             r;

    if (!c)
        return cc_fail(err, -ENOMEM, "no memory for the socket of --probe");
    *c = (struct control) { .answer = answer, .ctx = ctx };
    r = c->fd = bind_to(pid, err);
    if (r >= 0 && (r = uv_poll_init(loop, &c->poll, c->fd)) < 0) {
        (void) cc_fail(err, r, "watch the socket of --probe: %s", uv_strerror(r));
        (void) close(c->fd);
    }
    if (r < 0) {
        free(c);
        return r;
    }
    (void) uv_poll_start(&c->poll, UV_READABLE, on_readable); /* cannot fail once it was initialised */
    *ret = c;
    return 0;
}

static void on_closed(uv_handle_t *h)
{
    struct control *c = CC_CONTAINER_OF((uv_poll_t *) (void *) h, struct control, poll);

    (void) close(c->fd);
    free(c);
}

void control_close(struct control *c)
{
    if (c && !uv_is_closing((uv_handle_t *) &c->poll))
        uv_close((uv_handle_t *) &c->poll, on_closed);
}

/* ---- the other side */

unsigned control_agents(pid_t ret[CONTROL_AGENTS_MAX])
{
    char     prefix[NAME_MAX_], line[256];
    int      n_prefix = name_prefix(prefix);
    FILE    *f = fopen("/proc/net/unix", "re");
    unsigned n = 0;

    while (f && n < CONTROL_AGENTS_MAX && fgets(line, sizeof line, f)) {
        const char *at = strchr(line, '@'), *digits;
        char       *end;
        long        pid;

        if (!at || strncmp(at + 1, prefix, (size_t) n_prefix) != 0)
            continue;
        digits = at + 1 + n_prefix;
        pid = strtol(digits, &end, 10);
        if (end > digits && *end == '\n' && pid > 0 && pid <= INT32_MAX)
            ret[n++] = (pid_t) pid;
    }
    if (f)
        (void) fclose(f);
    return n;
}

/* Which descriptor of the agent's it comes from is sure: the name is taken for as long as it lives. */
static int await(int fd, uint64_t timeout_ms, char answer[CONTROL_TEXT_MAX + 2])
{
    struct pollfd p = { .fd = fd, .events = POLLIN };
    uint64_t      end = cc_monotonic_ms() + timeout_ms, now;
    ssize_t       n;

    while ((now = cc_monotonic_ms()) < end) {
        if (poll(&p, 1, (int) (end - now)) <= 0)
            continue;
        n = recv(fd, answer, CONTROL_TEXT_MAX + 1, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            continue;
        if (n < 0)
            return -errno;
        answer[n] = '\0';
        return n >= 2 && answer[1] == ' ' ? answer[0] == '1' : -EPROTO;
    }
    return -ETIMEDOUT;
}

int control_ask(pid_t pid, const char *question, uint64_t timeout_ms, char ret_text[CONTROL_TEXT_MAX], struct cc_err *err)
{
    CC_AUTO_FD int           fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const struct sockaddr_un any = { .sun_family = AF_UNIX };
    char                     answer[CONTROL_TEXT_MAX + 2];
    struct sockaddr_un       at;
    socklen_t                n = address_of(pid, &at);
    int                      r;

    /* The kernel makes up a name for us; connected, nobody else can answer. */
    if (fd < 0 || bind(fd, (const struct sockaddr *) &any, sizeof any.sun_family) < 0)
        return cc_fail(err, -errno, "no socket to ask with: %s", strerror(errno));
    if (connect(fd, (struct sockaddr *) &at, n) < 0)
        return cc_fail(err, -errno, "no ccrun runs here as process %d", (int) pid);
    r = send(fd, question, strlen(question), MSG_NOSIGNAL) < 0 ? -errno : await(fd, timeout_ms, answer);
    if (r == -EAGAIN)
        r = -ETIMEDOUT; /* so many questions wait already */
    if (r == -ETIMEDOUT)
        return cc_fail(err, r, "ccrun, process %d, has not answered for %llu ms", (int) pid, (unsigned long long) timeout_ms);
    if (r < 0)
        return cc_fail(err, r, "ccrun, process %d, cannot be asked: %s", (int) pid, strerror(-r));
    (void) snprintf(ret_text, CONTROL_TEXT_MAX, "%.*s", CONTROL_TEXT_MAX - 1, answer + 2);
    return r;
}
