#include "backends/mpi_which.h"

#include <errno.h>
#include <string.h>

#include "store/base/macros.h"

const char *mpi_which_name(enum mpi_which which)
{
    static const char *const names[] = { "unknown", "openmpi", "mpich" };

    return (unsigned) which < CC_COUNT(names) ? names[which] : names[0];
}

static int read_choice(struct mpi_wish *ret, const char *text, struct cc_err *err)
{
    ret->from = "CCRUN_MPI";
    if (text[0] == '/')
        ret->path = text;
    else if (strcmp(text, "openmpi") == 0)
        ret->which = MPI_WHICH_OPENMPI;
    else if (strcmp(text, "mpich") == 0)
        ret->which = MPI_WHICH_MPICH;
    else
        return cc_fail(err, -EINVAL,
                       "CCRUN_MPI='%.80s' is none of: openmpi, mpich, the absolute path of a libmpi.so",
                       text);
    return 0;
}

int mpi_which_read(struct mpi_wish *ret, mpi_which_env *env, void *ctx, struct cc_err *err)
{
    /* PMIx comes first: some launchers speak PMI-1 as well, to programs that know no other. */
    static const struct {
        const char    *name;
        enum mpi_which which;
    } signs[] = {
        { "PMIX_RANK", MPI_WHICH_OPENMPI }, { "OMPI_COMM_WORLD_RANK", MPI_WHICH_OPENMPI },
        { "PMI_FD", MPI_WHICH_MPICH },      { "PMI_PORT", MPI_WHICH_MPICH },
        { "PMI_RANK", MPI_WHICH_MPICH },
    };
    const char *choice = env(ctx, "CCRUN_MPI");

    *ret = (struct mpi_wish){ .which = MPI_WHICH_UNKNOWN };
    if (choice && *choice)
        return read_choice(ret, choice, err);
    for (size_t i = 0; i < CC_COUNT(signs); i++)
        if (env(ctx, signs[i].name)) {
            ret->which = signs[i].which;
            ret->from = signs[i].name;
            break;
        }
    return 0;
}
