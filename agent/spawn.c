#include "agent/spawn.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STACK_SIZE = 32 * 1024, LAST_SIGNAL = 64 };

/* Between clone and exec the child runs in our memory, on a stack inside our frame, while we sleep.  It may call
 * only what neither allocates nor locks, and the sanitizers must not note its frames as ours. */
#define IN_CHILD __attribute__((no_sanitize("address", "undefined", "thread")))

struct child {
    const struct spawn_req *req;
    pid_t                   parent;
    bool                    is_in_cgroup;
    const char             *step; /* what failed, NULL: nothing; read by the parent once the child has exec'd or gone */
    int                     error;
};

IN_CHILD static int failed(struct child *c, const char *step)
{
    c->step = step;
    c->error = errno;
    return -1;
}

/* Also 32 and 33, which sigaction() of the C library refuses: whoever started us may have ignored them. */
IN_CHILD static void reset_signals(void)
{
    uint64_t zero[8] = { 0 }; /* struct sigaction of the kernel, at least as large on every machine: SIG_DFL */
    int      i;

    for (i = 1; i <= LAST_SIGNAL; i++)
        (void) syscall(SYS_rt_sigaction, i, zero, NULL, sizeof(uint64_t)); /* fails for KILL and STOP only */
}

/* A process in its own session cannot be stopped by the terminal; the foreground one shares ours and must own it.
 * Signals are blocked here, so that tcsetpgrp() from the background is let through. */
IN_CHILD static int set_session(struct child *c)
{
    if (!c->req->is_foreground)
        return setsid() < 0 ? failed(c, "setsid") : 0;
    if (setpgid(0, 0) < 0)
        return failed(c, "setpgid");
    if (tcsetpgrp(c->req->fd[0], getpid()) < 0)
        return failed(c, "give it the terminal");
    return 0;
}

/* Sources that lie among the targets go out of the way first, or one dup would overwrite the next one's source. */
IN_CHILD static int set_fds(struct child *c)
{
    int src[3];
    int i;

    for (i = 0; i < 3; i++) {
        src[i] = c->req->fd[i];
        if (src[i] != i && src[i] < 3)
            src[i] = fcntl(src[i], F_DUPFD_CLOEXEC, 3);
        if (src[i] < 0)
            return failed(c, "duplicate its standard streams");
    }
    for (i = 0; i < 3; i++) {
        if (src[i] == i ? fcntl(i, F_SETFD, 0) < 0 : dup2(src[i], i) < 0)
            return failed(c, "duplicate its standard streams");
    }
    return 0;
}

struct dirent_raw { /* what getdents64 fills in */
    uint64_t      d_ino;
    int64_t       d_off;
    uint16_t      d_reclen;
    unsigned char d_type;
    char          d_name[];
};

/* Kernels before 5.9, and sandboxes that forbid close_range().  Never a loop to RLIMIT_NOFILE: that may be 10^6 and more. */
IN_CHILD static void close_listed(int dir)
{
    union {
        struct dirent_raw align;
        char              bytes[2048];
    } buf;
    long n, at;

    while ((n = syscall(SYS_getdents64, dir, &buf, sizeof buf)) > 0) {
        for (at = 0; at < n; at += ((struct dirent_raw *) (void *) (buf.bytes + at))->d_reclen) {
            const char *s = ((struct dirent_raw *) (void *) (buf.bytes + at))->d_name;
            int         fd = 0;

            for (; *s >= '0' && *s <= '9'; s++)
                fd = fd * 10 + (*s - '0');
            if (fd > 2 && fd != dir)
                (void) close(fd);
        }
    }
    (void) close(dir);
}

IN_CHILD static int close_rest(struct child *c)
{
    int dir;

    if (syscall(SYS_close_range, 3U, ~0U, 0U) == 0)
        return 0;
    dir = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return failed(c, "close the other descriptors");
    close_listed(dir);
    return 0;
}

