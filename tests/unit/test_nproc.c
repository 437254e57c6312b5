#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "launcher/nproc.h"
#include "launcher/scheduler.h"
#include "tests/unit/fake_machine.h"

static unsigned resolve(struct fake_machine *f, const char *text, struct nproc *ret)
{
    struct cc_err err = { 0 };

    cr_assert_eq(nproc_resolve(&f->m, &(struct nproc_req){ .text = text, .host = "n17.cluster" }, ret, &err),
                 0, "%s: %s", text ? text : "nothing", err.msg);
    return ret->n;
}

static void refuse(struct fake_machine *f, const char *text, const char *sentence)
{
    struct cc_err err = { 0 };
    struct nproc  n;

    cr_assert_eq(nproc_resolve(&f->m, &(struct nproc_req){ .text = text }, &n, &err), -EINVAL, "%s", text);
    cr_assert_not_null(strstr(err.msg, sentence), "'%s' is not in '%s'", sentence, err.msg);
}

static void add_gpus(struct fake_machine *f, unsigned n)
{
    char path[32];

    for (unsigned i = 0; i < n; i++) {
        (void) snprintf(path, sizeof path, "/dev/nvidia%u", i);
        fake_file(f, path, "");
    }
}

Test(nproc, numbers_are_python_s)
{
    struct fake_machine f;
    struct nproc        n;

    fake_init(&f, 1);
    cr_assert_eq(resolve(&f, "4", &n), 4);
    cr_assert_eq(resolve(&f, " +1_0 ", &n), 10);
    cr_assert_eq(resolve(&f, "0065536", &n), 65536);
    fake_free(&f);
}

Test(nproc, what_is_out_of_range_is_refused_with_the_limit)
{
    struct fake_machine f;

    fake_init(&f, 1);
    refuse(&f, "0", "--nproc-per-node 0: a node needs at least 1 worker");
    refuse(&f, "-1", "--nproc-per-node -1: a node needs at least 1 worker");
    refuse(&f, "65537", "more than 65536 workers");
    refuse(&f, "99999999999999999999999999", "more than 65536 workers");
    fake_free(&f);
}

Test(nproc, other_words_are_unsupported_in_torchrun_s_words)
{
    static const char *const words[] = { "unknown", "1.5", "GPU", "",      "1__0",
                                         "1_",      "0x4", "4 4", "auto ", "--" };
    struct fake_machine      f;
    char                     sentence[128];

    fake_init(&f, 1);
    for (unsigned i = 0; i < sizeof words / sizeof words[0]; i++) {
        (void) snprintf(sentence, sizeof sentence, "Unsupported nproc_per_node value: %s", words[i]);
        refuse(&f, words[i], sentence);
    }
    refuse(&f, "xpu", "Xpu is not available.");
    refuse(&f, "gpu", "Cuda is not available.");
    fake_free(&f);
}

Test(nproc, auto_without_a_gpu_is_the_cpus)
{
    struct fake_machine f;
    struct nproc        n;

    fake_init(&f, 6);
    cr_assert_eq(resolve(&f, "cpu", &n), 6);
    cr_assert_eq(resolve(&f, "auto", &n), 6);
    cr_assert_str_eq(n.why, "auto, no usable GPU: 6 CPUs in the affinity mask");
    fake_free(&f);
}

Test(nproc, auto_and_gpu_are_the_visible_gpus)
{
    struct fake_machine f;
    struct nproc        n;

    fake_init(&f, 6);
    add_gpus(&f, 3);
    cr_assert_eq(resolve(&f, "auto", &n), 3);
    cr_assert_eq(resolve(&f, "gpu", &n), 3);
    cr_assert_str_eq(n.why, "gpu: 3 GPUs (/dev/nvidia*)");
    fake_env(&f, "CUDA_VISIBLE_DEVICES", "2,0");
    cr_assert_eq(resolve(&f, "auto", &n), 2);
    fake_free(&f);
}

Test(nproc, hidden_gpus_are_none)
{
    struct fake_machine f;
    struct nproc        n;

    fake_init(&f, 6);
    add_gpus(&f, 3);
    fake_env(&f, "CUDA_VISIBLE_DEVICES", "");
    refuse(&f, "gpu", "CUDA_VISIBLE_DEVICES=");
    cr_assert_eq(resolve(&f, "auto", &n), 6);
    fake_free(&f);
}

Test(nproc, a_leftover_list_without_a_driver_counts_only_for_gpu)
{
    struct fake_machine f;
    struct nproc        n;

    fake_init(&f, 6);
    fake_env(&f, "CUDA_VISIBLE_DEVICES", "2,4,7");
    cr_assert_eq(resolve(&f, "gpu", &n), 3);
    cr_assert_eq(resolve(&f, "auto", &n), 6);
    fake_free(&f);
}

