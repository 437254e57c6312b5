#include "launcher/scheduler.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/cpulist.h"
#include "launcher/hostlist.h"
#include "launcher/taskcount.h"
#include "store/base/cleanup.h"
#include "store/base/macros.h"

enum { MAX_COUNT = 65536, NAME_MAX_LEN = 256 };

/* A whole number up to the first byte of `ends`, 0 when it is none. */
static unsigned number(const char *text, const char *ends)
{
    char         *end;
    unsigned long v;

    if (!text || *text < '0' || *text > '9')
        return 0;
    errno = 0;
    v = strtoul(text, &end, 10);
    return errno || !strchr(ends, *end) || v > MAX_COUNT ? 0 : (unsigned) v; /* strchr finds '\0' too */
}

static unsigned env_number(const struct machine *m, const char *name)
{
    return number(machine_env(m, name), "");
}

static bool is_host(const char *a, size_t len, const char *host)
{
    char name[NAME_MAX_LEN];

    return snprintf(name, sizeof name, "%.*s", (int) (len < sizeof name ? len : sizeof name), a) < (int) sizeof name &&
           host_is(name, host);
}

/* The GPUs of a list: "0,2-3", with or without "gpu:" in front; 0: it is none. */
static unsigned list_count(const char *text)
{
    const char *colon = text ? strrchr(text, ':') : NULL;
    cpu_set_t   set;

    if (!text || cpulist_parse(colon ? colon + 1 : text, &set) < 0)
        return 0;
    return (unsigned) CPU_COUNT(&set);
}

bool scheduler_is_slurm_step(const char *id)
{
    return id && strtoull(id, NULL, 10) < 0xfffffff0; /* from there on: the batch script, an interactive shell and others */
}

/* The tasks that the batch script of a job of one node asked for.  Of several nodes: fanout_srun.c. */
static unsigned slurm_tasks(const struct machine *m)
{
    bool is_wish = machine_env(m, "SLURM_NTASKS") || machine_env(m, "SLURM_NTASKS_PER_NODE");

    return is_wish && !scheduler_is_slurm_step(machine_env(m, "SLURM_STEP_ID")) ? env_number(m, "SLURM_TASKS_PER_NODE") : 0;
}

static void count_slurm(const struct machine *m, const char *host, struct scheduler *s)
{
    static const char *const lists[] = { "SLURM_STEP_GPUS", "SLURM_JOB_GPUS" };
    unsigned tasks = env_number(m, "SLURM_STEP_NUM_TASKS"), nodes = env_number(m, "SLURM_STEP_NUM_NODES");

    (void) host;
    if (machine_env(m, "SLURM_STEP_ID") && tasks > (nodes > 0 ? nodes : 1))
        return; /* srun started one of us for each GPU already */
    s->nproc_from = "SLURM_TASKS_PER_NODE";
    s->nproc = slurm_tasks(m);
    if (s->nproc > 1)
        return;
    s->is_gpu_count = true;
    s->nproc_from = "SLURM_GPUS_ON_NODE";
    s->nproc = env_number(m, s->nproc_from);
    if (s->nproc == 0) {
        s->nproc_from = "SLURM_GPUS_PER_NODE";
        s->nproc = taskcount_gpus(machine_env(m, s->nproc_from));
    }
    for (size_t i = 0; i < CC_COUNT(lists) && s->nproc == 0; i++) {
        s->nproc_from = lists[i];
        s->nproc = list_count(machine_env(m, lists[i]));
    }
}

/* One line a slot: our own lines, wherever they stand. */
static void count_pbs(const struct machine *m, const char *host, struct scheduler *s)
{
    const char        *path = machine_env(m, "PBS_NODEFILE");
    CC_AUTO_FREE char *line = NULL;
    size_t             size = 0;
    FILE              *f = path ? machine_open(m, path) : NULL;

    s->nproc_from = "PBS_NODEFILE";
    while (f && s->nproc < MAX_COUNT && getline(&line, &size, f) > 0)
        s->nproc += is_host(line, strcspn(line, " \t\r\n"), host);
    if (f)
        (void) fclose(f);
}

/* "h1 8 h2 8"; the first pair can be the launch node, which is then not ours. */
static void count_lsf(const struct machine *m, const char *host, struct scheduler *s)
{
    const char *p = machine_env(m, "LSB_MCPU_HOSTS");

    s->nproc_from = "LSB_MCPU_HOSTS";
    while (p && *p) {
        const char *name = p + strspn(p, " "), *count;
        size_t      len = strcspn(name, " ");

        count = name + len + strspn(name + len, " ");
        if (len > 0 && is_host(name, len, host))
            s->nproc = number(count, " ");
        p = count + strcspn(count, " ");
    }
}

/* "host slots queue processors" */
static void count_sge(const struct machine *m, const char *host, struct scheduler *s)
{
    const char        *path = machine_env(m, "PE_HOSTFILE");
    CC_AUTO_FREE char *line = NULL;
    size_t             size = 0;
    FILE              *f = path ? machine_open(m, path) : NULL;

    s->nproc_from = "PE_HOSTFILE";
    while (f && getline(&line, &size, f) > 0) {
        size_t len = strcspn(line, " \t\n");

        if (is_host(line, len, host))
            s->nproc += number(line + len + strspn(line + len, " \t"), " \t\n");
    }
    if (f)
        (void) fclose(f);
}

