/* mpi.c - the backend on the MPI library for which the process was started: finds it, and loads what was
 * built for it. */
#include <assert.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/backend.h"
#include "backends/mpi_shim.h"
#include "backends/mpi_which.h"
#include "backends/selfpath.h"
#include "store/base/macros.h"

struct mpi {
    const struct backend *shim;
    void                 *b;
};

/* ---- libmpi */

/* Where libraries of several makers are interchangeable they are called libmpi.so.12; Debian's MPICH has a
 * name of its own. */
static const struct library {
    const char    *soname;
    enum mpi_which which;
} libraries[] = {
    { "libmpi.so.40", MPI_WHICH_OPENMPI },
    { "libmpi.so.12", MPI_WHICH_MPICH },
    { "libmpich.so.12", MPI_WHICH_MPICH },
};

static const char *get_variable(void *ctx, const char *name)
{
    (void) ctx;
    return getenv(name);
}

static enum mpi_which kind_in(void *scope)
{
    if (!dlsym(scope, "MPI_Init_thread"))
        return MPI_WHICH_UNKNOWN;
    return dlsym(scope, "ompi_mpi_comm_world") ? MPI_WHICH_OPENMPI : MPI_WHICH_MPICH;
}

/* What the program has already, perhaps only for a module of its own: from here on for all. */
static enum mpi_which loaded_already(void)
{
    enum mpi_which which = kind_in(RTLD_DEFAULT);

    for (size_t i = 0; which == MPI_WHICH_UNKNOWN && i < CC_COUNT(libraries); i++)
        if (dlopen(libraries[i].soname, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD))
            which = libraries[i].which;
    return which;
}

static int load_path(const char *path, enum mpi_which *ret, struct cc_err *err)
{
    void *lib = dlopen(path, RTLD_NOW | RTLD_GLOBAL);

    if (!lib)
        return cc_fail(err, -ENOENT, "cannot load what CCRUN_MPI names: %s", dlerror());
    *ret = kind_in(lib);
    return *ret != MPI_WHICH_UNKNOWN ? 0 : cc_fail(err, -EINVAL, "CCRUN_MPI=%.200s is no MPI library", path);
}

/* Open MPI's own modules look for its names in the global scope, and so do ours. */
static int load_named(enum mpi_which which, const char *from, struct cc_err *err)
{
    char   why[CC_ERR_MSG_MAX] = "";
    size_t n = 0;

    for (size_t i = 0; i < CC_COUNT(libraries); i++) {
        if (libraries[i].which != which)
            continue;
        if (dlopen(libraries[i].soname, RTLD_NOW | RTLD_GLOBAL))
            return 0;
        if (n < sizeof why)
            n += (size_t) snprintf(why + n, sizeof why - n, "%s%s", n > 0 ? "; " : "", dlerror());
    }
    return cc_fail(
        err, -ENOENT,
        "the library of %s, for which %s says that this process was started, cannot be loaded: %.300s",
        mpi_which_name(which), from, why);
}

static int load_library(enum mpi_which *ret, struct cc_err *err)
{
    enum mpi_which  loaded = loaded_already();
    struct mpi_wish wish;
    int             r = mpi_which_read(&wish, get_variable, NULL, err);

    *ret = wish.which;
    if (r == 0 && wish.path)
        r = load_path(wish.path, ret, err);
    if (r < 0)
        return r;
    if (loaded != MPI_WHICH_UNKNOWN &&
        (*ret == loaded || !wish.from || strcmp(wish.from, "CCRUN_MPI") != 0)) {
        *ret = loaded;
        return 0;
    }
    if (loaded != MPI_WHICH_UNKNOWN)
        return cc_fail(err, -EINVAL, "CCRUN_MPI wants %s, but this process has loaded the library of %s",
                       mpi_which_name(*ret), mpi_which_name(loaded));
    if (*ret == MPI_WHICH_UNKNOWN)
        return cc_fail(err, -EINVAL,
                       "nothing tells for which MPI this process was started (PMIX_RANK and PMI_RANK are not "
                       "set): start it with "
                       "ccrun --mpi pmix (Open MPI) or --mpi pmi1 (MPICH, Intel MPI), or set "
                       "CCRUN_MPI=openmpi or mpich");
    return wish.path ? 0 : load_named(*ret, wish.from, err);
}

