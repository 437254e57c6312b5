#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/allocation.h"
#include "tests/unit/fake_machine.h"

static const char *no_env(const char *name)
{
    (void) name;
    return NULL;
}

/* What the environment comes down to, and what follows from it for a command line. */
struct seen {
    struct allocation a;
    struct options    o;
    struct cc_err     err;
    int               r; /* of reading, then of suggesting */
};

/* Pairs of name and value; the last name is NULL.  `line` has up to 8 words. */
static void look(struct seen *s, const char *host, const char *line, const char *const *pairs)
{
    static char         words[8][64];
    struct fake_machine f;
    char               *argv[12] = { "ccrun" };
    size_t              n = 1;

    memset(s, 0, sizeof *s);
    while (*(line += strspn(line, " "))) {
        size_t len = strcspn(line, " ");

        (void) snprintf(words[n - 1], sizeof words[0], "%.*s", (int) len, line);
        argv[n] = words[n - 1];
        n++;
        line += len;
    }
    argv[n] = "train.py";
    fake_init(&f, 1);
    fake_file(&f, "/nodes", "n3\nn17\nn3\nn17\nn5\n");
    fake_file(&f, "/pe", "n3 4 all.q UNDEFINED\nn17 5 all.q UNDEFINED\n");
    for (; *pairs; pairs += 2)
        fake_env(&f, pairs[0], pairs[1]);
    if (strcmp(host, "algo-2") == 0)
        fake_file(&f, "/opt/ml/input/config/resourceconfig.json",
                  "{\"current_host\":\"algo-2\",\"hosts\":[\"algo-1\",\"algo-10\",\"algo-2\"]}");
    cr_assert_eq(options_parse(&s->o, argv, no_env, &s->err), 0, "%s", s->err.msg);
    s->r = allocation_read(&s->a, &f.m, host, &s->err);
    if (s->r == 0)
        s->r = allocation_suggest(&s->a, &s->o, &s->err);
    s->a.system = NULL;
    fake_free(&f); /* what points into the environment is gone */
}

static void done(struct seen *s)
{
    allocation_clear(&s->a);
    options_free(&s->o);
}

/* "role nodes rank head:port job", '-' for what is not said */
static void expect(const char *host, const char *line, const char *wanted, const char *const *pairs)
{
    static const char *const roles[] = { "none", "member", "head", "either" };
    struct seen              s;
    char                     got[512], nodes[16] = "-", rank[16] = "-", port[16] = "";

    look(&s, host, line, pairs);
    if (s.a.nodes)
        (void) snprintf(nodes, sizeof nodes, "%u", s.a.nodes);
    if (s.a.node_rank != ALLOCATION_NO_RANK)
        (void) snprintf(rank, sizeof rank, "%d", s.a.node_rank);
    if (s.a.port)
        (void) snprintf(port, sizeof port, ":%u", s.a.port);
    (void) snprintf(got, sizeof got, "%s %s %s %s%s %s", roles[s.a.role], nodes, rank, s.a.head[0] ? s.a.head : "-", port,
                    s.a.job_id[0] ? s.a.job_id : "-");
    cr_expect_str_eq(s.r == 0 ? got : s.err.msg, wanted, "%s", s.r == 0 ? got : s.err.msg);
    done(&s);
}

/* "nnodes rank endpoint id", '-' for what is still the default */
static void expect_options(const char *host, const char *line, const char *wanted, const char *const *pairs)
{
    struct seen s;
    char        got[512];

    look(&s, host, line, pairs);
    (void) snprintf(got, sizeof got, "%s %s %s %s", options_is_given(&s.o, OPTION_nnodes) ? s.o.nnodes : "-",
                    options_is_given(&s.o, OPTION_node_rank) ? s.o.text[OPTION_node_rank] : "-",
                    options_is_given(&s.o, OPTION_rdzv_endpoint) ? s.o.rdzv_endpoint : "-",
                    options_is_given(&s.o, OPTION_rdzv_id) ? s.o.rdzv_id : "-");
    cr_expect_str_eq(s.r == 0 ? got : s.err.msg, wanted, "%s", s.r == 0 ? got : s.err.msg);
    done(&s);
}

#define EXPECT(host, wanted, ...) expect(host, "", wanted, (const char *const[]){ __VA_ARGS__, NULL })
#define OPTIONS(host, line, wanted, ...) expect_options(host, line, wanted, (const char *const[]){ __VA_ARGS__, NULL })

