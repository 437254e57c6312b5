#include "agent/spawn.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STACK_SIZE = 16 * 1024, LAST_SIGNAL = 64, WINDOW = 64 };

/* Between clone and exec the child runs in our memory and with our thread's storage, beside us.  So it may call nothing
 * of the C library that allocates, locks or so much as sets errno: system calls only; and the sanitizers must not note
 * its frames as ours. */
#define IN_CHILD __attribute__((no_sanitize("address", "undefined", "thread")))

#if defined(__x86_64__)
IN_CHILD static inline long sys(long nr, long a, long b, long c, long d)
{
    register long r10 __asm__("r10") = d;

    __asm__ volatile("syscall" : "+a"(nr) : "D"(a), "S"(b), "d"(c), "r"(r10) : "rcx", "r11", "memory");
    return nr;
}
#elif defined(__aarch64__)
IN_CHILD static inline long sys(long nr, long a, long b, long c, long d)
{
    register long x8 __asm__("x8") = nr;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;

    __asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory");
    return x0;
}
#else /* sets errno: start() lets us sleep meanwhile */
#define MUST_SLEEP 1
IN_CHILD static long sys(long nr, long a, long b, long c, long d)
{
    long r = syscall(nr, a, b, c, d);

    return r < 0 ? -errno : r;
}
#endif
#ifndef MUST_SLEEP
#define MUST_SLEEP 0
#endif

struct child {
    struct spawn_req req;
    pid_t            pid, parent;
    bool             is_in_cgroup;
    const char      *step;  /* what failed, NULL: nothing; for the parent, once `tid` is 0 */
    int              error; /* a negative errno */
    int              tid;   /* the kernel clears it, as a futex, when the child has exec'd or gone */
};

IN_CHILD static int failed(struct child *c, const char *step, long error)
{
    c->step = step;
    c->error = (int) error;
    return -1;
}

/* Also 32 and 33, which sigaction() of the C library refuses: whoever started us may have ignored them. */
IN_CHILD static void reset_signals(void)
{
    uint64_t zero[8] = { 0 }; /* struct sigaction of the kernel, at least as large on every machine: SIG_DFL */
    int      i;

    for (i = 1; i <= LAST_SIGNAL; i++)
        (void) sys(SYS_rt_sigaction, i, (long) zero, 0, sizeof(uint64_t)); /* fails for KILL and STOP only */
}

/* A process in its own session cannot be stopped by the terminal; the foreground one shares ours and must own it.
 * Signals are blocked here, so that taking the terminal from the background is let through. */
IN_CHILD static int set_session(struct child *c)
{
    int  group = 0;
    long r;

    if (!c->req.is_foreground) {
        r = sys(SYS_setsid, 0, 0, 0, 0);
        return r < 0 ? failed(c, "setsid", r) : 0;
    }
    r = sys(SYS_setpgid, 0, 0, 0, 0);
    if (r < 0)
        return failed(c, "setpgid", r);
    group = (int) sys(SYS_getpid, 0, 0, 0, 0);
    r = sys(SYS_ioctl, c->req.fd[0], TIOCSPGRP, (long) &group, 0);
    return r < 0 ? failed(c, "give it the terminal", r) : 0;
}

IN_CHILD static int first_unused(const struct child *c)
{
    return c->req.has_fd3 ? 4 : 3;
}

/* Sources that lie among the targets go out of the way first, or one dup would overwrite the next one's source. */
IN_CHILD static int set_fds(struct child *c)
{
    long src[4], r;
    int  i, n = first_unused(c);

    for (i = 0; i < n; i++) {
        src[i] = c->req.fd[i];
        if (src[i] != i && src[i] < n)
            src[i] = sys(SYS_fcntl, src[i], F_DUPFD_CLOEXEC, n, 0);
        if (src[i] < 0)
            return failed(c, "duplicate its standard streams", c->req.fd[i] < 0 ? -EBADF : src[i]);
    }
    for (i = 0; i < n; i++) {
        r = src[i] == i ? sys(SYS_fcntl, i, F_SETFD, 0, 0) : sys(SYS_dup3, src[i], i, 0, 0);
        if (r < 0)
            return failed(c, "duplicate its standard streams", r);
    }
    return 0;
}

IN_CHILD static bool is_passed(const struct child *c, long fd)
{
    unsigned i;

    for (i = 0; i < c->req.n_pass && c->req.pass[i] != fd; i++)
        ;
    return i < c->req.n_pass;
}

