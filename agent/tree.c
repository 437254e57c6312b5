#include "agent/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "store/base/cleanup.h"
#include "store/base/clock.h"

enum {
    KILL_ROUND_MS = 10, /* until what a round did not see, or has let fork, is looked for again */
    TEXT_SIZE = 4096,
};

int tree_adopt(struct cc_err *err)
{
    if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
        return cc_fail(err, -errno, "become the reaper of our workers' processes: %s", strerror(errno));
    return 0;
}

/* Out of memory leaves the list short: whoever empties the tree goes round until nothing is left anyway. */
static void add(struct tree_list *l, pid_t pid, pid_t parent)
{
    if (l->n == l->size) {
        size_t            size = l->size ? 2 * l->size : 64;
        struct tree_proc *p = reallocarray(l->procs, size, sizeof *p);

        if (!p)
            return;
        l->procs = p;
        l->size = size;
    }
    l->procs[l->n++] = (struct tree_proc) { pid, parent };
}

void tree_list_free(struct tree_list *l)
{
    free(l->procs);
    *l = (struct tree_list) { 0 };
}

/* ---- the kernel's own lists of children */

static int add_from(struct tree_list *l, const char *path, pid_t parent)
{
    CC_AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    char           text[TEXT_SIZE];
    pid_t          pid = 0;
    ssize_t        n, i;

    if (fd < 0)
        return -errno;
    while ((n = read(fd, text, sizeof text)) > 0) {
        for (i = 0; i < n; i++) { /* "12 345 ": each number is ended by a space, and may be cut between two reads */
            if (text[i] >= '0' && text[i] <= '9') {
                pid = pid * 10 + (text[i] - '0');
                continue;
            }
            if (pid > 0)
                add(l, pid, parent);
            pid = 0;
        }
    }
    return n < 0 ? -errno : 0;
}

/* Each thread has a list of its own. The link count of the folder of threads tells whether there are others. */
static int add_children(struct tree_list *l, pid_t pid)
{
    char           path[80];
    struct stat    st;
    struct dirent *e;
    DIR           *dir;
    int            r;

    (void) snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int) pid, (int) pid);
    r = add_from(l, path, pid);
    (void) snprintf(path, sizeof path, "/proc/%d/task", (int) pid);
    if (r < 0 || stat(path, &st) < 0 || st.st_nlink == 3)
        return r;
    dir = opendir(path);
    if (!dir)
        return -errno;
    while ((e = readdir(dir))) {
        int tid = (int) strtol(e->d_name, NULL, 10);

        if (tid <= 0 || tid == pid)
            continue;
        (void) snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int) pid, tid);
        (void) add_from(l, path, pid);
    }
    (void) closedir(dir);
    return 0;
}

/* ---- every process of the machine, where the kernel has no such lists (CONFIG_PROC_CHILDREN) */

struct stat_line {
    pid_t parent;
    char  state;
};

