#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "launcher/cpulist.h"
#include "launcher/numa.h"
#include "tests/unit/fake_machine.h"

static void sys_file(struct fake_machine *f, const char *text, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static void sys_file(struct fake_machine *f, const char *text, const char *fmt, ...)
{
    char    path[256];
    va_list ap;

    va_start(ap, fmt);
    (void) vsnprintf(path, sizeof path, fmt, ap);
    va_end(ap);
    fake_file(f, path, text);
}

static void add_cpu(struct fake_machine *f, int cpu, int socket, const char *siblings, const char *l3)
{
    char text[16];

    (void) snprintf(text, sizeof text, "%d\n", socket);
    sys_file(f, text, "/sys/devices/system/cpu/cpu%d/topology/physical_package_id", cpu);
    sys_file(f, siblings, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
    sys_file(f, "Instruction\n", "/sys/devices/system/cpu/cpu%d/cache/index1/type", cpu);
    sys_file(f, "9\n", "/sys/devices/system/cpu/cpu%d/cache/index1/level", cpu);
    sys_file(f, "0-15\n", "/sys/devices/system/cpu/cpu%d/cache/index1/shared_cpu_list", cpu);
    sys_file(f, "Unified\n", "/sys/devices/system/cpu/cpu%d/cache/index3/type", cpu);
    sys_file(f, "3\n", "/sys/devices/system/cpu/cpu%d/cache/index3/level", cpu);
    sys_file(f, l3, "/sys/devices/system/cpu/cpu%d/cache/index3/shared_cpu_list", cpu);
    sys_file(f, "Data\n", "/sys/devices/system/cpu/cpu%d/cache/index0/type", cpu);
    sys_file(f, "1\n", "/sys/devices/system/cpu/cpu%d/cache/index0/level", cpu);
    sys_file(f, siblings, "/sys/devices/system/cpu/cpu%d/cache/index0/shared_cpu_list", cpu);
}

/* Two sockets of one node each; 4 cores a node with 2 threads; an L3 for 2 cores.
 * Node 0: cores 0-3 = CPUs 0-3 and 8-11.  Node 1: cores 4-7 = CPUs 4-7 and 12-15. */
static void two_nodes(struct fake_machine *f)
{
    fake_init(f, 16);
    fake_file(f, "/sys/devices/system/node/possible", "0-3\n"); /* 2 and 3 are not plugged in */
    fake_file(f, "/sys/devices/system/node/node0/cpulist", "0-3,8-11\n");
    fake_file(f, "/sys/devices/system/node/node1/cpulist", "4-7,12-15\n");
    for (int cpu = 0; cpu < 16; cpu++) {
        char siblings[32], l3[32];
        int  core = cpu % 8, pair = core / 2 * 2;

        (void) snprintf(siblings, sizeof siblings, "%d,%d\n", core, core + 8);
        (void) snprintf(l3, sizeof l3, "%d-%d,%d-%d\n", pair, pair + 1, pair + 8, pair + 9);
        add_cpu(f, cpu, core / 4, siblings, l3);
    }
}

static struct gpu gpu_on(int node)
{
    return (struct gpu){ .id = "7", .numa_node = node };
}

/* The sets of all workers, as "0-3|4-7". */
static void expect(struct fake_machine *f, enum numa_mode mode, const struct gpus *gpus, unsigned nproc,
                   const char *wanted)
{
    struct cc_err err = { 0 };
    cpu_set_t     sets[16];
    char          out[512] = "", one[128];
    size_t        n = 0;

    cr_assert_eq(numa_bind(&f->m, mode, gpus, nproc, sets, &err), 0, "%s", err.msg);
    for (unsigned k = 0; k < nproc; k++)
        n += (size_t) snprintf(out + n, sizeof out - n, "%s%s", k ? "|" : "",
                               cpulist_format(&sets[k], one, sizeof one));
    cr_assert_str_eq(out, wanted);
}

static void refuse(struct fake_machine *f, enum numa_mode mode, const struct gpus *gpus, unsigned nproc,
                   const char *sentence)
{
    struct cc_err err = { 0 };
    cpu_set_t     sets[16];

    cr_assert_lt(numa_bind(&f->m, mode, gpus, nproc, sets, &err), 0);
    cr_assert_not_null(strstr(err.msg, sentence), "'%s' is not in '%s'", sentence, err.msg);
}

Test(numa, the_four_words_and_no_other)
{
    struct cc_err  err = { 0 };
    enum numa_mode mode;

    cr_assert_eq(numa_parse("core-complex", &mode, &err), 0);
    cr_assert_eq(mode, NUMA_CORE_COMPLEX);
    cr_assert_eq(numa_parse("node", &mode, &err), 0);
    cr_assert_eq(mode, NUMA_NODE);
    cr_assert_eq(numa_parse("core_complex", &mode, &err), -EINVAL);
    cr_assert_not_null(strstr(err.msg, "'core_complex'"));
}

Test(numa, a_worker_gets_the_node_of_its_gpu)
{
    struct fake_machine f;
    struct gpu          list[] = { gpu_on(1), gpu_on(0), gpu_on(-1) };
    struct gpus         gpus = { .list = list, .n = 3 };

    two_nodes(&f);
    expect(&f, NUMA_NODE, &gpus, 3, "4-7,12-15|0-3,8-11|0-3,8-11");
    expect(&f, NUMA_NODE, &gpus, 1, "4-7,12-15");
    expect(&f, NUMA_NODE, &gpus, 4, "4-7,12-15|0-3,8-11|0-3,8-11|4-7,12-15");
    fake_free(&f);
}

Test(numa, without_gpus_workers_are_spread_over_the_nodes)
{
    struct fake_machine f;

    two_nodes(&f);
    expect(&f, NUMA_NODE, NULL, 1, "0-3,8-11");
    expect(&f, NUMA_NODE, NULL, 2, "0-3,8-11|4-7,12-15");
    expect(&f, NUMA_NODE, NULL, 3, "0-3,8-11|0-3,8-11|4-7,12-15");
    fake_free(&f);
}

Test(numa, exclusive_shares_do_not_overlap)
{
    struct fake_machine f;
    struct gpu          list[] = { gpu_on(0), gpu_on(0), gpu_on(0), gpu_on(1) };
    struct gpus         gpus = { .list = list, .n = 4 };

    two_nodes(&f);
    expect(&f, NUMA_EXCLUSIVE, NULL, 4, "0-1,8-9|2-3,10-11|4-5,12-13|6-7,14-15");
    expect(&f, NUMA_EXCLUSIVE, &gpus, 4, "0-1,8-9|2,10|3,11|4-7,12-15");
    expect(&f, NUMA_EXCLUSIVE, &gpus, 2, "0-1,8-9|2,10"); /* the third GPU's share stays free */
    refuse(&f, NUMA_EXCLUSIVE, NULL, 10,
           "NUMA node 0 has 4 physical cores for us, too few for 5 GPUs or workers");
    fake_free(&f);
}

Test(numa, core_complexes_are_taken_in_turn)
{
    struct fake_machine f;

    two_nodes(&f);
    expect(&f, NUMA_CORE_COMPLEX, NULL, 6, "0-1,8-9|2-3,10-11|0-1,8-9|4-5,12-13|6-7,14-15|4-5,12-13");
    CPU_CLR(0, &f.cpus); /* the first complex is smaller now: it comes second */
    expect(&f, NUMA_CORE_COMPLEX, NULL, 4, "2-3,10-11|1,8-9|4-5,12-13|6-7,14-15");
    fake_free(&f);
}

Test(numa, a_socket_may_have_several_nodes)
{
    struct fake_machine f;

    fake_init(&f, 6);
    fake_file(&f, "/sys/devices/system/node/possible", "0-2\n");
    for (int i = 0; i < 3; i++) {
        char text[16];

        (void) snprintf(text, sizeof text, "%d-%d\n", 2 * i, 2 * i + 1);
        sys_file(&f, text, "/sys/devices/system/node/node%d/cpulist", i);
        add_cpu(&f, 2 * i, i > 0, text, text);
        add_cpu(&f, 2 * i + 1, i > 0, text, text);
    }
    expect(&f, NUMA_SOCKET, NULL, 3, "0-1|2-5|2-5");
    fake_free(&f);
}

Test(numa, no_set_reaches_beyond_the_inherited_mask)
{
    static const enum numa_mode modes[] = { NUMA_NODE, NUMA_SOCKET, NUMA_EXCLUSIVE, NUMA_CORE_COMPLEX };
    struct fake_machine         f;

    two_nodes(&f);
    cr_assert_eq(cpulist_parse("0-3", &f.cpus), 0); /* taskset -c 0-3 */
    for (unsigned i = 0; i < 4; i++) {
        struct cc_err err = { 0 };
        cpu_set_t     sets[4], inside;

        cr_assert_eq(numa_bind(&f.m, modes[i], NULL, 4, sets, &err), 0, "%s", err.msg);
        for (unsigned k = 0; k < 4; k++) {
            CPU_AND(&inside, &sets[k], &f.cpus);
            cr_assert(CPU_EQUAL(&inside, &sets[k]) && CPU_COUNT(&sets[k]) > 0);
        }
    }
    fake_free(&f);
}

Test(numa, a_gpu_whose_node_is_masked_out_is_named)
{
    struct fake_machine f;
    struct gpu          list[] = { gpu_on(0), gpu_on(1) };
    struct gpus         gpus = { .list = list, .n = 2 };

    two_nodes(&f);
    cr_assert_eq(cpulist_parse("0-3", &f.cpus), 0);
    refuse(
        &f, NUMA_NODE, &gpus, 2,
        "--numa-binding node: local rank 1 belongs to NUMA node 1, but the inherited CPU mask 0-3 has none");
    list[0].numa_node = 9;
    refuse(&f, NUMA_NODE, &gpus, 2, "GPU 7 is on NUMA node 9, which /sys does not describe");
    fake_free(&f);
}

Test(numa, a_machine_without_numa_is_one_node)
{
    struct fake_machine f;

    fake_init(&f, 4);
    expect(&f, NUMA_NODE, NULL, 2, "0-3|0-3");
    refuse(&f, NUMA_EXCLUSIVE, NULL, 2, "/sys does not say which core CPU 0 is on");
    refuse(&f, NUMA_CORE_COMPLEX, NULL, 2, "/sys does not describe the caches of CPU 0");
    refuse(&f, NUMA_SOCKET, NULL, 2, "/sys does not say which socket CPU 0 is on");
    fake_free(&f);
}

Test(numa, many_workers_cost_little)
{
    static cpu_set_t    sets[65536];
    struct fake_machine f;
    struct cc_err       err = { 0 };

    two_nodes(&f);
    cr_assert_eq(numa_bind(&f.m, NUMA_CORE_COMPLEX, NULL, 65536, sets, &err), 0, "%s", err.msg);
    cr_assert_eq(CPU_COUNT(&sets[65535]), 4);
    fake_free(&f);
}
