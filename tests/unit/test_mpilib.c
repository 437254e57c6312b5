#include <criterion/criterion.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/rmtree.h"
#include "launcher/mpilib.h"

static char folder[] = "/tmp/mpilib-XXXXXX";
static char why[MPILIB_WHY_MAX];

static void setup(void)
{
    cr_assert_not_null(mkdtemp(folder));
}

static void finish(void)
{
    (void) rmtree(folder);
}

TestSuite(mpilib, .init = setup, .fini = finish);

static const char *in_folder(char buf[256], const char *name)
{
    (void) snprintf(buf, 256, "%s/%s", folder, name);
    return buf;
}

static void write_file(const char *name, const void *p, size_t n)
{
    char path[256], *slash;
    int  fd;

    (void) in_folder(path, name);
    for (slash = path + strlen(folder) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        (void) mkdir(path, 0700);
        *slash = '/';
    }
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0700);
    cr_assert_eq(write(fd, p, n), (ssize_t) n);
    (void) close(fd);
}

/* A library or program of nothing but a list: what it is called, where it looks and what it asks for. */
struct list {
    const char *soname, *rpath, *runpath, *needs[3];
};

static void make_elf(const char *name, struct list l)
{
    struct {
        ElfW(Ehdr) head;
        ElfW(Phdr) segments[2];
        ElfW(Dyn)  dynamic[10];
        char       strings[512];
    } f = { .head = { .e_type = ET_DYN, .e_phoff = sizeof f.head, .e_phentsize = sizeof f.segments[0], .e_phnum = 2 } };
    size_t n = 1, k = 0, i;
    size_t at = (size_t) ((char *) f.dynamic - (char *) &f);

    memcpy(f.head.e_ident, ELFMAG, SELFMAG);
    f.head.e_ident[EI_CLASS] = __SIZEOF_POINTER__ == 8 ? ELFCLASS64 : ELFCLASS32;
    f.head.e_ident[EI_DATA] = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ELFDATA2LSB : ELFDATA2MSB;
    f.segments[0] = (ElfW(Phdr)){ .p_type = PT_LOAD, .p_filesz = sizeof f, .p_memsz = sizeof f };
    f.segments[1] = (ElfW(Phdr)){ .p_type = PT_DYNAMIC, .p_offset = at, .p_vaddr = at, .p_filesz = sizeof f.dynamic };
    for (i = 0; i < 6; i++) {
        const char *s = i == 0 ? l.soname : i == 1 ? l.rpath : i == 2 ? l.runpath : l.needs[i - 3];

        if (!s)
            continue;
        f.dynamic[k].d_tag = i == 0 ? DT_SONAME : i == 1 ? DT_RPATH : i == 2 ? DT_RUNPATH : DT_NEEDED;
        f.dynamic[k++].d_un.d_val = n;
        n += (size_t) snprintf(f.strings + n, sizeof f.strings - n, "%s", s) + 1;
    }
    f.dynamic[k].d_tag = DT_STRTAB;
    f.dynamic[k++].d_un.d_ptr = (size_t) (f.strings - (char *) &f);
    f.dynamic[k].d_tag = DT_STRSZ;
    f.dynamic[k++].d_un.d_val = sizeof f.strings;
    write_file(name, &f, sizeof f);
}

static enum mpi_kind find(const char *program, const char *script, const char *env)
{
    char              path[256], text[256], *vars[] = { NULL, NULL };
    struct machine    m = { .root = "", .env = vars };
    struct mpilib_req req = { .machine = &m, .program = in_folder(path, program), .script = script };

    if (env) { /* "@" in it is the folder */
        (void) snprintf(text, sizeof text, "%.*s%s%s", (int) strcspn(env, "@"), env, strchr(env, '@') ? folder : "",
                        strchr(env, '@') ? strchr(env, '@') + 1 : "");
        vars[0] = text;
    }
    return mpilib_find(&req, why);
}

Test(mpilib, knows_the_makers_by_the_names_of_their_libraries)
{
    static const struct {
        const char   *name;
        enum mpi_kind kind;
    } cases[] = {
        { "libmpi.so.40", MPI_PMIX },   { "libmpi.so.20", MPI_PMIX },    { "libmpi.so.12", MPI_PMI1 },
        { "libmpich.so.12", MPI_PMI1 }, { "libmpi_mt.so.12", MPI_PMI1 }, { "libpmix.so.2", MPI_PMIX },
        { "libmpfr.so.6", MPI_NONE },
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        make_elf("a", (struct list){ .needs = { "libc.so.6", cases[i].name } });
        cr_assert_eq(find("a", NULL, NULL), cases[i].kind, "%s: %s", cases[i].name, why);
    }
    make_elf("a", (struct list){ .needs = { "libmpi.so.40" } });
    cr_assert_eq(find("a", NULL, NULL), MPI_PMIX);
    cr_assert(strstr(why, "/a links libmpi.so.40"), "%s", why);
}

