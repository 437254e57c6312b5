#include "agent/sentry.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "store/base/macros.h"

/* SI_KERNEL is the terminal; a signal that a process sent, the worker's own `kill 0` for one, is none of our business. */
static _Noreturn void stand(int fd)
{
    sigset_t  set;
    siginfo_t si;

    (void) sigfillset(&set);
    (void) sigprocmask(SIG_SETMASK, &set, NULL); /* so that nothing but SIGKILL ends it, and no ^Z stops it */
    (void) sigemptyset(&set);
    (void) sigaddset(&set, SIGINT);
    for (;;) {
        if (sigwaitinfo(&set, &si) == SIGINT && si.si_code == SI_KERNEL && write(fd, "c", 1) < 0)
            _exit(0);
    }
}

static _Noreturn void go_and_stand(int fd, pid_t group, pid_t agent)
{
    (void) setpgid(0, group);
    (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != agent || getpgrp() != group || dup2(fd, STDIN_FILENO) < 0)
        _exit(0);
    (void) syscall(SYS_close_range, 1U, ~0U, 0U); /* where it is missing the pipes of the workers are left open: */
    (void) prctl(PR_SET_NAME, "ccrun-sentry");    /* no harm, we leave before they are waited for */
    stand(STDIN_FILENO);
}

static void on_readable(uv_poll_t *p, int status, int events)
{
    struct sentry *s = CC_CONTAINER_OF(p, struct sentry, poll);
    char           c;

    (void) status, (void) events;
    while (read(s->fd[0], &c, 1) == 1)
        s->on_press(s->ctx);
}

int sentry_open(struct sentry *s, uv_loop_t *loop, sentry_fn *on_press, void *ctx, struct cc_err *err)
{
    int r;

    *s = (struct sentry) { .pidfd = -1, .on_press = on_press, .ctx = ctx };
    if (pipe2(s->fd, O_CLOEXEC | O_NONBLOCK) < 0)
        return cc_fail(err, -errno, "watch the terminal: pipe: %s", strerror(errno));
    r = uv_poll_init(loop, &s->poll, s->fd[0]);
    if (r == 0)
        r = uv_poll_start(&s->poll, UV_READABLE, on_readable);
    return r < 0 ? cc_fail(err, r, "watch the terminal: %s", uv_strerror(r)) : 0;
}

void sentry_post(struct sentry *s, pid_t group)
{
    pid_t agent = getpid(), pid;

    sentry_recall(s);
    (void) setpgid(group, group); /* it may not have come to that itself yet */
    pid = fork();
    if (pid == 0)
        go_and_stand(s->fd[1], group, agent);
    if (pid < 0)
        return;
    (void) setpgid(pid, group); /* here, so that it stands when we return; what comes until it waits is kept for it */
    s->pidfd = (int) syscall(SYS_pidfd_open, pid, 0);
    if (s->pidfd < 0) { /* a kernel before 5.3: without a pidfd it could not be ended safely later on */
        (void) kill(pid, SIGKILL);
        (void) waitpid(pid, NULL, 0);
    }
}

void sentry_recall(struct sentry *s)
{
    siginfo_t si;

    if (s->pidfd < 0)
        return;
    (void) syscall(SYS_pidfd_send_signal, s->pidfd, SIGKILL, NULL, 0);
    while (waitid((idtype_t) P_PIDFD, (id_t) s->pidfd, &si, WEXITED) < 0 && errno == EINTR)
        ;
    (void) close(s->pidfd);
    s->pidfd = -1;
}

static void on_closed(uv_handle_t *h)
{
    struct sentry *s = CC_CONTAINER_OF((uv_poll_t *) (void *) h, struct sentry, poll);

    (void) close(s->fd[0]);
    (void) close(s->fd[1]);
}

void sentry_close(struct sentry *s)
{
    sentry_recall(s);
    uv_close((uv_handle_t *) &s->poll, on_closed);
}
