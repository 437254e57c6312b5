/* mpi_hello.c - a program of MPI alone: ccrun starts it as it is.
 *
 *   mpicc mpi_hello.c -o mpi_hello
 *   ccrun --mpi auto --nproc-per-node 4 ./mpi_hello
 */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    int rank, size, sum;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    printf("hello from rank %d of %d: the sum is %d\n", rank, size, sum);
    return MPI_Finalize() != MPI_SUCCESS;
}
