#include "launcher/mpilib.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launcher/elf.h"
#include "store/base/cleanup.h"
#include "store/base/macros.h"

enum { FILES_MAX = 96, SCRIPT_MAX = 1 << 20 };

/* The linker's own folders. Where a distribution has others it says so in ld.so.conf, for libraries that are no MPI's. */
static const char *const folders[] = {
#if defined(__x86_64__)
    "/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu",
#elif defined(__aarch64__)
    "/lib/aarch64-linux-gnu", "/usr/lib/aarch64-linux-gnu",
#endif
    "/usr/local/lib", "/lib64", "/usr/lib64", "/lib", "/usr/lib",
};

struct search {
    const struct mpilib_req *req;
    const char *library_path; /* LD_LIBRARY_PATH */
    char       *files[FILES_MAX]; /* to look into, the first `n_done` of them have been */
    size_t      n, n_done;
    char       *why;
};

static bool begins(const char *s, const char *with)
{
    return strncmp(s, with, strlen(with)) == 0;
}

/* MPICH's own name for it, and since the libraries of several makers are interchangeable, libmpi.so.12; Open MPI has counted
 * on from 20.  libmpi_abi.so may be anybody's: what it asks for tells. */
static enum mpi_kind kind_of(const char *soname)
{
    static const char *const ours[] = { "libmpich", "libmpi.so.12", "libmpi_mt.so.12" };
    static const char *const open[] = { "libmpi.so.20", "libmpi.so.40", "libmpi.so.80", "libopen-rte", "libopen-pal",
                                        "libpmix.so" };
    size_t                   i;

    for (i = 0; i < CC_COUNT(ours); i++)
        if (begins(soname, ours[i]))
            return MPI_PMI1;
    for (i = 0; i < CC_COUNT(open); i++)
        if (begins(soname, open[i]))
            return MPI_PMIX;
    return MPI_NONE;
}

/* What every program links, and behind which there is nothing. */
static bool is_plain(const char *soname)
{
    static const char *const names[] = { "libc.so", "libm.so", "libpthread.so", "libdl.so", "librt.so", "libgcc_s.so", "ld-linux",
                                         "libutil.so", "libstdc++.so", "libz.so", "libexpat.so", "linux-vdso" };
    size_t                   i;

    for (i = 0; i < CC_COUNT(names); i++)
        if (begins(soname, names[i]))
            return true;
    return false;
}

static void add_file(struct search *s, const char *path)
{
    const char *name = strrchr(path, '/');
    size_t      i;

    for (i = 0; i < s->n; i++)
        if (strcmp(strrchr(s->files[i], '/'), name) == 0)
            return;
    if (s->n < FILES_MAX && (s->files[s->n] = strdup(path)))
        s->n++;
}

/* A folder of a list, with $ORIGIN replaced; false: it is too long, or names something else. */
static bool expand(const char *folder, size_t n, const char *origin, char ret[PATH_MAX])
{
    static const char *const words[] = { "$ORIGIN", "${ORIGIN}" };
    size_t                   i, skip = 0;
    int                      len;

    for (i = 0; i < CC_COUNT(words) && !skip; i++)
        if (n >= strlen(words[i]) && strncmp(folder, words[i], strlen(words[i])) == 0)
            skip = strlen(words[i]);
    len = snprintf(ret, PATH_MAX, "%.*s%.*s", skip ? (int) (strrchr(origin, '/') - origin) : 0, origin, (int) (n - skip),
                   folder + skip);
    return len > 0 && len < PATH_MAX && ret[0] == '/';
}

/* Looks for a library in a list of folders "A:B:C". */
static bool find_in_list(const char *list, const char *name, const char *origin, char ret[PATH_MAX])
{
    char folder[PATH_MAX];

    while (list && *list) {
        size_t n = strcspn(list, ":;");

        if (n > 0 && expand(list, n, origin, folder) && snprintf(ret, PATH_MAX, "%s/%s", folder, name) < PATH_MAX &&
            access(ret, R_OK) == 0)
            return true;
        list += n + (list[n] != '\0');
    }
    return false;
}

static bool find_library(const struct search *s, const struct elf_links *l, const char *name, const char *origin,
                         char ret[PATH_MAX])
{
    size_t i;

    if (strchr(name, '/'))
        return snprintf(ret, PATH_MAX, "%s", name) < PATH_MAX && ret[0] == '/';
    if ((!l->runpath && find_in_list(l->rpath, name, origin, ret)) || find_in_list(s->library_path, name, origin, ret) ||
        find_in_list(l->runpath, name, origin, ret))
        return true;
    for (i = 0; i < CC_COUNT(folders); i++)
        if (snprintf(ret, PATH_MAX, "%s/%s", folders[i], name) < PATH_MAX && access(ret, R_OK) == 0)
            return true;
    return false;
}

static enum mpi_kind look_into(struct search *s, const char *path)
{
    struct elf_links l;
    enum mpi_kind    kind = MPI_NONE;
    char             found[PATH_MAX];
    size_t           i;

