#include "agent/signals.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "store/base/macros.h"

static const int handled[] = { SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH, SIGCONT, SIGTSTP };

/* Writing to a terminal from the background must not stop the agent; a closed console and a log file beyond the size
 * limit are errors of a write. */
static const int ignored[] = { SIGPIPE, SIGTTIN, SIGTTOU, SIGXFSZ };

/* Blocked signals are queued even when they are ignored, so what must stay ignored stays out of the set. */
static void add(sigset_t *set, int signum)
{
    struct sigaction sa;

    if (sigaction(signum, NULL, &sa) == 0 && sa.sa_handler != SIG_IGN)
        (void) sigaddset(set, signum);
}

static void choose(sigset_t *set, const int *extra)
{
    size_t i;
    int    s;

    (void) sigemptyset(set);
    for (i = 0; i < CC_COUNT(handled); i++)
        add(set, handled[i]);
    for (s = SIGRTMIN; s <= SIGRTMAX; s++)
        add(set, s);
    for (; extra && *extra; extra++)
        add(set, *extra);
    (void) sigaddset(set, SIGCHLD);
}

static void on_readable(uv_poll_t *p, int status, int events)
{
    struct signals *s = CC_CONTAINER_OF(p, struct signals, poll);
    struct signalfd_siginfo info[16];
    ssize_t n;
    size_t  i;

    (void) status, (void) events;
    n = read(s->fd, info, sizeof info);
    for (i = 0; n > 0 && i < (size_t) n / sizeof info[0]; i++)
        s->on_signal(s->ctx, &info[i]);
}

int signals_start(struct signals *s, uv_loop_t *loop, const int *extra, signals_fn *on_signal, void *ctx,
                  struct cc_err *err)
{
    struct sigaction sa = { .sa_handler = SIG_DFL };
    size_t i;
    int    r;

    *s = (struct signals) { .fd = -1, .on_signal = on_signal, .ctx = ctx };
    (void) sigaction(SIGCHLD, &sa, NULL); /* an inherited SIG_IGN would reap the workers behind our back */
    sa.sa_handler = SIG_IGN;
    for (i = 0; i < CC_COUNT(ignored); i++)
        (void) sigaction(ignored[i], &sa, NULL);
    choose(&s->set, extra);
    if (sigprocmask(SIG_SETMASK, &s->set, NULL) < 0)
        return cc_fail(err, -errno, "block signals: %s", strerror(errno));
    s->fd = signalfd(-1, &s->set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (s->fd < 0)
        return cc_fail(err, -errno, "signalfd: %s", strerror(errno));
    r = uv_poll_init(loop, &s->poll, s->fd);
    if (r == 0)
        r = uv_poll_start(&s->poll, UV_READABLE, on_readable);
    if (r < 0)
        return cc_fail(err, r, "watch signals: %s", uv_strerror(r));
    return 0;
}

static void interrupt(int signum)
{
    (void) signum;
}

void signals_let_through(struct signals *s, sigset_t *ret_mask)
{
    static const int  ends[] = { SIGTERM, SIGINT, SIGHUP, SIGQUIT };
    struct sigaction  sa = { .sa_handler = interrupt }; /* no SA_RESTART: that is the point */
    size_t            i;

    (void) uv_poll_stop(&s->poll);
    (void) sigprocmask(SIG_BLOCK, NULL, ret_mask);
    for (i = 0; i < CC_COUNT(ends); i++)
        if (sigismember(&s->set, ends[i]) == 1 && sigaction(ends[i], &sa, NULL) == 0)
            (void) sigdelset(ret_mask, ends[i]);
}

static void on_closed(uv_handle_t *h)
{
    struct signals *s = CC_CONTAINER_OF((uv_poll_t *) (void *) h, struct signals, poll);

    (void) close(s->fd);
}

void signals_close(struct signals *s)
{
    if (s->fd >= 0 && !uv_is_closing((uv_handle_t *) &s->poll))
        uv_close((uv_handle_t *) &s->poll, on_closed);
}