#define BATCH \
    "SLURM_JOB_ID", "14", "SLURM_JOB_NODELIST", "n[17-20]", "SLURM_JOB_NUM_NODES", "4", "SLURM_TASKS_PER_NODE", "1(x4)", \
        "SLURM_PROCID", "0", "SLURM_LOCALID", "0", "SLURM_NTASKS", "4"
#define STEP(node) \
    BATCH, "SLURM_STEP_ID", "3", "SLURM_STEP_NODELIST", "n[18-19]", "SLURM_STEP_NUM_NODES", "2", "SLURM_STEP_NUM_TASKS", "2", \
        "SLURM_STEP_TASKS_PER_NODE", "1(x2)", "SLURM_NODEID", node

Test(allocation, nothing_is_known_without_a_scheduler)
{
    EXPECT("h", "none - - - -", "HOME", "/root");
    OPTIONS("h", "", "- - - -", "HOME", "/root");
}

Test(allocation, a_slurm_step_has_its_own_nodes_and_not_the_job_s)
{
    EXPECT("n19", "member 2 1 n18:29268 14.3", STEP("1"));
    OPTIONS("n19", "", "2 1 n18:29268 14.3", STEP("1"));
    OPTIONS("n18", "", "2 0 n18:29268 14.3", STEP("0"));
}

Test(allocation, a_slurm_batch_script_is_no_step_although_it_has_a_procid)
{
    EXPECT("n17", "head 4 0 n17:21931 14", BATCH, "SLURM_NODEID", "0");
    OPTIONS("n17", "", "- - - -", BATCH, "SLURM_NODEID", "0"); /* who starts the others tells them */
    EXPECT("login", "head 4 - n17:21931 14", BATCH);           /* the shell of salloc */
    EXPECT("n17", "head 4 0 n17:21931 14", BATCH, "SLURM_STEP_ID", "4294967290"); /* an interactive step */
}

Test(allocation, slurm_variables_of_a_container_may_be_few)
{
    EXPECT("h", "none - - -:21931 14", "SLURM_JOB_ID", "14");
    EXPECT("h", "member 1 0 n18:27625 14.0", "SLURM_JOB_ID", "14", "SLURM_STEP_ID", "0", "SLURM_STEP_NODELIST", "n18",
           "SLURM_NODEID", "0");
    EXPECT("n3", "head 2 1 n2:21931 14", "SLURM_JOB_ID", "14", "SLURM_NODELIST", "n[2-3]", "SLURM_NNODES", "2");
}

Test(allocation, slurm_lists_that_cannot_be_are_refused_with_their_name)
{
    EXPECT("h", "SLURM_STEP_NODELIST 'n[1': position 2: this '[' is not closed", "SLURM_JOB_ID", "14", "SLURM_STEP_ID", "0",
           "SLURM_STEP_NODELIST", "n[1");
    EXPECT("h", "SLURM_STEP_NODELIST is for 3 nodes and SLURM_STEP_NUM_NODES for 2", "SLURM_JOB_ID", "14", "SLURM_STEP_ID",
           "0", "SLURM_STEP_NODELIST", "n[1-3]", "SLURM_STEP_NUM_NODES", "2");
    EXPECT("h", "SLURM_NODEID='x' is not a number", STEP("x"));
    EXPECT("h", "SLURM_NODEID=2: the ranks of 2 nodes (SLURM_STEP_NUM_NODES) are 0 to 1", "SLURM_JOB_ID", "14",
           "SLURM_STEP_ID", "0", "SLURM_STEP_NUM_NODES", "2", "SLURM_NODEID", "2");
}

#define CROWD(node, task) \
    "SLURM_JOB_ID", "14", "SLURM_STEP_ID", "3", "SLURM_STEP_NODELIST", "n[18-19]", "SLURM_STEP_NUM_NODES", "2", \
        "SLURM_STEP_NUM_TASKS", "4", "SLURM_STEP_TASKS_PER_NODE", "2(x2)", "SLURM_NODEID", node, "SLURM_PROCID", task