/* Those that we were started with, so nothing of ours has their numbers. */
IN_CHILD static int keep_passed(struct child *c)
{
    unsigned i;
    long     r = 0;

    for (i = 0; i < c->req.n_pass && r >= 0; i++)
        r = sys(SYS_fcntl, c->req.pass[i], F_SETFD, 0, 0);
    return r < 0 ? failed(c, "keep a descriptor of --pass-fds", r) : 0;
}

/* All but what is passed on: the gaps between. */
IN_CHILD static long close_ranges(const struct child *c, unsigned from)
{
    unsigned i;
    long     r = 0;

    for (i = 0; i < c->req.n_pass && r == 0; i++) {
        if (from < (unsigned) c->req.pass[i])
            r = sys(SYS_close_range, from, c->req.pass[i] - 1, 0, 0);
        from = (unsigned) c->req.pass[i] + 1;
    }
    return r < 0 ? r : sys(SYS_close_range, from, UINT_MAX, 0, 0);
}

struct dirent_raw { /* what getdents64 fills in */
    uint64_t      d_ino;
    int64_t       d_off;
    uint16_t      d_reclen;
    unsigned char d_type;
    char          d_name[];
};

/* Kernels before 5.9, and sandboxes that forbid close_range().  Never a loop to RLIMIT_NOFILE: that may be 10^6 and more. */
IN_CHILD static void close_listed(const struct child *c, long dir, long from)
{
    union {
        struct dirent_raw align;
        char              bytes[2048];
    } buf;
    long n, at;

    while ((n = sys(SYS_getdents64, dir, (long) &buf, sizeof buf, 0)) > 0) {
        for (at = 0; at < n; at += ((struct dirent_raw *) (void *) (buf.bytes + at))->d_reclen) {
            const char *s = ((struct dirent_raw *) (void *) (buf.bytes + at))->d_name;
            long        fd = 0;

            for (; *s >= '0' && *s <= '9'; s++) /* NOLINT: the kernel has filled buf */
                fd = fd * 10 + (*s - '0');
            if (fd >= from && fd != dir && !is_passed(c, fd))
                (void) sys(SYS_close, fd, 0, 0, 0);
        }
    }
    (void) sys(SYS_close, dir, 0, 0, 0);
}

