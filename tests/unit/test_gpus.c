#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/gpus.h"
#include "launcher/nvml.h"
#include "tests/unit/fake_machine.h"

static struct gpus count(struct fake_machine *f, bool is_quick)
{
    struct cc_err err = { 0 };
    struct gpus   g;

    cr_assert_eq(gpus_count(&f->m, is_quick, &g, &err), 0, "%s", err.msg);
    return g;
}

static void proc_gpu(struct fake_machine *f, const char *pci, const char *uuid)
{
    char path[128], text[256];

    (void) snprintf(path, sizeof path, "/proc/driver/nvidia/gpus/%s/information", pci);
    (void) snprintf(text, sizeof text,
                    "Model: \t\t NVIDIA H100\nIRQ:   \t\t 120\nGPU UUID: \t %s\nDevice Minor: \t 0\n", uuid);
    fake_file(f, path, text);
}

static void pci_device(struct fake_machine *f, const char *pci, const char *vendor, const char *class,
                       const char *node)
{
    char path[128];

    (void) snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/vendor", pci);
    fake_file(f, path, vendor);
    (void) snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/class", pci);
    fake_file(f, path, class);
    (void) snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/numa_node", pci);
    fake_file(f, path, node);
}

static void expect_ids(const struct gpus *g, const char *wanted)
{
    char   out[512] = "";
    size_t n = 0;

    for (unsigned i = 0; i < g->n; i++)
        n += (size_t) snprintf(out + n, sizeof out - n, "%s%s", i ? " " : "", g->list[i].id);
    cr_assert_str_eq(out, wanted, "%s: '%s', not '%s'", g->why, out, wanted);
}

Test(gpus, a_machine_without_any)
{
    struct fake_machine f;
    struct gpus         g;

    fake_init(&f, 1);
    g = count(&f, false);
    cr_assert_eq(g.n, 0);
    cr_assert_eq(g.source, GPUS_NONE);
    cr_assert_str_eq(g.why, "no NVIDIA GPU found");
    gpus_clear(&g);
    fake_free(&f);
}

Test(gpus, the_driver_s_proc_folder_gives_addresses_names_and_nodes)
{
    struct fake_machine f;
    struct gpus         g;

    fake_init(&f, 1);
    proc_gpu(&f, "0000:b1:00.0", "GPU-bbbb");
    proc_gpu(&f, "0000:3b:00.0", "GPU-aaaa");
    pci_device(&f, "0000:b1:00.0", "0x10de", "0x030200", "1");
    g = count(&f, false);
    cr_assert_eq(g.n, 2);
    cr_assert_eq(g.source, GPUS_PROC);
    cr_assert_str_eq(g.list[0].pci, "0000:3b:00.0");
    cr_assert_str_eq(g.list[0].uuid, "GPU-aaaa");
    cr_assert_eq(g.list[0].numa_node, -1);
    cr_assert_eq(g.list[1].numa_node, 1);
    expect_ids(&g, "0 1");
    gpus_clear(&g);
    fake_free(&f);
}

Test(gpus, visible_devices_choose_by_index_and_by_name)
{
    struct fake_machine f;
    struct gpus         g;

    fake_init(&f, 1);
    proc_gpu(&f, "0000:3b:00.0", "GPU-aaaa");
    proc_gpu(&f, "0000:b1:00.0", "GPU-bbbb");
    proc_gpu(&f, "0000:d8:00.0", "GPU-dddd");
    fake_env(&f, "CUDA_VISIBLE_DEVICES", "GPU-d,GPU-a");
    g = count(&f, false);
    expect_ids(&g, "GPU-d GPU-a");
    cr_assert_str_eq(g.list[0].pci, "0000:d8:00.0");
    cr_assert(g.is_limited);
    gpus_clear(&g);

    f.env[0][0] = 'X';
    fake_env(&f, "CUDA_VISIBLE_DEVICES", "2, 1,7,0");
    g = count(&f, false);
    expect_ids(&g, "2 1");
    cr_assert_str_eq(g.list[1].uuid, "GPU-bbbb");
    cr_assert_eq(g.n_total, 3);
    cr_assert_str_eq(
        g.why, "2 of 3 GPUs (/proc/driver/nvidia): CUDA_VISIBLE_DEVICES=2, 1,7,0, which ends before '7'");
    gpus_clear(&g);
    fake_free(&f);
}

