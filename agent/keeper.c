#include "agent/keeper.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/estate.h"
#include "agent/oomscore.h"
#include "agent/tree.h"
#include "store/base/clock.h"
#include "store/base/macros.h"
#include "store/base/signame.h"

enum {
    EXIT_AGENT_KILLED = 70,
    SAME_SIGNAL_MS = 50,
    KILL_LIMIT_MS = 10000, /* D state: exit anyway, and say so */
    REST_LIMIT_MS = 100,   /* the agent itself has waited for what outlives SIGKILL, and said so */
    LEFT_LIMIT_MS = 500,   /* what the agent left has outlived its SIGKILL already, and the agent said so */
    SEND_LIMIT_MS = 1000,
    SEND_SLICE_MS = 50,
};

enum msg_type { MSG_STREAM, MSG_STREAM_DONE, MSG_PATH, MSG_TERMINAL };

struct msg {
    uint32_t type, id;
    char     path[PATH_MAX];
};

enum { MSG_HEAD = offsetof(struct msg, path) };

struct keeper {
    pid_t             agent;
    int               sock, signal_fd;
    struct keeper_leash leash; /* fd -1: there is none, or it has ended */
    struct estate     estate;
    struct tree_spare spare;    /* children that are not the agent's */
    pid_t            *foreign;  /* what spare points to */
    int               tty;      /* a descriptor of our terminal when we were started in its foreground, else -1 */
    pid_t             borrower; /* the process group that had the terminal when we stopped, 0: we had it */
    uint64_t          last_ms[SIGTERM + 1];
    sigset_t          seen;     /* what was forwarded at least once */
    bool              is_stopping, is_cont_early;
};

static const int stop_signals[] = { SIGTERM, SIGINT, SIGHUP, SIGQUIT };
static const int other_signals[] = { SIGUSR1, SIGUSR2, SIGWINCH, SIGCONT, SIGTSTP };

static bool is_stop_signal(int signum)
{
    size_t i;

    for (i = 0; i < CC_COUNT(stop_signals); i++) {
        if (stop_signals[i] == signum)
            return true;
    }
    return false;
}

/* ---- children that were here before the job (a shell's background processes, when it exec'd us), and their orphans */

static void note_foreign(struct keeper *k)
{
    struct tree_list l;
    size_t           i, n = 0;
    pid_t           *pids;

    tree_list(&l, TREE_FROM_LISTS);
    pids = reallocarray(k->foreign, l.n + 1, sizeof *pids);
    for (i = 0; pids && i < l.n; i++) {
        if (l.procs[i].parent == getpid() && l.procs[i].pid != k->agent)
            pids[n++] = l.procs[i].pid;
    }
    if (pids) {
        k->foreign = pids;
        k->spare = (struct tree_spare) { pids, n };
    }
    tree_list_free(&l);
}

/* ---- the terminal */

static int find_terminal(void)
{
    int fd;

    for (fd = 0; fd < 3; fd++) {
        if (tcgetpgrp(fd) == getpgrp())
            return fd;
    }
    return -1;
}

/* Only from a group that is gone. One that lives is a shell that put us into the background: it is not ours to take. */
static void reclaim_terminal(const struct keeper *k)
{
    pid_t group = k->tty < 0 ? -1 : tcgetpgrp(k->tty);

    if (group >= 0 && group != getpgrp() && (group == 0 || (kill(-group, 0) < 0 && errno == ESRCH)))
        (void) tcsetpgrp(k->tty, getpgrp());
}

static void lend_terminal_again(struct keeper *k)
{
    if (k->borrower > 0 && tcgetpgrp(k->tty) == getpgrp() && kill(-k->borrower, 0) == 0)
        (void) tcsetpgrp(k->tty, k->borrower);
    k->borrower = 0;
}

static void stop_self(struct keeper *k)
{
    pid_t group = k->tty < 0 ? -1 : tcgetpgrp(k->tty);

    k->borrower = group > 0 && group != getpgrp() ? group : 0;
    (void) kill(getpid(), SIGSTOP); /* we sleep in here; the CONT that wakes us waits in signal_fd */
}

/* ---- signals */

static void forward(struct keeper *k, int signum)
{
    uint64_t now = cc_monotonic_ms();

    if (is_stop_signal(signum)) {
        if (sigismember(&k->seen, signum) && now - k->last_ms[signum] < SAME_SIGNAL_MS)
            return;
        k->last_ms[signum] = now;
    }
    (void) sigaddset(&k->seen, signum);
    if (signum == SIGTSTP) {
        k->is_stopping = true;
        k->is_cont_early = false;
    } else if (signum == SIGCONT) {
        k->is_cont_early = k->is_stopping;
        lend_terminal_again(k);
    }
    (void) kill(k->agent, signum);
}