/* C19 */
Test(allocation, several_of_us_on_a_node_of_a_step_are_refused_unless_each_is_a_node)
{
    const char *sentence =
        "2 of us were started on this node (SLURM_STEP_TASKS_PER_NODE), and each starts the workers of the whole node: start "
        "one ccrun on each (srun --ntasks-per-node=1, mpirun --npernode 1), or say --nnodes 4 to make each one a node of its own";

    OPTIONS("n18", "", sentence, CROWD("0", "0"), "SLURM_LOCALID", "0");
    OPTIONS("n18", "", sentence, CROWD("0", "1"), "SLURM_LOCALID", "1");
    OPTIONS("n19", "", sentence, CROWD("1", "2"), "SLURM_LOCALID", "0");
    OPTIONS("n19", "--nnodes 4", "4 3 n18:29268 14.3", CROWD("1", "3"));
    OPTIONS("n19", "--standalone", "- - - -", CROWD("1", "3"));
    OPTIONS("n19", "--nnodes 1", "1 - - -", CROWD("1", "3"));
}

Test(allocation, uneven_tasks_of_a_step_are_refused_where_one_is_alone_too)
{
#define UNEVEN(node, task) \
    "SLURM_JOB_ID", "14", "SLURM_STEP_ID", "3", "SLURM_STEP_NODELIST", "n[18-20]", "SLURM_STEP_NUM_NODES", "3", \
        "SLURM_STEP_NUM_TASKS", "5", "SLURM_STEP_TASKS_PER_NODE", "2(x2),1", "SLURM_NODEID", node, "SLURM_PROCID", task
    OPTIONS("n20", "",
            "2 of us were started on another node (SLURM_STEP_TASKS_PER_NODE), and each starts the workers of the whole node: "
            "start one ccrun on each (srun --ntasks-per-node=1, mpirun --npernode 1), or say --nnodes 5 to make each one a node "
            "of its own",
            UNEVEN("2", "4"));
    OPTIONS("n18", "--nnodes 5", "5 1 n18:29268 14.3", UNEVEN("0", "1"));
    OPTIONS("n20", "--nnodes 5", "5 4 n18:29268 14.3", UNEVEN("2", "4"));
    EXPECT("n20", "SLURM_STEP_TASKS_PER_NODE '2(x2)' is for 2 nodes; there are 3", "SLURM_JOB_ID", "14", "SLURM_STEP_ID", "3",
           "SLURM_STEP_NUM_NODES", "3", "SLURM_STEP_TASKS_PER_NODE", "2(x2)", "SLURM_NODEID", "0");
}

#define PARTS(size, list1) \
    "SLURM_JOB_ID", "14", "SLURM_JOB_NODELIST", "n17", "SLURM_JOB_NUM_NODES", "1", "SLURM_HET_SIZE", size, \
        "SLURM_JOB_NODELIST_HET_GROUP_0", "n17", "SLURM_JOB_NODELIST_HET_GROUP_1", list1

Test(allocation, the_parts_of_a_heterogeneous_job_are_one)
{
    EXPECT("n17", "head 3 0 n17:21931 14", PARTS("2", "m[1-2]"));
    EXPECT("n17", "head 1 0 n17:21931 14", PARTS("1", "m[1-2]"));
    EXPECT("m2", "member 3 2 n17:27625 14.0", PARTS("2", "m[1-2]"), "SLURM_STEP_ID", "0", "SLURM_STEP_NODELIST", "n17,m[1-2]",
           "SLURM_STEP_NUM_NODES", "3", "SLURM_NODEID", "2"); /* of them all: Slurm merges the lists there */
    EXPECT("n17", "SLURM_HET_SIZE='two' is not a number up to 128", PARTS("two", "m1"));
    EXPECT("n17", "SLURM_HET_SIZE='129' is not a number up to 128", PARTS("129", "m1"));
    EXPECT("n17", "SLURM_HET_SIZE=2, and SLURM_JOB_NODELIST_HET_GROUP_1 is not set: which nodes are the job's?",
           PARTS("2", ""));
    EXPECT("n17", "SLURM_JOB_NODELIST_HET_GROUP_1 'm[1': position 2: this '[' is not closed", PARTS("2", "m[1"));
    EXPECT("n17",
           "node 'n17' is in two parts of this heterogeneous Slurm job (SLURM_JOB_NODELIST_HET_GROUP_*), and two agents would "
           "take the same CPUs and GPUs there: start ccrun on one part, as 'srun --het-group=0 --ntasks-per-node=1 ccrun ...', "
           "or say --standalone for this node alone",
           PARTS("2", "n[16-17]"));
}

