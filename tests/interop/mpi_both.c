/* mpi_both.c HOW - an MPI program that initialises MPI itself and uses libccrun's mpi backend beside it.
 *
 *   sum      a group has MPI's ranks and sums; another thread is refused, as MPI was initialised for one
 *   length   a message of another length than was asked for is an error
 *   late     nobody sends what is received: the deadline takes the receive back, and MPI can be used further
 * on absent   the last rank does not come to a new group of all: it is named abort    another thread of rank
 * 0 aborts the group while all wait for messages that nobody sends: the others are told
 *
 * Prints "rank R: right" and ends MPI, or says what was wrong.
 */
#include <ccrun.h>
#include <errno.h>
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LATE_MS = 200, MEET_MS = 4000 };

static struct ccrun_pg *pg;
static int              rank, size;

static void die(const char *what)
{
    (void) fprintf(stderr, "mpi_both: rank %d: %s: %s\n", rank, what, ccrun_error());
    exit(1);
}

static void must(int ok, const char *what)
{
    if (!ok)
        die(what);
}

static void *from_a_thread(void *arg)
{
    int *r = arg;

    *r = ccrun_barrier(pg);
    if (*r != -EINVAL || !strstr(ccrun_error(), "for its main thread only"))
        die("another thread");
    return NULL;
}

static void sum(void)
{
    double    one = rank + 1, all = 0, theirs = 0;
    int       level = MPI_THREAD_SINGLE, r = 0;
    pthread_t thread;

    must(ccrun_all_reduce(pg, &one, &all, 1, CCRUN_F64, CCRUN_SUM) == 0, "all-reduce");
    MPI_Allreduce(&one, &theirs, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    must(all == theirs && all == size * (size + 1) / 2.0, "the sum");
    MPI_Query_thread(&level);
    if (level < MPI_THREAD_SERIALIZED) {
        must(pthread_create(&thread, NULL, from_a_thread, &r) == 0, "a thread");
        (void) pthread_join(thread, NULL);
    }
    must(ccrun_barrier(pg) == 0, "barrier");
}

static void length(void)
{
    int v[3] = { 1, 2, 3 };

    if (rank == 0) {
        must(ccrun_send(pg, v, 2, CCRUN_I32, 1, 5) == 0, "send");
    } else if (rank == 1) {
        must(ccrun_recv(pg, v, 3, CCRUN_I32, 0, 5) == -EPROTO &&
                 strstr(ccrun_error(), "rank 0 has sent 2 elements only"),
             "recv");
    }
}

static void late(void)
{
    int               v = 0;
    struct ccrun_call recv = {
        .what = CCRUN_RECV, .recv = &v, .count = 1, .type = CCRUN_I32, .peer = 1, .timeout_ms = LATE_MS
    };

    if (rank == 0) {
        must(ccrun_run(pg, &recv) == -ETIMEDOUT &&
                 strstr(ccrun_error(), "recv of 1 i32 from rank 1, tag 0: not done within 0.2 s"),
             "recv");
        must(ccrun_barrier(pg) == -ESHUTDOWN && strstr(ccrun_error(), "failed earlier"), "the group went on");
    }
}

static void absent(void)
{
    struct ccrun_pg *sub;
    int              list[64];
    char             name[16];

    for (int i = 0; i < size; i++)
        list[i] = i;
    (void) snprintf(name, sizeof name, "%d did not come", size - 1);
    if (rank != size - 1)
        must(ccrun_new_group(&sub, pg, list, size) == -ETIMEDOUT && (rank > 0 || strstr(ccrun_error(), name)),
             "a new group");
}

static void *abort_it(void *arg)
{
    struct timespec t = { .tv_nsec =
                              50000000 }; /* the other thread may be before or in its call: both have to do */

    (void) nanosleep(&t, NULL);
    (void) ccrun_abort(pg);
    return arg;
}

static void abort_one(void)
{
    pthread_t thread;
    int       v;

    if (rank == 0) {
        must(pthread_create(&thread, NULL, abort_it, NULL) == 0, "a thread");
        must(ccrun_recv(pg, &v, 1, CCRUN_I32, 1, 0) == -ECANCELED && strstr(ccrun_error(), "aborted"),
             "recv");
        (void) pthread_join(thread, NULL);
    } else {
        must(ccrun_recv(pg, &v, 1, CCRUN_I32, 0, 0) == -ECONNRESET &&
                 strstr(ccrun_error(), "rank 0 has given up the group"),
             "recv");
    }
}

int main(int argc, char **argv)
{
    struct ccrun_init init = { .backend = "mpi", .timeout_ms = MEET_MS };
    int               theirs, is_over = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &theirs);
    must(argc == 2 && ccrun_init_process_group(&pg, &init) == 0, "init");
    rank = ccrun_rank(pg);
    size = ccrun_size(pg);
    must(rank == theirs, "the rank");
    if (strcmp(argv[1], "length") == 0)
        length();
    else if (strcmp(argv[1], "late") == 0)
        late();
    else if (strcmp(argv[1], "absent") == 0)
        absent();
    else if (strcmp(argv[1], "abort") == 0)
        abort_one();
    else
        sum();
    MPI_Barrier(MPI_COMM_WORLD);
    must(ccrun_destroy_process_group(pg) == 0, "destroy");
    must(MPI_Finalized(&is_over) == MPI_SUCCESS && !is_over, "it has finalized what is not its own");
    MPI_Finalize();
    printf("rank %d: right\n", rank);
    return 0;
}