static void follow(struct keeper *k)
{
    uint8_t orders[64];
    ssize_t n = read(k->leash.fd, orders, sizeof orders), i;

    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    for (i = 0; i < n; i++)
        if (orders[i] > 0 && orders[i] <= SIGRTMAX)
            forward(k, orders[i]);
    if (n <= 0) {
        k->leash.fd = -1;
        forward(k, SIGTERM);
    }
}

static void on_agent_stopped(struct keeper *k)
{
    bool is_wanted = k->is_stopping, is_early = k->is_cont_early;

    k->is_stopping = k->is_cont_early = false;
    if (is_wanted && is_early)
        (void) kill(k->agent, SIGCONT); /* told to go on before it had stopped */
    else if (is_wanted || (k->tty >= 0 && tcgetpgrp(k->tty) != getpgrp()))
        stop_self(k); /* also when Ctrl-Z went to a worker that has the terminal: the shell must see it */
}

/* False once the agent is gone, with its status in *ret. */
static bool reap(struct keeper *k, siginfo_t *ret)
{
    siginfo_t si;

    for (;;) {
        si.si_pid = 0;
        if (waitid(P_ALL, 0, &si, WEXITED | WSTOPPED | WNOHANG) < 0 || si.si_pid == 0)
            return true;
        if (si.si_pid == k->agent && si.si_code == CLD_STOPPED)
            on_agent_stopped(k);
        else if (si.si_pid == k->agent) {
            *ret = si;
            return false;
        } else if (si.si_code != CLD_STOPPED)
            note_foreign(k); /* its children have just become ours */
    }
}

static bool read_signals(struct keeper *k, siginfo_t *ret)
{
    struct signalfd_siginfo s;

    while (read(k->signal_fd, &s, sizeof s) == (ssize_t) sizeof s) {
        if (s.ssi_signo != SIGCHLD)
            forward(k, (int) s.ssi_signo);
        else if (!reap(k, ret))
            return false;
    }
    return true;
}

/* ---- messages */

static void obey(struct keeper *k, const struct msg *m, const int fds[2])
{
    switch (m->type) {
    case MSG_STREAM:
        if (fds[0] >= 0 && fds[1] >= 0)
            (void) estate_add_stream(&k->estate, m->id, fds[0], fds[1]);
        break;
    case MSG_STREAM_DONE: estate_drop_stream(&k->estate, m->id); break;
    case MSG_PATH:
        if (m->path[0])
            (void) estate_add_path(&k->estate, m->path);
        else
            estate_forget_paths(&k->estate);
        break;
    case MSG_TERMINAL: reclaim_terminal(k); break;
    default:           break;
    }
}

/* Two descriptors come or none: with one (we have no more left) the stream is lost to us, and the job goes on. */
static void take_fds(struct msghdr *h, int fds[2])
{
    struct cmsghdr *c = CMSG_FIRSTHDR(h);

    fds[0] = fds[1] = -1;
    if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
        return;
    memcpy(fds, CMSG_DATA(c), c->cmsg_len >= CMSG_LEN(2 * sizeof(int)) ? 2 * sizeof(int) : sizeof(int));
    if (fds[1] < 0) {
        (void) close(fds[0]);
        fds[0] = -1;
    }
}

static bool read_messages(struct keeper *k)
{
    struct msg m;
    union {
        struct cmsghdr align;
        char           bytes[CMSG_SPACE(2 * sizeof(int))];
    } control;
    int     fds[2];
    ssize_t n;

    for (;;) {
        struct iovec  iov = { &m, sizeof m - 1 };
        struct msghdr h = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control };

        n = recvmsg(k->sock, &h, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        if (n < 0)
            return errno == EAGAIN || errno == EINTR;
        if (n < MSG_HEAD)
            return false; /* end of file: the agent is gone, or about to */
        ((char *) &m)[n] = '\0';
        take_fds(&h, fds);
        obey(k, &m, fds);
    }
}

/* ---- the end */

static _Noreturn void leave(const struct keeper *k, int status)
{
    if (k->leash.ended)
        k->leash.ended(k->leash.ctx, status);
    _exit(status);
}

