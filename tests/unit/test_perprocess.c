#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/perprocess.h"

static struct perprocess_list all = PERPROCESS_LIST;
static unsigned               n_made;

static int make(struct perprocess **ret, void *ctx, struct cc_err *err)
{
    int *fails = ctx;

    if (fails && *fails)
        return cc_fail(err, -EIO, "it cannot be made");
    *ret = calloc(1, sizeof **ret);
    n_made++;
    return 0;
}

static struct perprocess *take(const char *name)
{
    struct perprocess *p = NULL;
    struct cc_err      err = { 0 };

    cr_assert_eq(perprocess_take(&p, &all, name, make, NULL, &err), 0);
    return p;
}

Test(perprocess, one_for_each_name_until_its_last_user_leaves)
{
    struct perprocess *a = take("a"), *b = take("b");

    cr_assert_eq(take("a"), a);
    perprocess_share(a);
    cr_assert_neq(a, b);
    cr_assert_not(perprocess_leave(&all, a));
    cr_assert_not(perprocess_leave(&all, a));
    cr_assert(perprocess_leave(&all, a));
    free(a);
    a = take("a");
    cr_assert_eq(n_made, 3);
    cr_assert(perprocess_leave(&all, b));
    cr_assert(perprocess_leave(&all, a));
    cr_assert_null(all.first);
    free(a);
    free(b);
}

Test(perprocess, what_cannot_be_made_is_not_there)
{
    struct perprocess *p = NULL;
    struct cc_err      err = { 0 };
    int                fails = 1;

    cr_assert_eq(perprocess_take(&p, &all, "a", make, &fails, &err), -EIO);
    cr_assert_null(all.first);
}

Test(perprocess, a_child_has_its_own)
{
    struct perprocess *p = take("a");
    int                status = -1;
    pid_t              pid = fork();

    cr_assert(pid >= 0);
    if (pid == 0)
        _exit(perprocess_is_ours(p) || take("a") == p || !perprocess_leave(&all, p));
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_assert_eq(status, 0);
    cr_assert(perprocess_is_ours(p));
    cr_assert_eq(take("a"), p);
    (void) perprocess_leave(&all, p);
    (void) perprocess_leave(&all, p);
    free(p);
}

Test(perprocess, what_is_in_no_list_is_counted_too)
{
    struct perprocess p;

    perprocess_init(&p);
    perprocess_share(&p);
    cr_assert_not(perprocess_leave(&all, &p));
    cr_assert(perprocess_leave(&all, &p));
}