IN_CHILD static int close_rest(struct child *c)
{
    long dir;

    if (close_ranges(c, (unsigned) first_unused(c)) == 0)
        return 0;
    dir = sys(SYS_openat, AT_FDCWD, (long) "/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (dir < 0)
        return failed(c, "close the other descriptors", dir);
    close_listed(c, dir, first_unused(c));
    return 0;
}

IN_CHILD static void write_file(int dir, const char *path, const char *text, size_t len)
{
    long fd = sys(SYS_openat, dir, (long) path, O_WRONLY | O_CLOEXEC, 0);

    if (fd < 0)
        return;
    (void) sys(SYS_write, fd, (long) text, (long) len, 0);
    (void) sys(SYS_close, fd, 0, 0, 0);
}

/* In the order that matters: the death signal before anything that takes time, and the mask last, when nothing of
 * ours can run any more.  The group is best effort: the job is right without it. */
IN_CHILD static int set_up(struct child *c)
{
    const struct spawn_req *req = &c->req;
    long                    r = sys(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0);

    if (r < 0)
        return failed(c, "set its parent-death signal", r);
    if (sys(SYS_getppid, 0, 0, 0, 0) != c->parent) /* we died before that: nobody is left to read this */
        return failed(c, "find its parent", -ESRCH);
    if (set_session(c) < 0)
        return -1;
    if (req->cgroup_fd >= 0 && !c->is_in_cgroup)
        write_file(req->cgroup_fd, "cgroup.procs", "0", 1);
    r = req->mask ? sys(SYS_sched_setaffinity, 0, sizeof *req->mask, (long) req->mask, 0) : 0;
    if (r < 0)
        return failed(c, "bind it to its CPUs", r);
    r = req->nofile ? sys(SYS_prlimit64, 0, RLIMIT_NOFILE, (long) req->nofile, 0) : 0;
    if (r < 0)
        return failed(c, "restore its limit of open files", r);
    if (req->umask)
        (void) sys(SYS_umask, *req->umask, 0, 0, 0);
    if (set_fds(c) < 0 || keep_passed(c) < 0 || close_rest(c) < 0)
        return -1;
    reset_signals();
    return 0;
}

IN_CHILD static int child_main(void *arg)
{
    struct child *c = arg;
    uint64_t      none = 0;

    if (set_up(c) == 0) {
        (void) sys(SYS_rt_sigprocmask, SIG_SETMASK, (long) &none, 0, sizeof none);
        (void) failed(c, "exec", sys(SYS_execve, (long) c->req.path, (long) c->req.argv, (long) c->req.env, 0));
    }
    (void) sys(SYS_exit_group, 127, 0, 0, 0);
    return 127; /* not reached */
}

/* clone3 has no wrapper in the C library and a child on another stack cannot return from syscall(): hence assembly.
 * It alone can start a process inside a group: moving one there waits for an RCU grace period, milliseconds.
 * Returns the pid or a negative errno. */
static long clone3_into(int cgroup_fd, char *stack, struct child *c)
{
    struct clone_args args = {
        .flags = CLONE_VM | CLONE_CHILD_CLEARTID | CLONE_INTO_CGROUP,
        .child_tid = (uint64_t) (uintptr_t) &c->tid,
        .exit_signal = SIGCHLD,
        .stack = (uint64_t) (uintptr_t) stack,
        .stack_size = STACK_SIZE,
        .cgroup = (unsigned) cgroup_fd,
    };
#if defined(__x86_64__)
    long                   r = SYS_clone3;
    register struct child *r12 __asm__("r12") = c;
    register int (*r13)(void *) __asm__("r13") = child_main;

    __asm__ volatile("syscall\n\t"
                     "test %%rax, %%rax\n\t"
                     "jnz 1f\n\t"
                     "xor %%ebp, %%ebp\n\t"
                     "mov %%r12, %%rdi\n\t"
                     "call *%%r13\n\t"
                     "hlt\n"
                     "1:"
                     : "+a"(r)
                     : "D"(&args), "S"(sizeof args), "r"(r12), "r"(r13)
                     : "rcx", "r11", "memory", "cc");
    return r;
#elif defined(__aarch64__)
    register long          x8 __asm__("x8") = SYS_clone3;
    register uintptr_t     x0 __asm__("x0") = (uintptr_t) &args;
    register size_t        x1 __asm__("x1") = sizeof args;
    register struct child *x19 __asm__("x19") = c;
    register int (*x20)(void *) __asm__("x20") = child_main;

    __asm__ volatile("svc #0\n\t"
                     "cbnz x0, 1f\n\t"
                     "mov x29, xzr\n\t"
                     "mov x30, xzr\n\t"
                     "mov x0, x19\n\t"
                     "blr x20\n\t"
                     "brk #0\n"
                     "1:"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x19), "r"(x20)
                     : "memory", "cc");
    return (long) x0;
#else
    (void) args, (void) c;
    return -ENOSYS;
#endif
}

static long start_anywhere(char *stack, struct child *c)
{
    int   flags = CLONE_VM | CLONE_CHILD_CLEARTID | (MUST_SLEEP ? CLONE_VFORK : 0) | SIGCHLD;
    pid_t pid = clone(child_main, stack + STACK_SIZE, flags, c, NULL, NULL, &c->tid);

    return pid < 0 ? -errno : pid;
}

/* No handler of ours may run in the child: it would run in our memory. */
static int start(char *stack, struct child *c, struct cc_err *err)
{
    sigset_t all, old;
    long     r = -ENOSYS;

    c->parent = getpid();
    c->tid = 1;
    c->step = NULL;
    (void) sigfillset(&all);
    (void) sigprocmask(SIG_SETMASK, &all, &old);
    c->is_in_cgroup = c->req.cgroup_fd >= 0;
    if (c->is_in_cgroup)
        r = clone3_into(c->req.cgroup_fd, stack, c);
    if (r < 0) { /* also an old kernel, a sandbox, or a group that takes nobody: start it beside the group */
        c->is_in_cgroup = false;
        r = start_anywhere(stack, c);
    }
    (void) sigprocmask(SIG_SETMASK, &old, NULL);
    if (r < 0)
        return cc_fail(err, (int) r, "start '%s': clone: %s", c->req.path, strerror((int) -r));
    c->pid = (pid_t) r;
    return 0;
}