Test(allocation, what_somebody_said_is_kept)
{
    OPTIONS("n19", "--nnodes 2 --node-rank 0", "2 0 n18:29268 14.3", STEP("1"));
    OPTIONS("n19", "--rdzv-endpoint h:1", "2 1 h:1 14.3", STEP("1"));
    OPTIONS("n19", "--rdzv-id me", "2 1 n18:29268 me", STEP("1"));
    OPTIONS("n19", "--master-addr h", "2 1 - 14.3", STEP("1"));
    OPTIONS("n19", "--master-port 7", "2 1 n18:7 14.3", STEP("1"));
    OPTIONS("n19", "--nnodes 1", "1 - - -", STEP("1"));
    OPTIONS("n19", "--nnodes 1:2", "1:2 1 n18:29268 14.3", STEP("1"));
    OPTIONS("n19", "--nnodes 3", "3 - n18:29268 14.3", STEP("1")); /* of which this step has two: ranks by arrival */
    OPTIONS("n19", "--standalone", "- - - -", STEP("1"));
}

Test(allocation, each_value_has_the_variable_that_says_so)
{
    struct seen s;

    look(&s, "n19", "", (const char *const[]){ STEP("1"), NULL });
    cr_assert_str_eq(s.a.nodes_from, "SLURM_STEP_NUM_NODES");
    cr_assert_str_eq(s.a.node_rank_from, "SLURM_NODEID");
    cr_assert_str_eq(s.a.head_from, "SLURM_STEP_NODELIST");
    cr_assert_str_eq(s.a.port_from, "SLURM_JOB_ID");
    cr_assert_str_eq(s.a.job_id_from, "SLURM_JOB_ID");
    cr_assert_str_eq(s.o.source_name[OPTION_nnodes], "SLURM_STEP_NUM_NODES");
    cr_assert_str_eq(s.o.source_name[OPTION_rdzv_endpoint], "SLURM_STEP_NODELIST");
    cr_assert_eq(s.o.source[OPTION_node_rank], OPTION_OTHER);
    done(&s);
}

Test(allocation, the_port_is_one_of_12000_and_differs_from_step_to_step)
{
    struct seen a, b;

    look(&a, "n19", "", (const char *const[]){ STEP("1"), NULL });
    look(&b, "n19", "",
         (const char *const[]){ "SLURM_JOB_ID", "14", "SLURM_STEP_ID", "4", "SLURM_STEP_NODELIST", "n[18-19]", NULL });
    cr_assert(a.a.port > 20000 && a.a.port <= 32000);
    cr_assert_neq(a.a.port, b.a.port);
    done(&a);
    done(&b);
}

Test(allocation, an_mpirun_knows_more_than_the_batch_job_around_it)
{
    /* orted is a step on all nodes but the first, where mpirun runs in the batch script. */
    EXPECT("n17", "member 4 0 n17:21931 14", BATCH, "OMPI_COMM_WORLD_SIZE", "4", "OMPI_COMM_WORLD_RANK", "0",
           "OMPI_COMM_WORLD_LOCAL_SIZE", "1");
    EXPECT("n19", "member 4 2 n17:21931 14", BATCH, "OMPI_COMM_WORLD_SIZE", "4", "OMPI_COMM_WORLD_RANK", "2",
           "OMPI_COMM_WORLD_LOCAL_SIZE", "1", "SLURM_STEP_ID", "0", "SLURM_STEP_NUM_NODES", "3", "SLURM_NODEID", "1");
    EXPECT("n17", "member 2 1 n3:23713 1.srv", "PBS_JOBID", "1.srv", "PBS_NODEFILE", "/nodes", "PMI_SIZE", "2", "PMI_RANK", "1",
           "MPI_LOCALNRANKS", "1");
    EXPECT("h", "member 2 1 - -", "OMPI_COMM_WORLD_SIZE", "2", "OMPI_COMM_WORLD_RANK", "1", "OMPI_COMM_WORLD_LOCAL_SIZE", "1");
    EXPECT("h", "member 3 2 - -", "PMI_SIZE", "3", "PMI_RANK", "2", "MPI_LOCALNRANKS", "1");
    EXPECT("h", "member 2 0 - -", "MV2_COMM_WORLD_SIZE", "2", "MV2_COMM_WORLD_RANK", "0", "MV2_COMM_WORLD_LOCAL_SIZE", "1");
    EXPECT("n17", "member 2 1 n3:20849 5", "LSB_JOBID", "5", "LSB_MCPU_HOSTS", "batch 1 n3 42 n17 42", "CSM_ALLOCATION_ID", "9",
           "JSM_NAMESPACE_SIZE", "2", "JSM_NAMESPACE_RANK", "1", "JSM_NAMESPACE_LOCAL_SIZE", "1");
    EXPECT("h", "none - - - -", "PMI_SIZE", "2", "PMI_RANK", "1"); /* it does not say how many are on a node */
    OPTIONS("h", "",
            "4 of us were started on this node (OMPI_COMM_WORLD_LOCAL_SIZE), and each starts the workers of the whole node: "
            "start one ccrun on each (srun --ntasks-per-node=1, mpirun --npernode 1), or say --nnodes 8 to make each one a "
            "node of its own",
            "OMPI_COMM_WORLD_SIZE", "8", "OMPI_COMM_WORLD_RANK", "1", "OMPI_COMM_WORLD_LOCAL_SIZE", "4");
}

