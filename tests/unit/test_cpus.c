#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "launcher/cpus.h"
#include "store/base/cgroupdir.h"
#include "tests/unit/fake_machine.h"

#define V2_MOUNT "31 23 0:28 / /sys/fs/cgroup rw,relatime shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
#define V1_MOUNT "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct\n"

static struct cpus count(struct fake_machine *f)
{
    struct cc_err err = { 0 };
    struct cpus   c;

    cr_assert_eq(cpus_count(&f->m, &c, &err), 0, "%s", err.msg);
    return c;
}

Test(cpus, without_a_cgroup_it_is_the_affinity_mask)
{
    struct fake_machine f;
    struct cpus         c;

    fake_init(&f, 6);
    c = count(&f);
    cr_assert_eq(c.n, 6);
    cr_assert_eq(c.n_quota, 0);
    cr_assert_str_eq(c.why, "6 CPUs in the affinity mask");
    fake_free(&f);
}

Test(cpus, a_v2_quota_of_two_cpus_wins_over_eight_in_the_mask)
{
    struct fake_machine f;
    struct cpus         c;

    fake_init(&f, 8);
    fake_file(&f, "/proc/self/cgroup", "0::/job/step\n");
    fake_file(&f, "/proc/self/mountinfo", V2_MOUNT);
    fake_file(&f, "/sys/fs/cgroup/job/step/cpu.max", "200000 100000\n");
    c = count(&f);
    cr_assert_eq(c.n, 2);
    cr_assert_eq(c.n_affinity, 8);
    cr_assert_str_eq(c.why, "2 of 8 CPUs: the quota in /sys/fs/cgroup/job/step/cpu.max is 2.00 CPUs");
    fake_free(&f);
}

Test(cpus, the_lowest_quota_of_all_ancestors_counts)
{
    struct fake_machine f;

    fake_init(&f, 8);
    fake_file(&f, "/proc/self/cgroup", "0::/job/step\n");
    fake_file(&f, "/proc/self/mountinfo", V2_MOUNT);
    fake_file(&f, "/sys/fs/cgroup/job/step/cpu.max", "max 100000\n");
    fake_file(&f, "/sys/fs/cgroup/job/cpu.max", "300000 100000\n");
    fake_file(&f, "/sys/fs/cgroup/cpu.max", "500000 100000\n");
    cr_assert_eq(count(&f).n, 3);
    fake_free(&f);
}

Test(cpus, a_fraction_is_rounded_up_and_never_to_zero)
{
    struct fake_machine f;

    fake_init(&f, 8);
    fake_file(&f, "/proc/self/cgroup", "0::/\n");
    fake_file(&f, "/proc/self/mountinfo", V2_MOUNT);
    fake_file(&f, "/sys/fs/cgroup/cpu.max", "250000 100000\n");
    cr_assert_eq(count(&f).n, 3);
    fake_file(&f, "/sys/fs/cgroup/cpu.max", "1000 100000\n");
    cr_assert_eq(count(&f).n, 1);
    fake_free(&f);
}

Test(cpus, a_quota_above_the_mask_changes_nothing)
{
    struct fake_machine f;

    fake_init(&f, 1);
    fake_file(&f, "/proc/self/cgroup", "0::/\n");
    fake_file(&f, "/proc/self/mountinfo", V2_MOUNT);
    fake_file(&f, "/sys/fs/cgroup/cpu.max", "400000 100000\n");
    cr_assert_eq(count(&f).n, 1);
    fake_free(&f);
}

Test(cpus, v1_quota_is_read_from_the_cpu_controller_of_a_hybrid_machine)
{
    struct fake_machine f;

    fake_init(&f, 8);
    fake_file(&f, "/proc/self/cgroup", "5:cpuset:/wrong\n4:cpu,cpuacct:/pod/ctr\n0::/user.slice\n");
    fake_file(&f, "/proc/self/mountinfo",
              V1_MOUNT "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n");
    fake_file(&f, "/sys/fs/cgroup/cpu,cpuacct/pod/ctr/cpu.cfs_quota_us", "-1\n");
    fake_file(&f, "/sys/fs/cgroup/cpu,cpuacct/pod/ctr/cpu.cfs_period_us", "100000\n");
    cr_assert_eq(count(&f).n, 8);
    fake_file(&f, "/sys/fs/cgroup/cpu,cpuacct/pod/cpu.cfs_quota_us", "400000\n");
    fake_file(&f, "/sys/fs/cgroup/cpu,cpuacct/pod/cpu.cfs_period_us", "100000\n");
    cr_assert_eq(count(&f).n, 4);
    fake_free(&f);
}

Test(cpus, a_container_sees_its_own_group_as_the_mount)
{
    struct fake_machine f;

    fake_init(&f, 8);
    fake_file(&f, "/proc/self/cgroup", "4:cpu,cpuacct:/docker/0123\n");
    fake_file(&f, "/proc/self/mountinfo",
              "32 31 0:29 /docker/0123 /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct\n");
    fake_file(&f, "/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "150000\n");
    fake_file(&f, "/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    cr_assert_eq(count(&f).n, 2);
    fake_free(&f);
}

Test(cpus, a_group_outside_of_the_namespace_means_the_top)
{
    struct fake_machine f;

    fake_init(&f, 8);
    fake_file(&f, "/proc/self/cgroup", "0::/../sibling\n");
    fake_file(&f, "/proc/self/mountinfo", "31 23 0:28 / /a\\040b rw - cgroup2 cgroup2 rw\n");
    fake_file(&f, "/a b/cpu.max", "500000 100000\n");
    cr_assert_eq(count(&f).n, 5);
    fake_free(&f);
}

Test(cpus, nonsense_in_the_files_is_no_limit)
{
    static const char *const texts[] = {
        "", "max", "x y", "100000", "100000 0", "-5 100000", "9999999999999999999 1"
    };
    struct fake_machine f;

    fake_init(&f, 8);
    fake_file(&f, "/proc/self/cgroup", "no colons\n0::/\n");
    fake_file(&f, "/proc/self/mountinfo", "short - \n" V2_MOUNT);
    for (unsigned i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        fake_file(&f, "/sys/fs/cgroup/cpu.max", texts[i]);
        cr_assert_eq(count(&f).n, 8, "%s", texts[i]);
    }
    fake_free(&f);
}

Test(cpus, the_real_machine_has_at_least_one)
{
    struct machine m = { .root = "" };
    struct cc_err  err = { 0 };
    struct cpus    c;
    cpu_set_t      set;

    cr_assert_eq(cpus_count(&m, &c, &err), 0, "%s", err.msg);
    cr_assert_eq(sched_getaffinity(0, sizeof set, &set), 0);
    cr_assert_eq((int) c.n_affinity, CPU_COUNT(&set));
    cr_assert_geq(c.n, 1);
}

Test(cpus, omp_threads_share_the_cpus_and_never_vanish)
{
    struct cpus c = { .n = 8 };

    cr_assert_eq(cpus_omp_threads(&c, 2), 4);
    cr_assert_eq(cpus_omp_threads(&c, 3), 2);
    cr_assert_eq(cpus_omp_threads(&c, 64), 1);
    cr_assert_eq(cpus_omp_threads(&c, 0), 1);
}
