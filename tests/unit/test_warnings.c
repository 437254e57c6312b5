#include <criterion/criterion.h>
#include <errno.h>

#include "launcher/warnings.h"

Test(warnings, are_bounded_and_counted)
{
    struct warnings w = { 0 };
    struct cc_err   err;
    int             i;

    cr_assert_eq(warnings_as_error(&w, &err), 0);
    for (i = 0; i < WARNINGS_MAX + 3; i++)
        warnings_add(&w, "number %d", i);
    cr_assert_eq(w.n, WARNINGS_MAX);
    cr_assert_eq(w.n_dropped, 3);
    cr_assert_eq(warnings_as_error(&w, &err), -EINVAL);
    cr_assert_str_eq(err.msg, "number 0 (an error because of --strict)");
}