Test(gpus, a_void_list_is_explained)
{
    struct fake_machine f;
    struct gpus         g;

    fake_init(&f, 1);
    proc_gpu(&f, "0000:3b:00.0", "GPU-?\?\?\?");
    fake_env(&f, "CUDA_VISIBLE_DEVICES", "0,0");
    g = count(&f, false);
    cr_assert_eq(g.n, 0);
    cr_assert_not_null(strstr(g.why, "which is void: '0' is there twice"), "%s", g.why);
    gpus_clear(&g);
    fake_free(&f);
}

Test(gpus, names_that_the_driver_does_not_tell_are_believed)
{
    struct fake_machine f;
    struct gpus         g;

    fake_init(&f, 1);
    proc_gpu(&f, "0000:3b:00.0", "GPU-?\?\?\?");
    fake_env(&f, "CUDA_VISIBLE_DEVICES", "GPU-12345678");
    g = count(&f, false);
    expect_ids(&g, "GPU-12345678");
    gpus_clear(&g);
    fake_free(&f);
}

Test(gpus, device_nodes_count_where_proc_is_hidden)
{
    struct fake_machine f;
    struct gpus         g;

    fake_init(&f, 1);
    fake_file(&f, "/dev/nvidia0", "");
    fake_file(&f, "/dev/nvidia10", "");
    fake_file(&f, "/dev/nvidiactl", "");
    fake_file(&f, "/dev/nvidia-uvm", "");
    fake_file(&f, "/dev/nvidia1x", "");
    g = count(&f, false);
    cr_assert_eq(g.n, 2);
    cr_assert_eq(g.source, GPUS_DEV);
    cr_assert_str_eq(g.list[0].pci, "");
    gpus_clear(&g);
    pci_device(&f, "0000:3b:00.0", "0x10de", "0x030200", "0");
    pci_device(&f, "0000:b1:00.0", "0x10de", "0x030200", "1");
    g = count(&f, false);
    cr_assert_eq(g.n, 2);
    cr_assert_str_eq(g.list[1].pci, "0000:b1:00.0"); /* as many on the bus: so these are they */
    gpus_clear(&g);
    fake_free(&f);
}

Test(gpus, the_bus_counts_only_gpus_that_nobody_else_drives)
{
    struct fake_machine f;
    struct gpus         g;

    fake_init(&f, 1);
    pci_device(&f, "0000:3b:00.0", "0x10de", "0x030200", "0"); /* 3D controller */
    pci_device(&f, "0000:3c:00.0", "0x10de", "0x030000", "0"); /* VGA */
    pci_device(&f, "0000:3b:00.1", "0x10de", "0x040300", "0"); /* its sound device */
    pci_device(&f, "0000:00:02.0", "0x8086", "0x030000", "0");
    pci_device(&f, "0000:b1:00.0", "0x10de", "0x030200", "1");
    pci_device(&f, "0000:b2:00.0", "0x10de", "0x030200", "1");
    fake_link(&f, "/sys/bus/pci/devices/0000:3b:00.0/driver", "../../../bus/pci/drivers/nvidia");
    fake_link(&f, "/sys/bus/pci/devices/0000:b1:00.0/driver", "../../../bus/pci/drivers/vfio-pci");
    fake_link(&f, "/sys/bus/pci/devices/0000:b2:00.0/driver", "../../../bus/pci/drivers/nouveau");
    g = count(&f, false);
    cr_assert_eq(g.n, 2);
    cr_assert_eq(g.source, GPUS_PCI);
    gpus_clear(&g);
    g = count(&f, true); /* reading the whole bus is not quick */
    cr_assert_eq(g.source, GPUS_NONE);
    gpus_clear(&g);
    g = count(&f, false);
    cr_assert_str_eq(g.list[0].pci, "0000:3b:00.0");
    cr_assert_str_eq(g.list[1].pci, "0000:3c:00.0");
    gpus_clear(&g);
    fake_free(&f);
}

Test(gpus, without_a_driver_the_environment_is_believed_and_said_to_be_unchecked)
{
    struct fake_machine f;
    struct gpus         g;

    fake_init(&f, 1);
    fake_env(&f, "CUDA_VISIBLE_DEVICES", "2,4,7");
    g = count(&f, false);
    expect_ids(&g, "2 4 7");
    cr_assert_eq(g.source, GPUS_NONE);
    cr_assert_str_eq(g.why, "3 GPUs, unchecked: CUDA_VISIBLE_DEVICES=2,4,7");
    gpus_clear(&g);
    fake_free(&f);
}

/* ---- a library in place of NVML: three GPUs, the second one cut into two MIG devices, in slots 1 and 3 */

static int device[3], part[2];

static int fine(void)
{
    return 0;
}

