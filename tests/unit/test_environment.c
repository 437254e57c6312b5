#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>

#include "launcher/environment.h"
#include "store/base/macros.h"

static void init(struct environment *e, char *const *base)
{
    struct cc_err err = { 0 };

    cr_assert_eq(environment_init(e, base, &err), 0, "%s", err.msg);
}

Test(environment, what_is_set_replaces_what_was_there_and_grows)
{
    char              *base[] = { "A=1", "AB=2", NULL };
    char               entry[200][32];
    struct environment e;
    struct cc_err      err = { 0 };
    size_t             i;

    init(&e, base);
    cr_assert_eq(environment_set(&e, "A=x", &err), 0);
    cr_assert_eq(environment_set(&e, "B=", &err), 0);
    cr_assert_str_eq(environment_get(&e, "A"), "x");
    cr_assert_str_eq(environment_get(&e, "AB"), "2");
    cr_assert_str_eq(environment_get(&e, "B"), "");
    cr_assert_null(environment_get(&e, "C"));
    for (i = 0; i < CC_COUNT(entry); i++) {
        (void) snprintf(entry[i], sizeof entry[i], "N%u=%u", (unsigned) i, (unsigned) i);
        cr_assert_eq(environment_set(&e, entry[i], &err), 0);
    }
    cr_assert_eq(e.n, 203);
    cr_assert_null(e.list[e.n]);
    cr_assert_str_eq(environment_get(&e, "N199"), "199");
    environment_free(&e);
}

Test(environment, is_cleaned_of_what_a_scheduler_says_about_a_task_and_of_nothing_else)
{
    char              *base[] = { "SLURM_PROCID=3", "SLURM_JOB_ID=7", "SLURM_NTASKS=4", "SLURM_NTASKS_PER_NODE=2",
                                  "PMIX_RANK=1", "OMPI_COMM_WORLD_RANK=1", "OMPI_MCA_btl=tcp", "PMIX=x", NULL };
    struct environment e;
    struct cc_err      err = { 0 };

    init(&e, base);
    cr_assert_eq(environment_clean(&e, "slurm", &err), 0);
    cr_assert_null(environment_get(&e, "SLURM_PROCID"));
    cr_assert_null(environment_get(&e, "SLURM_NTASKS_PER_NODE"));
    cr_assert_str_eq(environment_get(&e, "SLURM_JOB_ID"), "7");
    cr_assert_str_eq(environment_get(&e, "PMIX_RANK"), "1");
    cr_assert_eq(environment_clean(&e, "mpi", &err), 0);
    cr_assert_eq(e.n, 3);
    cr_assert_str_eq(environment_get(&e, "OMPI_MCA_btl"), "tcp");
    cr_assert_eq(environment_clean(&e, "lsf", &err), -EINVAL);
    cr_assert_str_eq(err.msg, "--clean-env: 'lsf' is neither slurm nor mpi");
    environment_free(&e);
}
