#include "launcher/environment.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "store/base/macros.h"

/* What srun says about a task.  What it says about the job (SLURM_JOB_ID, the list of its nodes) stays true. */
static const char *const slurm[] = {
    "SLURM_PROCID=",         "SLURM_LOCALID=",        "SLURM_NODEID=",        "SLURM_NTASKS=",
    "SLURM_NPROCS=",         "SLURM_GTIDS=",          "SLURM_TASK_PID=",      "SLURM_TASKS_PER_NODE=",
    "SLURM_STEP_NUM_TASKS=", "SLURM_NTASKS_PER_NODE=", "SLURM_STEP_TASKS_PER_NODE=",
};

/* An MPI library that finds these takes the worker for a process of the MPI job that started us. */
static const char *const mpi[] = {
    "OMPI_COMM_WORLD_", "OMPI_UNIVERSE_SIZE=", "OMPI_MCA_ess", "OMPI_MCA_orte", "OMPI_MCA_pmix", "OMPI_NUM_APP_CTX=",
    "OMPI_FIRST_RANKS=", "OMPI_APP_CTX_NUM_PROCS=", "PMI_", "PMIX_", "PRTE_", "MPI_LOCAL", "MV2_COMM_WORLD_",
    "MPIRUN_", "HYDI_CONTROL_FD=", "PALS_RANKID=", "PALS_LOCAL_RANKID=", "PALS_NODEID=", "JSM_NAMESPACE_",
};

static bool begins(const char *entry, const char *const *list, size_t n)
{
    while (n-- > 0)
        if (strncmp(entry, list[n], strlen(list[n])) == 0)
            return true;
    return false;
}

static int reserve(struct environment *e, size_t n, struct cc_err *err)
{
    size_t cap = e->cap;
    char **list;

    while (cap < n + 1)
        cap = cap ? 2 * cap : 64;
    if (cap == e->cap)
        return 0;
    list = realloc(e->list, cap * sizeof *list);
    if (!list)
        return cc_fail(err, -ENOMEM, "no memory for an environment of %zu variables", n);
    e->list = list;
    e->cap = cap;
    return 0;
}

int environment_init(struct environment *e, char *const *base, struct cc_err *err)
{
    size_t n = 0;
    int    r;

    *e = (struct environment) { .list = NULL };
    while (base[n])
        n++;
    r = reserve(e, n, err);
    if (r < 0)
        return r;
    memcpy(e->list, base, n * sizeof *base);
    e->list[n] = NULL;
    e->n = n;
    return 0;
}

void environment_free(struct environment *e)
{
    free(e->list);
    *e = (struct environment) { .list = NULL };
}

/* Where NAME (its `len` bytes) stands, or e->n. */
static size_t find(const struct environment *e, const char *name, size_t len)
{
    size_t i;

    for (i = 0; i < e->n; i++)
        if (strncmp(e->list[i], name, len) == 0 && e->list[i][len] == '=')
            break;
    return i;
}

const char *environment_get(const struct environment *e, const char *name)
{
    size_t len = strlen(name), i = find(e, name, len);

    return i < e->n ? e->list[i] + len + 1 : NULL;
}

int environment_set(struct environment *e, const char *entry, struct cc_err *err)
{
    size_t i = find(e, entry, strcspn(entry, "="));
    int    r = reserve(e, e->n + 1, err);

    if (r < 0)
        return r;
    e->list[i] = (char *) (uintptr_t) entry; /* execve wants it without const and does not write */
    if (i == e->n)
        e->list[++e->n] = NULL;
    return 0;
}

int environment_clean(struct environment *e, const char *what, struct cc_err *err)
{
    static const struct {
        const char        *name;
        const char *const *list;
        size_t             n;
    } sets[] = {
        { "slurm", slurm, CC_COUNT(slurm) },
        { "mpi", mpi, CC_COUNT(mpi) },
    };
    size_t s, i, kept = 0;

    for (s = 0; s < CC_COUNT(sets) && strcmp(what, sets[s].name) != 0; s++)
        ;
    if (s == CC_COUNT(sets))
        return cc_fail(err, -EINVAL, "--clean-env: '%.60s' is neither slurm nor mpi", what);
    for (i = 0; i < e->n; i++)
        if (!begins(e->list[i], sets[s].list, sets[s].n))
            e->list[kept++] = e->list[i];
    e->n = kept;
    e->list[kept] = NULL;
    return 0;
}
