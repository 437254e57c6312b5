/* Batch systems, and what starts processes inside their jobs. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/rdzv_msg.h"
#include "launcher/allocation_read.h"
#include "launcher/hetgroups.h"
#include "launcher/hostfile.h"
#include "launcher/oneline.h"
#include "launcher/scheduler.h"
#include "launcher/taskcount.h"
#include "store/base/cleanup.h"
#include "store/base/macros.h"

enum { TASKS_MAX = 1 << 24 };

/* ---- processes that an MPI launcher or the like started, in or out of a batch job */

static const struct launcher {
    const char *size, *rank, *local_size;
} launchers[] = {
    { "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE" },
    { "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_LOCAL_SIZE" },
    { "JSM_NAMESPACE_SIZE", "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_LOCAL_SIZE" },
    { "PMI_SIZE", "PMI_RANK", "MPI_LOCALNRANKS" },
};

/* Several of us on one node: they cannot be told from nodes, and each would start the workers of all. */
static void set_crowd(const struct reader *r, unsigned on_node, const char *from, unsigned tasks, int rank,
                      const char *rank_from)
{
    if (on_node < 2)
        return;
    r->a->crowd = on_node;
    r->a->crowd_from = from;
    r->a->n_tasks = tasks;
    r->a->task_rank = rank;
    r->a->task_rank_from = rank_from;
}

/* 1: an MPI launcher started us, and says as which of how many. */
static int read_launcher(const struct reader *r, struct cc_err *err)
{
    for (size_t i = 0; i < CC_COUNT(launchers); i++) {
        const struct launcher *l = &launchers[i];
        unsigned               size = 0, rank = 0, local = 0;
        int                    has_size = reader_number(r, l->size, TASKS_MAX, &size, err);
        int                    has_rank = has_size < 0 ? 0 : reader_number(r, l->rank, TASKS_MAX, &rank, err);
        int                    has_local = has_rank < 0 ? 0 : reader_number(r, l->local_size, TASKS_MAX, &local, err);

        if (has_size < 0 || has_rank < 0 || has_local < 0)
            return -EINVAL;
        if (!has_size || !has_rank || !has_local || rank >= size)
            continue;
        r->a->role = ALLOCATION_MEMBER;
        set_crowd(r, local, l->local_size, size, (int) rank, l->rank);
        if (r->a->crowd > 0 || size > RDZV_NODES_MAX)
            return 1;
        r->a->nodes = size;
        r->a->nodes_from = l->size;
        r->a->node_rank = (int) rank;
        r->a->node_rank_from = l->rank;
        return 1;
    }
    return 0;
}

int allocation_mpi(const struct reader *r, struct cc_err *err)
{
    const char *at = reader_text(r, "AZ_BATCH_MASTER_NODE");
    int         n = read_launcher(r, err);

    if (n > 0 && at)
        n = reader_endpoint(r, "AZ_BATCH_MASTER_NODE", at, err);
    return n < 0 ? n : 0;
}

/* ---- Slurm */

static const char *first_set(const struct reader *r, const char *a, const char *b)
{
    return reader_text(r, a) ? a : b;
}

static bool is_step(const struct reader *r)
{
    return scheduler_is_slurm_step(reader_text(r, "SLURM_STEP_ID"));
}

static int read_slurm_hosts(const struct reader *r, const char *list, bool is_whole, struct cc_err *err)
{
    const char *text = reader_text(r, list);
    int         code = text ? hostlist_nodes(&r->a->hosts, list, text, err) : 0;

    if (code == 0)
        reader_listed(r, list);
    if (code == 0 && is_whole && r->a->hosts.n > 0 && r->a->hosts.n != r->a->nodes)
        return cc_fail(err, -EINVAL, "%s is for %zu nodes and %s for %u", list, r->a->hosts.n, r->a->nodes_from, r->a->nodes);
    return code;
}

/* How many tasks of the step are on our node, and on others: all tasks must come to the same conclusion, also the one that
 * is alone on its node, or it would wait for nodes that were refused. */
