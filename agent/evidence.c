#include "agent/evidence.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "store/base/cleanup.h"
#include "store/base/signame.h"

void evidence_size(uint64_t bytes, char *buf, size_t size)
{
    if (bytes < 10ull << 30)
        (void) snprintf(buf, size, "%" PRIu64 " MB", bytes >> 20);
    else
        (void) snprintf(buf, size, "%" PRIu64 ".%" PRIu64 " GB", bytes >> 30,
                        ((bytes >> 20) & 1023) * 10 / 1024);
}

static size_t read_small(const char *root, const char *path, char *buf, size_t size)
{
    char           full[PATH_MAX];
    CC_AUTO_FD int fd = -1;
    ssize_t        n;

    (void) snprintf(full, sizeof full, "%s%s", root, path);
    fd = open(full, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    n = fd < 0 ? -1 : read(fd, buf, size - 1);
    buf[n > 0 ? n : 0] = '\0';
    return n > 0 ? (size_t) n : 0;
}

/* /proc/vmstat counts the kills on the whole machine since it started. */
static bool machine_oom_kills(const char *root, uint64_t *ret)
{
    char        buf[16384];
    const char *at;

    (void) read_small(root, "/proc/vmstat", buf, sizeof buf);
    at = strstr(buf, "\noom_kill ");
    if (!at)
        return false;
    *ret = strtoull(at + strlen("\noom_kill "), NULL, 10);
    return true;
}

void evidence_start(struct evidence_watch *w, const char *root)
{
    *w = (struct evidence_watch){ .root = root ? root : "" };
    (void) cgroup_oom_read(w->root, &w->oom);
    /* The kernel sums the counters of all CPUs for this file: only where it is needed. */
    w->is_machine_known = !w->oom.is_known && machine_oom_kills(w->root, &w->machine_oom_kills);
}

static void describe_limits(const struct cgroup_oom *oom, struct evidence *ret)
{
    char limit[32], peak[32];
    int  n;

    ret->kind = EVIDENCE_OOM;
    ret->limit = oom->limit;
    ret->peak = oom->peak;
    evidence_size(oom->limit, limit, sizeof limit);
    evidence_size(oom->peak, peak, sizeof peak);
    n = snprintf(ret->text, sizeof ret->text, "out of memory: killed by the kernel, %s%s",
                 oom->limit ? "limit " : "no cgroup limit", oom->limit ? limit : "");
    if (oom->peak && n > 0)
        (void) snprintf(ret->text + n, sizeof ret->text - (size_t) n, ", peak %s", peak);
}

/* One kill of the counter is used up for this worker: the next SIGKILL needs one of its own. */
static bool is_oom(struct evidence_watch *w, struct cgroup_oom *now, struct evidence *ret)
{
    uint64_t kills;

    (void) cgroup_oom_read(w->root, now);
    if (cgroup_oom_delta(&w->oom, now) > 0) {
        w->oom.oom_kills++;
        describe_limits(now, ret);
        return true;
    }
    if (now->is_known || !w->is_machine_known || !machine_oom_kills(w->root, &kills) ||
        kills <= w->machine_oom_kills)
        return false;
    w->machine_oom_kills++;
    ret->kind = EVIDENCE_OOM;
    (void) snprintf(
        ret->text, sizeof ret->text,
        "probably out of memory (not ccrun; no cgroup memory limit is visible): the kernel killed a process of this machine for "
        "it while the job ran");
    return true;
}

static void explain_kill(struct evidence_watch *w, const struct evidence_ask *ask, struct evidence *ret)
{
    struct cgroup_oom now;

    if (ask->is_after_grace) {
        ret->kind = EVIDENCE_CCRUN;
        (void) snprintf(ret->text, sizeof ret->text, "sent by ccrun after the grace time of %g s",
                        (double) ask->grace_ms / 1000);
        return;
    }
    if (is_oom(w, &now, ret))
        return;
    if (ask->is_ours) {
        ret->kind = EVIDENCE_CCRUN;
        (void) snprintf(ret->text, sizeof ret->text, "sent by ccrun");
        return;
    }
    ret->kind = EVIDENCE_SENDER;
    (void) snprintf(ret->text, sizeof ret->text, "sender unknown (not ccrun; %s)",
                    !now.is_known ? "no cgroup memory limit is visible"
                    : now.limit == 0
                        ? "the kernel's counters say that it was not for lack of memory; no cgroup limit"
                        : "the cgroup's counters say that it was not for lack of memory");
}

/* The pattern in words: core(5). */
static void describe_core_pattern(const char *root, pid_t pid, bool is_dumped, char *buf, size_t size)
{
    char pattern[256], uses_pid[8], name[320];

    if (read_small(root, "/proc/sys/kernel/core_pattern", pattern, sizeof pattern) == 0) {
        (void) snprintf(buf, size, "the core pattern cannot be read");
        return;
    }
    pattern[strcspn(pattern, "\n")] = '\0';
    if (pattern[0] == '|') {
        (void) snprintf(buf, size, "cores are piped to %.*s%s", (int) strcspn(pattern + 1, " "), pattern + 1,
                        strstr(pattern, "systemd-coredump") ? " (see coredumpctl)" : "");
        return;
    }
    (void) read_small(root, "/proc/sys/kernel/core_uses_pid", uses_pid, sizeof uses_pid);
    (void) snprintf(name, sizeof name, "%s", pattern);
    if (uses_pid[0] == '1' && !strstr(pattern, "%p"))
        (void) snprintf(name, sizeof name, is_dumped ? "%s.%d" : "%s.PID", pattern, (int) pid);
    (void) snprintf(buf, size, "the core file is called '%s'%s%s", name,
                    strchr(name, '%') ? " (pattern)" : "",
                    name[0] == '/' ? "" : " in the worker's directory");
}

static bool is_piped(const char *root)
{
    char pattern[8];

    return read_small(root, "/proc/sys/kernel/core_pattern", pattern, sizeof pattern) > 0 &&
           pattern[0] == '|';
}

static void explain_crash(struct evidence_watch *w, const struct evidence_ask *ask, struct evidence *ret)
{
    bool          is_dumped = WCOREDUMP(ask->status);
    char          where[400];
    struct rlimit limit = { 0 };

    ret->kind = EVIDENCE_CORE;
    (void) getrlimit(RLIMIT_CORE, &limit);
    describe_core_pattern(w->root, ask->pid, is_dumped, where, sizeof where);
    if (is_dumped)
        (void) snprintf(ret->text, sizeof ret->text, "core dumped: %s", where);
    else if (limit.rlim_cur == 0 && !is_piped(w->root))
        (void) snprintf(ret->text, sizeof ret->text,
                        "no core dumped: RLIMIT_CORE is 0; with 'ulimit -c unlimited' %s", where);
    else
        (void) snprintf(ret->text, sizeof ret->text, "no core dumped; %s", where);
}

/* A full /dev/shm is the usual reason for SIGBUS in training: data loaders pass batches through it. */
static bool explain_full_shm(struct evidence_watch *w, struct evidence *ret)
{
    char           path[PATH_MAX], size[32], left[32];
    struct statvfs fs;
    uint64_t       total, avail;

    (void) snprintf(path, sizeof path, "%s/dev/shm", w->root);
    if (statvfs(path, &fs) < 0 || fs.f_blocks == 0)
        return false;
    total = (uint64_t) fs.f_blocks * fs.f_frsize;
    avail = (uint64_t) fs.f_bavail * fs.f_frsize;
    if (avail > total / 20 && total > 64ull << 20)
        return false;
    evidence_size(total, size, sizeof size);
    evidence_size(avail, left, sizeof left);
    ret->kind = EVIDENCE_HINT;
    (void) snprintf(
        ret->text, sizeof ret->text,
        "/dev/shm has %s left of %s: data loaders that outgrow it die of SIGBUS (docker: --shm-size)", left,
        size);
    return true;
}

static const struct {
    int         signum;
    const char *hint;
} hints[] = {
    { SIGPIPE, "it wrote to a pipe or socket that nobody reads any more" },
    { SIGHUP, "sender unknown (not ccrun): usually a terminal or session that was closed" },
    { SIGINT, "sender unknown (not ccrun): usually Ctrl-C in the worker's own terminal" },
    { SIGTERM, "sender unknown (not ccrun): usually a scheduler, a service manager or kill" },
    { SIGXCPU, "it used up its CPU time: see 'ulimit -t'" },
    { SIGXFSZ, "it wrote a file beyond the size limit: see 'ulimit -f'" },
    { SIGSYS, "a system call that a seccomp filter forbids" },
    { SIGALRM, "a timer of its own ran out" },
    { SIGUSR1, "sender unknown (not ccrun), and the worker has no handler for it" },
    { SIGUSR2, "sender unknown (not ccrun), and the worker has no handler for it" },
};

static void explain_other_signal(int signum, const struct evidence_ask *ask, struct evidence *ret)
{
    if (ask->is_ours && signum == SIGTERM) {
        ret->kind = EVIDENCE_CCRUN;
        (void) snprintf(ret->text, sizeof ret->text, "sent by ccrun");
        return;
    }
    for (size_t i = 0; i < sizeof hints / sizeof hints[0]; i++)
        if (hints[i].signum == signum) {
            ret->kind = strncmp(hints[i].hint, "sender", 6) == 0 ? EVIDENCE_SENDER : EVIDENCE_HINT;
            (void) snprintf(ret->text, sizeof ret->text, "%s", hints[i].hint);
        }
}

/* A shell's code for its command's death by a signal with a name; 0 when it is no such code. */
static int shell_signal(int exit_code)
{
    return exit_code > 128 && exit_code < 128 + 32 ? exit_code - 128 : 0;
}

static void explain_code(int code, struct evidence *ret)
{
    const char *hint = code == 2     ? "2 is Python's and most programs' code for a wrong command line"
                       : code == 126 ? "126 is a shell's code for a command that cannot be executed"
                       : code == 127 ? "127 is a shell's code for a command that was not found"
                                     : NULL;
    int         signum = shell_signal(code);
    char        name[CC_SIGNAME_MAX];

    if (!hint && !signum)
        return;
    ret->kind = EVIDENCE_HINT;
    if (hint)
        (void) snprintf(ret->text, sizeof ret->text, "%s", hint);
    else
        (void) snprintf(ret->text, sizeof ret->text, "%d is a shell's code for a command killed by %s", code,
                        cc_signal_name(signum, name));
}

void evidence_collect(struct evidence_watch *w, const struct evidence_ask *ask, struct evidence *ret)
{
    int signum = WIFSIGNALED(ask->status) ? WTERMSIG(ask->status) : 0;

    *ret = (struct evidence){ .kind = EVIDENCE_NONE };
    if (signum == 0 && WIFEXITED(ask->status))
        explain_code(WEXITSTATUS(ask->status), ret);
    else if (signum == SIGKILL)
        explain_kill(w, ask, ret);
    else if (signum == SIGBUS && !WCOREDUMP(ask->status) && explain_full_shm(w, ret))
        return;
    else if (signum == SIGSEGV || signum == SIGABRT || signum == SIGBUS || signum == SIGILL ||
             signum == SIGFPE || WCOREDUMP(ask->status))
        explain_crash(w, ask, ret);
    else
        explain_other_signal(signum, ask, ret);
}