Test(allocation, batch_systems_list_their_hosts)
{
    EXPECT("n17", "member 3 1 n3:23713 1.srv", "PBS_JOBID", "1.srv", "PBS_NODEFILE", "/nodes");
    EXPECT("n3", "either 3 0 n3:23713 1.srv", "PBS_JOBID", "1.srv", "PBS_NODEFILE", "/nodes");
    EXPECT("n3.cluster", "member 3 0 n3:23713 1.srv", "PBS_JOBID", "1.srv", "PBS_NODEFILE", "/nodes", "PBS_TASKNUM", "2");
    EXPECT("n3", "none - - -:23713 1.srv", "PBS_JOBID", "1.srv", "PBS_NODEFILE", "/nofile");
    EXPECT("n17", "member 2 1 n3:20849 5", "JOB_ID", "5", "PE_HOSTFILE", "/pe");
    EXPECT("n5", "member 3 2 n3:20849 5", "OAR_JOB_ID", "5", "OAR_NODEFILE", "/nodes");
    EXPECT("n5", "member 3 2 n3:20849 5", "OAR_JOB_ID", "5", "OAR_FILE_NODES", "/nodes");
    EXPECT("n5", "member 3 2 n3:20849 5", "COBALT_JOBID", "5", "COBALT_NODEFILE", "/nodes");
    EXPECT("n17", "member 2 1 n3:20849 5", "LSB_JOBID", "5", "LSB_MCPU_HOSTS", "n3 8 n17 6");
    EXPECT("n17", "member 2 1 n3:20849 5", "LSB_JOBID", "5", "LSB_HOSTS", "n3 n3 n17 n17");
    EXPECT("n17", "member 3 1 n3:20849 5", "LSB_JOBID", "5", "LSB_DJOB_HOSTFILE", "/nodes");
    EXPECT("n17", "member 3 2 batch:20849 5", "LSB_JOBID", "5", "LSB_MCPU_HOSTS", "batch 1 n3 42 n17 42");
    EXPECT("n17", "member 2 1 n3:20849 5", "LSB_JOBID", "5", "LSB_MCPU_HOSTS", "batch 1 n3 42 n17 42", "CSM_ALLOCATION_ID", "9");
    EXPECT("n17", "LSB_MCPU_HOSTS has no number of slots behind 'n17'", "LSB_JOBID", "5", "LSB_MCPU_HOSTS", "n3 8 n17");
}

Test(allocation, on_the_first_host_of_a_batch_job_the_user_has_to_say_that_there_are_others)
{
    struct seen s;

    OPTIONS("n3", "--nnodes 3", "3 0 n3:23713 1.srv", "PBS_JOBID", "1.srv", "PBS_NODEFILE", "/nodes");
    OPTIONS("n17", "", "3 1 n3:23713 1.srv", "PBS_JOBID", "1.srv", "PBS_NODEFILE", "/nodes");
    look(&s, "n3", "", (const char *const[]){ "PBS_JOBID", "1.srv", "PBS_NODEFILE", "/nodes", NULL });
    cr_assert_not(options_is_given(&s.o, OPTION_nnodes));
    cr_assert_eq(s.o.warnings.n, 1);
    cr_assert_str_eq(s.o.warnings.text[0], "PBS gave the job 3 nodes (PBS_NODEFILE), and this runs on one of them; when a "
                                           "ccrun is started on each, say --nnodes 3");
    done(&s);
}