static void count_pai(const struct machine *m, const char *host, struct scheduler *s)
{
    (void) host;
    s->nproc_from = "NPROC_PER_NODE";
    s->nproc = env_number(m, s->nproc_from);
}

static void count_sagemaker(const struct machine *m, const char *host, struct scheduler *s)
{
    (void) host;
    s->is_gpu_count = true;
    s->nproc_from = "SM_NUM_GPUS";
    s->nproc = env_number(m, s->nproc_from);
}

static void count_skypilot(const struct machine *m, const char *host, struct scheduler *s)
{
    (void) host;
    s->is_gpu_count = true;
    s->nproc_from = "SKYPILOT_NUM_GPUS_PER_NODE";
    s->nproc = env_number(m, s->nproc_from);
}

/* Every variable of `needs` must be set.  What starts one process on each node of a batch job knows more than the batch
 * system, so Flux and PALS come first. */
static const struct row {
    enum scheduler_kind kind;
    const char *name, *needs[3], *job_id;
    void (*count)(const struct machine *m, const char *host, struct scheduler *s);
} rows[] = {
    { SCHEDULER_FLUX, "Flux", { "FLUX_JOB_ID", "FLUX_TASK_RANK" }, "FLUX_JOB_ID", NULL },
    { SCHEDULER_PALS, "PALS", { "PALS_APID" }, "PALS_APID", count_pbs },
    { SCHEDULER_SLURM, "Slurm", { "SLURM_JOB_ID" }, "SLURM_JOB_ID", count_slurm },
    { SCHEDULER_PBS, "PBS", { "PBS_JOBID" }, "PBS_JOBID", count_pbs },
    { SCHEDULER_LSF, "LSF", { "LSB_JOBID" }, "LSB_JOBID", count_lsf },
    { SCHEDULER_SGE, "Grid Engine", { "JOB_ID", "PE_HOSTFILE" }, "JOB_ID", count_sge },
    { SCHEDULER_OAR, "OAR", { "OAR_JOB_ID" }, "OAR_JOB_ID", NULL },
    { SCHEDULER_COBALT, "Cobalt", { "COBALT_JOBID" }, "COBALT_JOBID", NULL },
    { SCHEDULER_NONE, "Flux", { "FLUX_JOB_ID" }, "FLUX_JOB_ID", NULL },
    { SCHEDULER_OPEN_MPI, "Open MPI", { "OMPI_COMM_WORLD_SIZE" }, NULL, NULL },
    { SCHEDULER_MPI, "MPI", { "PMI_SIZE" }, NULL, NULL },
    { SCHEDULER_MPI, "MPI", { "MV2_COMM_WORLD_SIZE" }, NULL, NULL },
    { SCHEDULER_INDEXED_JOB, "Kubernetes indexed job", { "JOB_COMPLETION_INDEX", "PET_NNODES" }, NULL, NULL },
    { SCHEDULER_NONE, "Kubeflow", { "PET_NNODES" }, NULL, NULL }, /* it speaks torchrun's language */
    { SCHEDULER_SAGEMAKER, "SageMaker", { "SM_CURRENT_HOST" }, "TRAINING_JOB_NAME", count_sagemaker },
    { SCHEDULER_AZURE, "Azure ML", { "AZ_BATCH_MASTER_NODE" }, "AZUREML_RUN_ID", NULL },
    { SCHEDULER_AZURE, "Azure ML", { "AZUREML_NODE_COUNT" }, "AZUREML_RUN_ID", NULL },
    { SCHEDULER_AWS_BATCH, "AWS Batch", { "AWS_BATCH_JOB_NUM_NODES" }, "AWS_BATCH_JOB_ID", NULL },
    { SCHEDULER_VERTEX, "Vertex AI", { "CLUSTER_SPEC" }, "CLOUD_ML_JOB_ID", NULL },
    { SCHEDULER_SKYPILOT, "SkyPilot", { "SKYPILOT_NODE_RANK" }, "SKYPILOT_TASK_ID", count_skypilot },
    { SCHEDULER_DLROVER, "DLRover", { "DLROVER_MASTER_ADDR" }, NULL, NULL },
    { SCHEDULER_PODS, "Kubernetes (RANK, WORLD_SIZE)", { "RANK", "WORLD_SIZE", "MASTER_ADDR" }, NULL, count_pai },
    { SCHEDULER_INDEXED_JOB, "Kubernetes indexed job", { "JOB_COMPLETION_INDEX" }, NULL, NULL },
    { SCHEDULER_NONE, "Kubernetes", { "KUBERNETES_SERVICE_HOST" }, NULL, NULL },
};

static bool is_match(const struct machine *m, const struct row *row)
{
    for (unsigned i = 0; i < CC_COUNT(row->needs) && row->needs[i]; i++)
        if (!machine_env(m, row->needs[i]))
            return false;
    return true;
}

void scheduler_detect(const struct machine *m, const char *host, struct scheduler *ret)
{
    *ret = (struct scheduler){ .name = NULL };
    for (unsigned i = 0; i < CC_COUNT(rows); i++) {
        if (!is_match(m, &rows[i]))
            continue;
        ret->kind = rows[i].kind;
        ret->name = rows[i].name;
        ret->job_id = rows[i].job_id ? machine_env(m, rows[i].job_id) : NULL;
        ret->job_id_from = ret->job_id ? rows[i].job_id : NULL;
        if (rows[i].count)
            rows[i].count(m, host, ret);
        if (ret->nproc == 0)
            ret->nproc_from = NULL;
        return;
    }
}
