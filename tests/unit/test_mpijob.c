#include <criterion/criterion.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/mpijob.h"
#include "store/server.h"

enum { LOCALS = 2, NODES = 2 };

/* Nodes of two workers each on one loop; the tests speak as the MPI library of a worker does, in PMI-1. */
static uv_loop_t            loop;
static struct store_server *server;

static struct node {
    struct mpijob *m;
    char           said[512];
    char           why[256];
    unsigned       n_ready, n_killed[LOCALS];
    int            fd[LOCALS]; /* of the workers */
} nodes[NODES];

static void on_ready(void *ctx, const char *why)
{
    struct node *n = ctx;

    n->n_ready++;
    (void) snprintf(n->why, sizeof n->why, "%s", why ? why : "");
}

static void on_say(void *ctx, int verbosity, const char *sentence)
{
    struct node *n = ctx;
    size_t       at = strlen(n->said);

    (void) verbosity;
    (void) snprintf(n->said + at, sizeof n->said - at, "%s\n", sentence);
}

static void on_kill(void *ctx, unsigned local_rank)
{
    struct node *n = ctx;

    n->n_killed[local_rank]++;
}

static const struct mpijob_cbs cbs = { on_ready, on_say, on_kill };

static void setup(void)
{
    struct store_server_cfg how = { 0 };
    struct mpijob_cfg       cfg = { .kind = MPI_PMI1, .nproc = LOCALS, .run_id = "a job/1", .host = "here", .keeper_fd = -1 };
    struct cc_err           err = { 0 };

    cr_assert_eq(uv_loop_init(&loop), 0);
    cr_assert_eq(store_server_start(&server, &loop, &how, &err), 0, "%s", err.msg);
    for (int i = 0; i < NODES; i++) {
        nodes[i].m = mpijob_new(&loop, &cfg, &cbs, &nodes[i], &err);
        cr_assert_not_null(nodes[i].m, "%s", err.msg);
        for (int k = 0; k < LOCALS; k++)
            nodes[i].fd[k] = -1;
    }
}

static void finish(void)
{
    for (int i = 0; i < NODES; i++) {
        nodes[i].m = mpijob_free(nodes[i].m);
        for (int k = 0; k < LOCALS; k++)
            if (nodes[i].fd[k] >= 0)
                (void) close(nodes[i].fd[k]);
    }
    if (server)
        store_server_close(server, NULL, NULL);
    (void) uv_run(&loop, UV_RUN_DEFAULT);
    cr_assert_eq(uv_loop_close(&loop), 0);
}

TestSuite(mpijob, .init = setup, .fini = finish, .timeout = 30);

static const char *master = "127.0.0.1";

static int begin(int i, int n, uint32_t round)
{
    struct rdzv_view v = { .round = round,
                           .group_rank = (uint32_t) i,
                           .group_world = (uint32_t) n,
                           .base_rank = (uint32_t) (i * LOCALS),
                           .world = (uint32_t) (n * LOCALS),
                           .port = store_server_port(server) };
    struct cc_err    err = { 0 };
    int              r;

    (void) snprintf(v.master, sizeof v.master, "%s", master);
    r = mpijob_begin(nodes[i].m, &v, &err);
    cr_assert_geq(r, 0, "%s", err.msg);
    return r;
}

/* Starts a worker: takes its descriptor and lists its environment. */
static void start(int i, unsigned local_rank, char env[512])
{
    struct mpijob_worker w;
    struct cc_err        err = { 0 };
    size_t               n = 0;

    cr_assert_eq(mpijob_worker(nodes[i].m, local_rank, &w, &err), 0, "%s", err.msg);
    env[0] = '\0';
    for (char *const *e = w.env; *e; e++)
        n += (size_t) snprintf(env + n, 512 - n, "%s ", *e);
    if (nodes[i].fd[local_rank] >= 0)
        (void) close(nodes[i].fd[local_rank]);
    nodes[i].fd[local_rank] = fcntl(w.fd, F_DUPFD_CLOEXEC, 0);
    mpijob_started(nodes[i].m, local_rank);
}

static void say(int i, unsigned local_rank, const char *line)
{
    cr_assert_eq(write(nodes[i].fd[local_rank], line, strlen(line)), (ssize_t) strlen(line));
}

static void hears(int i, unsigned local_rank, const char *text)
{
    struct pollfd p = { .fd = nodes[i].fd[local_rank], .events = POLLIN };
    char          line[2048];
    ssize_t       n;

    while (poll(&p, 1, 1) == 0)
        (void) uv_run(&loop, UV_RUN_NOWAIT);
    n = read(p.fd, line, sizeof line - 1);
    line[n > 0 ? n : 0] = '\0';
    cr_assert(strstr(line, text), "'%s' is not in: %s", text, line);
}

/* Something of the first round's keys. */
static void ask(int i, unsigned local_rank, const char *cmd, const char *rest)
{
    char line[256];

    (void) snprintf(line, sizeof line, "cmd=%s kvsname=ccrun-a_job_1-%u-a0 %s\n", cmd, store_server_port(server), rest);
    say(i, local_rank, line);
}

static void enter(int i, unsigned local_rank)
{
    say(i, local_rank, "cmd=init pmi_version=1 pmi_subversion=1\n");
    hears(i, local_rank, "cmd=response_to_init");
}

static void start_all(int i)
{
    char env[512];

    for (unsigned k = 0; k < LOCALS; k++) {
        start(i, k, env);
        enter(i, k);
    }
}