Test(allocation, flux_and_pals_number_the_nodes_inside_a_batch_job)
{
    EXPECT("h", "member 2 1 -:21724 f2S", BATCH, "FLUX_JOB_ID", "f2S", "FLUX_JOB_NNODES", "2", "FLUX_JOB_SIZE", "2",
           "FLUX_TASK_RANK", "1");
    OPTIONS("h", "--nnodes 4", "4 3 - f2S", "FLUX_JOB_ID", "f2S", "FLUX_JOB_NNODES", "2", "FLUX_JOB_SIZE", "4",
            "FLUX_TASK_RANK", "3");
    EXPECT("n17", "member 3 1 n3:20584 ab-12", "PBS_JOBID", "1.srv", "PBS_NODEFILE", "/nodes", "PALS_APID", "ab-12",
           "PALS_NODEID", "1", "PALS_RANKID", "1", "PALS_LOCAL_RANKID", "0");
    EXPECT("n17", "member 3 2 n3:20584 ab-12", "PALS_APID", "ab-12", "PALS_NODEID", "2", "PALS_RANKID", "2", "PALS_LOCAL_RANKID",
           "0", "PALS_HOSTFILE", "/nodes");
    OPTIONS("n17", "",
            "3 of us were started on this node (PALS_LOCAL_RANKID), and each starts the workers of the whole node: start one "
            "ccrun on each (srun --ntasks-per-node=1, mpirun --npernode 1)",
            "PALS_APID", "ab-12", "PALS_NODEID", "1", "PALS_RANKID", "5", "PALS_LOCAL_RANKID", "2");
}

Test(allocation, rank_and_world_size_of_a_pod_mean_pods)
{
#define PODS(rank, master) \
    "RANK", rank, "WORLD_SIZE", "3", "MASTER_ADDR", master, "MASTER_PORT", "23456", "KUBERNETES_SERVICE_HOST", "10.0.0.1"
    EXPECT("job-worker-0", "member 3 1 job-master-0:23456 -", PODS("1", "job-master-0"));
    EXPECT("job-master-0", "member 3 0 job-master-0:23456 -", PODS("0", "localhost"));
    OPTIONS("job-worker-1", "", "3 2 job-master-0:23456 -", PODS("2", "job-master-0"));
    EXPECT("h", "member 2 1 m:29500 -", "RANK", "1", "WORLD_SIZE", "2", "MASTER_ADDR", "m");
    EXPECT("h", "RANK=2: the ranks of 2 nodes (WORLD_SIZE) are 0 to 1", "RANK", "2", "WORLD_SIZE", "2", "MASTER_ADDR", "m");
}

Test(allocation, rank_and_world_size_of_a_worker_or_of_a_laptop_do_not)
{
    OPTIONS("h", "", "- - - -", "RANK", "1", "WORLD_SIZE", "2", "MASTER_ADDR", "m", "LOCAL_RANK", "1");
    OPTIONS("h", "", "- - - -", "RANK", "0", "WORLD_SIZE", "4", "MASTER_ADDR", "localhost", "MASTER_PORT", "29500");
    OPTIONS("h", "", "- - - -", "RANK", "x", "WORLD_SIZE", "4", "MASTER_ADDR", "127.0.0.1", "MASTER_PORT", "y");
}

Test(allocation, an_indexed_job_has_a_node_rank_and_the_user_the_number)
{
    EXPECT("job-3", "either - 3 - -", "JOB_COMPLETION_INDEX", "3");
    OPTIONS("job-3", "", "- - - -", "JOB_COMPLETION_INDEX", "3");
    OPTIONS("job-3", "--nnodes 4", "4 3 - -", "JOB_COMPLETION_INDEX", "3");
    OPTIONS("job-3", "--nnodes 4", "4 3 - -", "JOB_COMPLETION_INDEX", "3", "PET_NNODES", "4");
    OPTIONS("job-3.svc.ns", "--nnodes 4", "4 3 job-0.svc.ns -", "JOB_COMPLETION_INDEX", "3");
    OPTIONS("set-w-0-1", "--nnodes 2", "2 1 set-w-0-0.set -", "JOB_COMPLETION_INDEX", "1", "JOBSET_NAME", "set",
            "REPLICATED_JOB_NAME", "w");
    OPTIONS("set-w-1-1", "--nnodes 2", "2 - set-w-0-0.set -", "JOB_COMPLETION_INDEX", "1", "JOBSET_NAME", "set",
            "REPLICATED_JOB_NAME", "w", "JOB_GLOBAL_INDEX", "1");
}