static int broken(void)
{
    return 9; /* NVML_ERROR_DRIVER_NOT_LOADED */
}

static int fake_count(unsigned *ret)
{
    *ret = 3;
    return 0;
}

static int fake_handle(unsigned index, void **ret)
{
    *ret = &device[index];
    return 0;
}

static int fake_uuid(void *d, char *ret, unsigned size)
{
    static const char *const names[] = { "GPU-00", "GPU-11", "GPU-22" }, *const parts[] = { "MIG-aa",
                                                                                            "MIG-bb" };
    int *p = d;

    (void) snprintf(ret, size, "%s", p >= part && p < part + 2 ? parts[p - part] : names[p - device]);
    return 0;
}

static int fake_pci(void *d, struct nvml_pci *ret)
{
    int *p = d;

    *ret = (struct nvml_pci){ .domain = 0, .bus = 0x3b + (unsigned) (p - device), .device = 0 };
    return 0;
}

static int fake_mig_mode(void *d, unsigned *current, unsigned *pending)
{
    *current = d == &device[1];
    *pending = 0;
    return 0;
}

static int fake_mig_max(void *d, unsigned *ret)
{
    (void) d;
    *ret = 7;
    return 0;
}

static int fake_mig_handle(void *d, unsigned index, void **ret)
{
    cr_assert_eq(d, &device[1]);
    if (index != 1 && index != 3)
        return 6; /* NVML_ERROR_NOT_FOUND */
    *ret = &part[index / 2];
    return 0;
}

static const struct nvml whole_nvml = { .init = fine,
                                        .shutdown = fine,
                                        .count = fake_count,
                                        .handle = fake_handle,
                                        .uuid = fake_uuid,
                                        .pci = fake_pci };
static const struct nvml mig_nvml = { .init = fine,
                                      .shutdown = fine,
                                      .count = fake_count,
                                      .handle = fake_handle,
                                      .uuid = fake_uuid,
                                      .pci = fake_pci,
                                      .mig_mode = fake_mig_mode,
                                      .mig_max = fake_mig_max,
                                      .mig_handle = fake_mig_handle };
static const struct nvml broken_nvml = {
    .init = broken, .shutdown = fine, .count = fake_count, .handle = fake_handle
};

Test(gpus, nvml_is_asked_first_and_not_for_a_hint)
{
    struct fake_machine f;
    struct gpus         g;

    fake_init(&f, 1);
    proc_gpu(&f, "0000:3b:00.0", "GPU-00");
    pci_device(&f, "0000:3c:00.0", "0x10de", "0x030200", "1");
    f.m.nvml = &whole_nvml;
    g = count(&f, false);
    cr_assert_eq(g.n, 3);
    cr_assert_eq(g.n_cuda, 3);
    cr_assert_str_eq(g.why, "3 GPUs (NVML)");
    cr_assert_str_eq(g.list[1].pci, "0000:3c:00.0");
    cr_assert_eq(g.list[1].numa_node, 1);
    gpus_clear(&g);
    g = count(&f, true);
    cr_assert_eq(g.n, 1);
    gpus_clear(&g);
    f.m.nvml = &broken_nvml;
    g = count(&f, false);
    cr_assert_eq(g.source, GPUS_PROC);
    gpus_clear(&g);
    fake_free(&f);
}

Test(gpus, a_gpu_that_is_cut_counts_as_its_mig_devices)
{
    struct fake_machine f;
    struct gpus         g;

    fake_init(&f, 1);
    pci_device(&f, "0000:3c:00.0", "0x10de", "0x030200", "1");
    f.m.nvml = &mig_nvml;
    g = count(&f, false);
    expect_ids(&g, "0 MIG-aa MIG-bb 2");
    cr_assert_eq(g.n_cuda, 1);
    cr_assert_eq(g.n_total, 4);
    cr_assert(g.list[2].is_mig);
    cr_assert_eq(g.list[2].numa_node, 1);
    gpus_clear(&g);
    fake_env(&f, "CUDA_VISIBLE_DEVICES", "MIG-b,MIG-aa");
    g = count(&f, false);
    expect_ids(&g, "MIG-b MIG-aa");
    cr_assert_str_eq(g.list[0].uuid, "MIG-bb");
    cr_assert_eq(g.n_cuda, 1);
    gpus_clear(&g);
    fake_free(&f);
}

/* ---- what the workers get */