Test(mpijob, of_one_node_is_ready_at_once_and_workers_learn_who_they_are)
{
    char env[512];

    cr_assert_eq(begin(0, 1, 0), 0);
    start(0, 1, env);
    cr_assert_str_eq(env, "PMI_FD=3 PMI_RANK=1 PMI_SIZE=2 MPI_LOCALRANKID=1 MPI_LOCALNRANKS=2 ");
    enter(0, 1);
    say(0, 1, "cmd=get_my_kvsname\n");
    hears(0, 1, "kvsname=ccrun-a_job_1-"); /* a name for files, too */
    cr_assert_eq(nodes[0].n_ready, 0);
}

Test(mpijob, each_round_has_another_name)
{
    char env[512];

    for (uint32_t round = 0; round < 2; round++) {
        char name[16];

        (void) snprintf(name, sizeof name, "-a%u", round);
        cr_assert_eq(begin(0, 1, round), 0);
        start(0, 0, env);
        enter(0, 0);
        say(0, 0, "cmd=get_my_kvsname\n");
        hears(0, 0, name);
        mpijob_end(nodes[0].m);
        mpijob_end(nodes[0].m); /* harmless */
    }
}

Test(mpijob, a_barrier_is_left_when_all_of_all_nodes_are_in_and_what_was_put_is_there)
{
    for (int i = 0; i < NODES; i++)
        cr_assert_eq(begin(i, NODES, 0), 1);
    while (nodes[0].n_ready == 0 || nodes[1].n_ready == 0)
        (void) uv_run(&loop, UV_RUN_ONCE);
    cr_assert_str_eq(nodes[0].why, "");
    for (int i = 0; i < NODES; i++)
        start_all(i);
    ask(1, 0, "get", "key=PMI_process_mapping");
    hears(1, 0, "(vector,(0,2,2))");
    ask(1, 1, "put", "key=where value=node one");
    hears(1, 1, "rc=0");
    for (int i = 0; i < NODES; i++)
        for (unsigned k = 0; k < LOCALS; k++)
            say(i, k, "cmd=barrier_in\n");
    for (int i = 0; i < NODES; i++)
        for (unsigned k = 0; k < LOCALS; k++)
            hears(i, k, "cmd=barrier_out");
    ask(0, 0, "get", "key=where");
    hears(0, 0, "value=node one");
}

Test(mpijob, who_ends_well_inside_has_failed_unless_it_was_told_to)
{
    cr_assert_eq(begin(0, 1, 0), 0);
    start_all(0);
    cr_assert_eq(mpijob_exited(nodes[0].m, 0, 0, true), 0);
    cr_assert_eq(mpijob_exited(nodes[0].m, 1, 0, false), 1 << 8);
    cr_assert_str_eq(nodes[0].said, "rank 1 exited without MPI_Finalize; the others would wait for it\n");
}

Test(mpijob, who_has_finalized_ends_as_it_ends)
{
    cr_assert_eq(begin(0, 1, 0), 0);
    start_all(0);
    say(0, 0, "cmd=finalize\n");
    hears(0, 0, "cmd=finalize_ack");
    cr_assert_eq(mpijob_exited(nodes[0].m, 0, 0, false), 0);
    cr_assert_eq(mpijob_exited(nodes[0].m, 1, 7 << 8, false), 7 << 8);
    cr_assert_str_eq(nodes[0].said, "");
}

Test(mpijob, an_abort_has_its_code_and_is_ended_when_it_does_not_go)
{
    cr_assert_eq(begin(0, 1, 0), 0);
    start_all(0);
    say(0, 1, "cmd=abort exitcode=42\n");
    while (nodes[0].n_killed[1] == 0)
        (void) uv_run(&loop, UV_RUN_ONCE);
    cr_assert_str_eq(nodes[0].said, "rank 1 called MPI_Abort with code 42\n");
    cr_assert_eq(nodes[0].n_killed[0], 0);
    cr_assert_eq(mpijob_exited(nodes[0].m, 1, SIGKILL, false), 42 << 8);
}

Test(mpijob, an_abort_with_a_code_that_no_exit_has_is_a_failure)
{
    cr_assert_eq(begin(0, 1, 0), 0);
    start_all(0);
    say(0, 0, "cmd=abort exitcode=256\n"); /* and it exits at once: its last word counts */
    cr_assert_eq(mpijob_exited(nodes[0].m, 0, 0, false), 1 << 8);
    cr_assert_eq(nodes[0].n_killed[0], 0);
}

Test(mpijob, workers_are_not_started_where_the_nodes_cannot_meet)
{
    master = "no-such-host.invalid";
    cr_assert_eq(begin(0, NODES, 0), 1);
    while (nodes[0].n_ready == 0)
        (void) uv_run(&loop, UV_RUN_ONCE);
    cr_assert(strstr(nodes[0].why, "no-such-host.invalid"), "%s", nodes[0].why);
    cr_assert_eq(nodes[0].n_ready, 1);
}

Test(mpijob, workers_that_cannot_go_on_are_ended)
{
    for (int i = 0; i < NODES; i++)
        cr_assert_eq(begin(i, NODES, 0), 1);
    while (nodes[0].n_ready == 0 || nodes[1].n_ready == 0)
        (void) uv_run(&loop, UV_RUN_ONCE);
    start_all(0);
    store_server_close(server, NULL, NULL);
    server = NULL;
    while (nodes[0].n_killed[0] == 0 || nodes[0].n_killed[1] == 0)
        (void) uv_run(&loop, UV_RUN_ONCE);
    cr_assert(strstr(nodes[0].said, "ending the workers"), "%s", nodes[0].said);
}