Test(allocation, sagemaker_counts_in_the_order_of_its_list)
{
    const char *hosts = "[\"algo-1\", \"algo-10\", \"algo-2\"]";
    struct seen s;

    EXPECT("x", "member 3 2 algo-1:24310 job", "SM_CURRENT_HOST", "algo-2", "SM_HOSTS", hosts, "TRAINING_JOB_NAME", "job");
    EXPECT("algo-2", "member 3 2 algo-1 -", "SM_CURRENT_HOST", "algo-2"); /* from the file */
    EXPECT("x", "SM_HOSTS is not a list of host names", "SM_CURRENT_HOST", "algo-2", "SM_HOSTS", "algo-1,algo-2");
    EXPECT("x", "SM_HOSTS is not a list of host names", "SM_CURRENT_HOST", "algo-2", "SM_HOSTS", "[1]");
    EXPECT("x", "none - - - -", "SM_CURRENT_HOST", "algo-2");
    look(&s, "x", "",
         (const char *const[]){ "SM_CURRENT_HOST", "algo-2", "SM_HOSTS", hosts, "SM_NETWORK_INTERFACE_NAME", "eth1", NULL });
    cr_assert_str_eq(s.o.iface, "eth1");
    cr_assert_str_eq(s.o.source_name[OPTION_iface], "SM_NETWORK_INTERFACE_NAME");
    done(&s);
}

Test(allocation, azure_names_its_master_node)
{
    EXPECT("h", "member 2 1 10.0.0.4:6000 -", "AZ_BATCH_MASTER_NODE", "10.0.0.4:6000", "AZUREML_NODE_COUNT", "2", "NODE_RANK",
           "1");
    EXPECT("h", "member 2 1 10.0.0.4:22609 run", "AZ_BATCHAI_MPI_MASTER_NODE", "10.0.0.4", "AZUREML_NODE_COUNT", "2",
           "NODE_RANK", "1", "AZUREML_RUN_ID", "run");
    EXPECT("h", "member 2 1 m:6105 -", "MASTER_ADDR", "m", "MASTER_PORT", "6105", "AZUREML_NODE_COUNT", "2", "NODE_RANK", "1");
    EXPECT("h", "member 2 1 10.0.0.4:6000 -", "AZ_BATCH_MASTER_NODE", "10.0.0.4:6000", "OMPI_COMM_WORLD_SIZE", "2",
           "OMPI_COMM_WORLD_RANK", "1", "OMPI_COMM_WORLD_LOCAL_SIZE", "1");
}

Test(allocation, aws_batch_does_not_tell_the_main_node_its_address)
{
#define AWS(index) "AWS_BATCH_JOB_NUM_NODES", "3", "AWS_BATCH_JOB_NODE_INDEX", index, "AWS_BATCH_JOB_MAIN_NODE_INDEX", "0"
    EXPECT("h", "member 3 1 10.0.0.4:31046 ab", AWS("1"), "AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS", "10.0.0.4",
           "AWS_BATCH_JOB_ID", "ab#1");
    EXPECT("h", "member 3 0 h:31046 ab", AWS("0"), "AWS_BATCH_JOB_ID", "ab#0");
}

Test(allocation, vertex_counts_through_its_pools)
{
#define VERTEX(type, index) \
    "CLUSTER_SPEC", \
        "{\"cluster\":{\"workerpool0\":[\"a-0:2222\"],\"workerpool1\":[\"b-0:2222\",\"b-1:2222\"]},\"task\":{\"type\":\"" type \
        "\",\"index\":" index "}}"
    EXPECT("h", "member 3 0 a-0:2222 -", VERTEX("workerpool0", "0"));
    EXPECT("h", "member 3 2 a-0:2222 7", VERTEX("workerpool1", "1"), "CLOUD_ML_JOB_ID", "7");
    EXPECT("h", "none 3 - a-0:2222 -", VERTEX("workerpool1", "2"));
    EXPECT("h", "CLUSTER_SPEC is not a JSON object", "CLUSTER_SPEC", "{");
}