static _Noreturn void end_killed(struct keeper *k, int signum)
{
    char  name[CC_SIGNAME_MAX];
    pid_t stuck = 0;
    int   n_left;

    (void) read_messages(k);
    estate_kill_groups(&k->estate);
    n_left = tree_kill_all_but(&k->spare, KILL_LIMIT_MS, &stuck);
    estate_settle(&k->estate);
    reclaim_terminal(k);
    if (is_stop_signal(signum) && sigismember(&k->seen, signum))
        leave(k, 128 + signum);
    if (n_left == 0)
        (void) dprintf(STDERR_FILENO, "ccrun: the agent (pid %d) was killed by %s; all its processes were ended\n",
                       (int) k->agent, cc_signal_name(signum, name));
    else
        (void) dprintf(STDERR_FILENO, "ccrun: the agent (pid %d) was killed by %s; %d of its processes outlived SIGKILL "
                       "for %d s (one is pid %d)\n",
                       (int) k->agent, cc_signal_name(signum, name), n_left, KILL_LIMIT_MS / 1000, (int) stuck);
    leave(k, EXIT_AGENT_KILLED);
}

/* The agent has emptied the tree itself; with foreign children about, what is left cannot be told from theirs. */
static _Noreturn void end_exited(struct keeper *k, int status)
{
    if (k->spare.n == 0 && !tree_is_empty())
        (void) tree_kill_all(LEFT_LIMIT_MS, NULL);
    reclaim_terminal(k);
    leave(k, status);
}

static _Noreturn void keep(struct keeper *k)
{
    struct pollfd   p[3] = { { .fd = k->signal_fd, .events = POLLIN }, { .fd = k->sock, .events = POLLIN },
                             { .fd = k->leash.fd, .events = POLLIN } };
    struct oomscore score = { 0 };
    struct rlimit   lim;
    siginfo_t       end;

    (void) prctl(PR_SET_NAME, "ccrun-keeper");
    oomscore_lower(&score);
    if (getrlimit(RLIMIT_NOFILE, &lim) == 0) { /* streams cost two descriptors each, and we start no program */
        lim.rlim_cur = lim.rlim_max;
        (void) setrlimit(RLIMIT_NOFILE, &lim);
    }
    if (k->leash.began)
        k->leash.began(k->leash.ctx);
    for (;;) {
        p[2].fd = k->leash.fd;
        (void) poll(p, 3, -1);
        if (p[2].revents)
            follow(k);
        if (p[1].revents && !read_messages(k))
            p[1].fd = -1;
        if (p[0].revents && !read_signals(k, &end))
            break;
    }
    if (end.si_code == CLD_EXITED)
        end_exited(k, end.si_status);
    end_killed(k, end.si_status);
}

/* ---- the start */

/* What was ignored stays out of the set: a blocked signal is queued even when it is ignored, and would be forwarded. */
static void add_unless_ignored(sigset_t *set, int signum)
{
    struct sigaction was;

    if (sigaction(signum, NULL, &was) == 0 && was.sa_handler != SIG_IGN)
        (void) sigaddset(set, signum);
}

static void wanted_signals(sigset_t *set, const int *extra)
{
    size_t i;
    int    rt;

    (void) sigemptyset(set);
    for (i = 0; i < CC_COUNT(stop_signals); i++)
        add_unless_ignored(set, stop_signals[i]);
    for (i = 0; i < CC_COUNT(other_signals); i++)
        add_unless_ignored(set, other_signals[i]);
    for (rt = SIGRTMIN; rt <= SIGRTMAX; rt++)
        add_unless_ignored(set, rt);
    for (; extra && *extra; extra++)
        add_unless_ignored(set, *extra);
    (void) sigaddset(set, SIGCHLD);
}

/* An ignored CHLD reaps children behind our back; the others must work whatever a careless parent did. */
static void reset_dispositions(void)
{
    static const int needed[] = { SIGTERM, SIGCHLD, SIGCONT, SIGTSTP };
    struct sigaction dfl = { .sa_handler = SIG_DFL };
    size_t           i;

    for (i = 0; i < CC_COUNT(needed); i++)
        (void) sigaction(needed[i], &dfl, NULL);
}

static int become_agent(struct cc_err *err)
{
    struct sigaction ign = { .sa_handler = SIG_IGN };
    sigset_t         all;

    (void) sigaction(SIGTTIN, &ign, NULL);
    (void) sigaction(SIGTTOU, &ign, NULL); /* we write to a terminal whose foreground is the keeper's group */
    (void) sigfillset(&all);
    (void) sigprocmask(SIG_SETMASK, &all, NULL);
    return tree_adopt(err);
}

/* Before the fork, so that its failure can still be reported. */
static int prepare(struct keeper *k, const int *extra, struct cc_err *err)
{
    sigset_t wanted;

    wanted_signals(&wanted, extra);
    k->tty = find_terminal();
    k->signal_fd = signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK);
    if (k->signal_fd < 0)
        return cc_fail(err, -errno, "watch signals: signalfd: %s", strerror(errno));
    if (!tree_is_empty())
        note_foreign(k);
    return tree_adopt(err);
}

