#include <criterion/criterion.h>
#include <string.h>

#include "launcher/facts.h"
#include "tests/unit/fake_machine.h"

static void expect_line(const struct facts *f, const char *line)
{
    char text[FACTS_TEXT_MAX];

    facts_text(f, text, sizeof text);
    cr_assert_not_null(strstr(text, line), "'%s' is not in:\n%s", line, text);
}

Test(facts, a_bare_machine_has_the_few_there_are)
{
    struct fake_machine f;
    struct facts        x;

    fake_init(&f, 3);
    fake_file(&f, "/proc/sys/kernel/hostname", "no.such.name.invalid\n");
    facts_read(&f.m, &x);
    cr_assert_str_eq(x.host, "no.such.name.invalid");
    expect_line(&x, "cpus      3 CPUs in the affinity mask\n");
    expect_line(&x, "/dev/shm  there is none\n");
    expect_line(&x, "scheduler none\n");
    x.is_pid1 = true;
    expect_line(&x, "init      PID 1");
    cr_assert_eq(x.memory_limit, 0);
    fake_free(&f);
}

Test(facts, the_lowest_memory_limit_is_named_with_its_file)
{
    struct fake_machine f;
    struct facts        x;

    fake_init(&f, 1);
    fake_file(&f, "/proc/self/cgroup", "4:memory:/pod/ctr\n0::/a\n");
    fake_file(&f, "/proc/self/mountinfo",
              "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
              "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
    fake_file(&f, "/sys/fs/cgroup/memory/pod/ctr/memory.limit_in_bytes", "9223372036854771712\n");
    fake_file(&f, "/sys/fs/cgroup/memory/pod/memory.limit_in_bytes", "1610612736\n");
    fake_file(&f, "/sys/fs/cgroup/unified/a/memory.max", "max\n");
    fake_file(&f, "/proc/meminfo", "MemTotal:       16384000 kB\nMemFree: 1 kB\n");
    facts_read(&f.m, &x);
    cr_assert_eq(x.memory_limit, 1610612736);
    cr_assert_eq(x.memory_total, UINT64_C(16384000) * 1024);
    expect_line(&x, "memory    1.5 GiB, the limit in /sys/fs/cgroup/memory/pod/memory.limit_in_bytes\n");
    fake_free(&f);
}

Test(facts, without_a_limit_it_is_what_the_machine_has)
{
    struct fake_machine f;
    struct facts        x;

    fake_init(&f, 1);
    fake_file(&f, "/proc/meminfo", "MemTotal:       524288 kB\n");
    fake_dir(&f, "/dev/shm");
    fake_env(&f, "SLURM_JOB_ID", "14");
    fake_env(&f, "SLURM_GPUS_ON_NODE", "8");
    facts_read(&f.m, &x);
    expect_line(&x, "memory    512 MiB\n");
    expect_line(&x, "scheduler Slurm, job 14, SLURM_GPUS_ON_NODE says 8\n");
    cr_assert_gt(x.shm_size, 0);
    fake_free(&f);
}

Test(facts, a_short_buffer_is_cut_and_stays_a_string)
{
    struct machine m = { .root = "" };
    struct facts   x;
    char           buf[64];

    facts_read(&m, &x);
    cr_assert_gt(strlen(x.host), 0);
    for (size_t size = 1; size <= sizeof buf; size++) {
        memset(buf, 'x', sizeof buf);
        facts_text(&x, buf, size);
        cr_assert_lt(strnlen(buf, sizeof buf), size);
    }
}