static struct gpus three_visible(struct fake_machine *f)
{
    fake_init(f, 1);
    proc_gpu(f, "0000:01:00.0", "GPU-0000");
    proc_gpu(f, "0000:02:00.0", "GPU-1111");
    proc_gpu(f, "0000:03:00.0", "GPU-2222");
    proc_gpu(f, "0000:04:00.0", "GPU-2333");
    fake_env(f, "CUDA_VISIBLE_DEVICES", "3,1,2");
    return count(f, false);
}

Test(gpus, a_list_picks_among_the_visible_ones)
{
    static const struct {
        const char *list, *ids;
    } cases[] = { { "0", "3" },     { "2,0", "2 3" }, { " 1 , 0 ", "1 3" },  { "0-2", "3 1 2" },
                  { "1-2", "1 2" }, { "GPU-1", "1" }, { "GPU-22,0", "2 3" }, { "2,GPU-1111", "2 1" } };

    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct fake_machine f;
        struct cc_err       err = { 0 };
        struct gpus         g = three_visible(&f);

        cr_assert_eq(gpus_select(&g, cases[i].list, &err), 0, "%s", err.msg);
        expect_ids(&g, cases[i].ids);
        gpus_clear(&g);
        fake_free(&f);
    }
}

Test(gpus, a_bad_list_names_the_item_and_changes_nothing)
{
    static const struct {
        const char *list, *sentence;
    } cases[] = {
        { "0,3", "--gpus: '3' is not among the 3 visible GPUs, 0 to 2" },
        { "0-4000000000", "'0-4000000000' is not among the 3 visible GPUs" },
        { "1,0-1", "'0-1' names GPU 1 a second time" },
        { "GPU-2", "'GPU-2' fits 2 of the visible GPUs: write more of it" },
        { "GPU-0", "'GPU-0' is not among the 3 visible GPUs" },
        { "", "'' is no index" },
        { "0,", "'' is no index" },
        { "all", "'all' is no index" },
        { "2-1", "'2-1' is no index, range" },
        { "-1", "'-1' is no index" },
        { "1x", "'1x' is no index" },
        { "99999999999999999999", "is not among" },
    };

    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct fake_machine f;
        struct cc_err       err = { 0 };
        struct gpus         g = three_visible(&f);

        cr_assert_eq(gpus_select(&g, cases[i].list, &err), -EINVAL, "%s was accepted", cases[i].list);
        cr_assert_not_null(strstr(err.msg, cases[i].sentence), "%s", err.msg);
        expect_ids(&g, "3 1 2");
        gpus_clear(&g);
        fake_free(&f);
    }
}

static void expect_list(char **list, const char *wanted)
{
    char   out[512] = "";
    size_t n = 0;

    for (char **p = list; *p; p++)
        n += (size_t) snprintf(out + n, sizeof out - n, "%s%s", p == list ? "" : "|", *p);
    cr_assert_str_eq(out, wanted);
    gpus_strings_free(list);
}

Test(gpus, masking_gives_each_worker_one_and_never_too_few)
{
    struct fake_machine f;
    struct cc_err       err = { 0 };
    struct gpus         g = three_visible(&f);
    char              **list;

    cr_assert_eq(gpus_mask(&g, 3, &list, &err), 0);
    expect_list(list, "3|1|2");
    cr_assert_eq(gpus_mask(&g, 2, &list, &err), 0);
    expect_list(list, "3|1");
    cr_assert_eq(gpus_mask(&g, 4, &list, &err), -EINVAL);
    cr_assert_not_null(strstr(err.msg, "4 workers and only 3 GPUs"), "%s", err.msg);
    cr_assert_eq(gpus_share(&g, 2, &list, &err), 0);
    expect_list(list, "3,1,2|3,1,2");
    gpus_clear(&g);
    fake_free(&f);
}

Test(gpus, a_virtual_local_rank_takes_the_item_of_its_rank)
{
    struct cc_err err = { 0 };
    char        **list;

    cr_assert_eq(gpus_virtual("4, 5", 2, &list, &err), 0);
    expect_list(list, "4|5");
    cr_assert_eq(gpus_virtual(NULL, 3, &list, &err), 0);
    expect_list(list, "0|1|2");
    cr_assert_eq(gpus_virtual("", 1, &list, &err), 0);
    expect_list(list, "");
    cr_assert_eq(gpus_virtual("7,,9", 3, &list, &err), 0);
    expect_list(list, "7||9");
    cr_assert_eq(gpus_virtual("0,1", 4, &list, &err), -EINVAL);
    cr_assert_str_eq(err.msg, "local_rank 2 exceeds available GPUs in CUDA_VISIBLE_DEVICES=0,1");
}