Test(nproc, only_gpus_that_the_user_chose_are_believed_without_a_driver)
{
    struct fake_machine f;
    struct nproc        n;
    struct cc_err       err = { 0 };
    struct gpus         g = { .n = 2, .n_cuda = 2, .source = GPUS_NONE, .is_limited = true };
    struct nproc_req    req = { .text = "auto", .gpus = &g };

    fake_init(&f, 6);
    cr_assert_eq(nproc_resolve(&f.m, &req, &n, &err), 0);
    cr_assert_eq(n.n, 6);
    req.is_chosen = true; /* --gpus 0,1 */
    cr_assert_eq(nproc_resolve(&f.m, &req, &n, &err), 0);
    cr_assert_eq(n.n, 2);
    fake_free(&f);
}

Test(nproc, mig_devices_count_singly_only_when_each_worker_gets_its_own)
{
    struct fake_machine f;
    struct nproc        n;
    struct cc_err       err = { 0 };
    struct gpus         g = { .n = 7, .n_cuda = 1, .source = GPUS_NVML, .why = "7 GPUs (NVML)" };

    fake_init(&f, 6);
    cr_assert_eq(nproc_resolve(&f.m, &(struct nproc_req){ .text = "gpu", .gpus = &g }, &n, &err), 0);
    cr_assert_eq(n.n, 1);
    cr_assert_not_null(strstr(n.why, "--mask-gpus"));
    cr_assert_eq(
        nproc_resolve(&f.m, &(struct nproc_req){ .text = "gpu", .gpus = &g, .is_masked = true }, &n, &err),
        0);
    cr_assert_eq(n.n, 7);
    fake_free(&f);
}

Test(nproc, nothing_given_is_one_and_a_hint_where_there_is_more)
{
    struct fake_machine f;
    struct nproc        n;

    fake_init(&f, 6);
    cr_assert_eq(resolve(&f, NULL, &n), 1);
    cr_assert_str_eq(n.hint, "");
    add_gpus(&f, 8);
    cr_assert_eq(resolve(&f, NULL, &n), 1);
    cr_assert_str_eq(n.hint, "8 GPUs are visible; --nproc-per-node auto would start 8 workers");
    cr_assert_eq(resolve(&f, "1", &n), 1);
    cr_assert_str_eq(n.hint, "");
    fake_env(&f, "PET_N_PROC_PER_NODE", "auto");
    cr_assert_eq(resolve(&f, NULL, &n), 8);
    fake_free(&f);
}

/* Pairs of name and value; the last name is NULL. */
static unsigned with_env(const char *const *pairs)
{
    struct fake_machine f;
    struct nproc        n;

    fake_init(&f, 6);
    fake_file(&f, "/nodes", "n3\nn17\nn3\nn17.cluster\nn170\n");
    fake_file(&f, "/pe", "n3 4 all.q UNDEFINED\nn17.cluster 5 all.q UNDEFINED\n");
    for (; *pairs; pairs += 2)
        fake_env(&f, pairs[0], pairs[1]);
    resolve(&f, NULL, &n);
    fake_free(&f);
    return n.n;
}

#define WITH(...) with_env((const char *const[]){ __VA_ARGS__, NULL })

Test(nproc, the_tasks_of_a_batch_script_of_one_node_are_its_workers)
{
    cr_assert_eq(WITH("SLURM_JOB_ID", "7", "SLURM_NTASKS", "3", "SLURM_TASKS_PER_NODE", "3"), 3);
    cr_assert_eq(
        WITH("SLURM_JOB_ID", "7", "SLURM_NTASKS_PER_NODE", "3", "SLURM_TASKS_PER_NODE", "3", "SLURM_GPUS_ON_NODE", "8"), 3);
    cr_assert_eq(WITH("SLURM_JOB_ID", "7", "SLURM_NTASKS", "3", "SLURM_TASKS_PER_NODE", "3", "SLURM_STEP_ID", "4294967290"), 3);
    cr_assert_eq(WITH("SLURM_JOB_ID", "7", "SLURM_TASKS_PER_NODE", "3"), 1); /* nobody asked: its CPUs */
    cr_assert_eq(WITH("SLURM_JOB_ID", "7", "SLURM_NTASKS", "1", "SLURM_TASKS_PER_NODE", "1", "SLURM_GPUS_ON_NODE", "8"), 8);
    cr_assert_eq(WITH("SLURM_JOB_ID", "7", "SLURM_NTASKS", "4", "SLURM_TASKS_PER_NODE", "2(x2)"), 1);
    cr_assert_eq(WITH("SLURM_JOB_ID", "7", "SLURM_STEP_ID", "0", "SLURM_NTASKS", "3", "SLURM_TASKS_PER_NODE", "3"), 1);
}