static int read_slurm_tasks(const struct reader *r, struct cc_err *err)
{
    const char            *name = "SLURM_STEP_TASKS_PER_NODE", *text = reader_text(r, name);
    unsigned               ours = (unsigned) r->a->node_rank, n = r->a->nodes, tasks = 0, rank = 0, most;
    CC_AUTO_FREE unsigned *per_node = NULL;
    bool                   is_longer;
    int                    code;

    if (!text || r->a->node_rank == ALLOCATION_NO_RANK || ours >= n)
        return 0;
    per_node = calloc(n, sizeof *per_node);
    if (!per_node)
        return cc_fail(err, -ENOMEM, "no memory for the tasks of %u nodes", n);
    code = taskcount_parse(name, text, per_node, n, &is_longer, err);
    if (code == 0)
        code = reader_number(r, "SLURM_STEP_NUM_TASKS", TASKS_MAX, &tasks, err);
    if (code >= 0)
        code = reader_number(r, "SLURM_PROCID", TASKS_MAX, &rank, err);
    if (code < 0)
        return code;
    most = per_node[ours];
    if (most < 2) {
        for (unsigned i = 0; i < n; i++)
            most = per_node[i] > most ? per_node[i] : most;
        r->a->is_crowd_elsewhere = most > 1;
    }
    set_crowd(r, most, name, tasks, (int) rank, "SLURM_PROCID");
    return 0;
}

/* Names of nodes may have dots: the pattern tells how many parts are those of switches. */
const char *allocation_switches(const char *address, const char *pattern, char *buf, size_t size)
{
    static const char part[] = "switch.";
    size_t            n = 0;

    *buf = '\0';
    if (!address || !pattern) {
        (void) snprintf(buf, size, "%s", address ? address : "");
        return buf;
    }
    for (; strncmp(pattern, part, strlen(part)) == 0; pattern += strlen(part)) {
        n += strcspn(address + n, ".");
        n += address[n] == '.';
    }
    if (n > 0 && address[n - 1] == '.')
        (void) snprintf(buf, size, "%.*s", (int) n - 1, address);
    return buf;
}

/* Inside srun. */
static int read_slurm_step(const struct reader *r, struct cc_err *err)
{
    size_t used = strlen(r->a->job_id);
    int    code;

    /* Two steps of a job may run at the same time. */
    (void) snprintf(r->a->job_id + used, sizeof r->a->job_id - used, ".%.16s", reader_text(r, "SLURM_STEP_ID"));
    oneline_text(r->a->job_id, sizeof r->a->job_id);
    r->a->role = ALLOCATION_MEMBER;
    code = reader_nodes(r, "SLURM_STEP_NUM_NODES", err);
    if (code == 0)
        code = reader_node_rank(r, "SLURM_NODEID", err);
    if (code == 0)
        code = read_slurm_hosts(r, "SLURM_STEP_NODELIST", true, err);
    return code < 0 ? code : read_slurm_tasks(r, err);
}

/* All parts of a heterogeneous job are ours, although the plain variables speak of the first. */
static int read_slurm_parts(const struct reader *r, unsigned n, struct cc_err *err)
{
    size_t each[HETGROUPS_MAX];
    int    code = hetgroups_hosts(r->m, n, &r->a->hosts, each, err);

    r->a->nodes = 0;
    if (code == 0)
        reader_listed(r, "SLURM_JOB_NODELIST_HET_GROUP_*");
    return code;
}

/* In the batch script, in the shell of salloc, or below an mpirun there: of the step that made our environment, if any, only
 * mpirun knows what it is. */
static int read_slurm_job(const struct reader *r, bool is_launched, struct cc_err *err)
{
    int code = 0, n_parts = is_launched ? 0 : hetgroups_count(r->m, err);

    if (!is_launched) {
        r->a->role = ALLOCATION_HEAD;
        code = reader_nodes(r, first_set(r, "SLURM_JOB_NUM_NODES", "SLURM_NNODES"), err);
    }
    if (code < 0 || n_parts < 0 || r->a->crowd > 0)
        return code < 0 ? code : n_parts < 0 ? n_parts : 0;
    if (n_parts > 1)
        return read_slurm_parts(r, (unsigned) n_parts, err);
    return read_slurm_hosts(r, first_set(r, "SLURM_JOB_NODELIST", "SLURM_NODELIST"), !is_launched, err);
}

