#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent/preempt.h"
#include "agent/progress.h"

static char dir[] = "/tmp/ccrun-test-XXXXXX", path[64];

static void make_dir(void)
{
    cr_assert(mkdtemp(dir));
    (void) snprintf(path, sizeof path, "%s/file", dir);
}

static void remove_dir(void)
{
    (void) unlink(path);
    (void) rmdir(dir);
}

static void put(const char *text)
{
    FILE *f = fopen(path, "w");

    cr_assert(f);
    (void) fputs(text, f);
    (void) fclose(f);
}

Test(preempt, is_written_down_once, .init = make_dir, .fini = remove_dir)
{
    struct preempt p = { .file = strdup(path) };
    struct cc_err  err = { 0 };
    char           line[64] = "";
    FILE          *f;

    cr_assert(preempt_announce(&p, 60000, &err));
    cr_assert_str_empty(err.msg);
    f = fopen(path, "r");
    cr_assert(f && fgets(line, sizeof line, f));
    (void) fclose(f);
    cr_assert_eq(strncmp(line, p.deadline, strlen(p.deadline)), 0);
    cr_assert_gt(strtod(line, NULL), (double) time(NULL) + 58);
    cr_assert_lt(strtod(line, NULL), (double) time(NULL) + 62);
    cr_assert_not(preempt_announce(&p, 1, &err));
    preempt_clear(&p);
}

Test(preempt, counts_also_where_nothing_can_be_written, .init = make_dir, .fini = remove_dir)
{
    struct preempt p = { .file = strdup("/nowhere/at/all") };
    struct cc_err  err = { 0 };

    cr_assert(preempt_announce(&p, 60000, &err));
    cr_assert(strstr(err.msg, "/nowhere/at/all"));
    cr_assert_neq(p.deadline[0], '\0');
    preempt_clear(&p);
}

Test(progress, is_the_content_of_the_file, .init = make_dir, .fini = remove_dir)
{
    uint64_t first, second;

    cr_assert_eq(progress_fingerprint(path), 0);
    put("step 1\n");
    first = progress_fingerprint(path);
    cr_assert_neq(first, 0);
    cr_assert_eq(progress_fingerprint(path), first);
    put("step 2\n");
    second = progress_fingerprint(path);
    cr_assert_neq(second, first);
    put("");
    cr_assert_neq(progress_fingerprint(path), 0);
    cr_assert_eq(progress_fingerprint(dir), 0, "a directory has no content");
}
