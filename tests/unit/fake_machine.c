#include "tests/unit/fake_machine.h"

#include <criterion/criterion.h>
#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void fake_init(struct fake_machine *f, int n_cpus)
{
    *f = (struct fake_machine){ .root = "/tmp/ccrun-fake-XXXXXX" };
    cr_assert_not_null(mkdtemp(f->root));
    CPU_ZERO(&f->cpus);
    for (int i = 0; i < n_cpus; i++)
        CPU_SET(i, &f->cpus);
    f->m = (struct machine){ .root = f->root, .env = f->env, .affinity = &f->cpus };
}

void fake_path(struct fake_machine *f, const char *path, char buf[PATH_MAX])
{
    cr_assert_lt(snprintf(buf, PATH_MAX, "%s%s", f->root, path), PATH_MAX);
}

static void make_parents(struct fake_machine *f, const char *path, char full[PATH_MAX])
{
    fake_path(f, path, full);
    for (char *p = full + strlen(f->root) + 1; (p = strchr(p, '/')); p++) {
        *p = '\0';
        (void) mkdir(full, 0755);
        *p = '/';
    }
}

void fake_dir(struct fake_machine *f, const char *path)
{
    char full[PATH_MAX];

    make_parents(f, path, full);
    (void) mkdir(full, 0755);
}

void fake_file(struct fake_machine *f, const char *path, const char *text)
{
    char  full[PATH_MAX];
    FILE *to;

    make_parents(f, path, full);
    to = fopen(full, "we");
    cr_assert_not_null(to, "%s", full);
    cr_assert_geq(fputs(text, to), 0);
    cr_assert_eq(fclose(to), 0);
}

void fake_link(struct fake_machine *f, const char *path, const char *target)
{
    char full[PATH_MAX];

    make_parents(f, path, full);
    cr_assert_eq(symlink(target, full), 0);
}

void fake_mode(struct fake_machine *f, const char *path, unsigned mode)
{
    char full[PATH_MAX];

    fake_path(f, path, full);
    cr_assert_eq(chmod(full, mode), 0);
}

void fake_env(struct fake_machine *f, const char *name, const char *value)
{
    char       *text = NULL;
    size_t      size = 0;
    FILE       *to = open_memstream(&text, &size);
    const char *p;

    cr_assert_not_null(to);
    (void) fprintf(to, "%s=", name);
    for (p = value; *p; p++)
        *p == '@' ? (void) fputs(f->root, to) : (void) fputc(*p, to);
    cr_assert_eq(fclose(to), 0);
    cr_assert_lt(f->n_env, sizeof f->env / sizeof f->env[0] - 1);
    f->env[f->n_env++] = text;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void) st, (void) type, (void) ftw;
    return remove(path);
}

void fake_free(struct fake_machine *f)
{
    while (f->n_env > 0)
        free(f->env[--f->n_env]);
    cr_assert_eq(nftw(f->root, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}