int keeper_start(const int *extra, const struct keeper_leash *leash, int *ret_fd, struct cc_err *err)
{
    struct keeper k = { .sock = -1, .signal_fd = -1, .tty = -1, .leash.fd = -1 };
    sigset_t      all, old;
    int           ends[2], r;

    reset_dispositions();
    if (getpid() == 1 && (!leash || leash->fd < 0) && tree_is_empty()) {
        *ret_fd = -1;
        return become_agent(err);
    }
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        return cc_fail(err, -errno, "start the agent: socketpair: %s", strerror(errno));
    (void) sigfillset(&all);
    (void) sigprocmask(SIG_SETMASK, &all, &old);
    if (leash)
        k.leash = *leash;
    r = prepare(&k, extra, err);
    k.agent = r < 0 ? -1 : fork();
    if (k.agent > 0) {
        (void) close(ends[1]);
        k.sock = ends[0];
        keep(&k);
    }
    if (r == 0 && k.agent < 0)
        r = cc_fail(err, -errno, "start the agent: fork: %s", strerror(errno));
    (void) close(ends[0]);
    if (k.signal_fd >= 0)
        (void) close(k.signal_fd);
    free(k.foreign);
    if (r < 0) {
        (void) sigprocmask(SIG_SETMASK, &old, NULL);
        (void) close(ends[1]);
        return r;
    }
    if (leash && leash->fd >= 0)
        (void) close(leash->fd);
    (void) setpgid(0, 0);
    *ret_fd = ends[1];
    return become_agent(err);
}

/* ---- the agent's side */

/* The keeper reads at once, unless somebody has stopped it: that must not hold the job, a second for each message. */
static int send_msg(int fd, const struct msg *m, size_t path_len, const int *fds)
{
    union {
        struct cmsghdr align;
        char           bytes[CMSG_SPACE(2 * sizeof(int))];
    } control = { 0 };
    struct iovec  iov = { .iov_len = MSG_HEAD + path_len };
    struct msghdr h = { .msg_iov = &iov, .msg_iovlen = 1 };
    struct pollfd p = { .fd = fd, .events = POLLOUT };
    uint64_t      end = cc_monotonic_ms() + SEND_LIMIT_MS;

    memcpy(&iov.iov_base, &m, sizeof m); /* it is only read from */
    if (fds) {
        h.msg_control = &control;
        h.msg_controllen = sizeof control;
        control.align = (struct cmsghdr) { .cmsg_len = CMSG_LEN(2 * sizeof(int)), .cmsg_level = SOL_SOCKET,
                                           .cmsg_type = SCM_RIGHTS };
        memcpy(CMSG_DATA(&control.align), fds, 2 * sizeof(int));
    }
    for (;;) {
        int why;

        if (sendmsg(fd, &h, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
            return 0;
        why = errno;
        if (why != ETOOMANYREFS && why != EAGAIN && why != EINTR)
            return -why;
        if (cc_monotonic_ms() >= end || tree_state(getppid()) == 'T')
            return -ETIMEDOUT;
        if (why == ETOOMANYREFS) /* too many descriptors under way at once */
            (void) poll(NULL, 0, 1);
        else
            (void) poll(&p, 1, SEND_SLICE_MS);
    }
}

int keeper_hand_over(int keeper_fd, uint32_t id, int pipe_fd, int file_fd, struct cc_err *err)
{
    struct msg m = { .type = MSG_STREAM, .id = id };
    int        fds[2] = { pipe_fd, file_fd }, r;

    if (keeper_fd < 0)
        return 0;
    r = send_msg(keeper_fd, &m, 0, fds);
    return r < 0 ? cc_fail(err, r, "hand stream %u to the keeper: %s", id, strerror(-r)) : 0;
}

void keeper_take_back(int keeper_fd, uint32_t id)
{
    struct msg m = { .type = MSG_STREAM_DONE, .id = id };

    if (keeper_fd >= 0)
        (void) send_msg(keeper_fd, &m, 0, NULL);
}

void keeper_remove_later(int keeper_fd, const char *path)
{
    struct msg m = { .type = MSG_PATH };
    size_t     n = path ? strlen(path) : 0;

    if (keeper_fd < 0 || n >= sizeof m.path)
        return;
    if (path)
        memcpy(m.path, path, n);
    (void) send_msg(keeper_fd, &m, n, NULL);
}

void keeper_reclaim_terminal(int keeper_fd)
{
    struct msg m = { .type = MSG_TERMINAL };

    if (keeper_fd >= 0)
        (void) send_msg(keeper_fd, &m, 0, NULL);
}