Test(mpilib, says_that_there_is_none)
{
    make_elf("a", (struct list){ .needs = { "libc.so.6" } });
    cr_assert_eq(find("a", NULL, NULL), MPI_NONE);
    cr_assert(strstr(why, "no MPI library is linked by "), "%s", why);
    write_file("b", "#!/bin/sh\n", 10);
    cr_assert_eq(find("b", NULL, NULL), MPI_NONE);
    cr_assert_eq(find("not-there", NULL, NULL), MPI_NONE);
}

Test(mpilib, looks_into_what_a_program_links_where_the_linker_would)
{
    make_elf("lib/libsolver.so.1", (struct list){ .soname = "libsolver.so.1", .needs = { "libmpich.so.12" } });
    make_elf("other/libsolver.so.1", (struct list){ .soname = "libsolver.so.1", .needs = { "libmpi.so.40" } });
    make_elf("bin/a", (struct list){ .needs = { "libsolver.so.1" } });
    cr_assert_eq(find("bin/a", NULL, NULL), MPI_NONE, "%s", why);
    cr_assert_eq(find("bin/a", NULL, "LD_LIBRARY_PATH=/nowhere:@/lib"), MPI_PMI1, "%s", why);
    make_elf("bin/b", (struct list){ .runpath = "/nowhere:$ORIGIN/../lib", .needs = { "libsolver.so.1" } });
    cr_assert_eq(find("bin/b", NULL, NULL), MPI_PMI1, "%s", why);
    cr_assert_eq(find("bin/b", NULL, "LD_LIBRARY_PATH=@/other"), MPI_PMIX, "a variable comes before a runpath: %s", why);
    make_elf("bin/c", (struct list){ .rpath = "${ORIGIN}/../lib", .needs = { "libsolver.so.1" } });
    cr_assert_eq(find("bin/c", NULL, "LD_LIBRARY_PATH=@/other"), MPI_PMI1, "an rpath comes before a variable: %s", why);
}

Test(mpilib, what_a_program_names_itself_comes_first)
{
    make_elf("lib/libsolver.so.1", (struct list){ .needs = { "libmpi.so.40" } });
    make_elf("a", (struct list){ .runpath = "$ORIGIN/lib", .needs = { "libsolver.so.1", "libmpich.so.12" } });
    cr_assert_eq(find("a", NULL, NULL), MPI_PMI1, "%s", why);
}

Test(mpilib, libraries_that_ask_for_each_other_are_looked_at_once)
{
    make_elf("libx.so", (struct list){ .runpath = "$ORIGIN", .needs = { "liby.so" } });
    make_elf("liby.so", (struct list){ .runpath = "$ORIGIN", .needs = { "libx.so", "liby.so" } });
    make_elf("a", (struct list){ .runpath = "$ORIGIN", .needs = { "libx.so" } });
    cr_assert_eq(find("a", NULL, NULL), MPI_NONE);
}

Test(mpilib, a_script_counts_when_it_names_mpi4py)
{
    char script[256];

    (void) in_folder(script, "train.py");
    write_file("train.py", "import torch\n", 13);
    cr_assert_eq(find("bin/python", script, "MPI4PY_MPIABI=openmpi"), MPI_NONE);
    cr_assert(strstr(why, "does not name mpi4py"), "%s", why);
    write_file("train.py", "from mpi4py import MPI\n", 23);
    cr_assert_eq(find("bin/python", script, "MPI4PY_MPIABI=openmpi"), MPI_PMIX);
    cr_assert_str_eq(why, "MPI4PY_MPIABI=openmpi");
    cr_assert_eq(find("bin/python", script, "MPI4PY_MPIABI=mpich"), MPI_PMI1);
}

Test(mpilib, mpi4py_takes_the_library_it_is_told_or_that_beside_the_interpreter)
{
    char script[256];

    (void) in_folder(script, "train.py");
    write_file("train.py", "import mpi4py\n", 14);
    make_elf("x/libmpi.so", (struct list){ .soname = "libmpi.so.40" });
    make_elf("venv/lib/libmpi.so", (struct list){ .soname = "libmpi.so.12" });
    make_elf("home/.local/lib/libmpi.so.40", (struct list){ .soname = "libmpi.so.40" });
    cr_assert_eq(find("venv/bin/python", script, "MPI4PY_LIBMPI=@/x/libmpi.so"), MPI_PMIX, "%s", why);
    cr_assert(strstr(why, "mpi4py loads "), "%s", why);
    cr_assert_eq(find("venv/bin/python", script, NULL), MPI_PMI1, "%s", why);
    cr_assert_eq(find("elsewhere/python", script, "HOME=@/home"), MPI_PMIX, "%s", why);
}

Test(mpilib, has_the_names_of_the_option)
{
    cr_assert_str_eq(mpilib_name(MPI_NONE), "none");
    cr_assert_str_eq(mpilib_name(MPI_PMI1), "pmi1");
    cr_assert_str_eq(mpilib_name(MPI_PMIX), "pmix");
}