IN_CHILD static void write_file(int dir, const char *path, const char *text, size_t len)
{
    int fd = openat(dir, path, O_WRONLY | O_CLOEXEC);

    if (fd < 0)
        return;
    (void) !write(fd, text, len);
    (void) close(fd);
}

IN_CHILD static void write_oom_score_adj(int value)
{
    char     text[12];
    char    *p = text + sizeof text;
    unsigned v = value < 0 ? -(unsigned) value : (unsigned) value;

    do
        *--p = (char) ('0' + v % 10);
    while ((v /= 10) > 0);
    if (value < 0)
        *--p = '-';
    write_file(AT_FDCWD, "/proc/self/oom_score_adj", p, (size_t) (text + sizeof text - p));
}

/* In the order that matters: the death signal before anything that takes time, and the mask last, when nothing of
 * ours can run any more.  Group and OOM score are best effort: the job is right without them. */
IN_CHILD static int set_up(struct child *c)
{
    const struct spawn_req *req = c->req;

    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
        return failed(c, "set its parent-death signal");
    if (getppid() != c->parent) {
        errno = ESRCH; /* we died before the signal was set: nobody is left to read this */
        return failed(c, "find its parent");
    }
    if (set_session(c) < 0)
        return -1;
    if (req->cgroup_fd >= 0 && !c->is_in_cgroup)
        write_file(req->cgroup_fd, "cgroup.procs", "0", 1);
    if (req->oom_score_adj != INT_MIN)
        write_oom_score_adj(req->oom_score_adj);
    if (req->mask && sched_setaffinity(0, sizeof *req->mask, req->mask) < 0)
        return failed(c, "bind it to its CPUs");
    if (set_fds(c) < 0 || close_rest(c) < 0)
        return -1;
    reset_signals();
    return 0;
}

IN_CHILD static int child_main(void *arg)
{
    struct child *c = arg;
    uint64_t      none = 0;

    if (set_up(c) == 0) {
        (void) syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, NULL, sizeof none);
        (void) execve(c->req->path, c->req->argv, c->req->env);
        (void) failed(c, "exec");
    }
    _exit(127);
}

/* clone3 has no wrapper in the C library and a child on another stack cannot return from syscall(): hence assembly.
 * It alone can start a process inside a group: moving one there waits for an RCU grace period, milliseconds.
 * Returns the pid or a negative errno. */
static long clone3_into(int cgroup_fd, char *stack, struct child *c)
{
    struct clone_args args = {
        .flags = CLONE_VM | CLONE_VFORK | CLONE_INTO_CGROUP,
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

static pid_t start(struct child *c, char *stack)
{
    long r = -ENOSYS;

    if (c->req->cgroup_fd >= 0) {
        c->is_in_cgroup = true;
        r = clone3_into(c->req->cgroup_fd, stack, c);
        if (r > 0)
            return (pid_t) r;
        c->is_in_cgroup = false; /* an old kernel, a sandbox, or a group that takes nobody: start it beside the group */
    }
    return clone(child_main, stack + STACK_SIZE, CLONE_VM | CLONE_VFORK | SIGCHLD, c);
}

int spawn_process(const struct spawn_req *req, pid_t *ret_pid, struct cc_err *err)
{
    struct child c = { .req = req, .parent = getpid() };
    char         stack[STACK_SIZE] __attribute__((aligned(16)));
    sigset_t     all, old;
    pid_t        pid;
    int          error;

    /* No handler of ours may run in the child: it would run in our memory. */
    (void) sigfillset(&all);
    (void) sigprocmask(SIG_SETMASK, &all, &old);
    pid = start(&c, stack);
    error = errno;
    (void) sigprocmask(SIG_SETMASK, &old, NULL);
    if (pid < 0)
        return cc_fail(err, -error, "start '%s': clone: %s", req->path, strerror(error));
    if (c.step) {
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
            ;
        return cc_fail(err, -c.error, "start '%s': %s: %s", req->path, c.step, strerror(c.error));
    }
    *ret_pid = pid;
    return 0;
}