static int await(struct child *c, struct cc_err *err)
{
    int tid;

    while ((tid = __atomic_load_n(&c->tid, __ATOMIC_ACQUIRE)) != 0)
        (void) syscall(SYS_futex, &c->tid, FUTEX_WAIT, tid, NULL, NULL, 0);
    return c->step ? cc_fail(err, c->error, "start '%s': %s: %s", c->req.path, c->step, strerror(-c->error)) : 0;
}

/* ---- several under way at once */

struct slot {
    struct child c;
    cpu_set_t    mask;
    char        *text; /* copies of the request's path, arguments and environment */
    size_t       text_size;
};

struct spawn_batch {
    struct slot slots[WINDOW]; /* a ring: n_slots of them are in use, from `first` on */
    unsigned    first, n_slots;
    char       *stacks;
};

struct spawn_batch *spawn_batch_new(void)
{
    struct spawn_batch *b = calloc(1, sizeof *b);

    if (b)
        b->stacks = aligned_alloc(16, (size_t) WINDOW * STACK_SIZE);
    if (b && !b->stacks) {
        free(b);
        return NULL;
    }
    return b;
}

static size_t list_size(char *const *list)
{
    size_t n, size = sizeof *list;

    for (n = 0; list[n]; n++)
        size += sizeof *list + strlen(list[n]) + 1;
    return size;
}

/* The pointers first, then what they point to; returns the end. */
static char *copy_list(char *to, char *const *list, char *const **ret)
{
    char **copy = (char **) (void *) to;
    size_t n, i, len;

    for (n = 0; list[n]; n++)
        ;
    to += (n + 1) * sizeof *copy;
    for (i = 0; i < n; i++) {
        len = strlen(list[i]) + 1;
        copy[i] = memcpy(to, list[i], len);
        to += len;
    }
    copy[n] = NULL;
    *ret = copy;
    return (char *) (((uintptr_t) to + sizeof copy - 1) & ~(uintptr_t) (sizeof copy - 1));
}

static int copy_request(struct slot *s, const struct spawn_req *req)
{
    size_t need = list_size(req->argv) + list_size(req->env) + 2 * sizeof(char *) + strlen(req->path) + 1;
    char  *to;

    if (need > s->text_size) {
        free(s->text);
        s->text_size = 0;
        s->text = malloc(need);
        if (!s->text)
            return -ENOMEM;
        s->text_size = need;
    }
    s->c.req = *req;
    to = copy_list(s->text, req->argv, &s->c.req.argv);
    to = copy_list(to, req->env, &s->c.req.env);
    s->c.req.path = memcpy(to, req->path, strlen(req->path) + 1);
    if (req->mask) {
        s->mask = *req->mask;
        s->c.req.mask = &s->mask;
    }
    return 0;
}

int spawn_begin(struct spawn_batch *b, const struct spawn_req *req, pid_t *ret_pid, struct cc_err *err)
{
    struct slot *s = &b->slots[(b->first + b->n_slots) % WINDOW];
    unsigned     i;
    int          r;

    if (b->n_slots == WINDOW) {
        r = await(&b->slots[b->first].c, err);
        if (r < 0)
            return r; /* it stays, for spawn_next() to tell whose error this is */
        b->first = (b->first + 1) % WINDOW;
        b->n_slots--;
    }
    i = (unsigned) (s - b->slots);
    if (copy_request(s, req) < 0)
        return cc_fail(err, -ENOMEM, "start '%s': no memory for its arguments", req->path);
    r = start(b->stacks + (size_t) i * STACK_SIZE, &s->c, err);
    if (r < 0)
        return r;
    b->n_slots++;
    *ret_pid = s->c.pid;
    return 0;
}

int spawn_next(struct spawn_batch *b, pid_t *ret_pid, struct cc_err *err)
{
    struct slot *s = &b->slots[b->first];
    int          r;

    if (b->n_slots == 0)
        return 0;
    r = await(&s->c, err);
    b->first = (b->first + 1) % WINDOW;
    b->n_slots--;
    *ret_pid = s->c.pid;
    return r < 0 ? r : 1;
}

struct spawn_batch *spawn_batch_free(struct spawn_batch *b)
{
    unsigned i;

    if (!b)
        return NULL;
    assert(b->n_slots == 0); /* a child that still runs on one of these stacks */
    for (i = 0; i < WINDOW; i++)
        free(b->slots[i].text);
    free(b->stacks);
    free(b);
    return NULL;
}