/* ---- what was built for it */

/* Beside libccrun in "ccrun/", or where it was installed. It stays loaded: MPI cannot be unloaded. */
static int load(const struct backend **ret, struct cc_err *err)
{
    static const char *const places[] = { "", "../lib/", "../../lib/" };
    enum mpi_which           which = MPI_WHICH_UNKNOWN;
    char                     name[64], path[SELFPATH_MAX];
    const struct mpi_shim   *shim;
    void                    *lib = NULL;
    int                      r = load_library(&which, err);

    if (r < 0)
        return r;
    for (size_t i = 0; !lib && i < CC_COUNT(places); i++) {
        (void) snprintf(name, sizeof name, "%sccrun/libccrun-mpi-%s.so", places[i], mpi_which_name(which));
        if (selfpath(path, name) && access(path, F_OK) == 0 && !(lib = dlopen(path, RTLD_NOW | RTLD_LOCAL)))
            return cc_fail(err, -ENOENT, "cannot load it: %s", dlerror());
    }
    (void) snprintf(name, sizeof name, "libccrun-mpi-%s.so", mpi_which_name(which));
    if (!lib)
        lib = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!lib)
        return cc_fail(err, -ENOENT,
                       "%s is not in the folder ccrun/ beside libccrun: it is built where mpicc.%s is", name,
                       mpi_which_name(which));
    shim = dlsym(lib, "ccrun_mpi_shim");
    if (!shim || shim->version != MPI_SHIM_VERSION)
        return cc_fail(err, -ENOENT, "%s is of another version than libccrun: install both from one build",
                       name);
    *ret = &shim->backend;
    return 0;
}

/* ---- the backend: all else is done there */

static int mpi_probe(const char *device, char ret_place[BACKEND_PLACE_MAX], struct cc_err *err)
{
    const struct backend *shim;

    ret_place[0] = '\0';
    (void) device;
    return load(&shim, err);
}

static int mpi_version(char ret[BACKEND_VERSION_MAX], struct cc_err *err)
{
    const struct backend *shim = NULL;
    int                   r = load(&shim, err);

    assert(r < 0 || shim);
    return r < 0 ? r : shim->version(ret, err);
}

static int mpi_open(void **ret, struct backend_cfg *cfg, struct cc_err *err)
{
    struct mpi        *m = calloc(1, sizeof *m), *parent = cfg->parent;
    struct backend_cfg c = *cfg;
    int                r;

    if (!m)
        return cc_fail(err, -ENOMEM, "no memory");
    c.parent = parent ? parent->b : NULL;
    if (parent)
        m->shim = parent->shim;
    r = parent ? 0 : load(&m->shim, err);
    assert(r < 0 || m->shim);
    if (r == 0)
        r = m->shim->open(&m->b, &c, err);
    cfg->rank = c.rank;
    cfg->size = c.size;
    if (r < 0)
        free(m);
    else
        *ret = m;
    return r;
}

static int mpi_run(void *b, const struct ccrun_call *call, uint64_t timeout_ms, struct cc_err *err)
{
    struct mpi *m = b;

    return m->shim->run(m->b, call, timeout_ms, err);
}

static int mpi_start(void *b, const struct ccrun_call *call, uint64_t timeout_ms, void **ret_handle,
                     struct cc_err *err)
{
    struct mpi *m = b;

    return m->shim->start(m->b, call, timeout_ms, ret_handle, err);
}

static int mpi_poll(void *b, void *handle, uint64_t wait_ms, struct cc_err *err)
{
    struct mpi *m = b;

    return m->shim->poll(m->b, handle, wait_ms, err);
}

static void mpi_abort(void *b)
{
    struct mpi *m = b;

    m->shim->abort(m->b);
}

static void mpi_close(void *b)
{
    struct mpi *m = b;

    m->shim->close(m->b);
    free(m);
}

const struct backend backend_mpi = {
    .name = "mpi",
    .probe = mpi_probe,
    .version = mpi_version,
    .open = mpi_open,
    .run = mpi_run,
    .start = mpi_start,
    .poll = mpi_poll,
    .abort = mpi_abort,
    .close = mpi_close,
};