Test(allocation, skypilot_and_dlrover_number_their_nodes)
{
    EXPECT("h", "member 2 1 10.0.0.4:24974 sky-1", "SKYPILOT_NODE_RANK", "1", "SKYPILOT_NUM_NODES", "2", "SKYPILOT_NODE_IPS",
           "10.0.0.4\n10.0.0.5\n", "SKYPILOT_TASK_ID", "sky-1");
    EXPECT("h", "member 4 3 - -", "DLROVER_MASTER_ADDR", "10.0.0.1:50001", "NODE_NUM", "4", "NODE_RANK", "3");
}

Test(allocation, what_scripts_export_helps_whoever_says_how_many_nodes_there_are)
{
    OPTIONS("h", "", "- - - -", "NODE_RANK", "1", "MASTER_ADDR", "m", "MASTER_PORT", "1234");
    OPTIONS("h", "--nnodes 2", "2 1 m:1234 -", "NODE_RANK", "1", "MASTER_ADDR", "m", "MASTER_PORT", "1234");
    OPTIONS("h", "--nnodes 2", "2 1 m -", "RANK", "1", "MASTER_ADDR", "m");
    OPTIONS("h", "--nnodes 2", "2 - m -", "RANK", "1", "MASTER_ADDR", "m", "LOCAL_RANK", "0");
    OPTIONS("h", "--nnodes 2", "2 - m -", "NODE_RANK", "x", "MASTER_ADDR", "m", "MASTER_PORT", "y");
    OPTIONS("h", "--nnodes 2", "2 1 [fe80::1]:1234 -", "NODE_RANK", "1", "MASTER_ADDR", "fe80::1", "MASTER_PORT", "1234");
}

Test(allocation, is_told_in_one_line)
{
    struct allocation a = { .system = "Slurm", .nodes = 4, .node_rank = 2, .head = "n17", .port = 29541, .job_id = "14.0" };
    char              text[ALLOCATION_TEXT_MAX];

    cr_assert_str_eq(allocation_text(&a, text, sizeof text), "Slurm 14.0: 4 nodes, this is node 2, they meet at n17:29541");
    a = (struct allocation){ .system = "Kubernetes indexed job", .node_rank = 3 };
    cr_assert_str_eq(allocation_text(&a, text, sizeof text),
                     "Kubernetes indexed job: it does not say how many nodes, this is node 3");
    a = (struct allocation){ .system = "Slurm", .nodes = 1, .node_rank = ALLOCATION_NO_RANK, .head = "n1" };
    cr_assert_str_eq(allocation_text(&a, text, sizeof text), "Slurm: 1 node");
    cr_assert_str_eq(allocation_text(&a, text, 9), "Slurm: 1");
}

Test(allocation, the_switches_of_a_node_are_known_from_the_pattern)
{
    static const struct { const char *address, *pattern, *want; } cases[] = {
        { "s0.leaf2.n17", "switch.switch.node", "s0.leaf2" },
        { "s0.leaf2.n17.cluster.example", "switch.switch.node", "s0.leaf2" },
        { "leaf2.n17", "switch.node", "leaf2" },
        { "n17", "node", "" },
        { "n17.cluster.example", "node", "" },
        { "s0.leaf2", NULL, "s0.leaf2" },
        { NULL, "switch.node", "" },
        { "", "switch.switch.node", "" },
        { "s0", "switch.switch.node", "" },
        { "s0.", "switch.switch.node", "s0" },
    };
    char buf[32];

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        cr_expect_str_eq(allocation_switches(cases[i].address, cases[i].pattern, buf, sizeof buf), cases[i].want, "%zu: '%s'", i,
                         buf);
}

Test(allocation, nodes_of_a_switch_are_a_group_unless_ranks_are_given)
{
    const char *const topology[] = {
        "SLURM_TOPOLOGY_ADDR", "s0.leaf2.n17", "SLURM_TOPOLOGY_ADDR_PATTERN", "switch.switch.node", NULL,
    };
    struct seen       s;

    look(&s, "n17", "--nnodes 2", topology);
    cr_expect_str_eq(s.o.node_group, "s0.leaf2");
    done(&s);
    look(&s, "n17", "--nnodes 2 --node-rank 1", topology);
    cr_expect_null(s.o.node_group);
    done(&s);
    look(&s, "n17", "--nnodes 2 --node-group mine", topology);
    cr_expect_str_eq(s.o.node_group, "mine");
    done(&s);
}
