#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "backends/mpi_which.h"

static const char *look_up(void *ctx, const char *name)
{
    size_t n = strlen(name);

    for (char **line = ctx; *line; line++)
        if (strncmp(*line, name, n) == 0 && (*line)[n] == '=')
            return *line + n + 1;
    return NULL;
}

static struct mpi_wish read_all(char **env)
{
    struct mpi_wish wish;
    struct cc_err   err = { 0 };

    cr_assert_eq(mpi_which_read(&wish, look_up, env, &err), 0, "%s", err.msg);
    return wish;
}

Test(mpi_which, is_what_started_the_process)
{
    cr_assert_eq(read_all((char *[]){ "PMIX_RANK=0", NULL }).which, MPI_WHICH_OPENMPI);
    cr_assert_eq(read_all((char *[]){ "OMPI_COMM_WORLD_RANK=0", NULL }).which, MPI_WHICH_OPENMPI);
    cr_assert_eq(read_all((char *[]){ "PMI_FD=3", "PMI_RANK=0", NULL }).which, MPI_WHICH_MPICH);
    cr_assert_eq(read_all((char *[]){ "PMI_PORT=host:1", NULL }).which, MPI_WHICH_MPICH);
    cr_assert_str_eq(read_all((char *[]){ "PMI_RANK=1", NULL }).from, "PMI_RANK");
}

Test(mpi_which, is_unknown_where_nothing_is_said)
{
    struct mpi_wish wish = read_all((char *[]){ "RANK=0", "CCRUN_MPI=", NULL });

    cr_assert_eq(wish.which, MPI_WHICH_UNKNOWN);
    cr_assert_null(wish.from);
    cr_assert_null(wish.path);
}

Test(mpi_which, is_pmix_where_both_are_spoken)
{
    cr_assert_eq(read_all((char *[]){ "PMI_RANK=0", "PMIX_RANK=0", NULL }).which, MPI_WHICH_OPENMPI);
}

Test(mpi_which, is_first_of_all_what_the_user_chooses)
{
    struct mpi_wish wish = read_all((char *[]){ "PMIX_RANK=0", "CCRUN_MPI=mpich", NULL });

    cr_assert_eq(wish.which, MPI_WHICH_MPICH);
    cr_assert_str_eq(wish.from, "CCRUN_MPI");
    wish = read_all((char *[]){ "PMI_RANK=0", "CCRUN_MPI=/opt/mpi/lib/libmpi.so", NULL });
    cr_assert_eq(wish.which, MPI_WHICH_UNKNOWN);
    cr_assert_str_eq(wish.path, "/opt/mpi/lib/libmpi.so");
}

Test(mpi_which, refuses_a_choice_that_is_none)
{
    struct mpi_wish wish;
    struct cc_err   err = { 0 };

    cr_assert_eq(mpi_which_read(&wish, look_up, (char *[]){ "CCRUN_MPI=lam", NULL }, &err), -EINVAL);
    cr_assert_str_eq(err.msg, "CCRUN_MPI='lam' is none of: openmpi, mpich, the absolute path of a libmpi.so");
}

Test(mpi_which, has_the_names_of_files)
{
    cr_assert_str_eq(mpi_which_name(MPI_WHICH_OPENMPI), "openmpi");
    cr_assert_str_eq(mpi_which_name(MPI_WHICH_MPICH), "mpich");
    cr_assert_str_eq(mpi_which_name((enum mpi_which) 9), "unknown");
}
