#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/evidence.h"

/* A machine of our own making: what the kernel would show lies below `root`. */
static char                  root[64];
static struct evidence_watch watch;
static struct evidence       got;

static void put(const char *path, const char *text)
{
    char  full[256];
    FILE *f;

    snprintf(full, sizeof full, "mkdir -p \"$(dirname %s%s)\"", root, path);
    cr_assert_eq(system(full), 0);
    snprintf(full, sizeof full, "%s%s", root, path);
    f = fopen(full, "w");
    cr_assert(f);
    fputs(text, f);
    fclose(f);
}

static void make_root(void)
{
    strcpy(root, "/tmp/evidence-XXXXXX");
    cr_assert(mkdtemp(root));
}

static void remove_root(void)
{
    char cmd[128];

    snprintf(cmd, sizeof cmd, "rm -rf %s", root);
    cr_assert_eq(system(cmd), 0);
}

TestSuite(evidence, .init = make_root, .fini = remove_root);

static void put_kills(unsigned n)
{
    char text[128];

    snprintf(text, sizeof text, "low 0\nhigh 0\nmax 9\noom 1\noom_kill %u\noom_group_kill 0\n", n);
    put("/sys/fs/cgroup/job/memory.events", text);
}

static void put_cgroup(const char *limit, const char *peak)
{
    put("/proc/self/cgroup", "0::/job\n");
    put("/proc/self/mountinfo", "31 23 0:28 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw\n");
    put("/sys/fs/cgroup/job/cgroup.controllers", "memory\n");
    put("/sys/fs/cgroup/job/memory.max", limit);
    put("/sys/fs/cgroup/job/memory.peak", peak);
    put_kills(0);
}

static const char *killed(bool is_ours, bool is_after_grace)
{
    struct evidence_ask ask = { SIGKILL, 77, is_ours, is_after_grace, 30000 };

    evidence_collect(&watch, &ask, &got);
    return got.text;
}

static const char *ended(int status)
{
    struct evidence_ask ask = { status, 77, false, false, 30000 };

    evidence_collect(&watch, &ask, &got);
    return got.text;
}

Test(evidence, out_of_memory_tells_limit_and_peak)
{
    put_cgroup("536870912\n", "535822336\n");
    evidence_start(&watch, root);
    put_kills(1);
    cr_assert_str_eq(killed(false, false), "out of memory: killed by the kernel, limit 512 MB, peak 511 MB");
    cr_assert_eq(got.kind, EVIDENCE_OOM);
    cr_assert_eq(got.limit, 512 << 20);
}

Test(evidence, each_kill_of_the_counter_explains_one_worker)
{
    put_cgroup("max\n", "0\n");
    put_kills(7);
    evidence_start(&watch, root);
    put_kills(9);
    killed(false, false);
    cr_assert_eq(got.kind, EVIDENCE_OOM);
    killed(false, true); /* this one was us, and leaves the counter alone */
    cr_assert_eq(got.kind, EVIDENCE_CCRUN);
    killed(false, false);
    cr_assert_eq(got.kind, EVIDENCE_OOM);
    killed(false, false);
    cr_assert_eq(got.kind, EVIDENCE_SENDER);
}

Test(evidence, our_own_kill_names_the_grace_time)
{
    evidence_start(&watch, root);
    cr_assert_str_eq(killed(true, true), "sent by ccrun after the grace time of 30 s");
    cr_assert_str_eq(killed(true, false), "sent by ccrun");
}

Test(evidence, claims_no_more_of_a_foreign_kill_than_is_known)
{
    evidence_start(&watch, root);
    cr_assert_str_eq(killed(false, false), "sender unknown (not ccrun; no cgroup memory limit is visible)");
    put_cgroup("536870912\n", "1048576\n");
    evidence_start(&watch, root);
    cr_assert_eq(killed(false, false), got.text);
    cr_assert(strstr(got.text, "not for lack of memory"), "%s", got.text);
}

Test(evidence, without_a_cgroup_the_machines_counter_says_probably)
{
    put("/proc/vmstat", "nr_free_pages 1\noom_kill 4\nfoo 1\n");
    evidence_start(&watch, root);
    put("/proc/vmstat", "nr_free_pages 1\noom_kill 5\nfoo 1\n");
    cr_assert(strstr(killed(false, false), "probably out of memory"));
    cr_assert(strstr(killed(false, false), "sender unknown"));
}

Test(evidence, a_crash_tells_where_the_core_is)
{
    evidence_start(&watch, root);
    put("/proc/sys/kernel/core_pattern", "core\n");
    put("/proc/sys/kernel/core_uses_pid", "1\n");
    cr_assert_str_eq(ended(SIGSEGV | 0x80),
                     "core dumped: the core file is called 'core.77' in the worker's directory");
    put("/proc/sys/kernel/core_pattern", "/var/cores/%e.%p\n");
    cr_assert_str_eq(ended(SIGABRT | 0x80),
                     "core dumped: the core file is called '/var/cores/%e.%p' (pattern)");
    put("/proc/sys/kernel/core_pattern", "|/usr/lib/systemd/systemd-coredump %P %u\n");
    cr_assert_str_eq(ended(SIGBUS | 0x80),
                     "core dumped: cores are piped to /usr/lib/systemd/systemd-coredump (see coredumpctl)");
    cr_assert_eq(got.kind, EVIDENCE_CORE);
}

Test(evidence, a_crash_without_a_core_tells_why)
{
    struct rlimit none = { 0, 0 };

    evidence_start(&watch, root);
    cr_assert_eq(setrlimit(RLIMIT_CORE, &none), 0);
    put("/proc/sys/kernel/core_pattern", "core\n");
    put("/proc/sys/kernel/core_uses_pid", "0\n");
    cr_assert_str_eq(ended(SIGFPE),
                     "no core dumped: RLIMIT_CORE is 0; with 'ulimit -c unlimited' the core file is called "
                     "'core' in the worker's directory");
    put("/proc/sys/kernel/core_pattern", "|/usr/share/apport/apport %p\n");
    cr_assert_str_eq(ended(SIGILL), "no core dumped; cores are piped to /usr/share/apport/apport");
}

Test(evidence, exit_codes_of_a_shell_are_called_so)
{
    evidence_start(&watch, root);
    cr_assert(strstr(ended(127 << 8), "not found"));
    cr_assert(strstr(ended(126 << 8), "cannot be executed"));
    cr_assert(strstr(ended(2 << 8), "command line"));
    cr_assert_str_eq(ended(137 << 8), "137 is a shell's code for a command killed by SIGKILL");
    cr_assert_str_eq(ended(3 << 8), "");
    cr_assert_str_eq(ended(255 << 8), "");
    cr_assert_eq(got.kind, EVIDENCE_NONE);
}

Test(evidence, other_signals_get_what_is_known)
{
    evidence_start(&watch, root);
    cr_assert(strstr(ended(SIGPIPE), "nobody reads"));
    cr_assert(strstr(ended(SIGTERM), "not ccrun"));
    cr_assert_eq(got.kind, EVIDENCE_SENDER);
    cr_assert_str_eq(ended(SIGRTMIN + 3), "");
}

Test(evidence, sizes_read_well)
{
    char buf[32];

    evidence_size(512u << 20, buf, sizeof buf);
    cr_assert_str_eq(buf, "512 MB");
    evidence_size((uint64_t) 25 << 29, buf, sizeof buf);
    cr_assert_str_eq(buf, "12.5 GB");
}