    if (elf_read_file(path, &l) < 0) {
        elf_clear(&l);
        return MPI_NONE;
    }
    for (i = 0; i < l.n_needed && kind == MPI_NONE; i++) {
        kind = kind_of(l.needed[i]);
        if (kind != MPI_NONE)
            (void) snprintf(s->why, MPILIB_WHY_MAX, "%.150s links %.80s", path, l.needed[i]);
        else if (!is_plain(l.needed[i]) && find_library(s, &l, l.needed[i], path, found))
            add_file(s, found);
    }
    elf_clear(&l);
    return kind;
}

/* Breadth first: what the program names itself comes before what its libraries do. */
static enum mpi_kind look_below(struct search *s, const char *path)
{
    enum mpi_kind kind = MPI_NONE;

    s->files[s->n] = realpath(path, NULL); /* $ORIGIN is where it really is */
    s->n += s->files[s->n] != NULL;
    while (kind == MPI_NONE && s->n_done < s->n)
        kind = look_into(s, s->files[s->n_done++]);
    while (s->n > 0)
        free(s->files[--s->n]);
    s->n_done = 0;
    return kind;
}

/* ---- Python */

static bool names_mpi4py(const char *path)
{
    CC_AUTO_FD int     fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    CC_AUTO_FREE char *text = fd < 0 ? NULL : malloc(SCRIPT_MAX);
    ssize_t            n = text ? pread(fd, text, SCRIPT_MAX, 0) : -1;

    return n > 0 && memmem(text, (size_t) n, "mpi4py", 6);
}

/* A library by its file: what it calls itself, or what it asks for. */
static enum mpi_kind kind_of_file(struct search *s, const char *path)
{
    struct elf_links l;
    enum mpi_kind    kind = MPI_NONE;

    if (elf_read_file(path, &l) == 0 && l.soname)
        kind = kind_of(l.soname);
    if (kind != MPI_NONE)
        (void) snprintf(s->why, MPILIB_WHY_MAX, "mpi4py loads %.200s", path);
    elf_clear(&l);
    return kind != MPI_NONE ? kind : look_below(s, path);
}

/* As mpi4py looks: below the interpreter, below the user's own folder, then wherever the linker does. */
static enum mpi_kind look_for_libmpi(struct search *s)
{
    static const char *const names[] = { "libmpi.so", "libmpi.so.12", "libmpi.so.40" };
    const struct elf_links   none = { .soname = NULL };
    const char              *home = machine_env(s->req->machine, "HOME"), *bin = strstr(s->req->program, "/bin/");
    char                     lists[2][PATH_MAX] = { "", "" }, path[PATH_MAX];
    enum mpi_kind            kind = MPI_NONE;
    size_t                   i, k;

    if (bin && bin != s->req->program && strncmp(s->req->program, "/usr/bin/", 9) != 0)
        (void) snprintf(lists[0], PATH_MAX, "%.*s/lib", (int) (bin - s->req->program), s->req->program);
    if (home)
        (void) snprintf(lists[1], PATH_MAX, "%.1000s/.local/lib", home);
    for (k = 0; k < CC_COUNT(lists); k++)
        for (i = 0; kind == MPI_NONE && i < CC_COUNT(names); i++)
            if (find_in_list(lists[k], names[i], "/", path))
                kind = kind_of_file(s, path);
    for (i = 0; kind == MPI_NONE && i < CC_COUNT(names); i++)
        if (find_library(s, &none, names[i], "/", path))
            kind = kind_of_file(s, path);
    return kind;
}

static enum mpi_kind look_at_python(struct search *s)
{
    const struct mpilib_req *q = s->req;
    const char *abi = machine_env(q->machine, "MPI4PY_MPIABI"), *lib = machine_env(q->machine, "MPI4PY_LIBMPI");

    if (q->is_module ? !begins(q->script, "mpi4py") : !names_mpi4py(q->script)) {
        (void) snprintf(s->why, MPILIB_WHY_MAX, "%.100s does not name mpi4py", q->script);
        return MPI_NONE;
    }
    if (abi && (strcmp(abi, "mpich") == 0 || strcmp(abi, "openmpi") == 0)) {
        (void) snprintf(s->why, MPILIB_WHY_MAX, "MPI4PY_MPIABI=%s", abi);
        return abi[0] == 'm' ? MPI_PMI1 : MPI_PMIX;
    }
    return lib && lib[0] == '/' ? kind_of_file(s, lib) : look_for_libmpi(s);
}

enum mpi_kind mpilib_find(const struct mpilib_req *req, char why[MPILIB_WHY_MAX])
{
    struct search s = { .req = req, .library_path = machine_env(req->machine, "LD_LIBRARY_PATH"), .why = why };
    enum mpi_kind kind;

    (void) snprintf(why, MPILIB_WHY_MAX, "no MPI library is linked by %.150s", req->script ? req->script : req->program);
    kind = req->script ? look_at_python(&s) : look_below(&s, req->program);
    return kind;
}

const char *mpilib_name(enum mpi_kind kind)
{
    static const char *const names[] = { [MPI_NONE] = "none", [MPI_PMI1] = "pmi1", [MPI_PMIX] = "pmix" };

    return names[kind];
}
