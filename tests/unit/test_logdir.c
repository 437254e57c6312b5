#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/logdir.h"

struct told {
    char *path;
    bool  was_there;
};

static void on_private(void *ctx, const char *path)
{
    struct told *t = ctx;

    t->was_there = access(path, F_OK) == 0;
    free(t->path);
    t->path = strdup(path);
}

Test(logdir, the_private_directory_is_announced_before_it_is_made)
{
    struct told   t = { .path = NULL };
    struct logdir d = { .on_private = on_private, .ctx = &t };
    char         *file = logdir_error_file(&d, 0, 1);

    cr_assert_not_null(file);
    cr_assert_str_eq(t.path, d.private_dir);
    cr_assert_not(t.was_there);
    cr_assert_eq(access(t.path, F_OK), 0);
    logdir_close(&d);
    cr_assert_neq(access(t.path, F_OK), 0);
    free(file);
    free(t.path);
}