Test(nproc, slurm_s_gpu_count_is_used)
{
    cr_assert_eq(WITH("SLURM_JOB_ID", "7", "SLURM_GPUS_ON_NODE", "8"), 8);
    cr_assert_eq(WITH("SLURM_GPUS_ON_NODE", "8"), 1); /* left over: no job */
    cr_assert_eq(WITH("SLURM_JOB_ID", "7", "SLURM_GPUS_PER_NODE", "a100:4"), 4);
    cr_assert_eq(WITH("SLURM_JOB_ID", "7", "SLURM_GPUS_PER_NODE", "a100:2,h100:1"), 3);
    cr_assert_eq(WITH("SLURM_JOB_ID", "7", "SLURM_GPUS_PER_NODE", "2"), 2);
    cr_assert_eq(WITH("SLURM_JOB_ID", "7", "SLURM_GPUS_ON_NODE", "x"), 1);
    cr_assert_eq(WITH("SLURM_JOB_ID", "7", "SLURM_STEP_GPUS", "0,2-3"), 3);
    cr_assert_eq(WITH("SLURM_JOB_ID", "7", "SLURM_JOB_GPUS", "gpu:0-3"), 4);
    cr_assert_eq(WITH("SLURM_JOB_ID", "7", "SLURM_JOB_GPUS", "many"), 1);
    cr_assert_eq(WITH("SLURM_JOB_ID", "7"), 1);
}

Test(nproc, a_step_with_a_task_for_each_gpu_starts_one_each)
{
    cr_assert_eq(WITH("SLURM_JOB_ID", "7", "SLURM_STEP_ID", "0", "SLURM_STEP_NUM_TASKS", "8",
                      "SLURM_STEP_NUM_NODES", "1", "SLURM_GPUS_ON_NODE", "8"),
                 1);
    cr_assert_eq(WITH("SLURM_JOB_ID", "7", "SLURM_STEP_ID", "0", "SLURM_STEP_NUM_TASKS", "2",
                      "SLURM_STEP_NUM_NODES", "2", "SLURM_GPUS_ON_NODE", "8"),
                 8);
}

Test(nproc, gpus_that_the_user_hid_are_not_used)
{
    cr_assert_eq(WITH("SLURM_JOB_ID", "7", "SLURM_GPUS_ON_NODE", "8", "CUDA_VISIBLE_DEVICES", "3,5"), 2);
    cr_assert_eq(WITH("SLURM_JOB_ID", "7", "SLURM_GPUS_ON_NODE", "2", "CUDA_VISIBLE_DEVICES", "0,1,2,3"), 2);
}

Test(nproc, other_schedulers_count_slots_of_this_host)
{
    cr_assert_eq(WITH("PBS_JOBID", "1.srv", "PBS_NODEFILE", "/nodes"), 2);
    cr_assert_eq(WITH("PBS_JOBID", "1.srv", "PBS_NODEFILE", "/nofile", "NCPUS", "64"), 1);
    cr_assert_eq(WITH("LSB_JOBID", "5", "LSB_MCPU_HOSTS", "batch 1 n3 8 n17 6"), 6);
    cr_assert_eq(WITH("LSB_JOBID", "5", "LSB_MCPU_HOSTS", "n17"), 1);
    cr_assert_eq(WITH("JOB_ID", "5", "PE_HOSTFILE", "/pe"), 5);
    cr_assert_eq(WITH("SM_CURRENT_HOST", "algo-1", "SM_NUM_GPUS", "4"), 4);
    cr_assert_eq(WITH("SM_CURRENT_HOST", "algo-1", "SM_NUM_GPUS", "0"), 1);
    cr_assert_eq(WITH("SKYPILOT_NODE_RANK", "0", "SKYPILOT_NUM_GPUS_PER_NODE", "8"), 8);
    cr_assert_eq(WITH("RANK", "0", "WORLD_SIZE", "2", "MASTER_ADDR", "x", "NPROC_PER_NODE", "8"), 8);
    cr_assert_eq(WITH("NPROC_PER_NODE", "8"), 1);
}

Test(nproc, a_given_number_beats_the_scheduler)
{
    struct fake_machine f;
    struct nproc        n;

    fake_init(&f, 6);
    fake_env(&f, "SLURM_JOB_ID", "7");
    fake_env(&f, "SLURM_GPUS_ON_NODE", "8");
    cr_assert_eq(resolve(&f, "3", &n), 3);
    cr_assert_eq(resolve(&f, NULL, &n), 8);
    cr_assert_str_eq(n.why, "Slurm, SLURM_GPUS_ON_NODE=8");
    fake_free(&f);
}

Test(scheduler, the_first_row_that_matches_wins)
{
    struct fake_machine f;
    struct scheduler    s;

    fake_init(&f, 1);
    scheduler_detect(&f.m, "h", &s);
    cr_assert_null(s.name);
    fake_env(&f, "KUBERNETES_SERVICE_HOST", "10.0.0.1");
    scheduler_detect(&f.m, "h", &s);
    cr_assert_str_eq(s.name, "Kubernetes");
    fake_env(&f, "JOB_COMPLETION_INDEX", "3");
    scheduler_detect(&f.m, "h", &s);
    cr_assert_str_eq(s.name, "Kubernetes indexed job");
    fake_env(&f, "SLURM_JOB_ID", "42");
    scheduler_detect(&f.m, "h", &s);
    cr_assert_str_eq(s.name, "Slurm");
    cr_assert_str_eq(s.job_id, "42");
    cr_assert_eq(s.nproc, 0);
    fake_free(&f);
}