int allocation_slurm(const struct reader *r, struct cc_err *err)
{
    int code = read_launcher(r, err);

    if (code < 0)
        return code;
    code = code == 0 && is_step(r) ? read_slurm_step(r, err) : read_slurm_job(r, code > 0, err);
    if (r->a->nodes == 0 && r->a->crowd == 0)
        r->a->role = ALLOCATION_NONE; /* little of its environment is there: a container */
    reader_port_of_job(r);
    return code;
}

/* ---- batch systems that have a file with the hosts */

enum slots { SLOTS_LINES, SLOTS_COLUMN }; /* a line for each slot, or "HOST SLOTS ..." */

static int take_line(const struct reader *r, const char *from, char *line, enum slots slots, struct cc_err *err)
{
    static const char blanks[] = " \t\r\n";
    char             *name = line + strspn(line, blanks), *count;
    size_t            n = strcspn(name, blanks);
    unsigned          v = 1;

    if (n == 0 || *name == '#')
        return 0;
    count = name + n + strspn(name + n, blanks);
    if (slots == SLOTS_COLUMN && strspn(count, "0123456789") > 0) {
        v = (unsigned) strtoul(count, NULL, 10);
        v = v < 1 || v > HOSTFILE_SLOTS_MAX ? 1 : v;
    }
    return reader_add_host(r, from, name, n, v, err);
}

/* A file that is not there is none: containers see the variable and not the file. */
static int read_hosts(const struct reader *r, const char *from, enum slots slots, struct cc_err *err)
{
    const char        *path = reader_text(r, from);
    CC_AUTO_FREE char *line = NULL;
    size_t             size = 0;
    FILE              *f = path ? machine_open(r->m, path) : NULL;
    int                code = 0;

    while (f && code == 0 && getline(&line, &size, f) > 0)
        code = take_line(r, from, line, slots, err);
    if (f)
        (void) fclose(f);
    return code < 0 ? code : hostfile_merge(&r->a->hosts, from, err);
}

/* Nobody says whether others of us are started on the other nodes, unless we are not on the first one: the script runs
 * there, so somebody has started us. */
static void finish(const struct reader *r, bool is_launched, const char *from)
{
    reader_listed(r, from);
    reader_port_of_job(r);
    if (!is_launched && r->a->hosts.n > 0)
        r->a->role = r->a->node_rank > 0 ? ALLOCATION_MEMBER : ALLOCATION_EITHER;
}

static int read_batch(const struct reader *r, const char *from, enum slots slots, struct cc_err *err)
{
    int code = read_launcher(r, err), launched = code;

    if (code >= 0 && r->a->crowd == 0)
        code = read_hosts(r, from, slots, err);
    if (code < 0)
        return code;
    finish(r, launched, from);
    return 0;
}

int allocation_pbs(const struct reader *r, struct cc_err *err)
{
    unsigned task = 0;
    int      code = read_batch(r, "PBS_NODEFILE", SLOTS_LINES, err);

    if (code == 0)
        code = reader_number(r, "PBS_TASKNUM", TASKS_MAX, &task, err);
    if (code > 0 && task > 1 && r->a->role == ALLOCATION_EITHER)
        r->a->role = ALLOCATION_MEMBER; /* task 1 is the script; pbsdsh and pbs_tmrsh start the others */
    return code < 0 ? code : 0;
}

int allocation_sge(const struct reader *r, struct cc_err *err)
{
    return read_batch(r, "PE_HOSTFILE", SLOTS_COLUMN, err);
}

int allocation_oar(const struct reader *r, struct cc_err *err)
{
    return read_batch(r, first_set(r, "OAR_NODEFILE", "OAR_FILE_NODES"), SLOTS_LINES, err);
}

int allocation_cobalt(const struct reader *r, struct cc_err *err)
{
    return read_batch(r, "COBALT_NODEFILE", SLOTS_LINES, err);
}

