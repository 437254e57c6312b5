/* mpi_world.c - an MPI program as people write them; mpi.sh builds it with each MPI that is there.
 *
 *     mpi_world                      sums over all ranks, checked; then a ring, within nodes and over all
 *     mpi_world abort RANK CODE      that rank calls MPI_Abort
 *     mpi_world die RANK TIMES       that rank is killed in the middle, in the first so many attempts
 *     mpi_world leave RANK           that rank exits with 0 and no MPI_Finalize
 *     mpi_world skip RANK MS         that rank exits with 0 after so long, and no MPI_Init
 *     mpi_world exit RANK CODE       every rank finalizes; that one exits with CODE
 *     mpi_world hello                says who it is
 *     mpi_world speed BYTES TIMES    how many microseconds the fastest of so many all-reduces takes
 *     mpi_world stdin                rank 0 reads a line and tells it to all
 */
#include <mpi.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COUNT = 1 << 17 };

static int rank, size;

static void check(int is_right, const char *what)
{
    if (is_right)
        return;
    (void) fprintf(stderr, "rank %d: %s is wrong\n", rank, what);
    exit(3);
}

static void sum(MPI_Comm comm, const char *what)
{
    int     me, n, i;
    double *in = malloc(COUNT * sizeof *in), *out = malloc(COUNT * sizeof *out);

    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &n);
    for (i = 0; i < COUNT; i++)
        in[i] = me + i;
    MPI_Allreduce(in, out, COUNT, MPI_DOUBLE, MPI_SUM, comm);
    for (i = 0; i < COUNT; i += 1023)
        check(out[i] == n * (n - 1) / 2.0 + (double) n * i, what);
    free(in);
    free(out);
}

static void ring(void)
{
    int to = (rank + 1) % size, from = (rank + size - 1) % size, got = -1;

    MPI_Sendrecv(&rank, 1, MPI_INT, to, 7, &got, 1, MPI_INT, from, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    check(got == from, "the ring");
}

static void work(void)
{
    MPI_Comm node;
    int      n_local;

    sum(MPI_COMM_WORLD, "the sum");
    ring();
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_size(node, &n_local);
    sum(node, "the sum of the node");
    MPI_Comm_free(&node);
    printf("rank %d of %d, %d on its node: right\n", rank, size, n_local);
}

static void read_line(void)
{
    char line[100] = "";

    if (rank == 0 && !fgets(line, sizeof line, stdin))
        (void) snprintf(line, sizeof line, "nothing\n");
    MPI_Bcast(line, sizeof line, MPI_CHAR, 0, MPI_COMM_WORLD);
    printf("rank %d heard %s", rank, line);
}

static void speed(int bytes, int times)
{
    int    n = bytes / (int) sizeof(float), i;
    float *in = calloc((size_t) n, sizeof *in), *out = malloc((size_t) n * sizeof *out);
    double best = 0, took;

    for (i = -3; i < times; i++) { /* the first few are not counted */
        MPI_Barrier(MPI_COMM_WORLD);
        took = MPI_Wtime();
        MPI_Allreduce(in, out, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        took = MPI_Wtime() - took;
        if (i == 0 || (i > 0 && took < best))
            best = took;
    }
    MPI_Allreduce(&best, &took, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%.3f\n", took * 1e6);
    free(in);
    free(out);
}

static int number_of(const char *text)
{
    return (int) strtol(text, NULL, 10);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "work", *attempt = getenv("TORCHELASTIC_RESTART_COUNT");
    int         who = argc > 2 ? number_of(argv[2]) : -1, number = argc > 3 ? number_of(argv[3]) : 0;

    if (strcmp(what, "skip") == 0 && getenv("RANK") && number_of(getenv("RANK")) == who)
        return poll(NULL, 0, number);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (strcmp(what, "hello") == 0)
        printf("rank %d of %d\n", rank, size);
    else if (strcmp(what, "stdin") == 0)
        read_line();
    else if (strcmp(what, "speed") == 0)
        speed(who, number);
    else
        work();
    (void) fflush(stdout);
    if (rank == who && strcmp(what, "abort") == 0)
        MPI_Abort(MPI_COMM_WORLD, number);
    if (rank == who && strcmp(what, "leave") == 0)
        _exit(0);
    if (rank == who && strcmp(what, "die") == 0 && attempt && number_of(attempt) < number)
        (void) kill(getpid(), SIGKILL);
    if (who >= 0 && strcmp(what, "exit") != 0 && strcmp(what, "speed") != 0)
        work(); /* the others cannot without that one */
    MPI_Finalize();
    return rank == who && strcmp(what, "exit") == 0 ? number : 0;
}