static int read_stat(pid_t pid, struct stat_line *ret)
{
    char           text[512], *p;
    CC_AUTO_FD int fd = -1;
    ssize_t        n;

    (void) snprintf(text, sizeof text, "/proc/%d/stat", (int) pid);
    fd = open(text, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    n = read(fd, text, sizeof text - 1);
    if (n <= 0)
        return n < 0 ? -errno : -ESRCH;
    text[n] = '\0';
    p = strrchr(text, ')'); /* the name before it may hold anything */
    if (!p || p[1] != ' ' || p[2] == '\0')
        return -ESRCH;
    ret->state = p[2];
    ret->parent = (pid_t) strtol(p + 3, NULL, 10);
    return 0;
}

char tree_state(pid_t pid)
{
    struct stat_line s;

    return read_stat(pid, &s) < 0 ? '\0' : s.state;
}

static void list_machine(struct tree_list *l)
{
    struct dirent   *e;
    struct stat_line s = { 0 };
    DIR             *dir = opendir("/proc");

    while (dir && (e = readdir(dir))) {
        pid_t pid = (pid_t) strtol(e->d_name, NULL, 10);

        if (pid > 0 && read_stat(pid, &s) == 0)
            add(l, pid, s.parent);
    }
    if (dir)
        (void) closedir(dir);
}

static void add_scanned(struct tree_list *l, const struct tree_list *machine, pid_t pid)
{
    size_t i;

    for (i = 0; i < machine->n; i++) {
        if (machine->procs[i].parent == pid)
            add(l, machine->procs[i].pid, pid);
    }
}

/* ---- the walk */

/* Without /proc, or with that of another PID namespace, where our numbers are other processes, nobody can be found. */
static bool is_proc_ours(void)
{
    char    text[16];
    ssize_t n = readlink("/proc/self", text, sizeof text - 1);

    if (n <= 0)
        return false;
    text[n] = '\0';
    return strtol(text, NULL, 10) == getpid();
}

/* Our own children. `machine` is filled, and stays empty otherwise, when they have to be found among all processes. */
static void list_own(struct tree_list *ret, struct tree_list *machine, enum tree_source source)
{
    *ret = *machine = (struct tree_list) { 0 };
    if (!is_proc_ours())
        return;
    if (source == TREE_FROM_LISTS && add_children(ret, getpid()) == 0)
        return;
    list_machine(machine);
    add_scanned(ret, machine, getpid());
}

/* Of a child of ours, which keeps its pid until we reap it. */
static bool is_dead(pid_t child)
{
    siginfo_t si;

    si.si_pid = 0;
    return waitid(P_PID, (id_t) child, &si, WEXITED | WNOHANG | WNOWAIT) < 0 || si.si_pid == child;
}

/* Breadth first: the list is its own queue. A process that moves while we walk may be seen twice or not at all, but the
 * walk ends: each step is a process that was there.  Of the first n_own, our children, the dead are passed over: what was
 * below them is ours by now. */
static void walk(struct tree_list *l, const struct tree_list *machine, size_t n_own)
{
    size_t i;

    for (i = 0; i < l->n; i++) {
        if (i < n_own && is_dead(l->procs[i].pid))
            continue;
        if (machine->n > 0)
            add_scanned(l, machine, l->procs[i].pid);
        else
            (void) add_children(l, l->procs[i].pid);
    }
}

void tree_list(struct tree_list *ret, enum tree_source source)
{
    struct tree_list machine;

    list_own(ret, &machine, source);
    walk(ret, &machine, 0);
    tree_list_free(&machine);
}

/* ---- signals */

/* A child of ours keeps its pid until we reap it. Any other may be gone, reaped by its parent, and its number given to a
 * stranger since it was listed: hold whoever has the number now by a pidfd, and then make sure that this is one of us. */
static int signal_one(const struct tree_proc *p, int signum)
{
    struct stat_line s = { 0 };
    CC_AUTO_FD int   fd = -1;
    pid_t            self = getpid();

    if (p->parent == self) /* as of a list that we made, and nothing was reaped since */
        return is_dead(p->pid) ? -ESRCH : kill(p->pid, signum) < 0 ? -errno : 0;
    if (read_stat(p->pid, &s) < 0 || s.state == 'Z' || s.state == 'X')
        return -ESRCH;
    if (s.parent == self)
        return kill(p->pid, signum) < 0 ? -errno : 0;
    fd = (int) syscall(SYS_pidfd_open, p->pid, 0);
    if (fd < 0 && errno != ENOSYS)
        return -errno;
    if (read_stat(p->pid, &s) < 0 || (s.parent != p->parent && s.parent != self))
        return -ESRCH;
    if (fd < 0) /* a kernel before 5.3: what is left is the time between these two calls */
        return kill(p->pid, signum) < 0 ? -errno : 0;
    return syscall(SYS_pidfd_send_signal, fd, signum, NULL, 0) < 0 ? -errno : 0;
}

/* PID 1 can do without: whatever is in its namespace came in below it or goes with it. */
static int signal_unseen(int signum)
{
    return getpid() == 1 && !is_proc_ours() && kill(-1, signum) == 0;
}

int tree_signal(int signum)
{
    struct tree_list l;
    size_t           i;
    int              n = 0;

    tree_list(&l, TREE_FROM_LISTS);
    for (i = 0; i < l.n; i++) {
        if (signal_one(&l.procs[i], signum) == 0)
            n++;
    }
    tree_list_free(&l);
    return n > 0 ? n : signal_unseen(signum);
}

const char *tree_wchan(pid_t pid, char *buf, size_t size)
{
    CC_AUTO_FD int fd = -1;
    ssize_t        n;

    (void) snprintf(buf, size, "/proc/%d/wchan", (int) pid);
    fd = open(buf, O_RDONLY | O_CLOEXEC);
    n = fd < 0 ? -1 : read(fd, buf, size - 1);
    buf[n > 0 ? n : 0] = '\0';
    return n <= 0 || strcmp(buf, "0") == 0 ? "an unknown place" : buf;
}

bool tree_is_empty(void)
{
    siginfo_t si;

    return waitid(P_ALL, 0, &si, WEXITED | WNOHANG | WNOWAIT) < 0 && errno == ECHILD;
}

/* ---- the end */

static bool is_spared(const struct tree_spare *spare, pid_t pid)
{
    size_t i;

    for (i = 0; spare && i < spare->n; i++) {
        if (spare->pids[i] == pid)
            return true;
    }
    return false;
}

static void drop_spared(struct tree_list *l, const struct tree_spare *spare)
{
    size_t i, n = 0;

    for (i = 0; i < l->n; i++) {
        if (!is_spared(spare, l->procs[i].pid))
            l->procs[n++] = l->procs[i];
    }
    l->n = n;
}

/* Kills all, and returns how many of the list are our own children: they come first in it, and die first, since their
 * pids are ours to use and each death makes the next level our children. */
static size_t kill_round(struct tree_list *l, const struct tree_spare *spare, enum tree_source source)
{
    struct tree_list machine;
    size_t           n_own, i;

    list_own(l, &machine, source);
    drop_spared(l, spare);
    n_own = l->n;
    for (i = 0; i < n_own; i++)
        (void) kill(l->procs[i].pid, SIGKILL);
    walk(l, &machine, n_own);
    for (i = n_own; i < l->n; i++)
        (void) signal_one(&l->procs[i], SIGKILL);
    tree_list_free(&machine);
    if (n_own == 0)
        (void) signal_unseen(SIGKILL);
    return n_own;
}

void tree_kill(void)
{
    struct tree_list l;

    (void) kill_round(&l, NULL, TREE_FROM_LISTS);
    tree_list_free(&l);
}

static uint64_t round_ms(uint64_t deadline)
{
    uint64_t now = cc_monotonic_ms();

    return now >= deadline ? 0 : deadline - now < KILL_ROUND_MS ? deadline - now : KILL_ROUND_MS;
}

/* Sleeps until our child `pid` has exited or the round is over. */
static void await_exit(pid_t pid, uint64_t ms)
{
    CC_AUTO_FD int fd = (int) syscall(SYS_pidfd_open, pid, 0);
    struct pollfd  p = { .fd = fd, .events = POLLIN };

    (void) poll(&p, fd < 0 ? 0 : 1, fd < 0 ? 1 : (int) ms); /* without pidfds: look again every millisecond */
}

/* Reaps what has just been killed, as long as one dies in every round: else go and look for the others. */
static void reap_round(const struct tree_list *l, size_t n_own, uint64_t deadline)
{
    size_t   i;
    uint64_t until;

    for (i = 0; i < n_own; i++) {
        until = cc_monotonic_ms() + round_ms(deadline);
        while (waitpid(l->procs[i].pid, NULL, WNOHANG) == 0) {
            uint64_t left = round_ms(until);

            if (left == 0)
                return;
            await_exit(l->procs[i].pid, left);
        }
    }
}

static pid_t first_alive(const struct tree_list *l, size_t n_own)
{
    size_t i;

    for (i = 0; i < n_own; i++) {
        if (waitpid(l->procs[i].pid, NULL, WNOHANG) == 0)
            return l->procs[i].pid;
    }
    return l->n > n_own ? l->procs[n_own].pid : 0;
}

/* The kernel promises the lists of children to be whole only while all sleep: "none" is checked in another way. */
int tree_kill_all_but(const struct tree_spare *spare, uint64_t timeout_ms, pid_t *ret_stuck)
{
    uint64_t         deadline = cc_monotonic_ms() + timeout_ms;
    enum tree_source source = TREE_FROM_LISTS;

    for (;;) {
        struct tree_list l;
        bool             is_last = cc_monotonic_ms() >= deadline, is_whole = source == TREE_FROM_MACHINE;
        size_t           n_own = kill_round(&l, spare, source), n_all = l.n;
        pid_t            stuck = 0;

        reap_round(&l, n_own, deadline);
        if (is_last)
            stuck = first_alive(&l, n_own);
        tree_list_free(&l);
        if (tree_is_empty() || (n_own == 0 && is_whole && spare && spare->n > 0))
            return 0;
        if (is_last) {
            if (ret_stuck)
                *ret_stuck = stuck;
            return n_all > 0 ? (int) n_all : 1;
        }
        if (n_own == 0) { /* there is something, but not in /proc, or not yet: no hurry */
            while (waitpid(-1, NULL, WNOHANG) > 0)
                ;
            (void) poll(NULL, 0, 1);
        }
        source = n_own == 0 ? TREE_FROM_MACHINE : TREE_FROM_LISTS;
    }
}

int tree_kill_all(uint64_t timeout_ms, pid_t *ret_stuck)
{
    return tree_kill_all_but(NULL, timeout_ms, ret_stuck);
}

void tree_describe_left(char *buf, size_t size)
{
    struct tree_list l;
    char             wchan[64];
    pid_t            pid;

    tree_list(&l, TREE_FROM_MACHINE);
    pid = l.n > 0 ? l.procs[0].pid : 0;
    if (pid > 0)
        (void) snprintf(buf, size,
                        "%zu process%s of the job outlived SIGKILL (D state) and %s left behind; pid %d sleeps in %s, "
                        "/proc/%d/stack says more",
                        l.n, l.n == 1 ? "" : "es", l.n == 1 ? "is" : "are", (int) pid,
                        tree_wchan(pid, wchan, sizeof wchan), (int) pid);
    else
        (void) snprintf(buf, size, "something of the job is still there, but /proc does not show it; left behind");
    tree_list_free(&l);
}