/* PALS starts one process or several on each node and numbers the nodes. */
int allocation_pals(const struct reader *r, struct cc_err *err)
{
    const char *from = first_set(r, "PALS_HOSTFILE", "PBS_NODEFILE");
    unsigned    local = 0, rank = 0;
    int         code = reader_node_rank(r, "PALS_NODEID", err);

    if (code == 0)
        code = read_hosts(r, from, SLOTS_LINES, err);
    if (code == 0)
        code = reader_number(r, "PALS_LOCAL_RANKID", TASKS_MAX, &local, err);
    if (code >= 0)
        code = reader_number(r, "PALS_RANKID", TASKS_MAX, &rank, err);
    if (code < 0)
        return code;
    set_crowd(r, local + 1, "PALS_LOCAL_RANKID", 0, (int) rank, "PALS_RANKID");
    if (r->a->node_rank != ALLOCATION_NO_RANK)
        r->a->role = ALLOCATION_MEMBER;
    reader_listed(r, from);
    reader_port_of_job(r);
    return 0;
}

/* ---- LSF */

/* "h1 8 h2 8", or with is_pairs false "h1 h1 h2" */
static int read_words(const struct reader *r, const char *from, bool is_pairs, struct cc_err *err)
{
    const char *p = reader_text(r, from);
    int         code = 0;

    while (p && code == 0 && *(p += strspn(p, " \t\n"))) {
        size_t        n = strcspn(p, " \t\n");
        const char   *name = p;
        unsigned long slots = 1;

        p += n;
        if (is_pairs) {
            char *end;

            slots = strtoul(p, &end, 10);
            if (end == p || slots < 1 || slots > HOSTFILE_SLOTS_MAX)
                return cc_fail(err, -EINVAL, "%s has no number of slots behind '%.*s'", from, (int) (n < 60 ? n : 60), name);
            p = end;
        }
        code = reader_add_host(r, from, name, n, (unsigned) slots, err);
    }
    return code < 0 ? code : hostfile_merge(&r->a->hosts, from, err);
}

/* On machines with CSM the script runs on a node of its own, which stands first and has one slot. */
static void drop_launch_node(const struct reader *r)
{
    struct hostlist *l = &r->a->hosts;

    if (!reader_text(r, "CSM_ALLOCATION_ID") || l->n < 2 || l->host[0].slots != 1)
        return;
    memmove(l->host, l->host + 1, --l->n * sizeof *l->host);
}

int allocation_lsf(const struct reader *r, struct cc_err *err)
{
    const char *from = reader_text(r, "LSB_MCPU_HOSTS")   ? "LSB_MCPU_HOSTS"
                       : reader_text(r, "LSB_HOSTS")      ? "LSB_HOSTS"
                                                          : "LSB_DJOB_HOSTFILE";
    int         code = read_launcher(r, err), launched = code;

    if (code >= 0 && r->a->crowd == 0)
        code = strcmp(from, "LSB_DJOB_HOSTFILE") == 0
                   ? read_hosts(r, from, SLOTS_LINES, err)
                   : read_words(r, from, strcmp(from, "LSB_MCPU_HOSTS") == 0, err);
    if (code < 0)
        return code;
    drop_launch_node(r);
    finish(r, launched, from);
    return 0;
}

/* ---- Flux */

int allocation_flux(const struct reader *r, struct cc_err *err)
{
    unsigned size = 0, rank = 0, nodes;
    int      code = reader_nodes(r, "FLUX_JOB_NNODES", err);

    if (code == 0)
        code = reader_number(r, "FLUX_JOB_SIZE", TASKS_MAX, &size, err);
    if (code >= 0)
        code = reader_number(r, "FLUX_TASK_RANK", TASKS_MAX, &rank, err);
    if (code < 0 || r->a->nodes == 0)
        return code < 0 ? code : 0;
    nodes = r->a->nodes;
    r->a->role = ALLOCATION_MEMBER;
    if (size > nodes)
        set_crowd(r, (size + nodes - 1) / nodes, "FLUX_JOB_SIZE", size, (int) rank, "FLUX_TASK_RANK");
    else
        code = reader_node_rank(r, "FLUX_TASK_RANK", err);
    reader_port_of_job(r);
    return code < 0 ? code : 0;
}
