/* mpi_shm.c - a rank that says which shared memory it has, and dies: rank 1 by itself, the others with the
 * job.
 *
 * Loaded in front of Debian's MPICH (-DPRELOAD, a library) it kills whoever is about to remove its shared
 * memory, in MPI_Init().
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#ifdef PRELOAD

int unlink(const char *path)
{
    FILE *f = strstr(path, "mpich_shar_tmp") ? fopen("left", "w") : NULL;

    if (!f)
        return unlinkat(AT_FDCWD, path, 0);
    (void) fprintf(f, "%s\n", path);
    (void) fclose(f);
    (void) kill(getpid(), SIGKILL);
    return -1;
}

#else
#include <mpi.h>

int main(int argc, char **argv)
{
    char  line[512], name[32];
    FILE *maps, *to;
    int   rank;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Barrier(MPI_COMM_WORLD);
    (void) snprintf(name, sizeof name, "maps.%d", rank);
    maps = fopen("/proc/self/maps", "r");
    to = fopen(name, "w");
    while (maps && to && fgets(line, sizeof line, maps))
        if (strstr(line, "/dev/shm/") && !strstr(line, "(deleted)"))
            (void) fputs(strchr(line, '/'), to);
    (void) fclose(to);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1)
        (void) raise(SIGKILL);
    for (;;)
        (void) pause();
}
#endif
