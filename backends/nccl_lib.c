#include "backends/nccl_lib.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct row {
    const char *symbol;
    int         since;
    size_t      at;
};

static const struct row rows[] = {
#define NCCL_FN(symbol, since, result, arguments) { #symbol, since, offsetof(struct nccl_api, symbol) },
#include "backends/nccl_api.def"
#undef NCCL_FN
};

enum { N_ROWS = sizeof rows / sizeof *rows, COUNTED_ANEW = 10000 };

int nccl_version_order(int version)
{
    if (version >= COUNTED_ANEW)
        return version;
    return version / 1000 * 10000 + version % 1000 / 100 * 100 + version % 100;
}

const char *nccl_version_text(int version, char buf[NCCL_VERSION_TEXT_MAX])
{
    int v = nccl_version_order(version);

    (void) snprintf(buf, NCCL_VERSION_TEXT_MAX, "%d.%d.%d", v / 10000, v % 10000 / 100, v % 100);
    return buf;
}

static int too_old(int version, const char *path, const struct row *missing, struct cc_err *err)
{
    char have[NCCL_VERSION_TEXT_MAX], need[NCCL_VERSION_TEXT_MAX];
    bool is_older = nccl_version_order(version) < NCCL_OLDEST;

    (void) nccl_version_text(version, have);
    (void) nccl_version_text(missing && !is_older ? missing->since : NCCL_OLDEST, need);
    return cc_fail(err, -ENOENT, "NCCL is too old: %.200s is of version %s%s%s, and %s or newer is needed",
                   path, version > 0 ? have : "unknown", missing ? ", without " : "",
                   missing ? missing->symbol : "", need);
}

int nccl_load(struct nccl_api *ret, struct cc_err *err)
{
    const char       *file = getenv("CCRUN_NCCL");
    void             *lib;
    const struct row *missing = NULL;
    Dl_info           info = { 0 };
    int               version = 0;

    if (!file || !*file)
        file = "libnccl.so.2";
    lib = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!lib) {
        const char *why = dlerror();

        return cc_fail(err, -ENOENT,
                       "NCCL cannot be loaded: %.250s; install it (libnccl2, or pip's nvidia-nccl-cu13), and "
                       "name the file in "
                       "CCRUN_NCCL where it is not on LD_LIBRARY_PATH",
                       why ? why : file);
    }
    for (size_t i = 0; i < N_ROWS; i++) {
        void *f = dlsym(lib, rows[i].symbol);

        if (!f && !missing)
            missing = &rows[i];
        if (f && !info.dli_fname)
            (void) dladdr(f, &info);
        memcpy((char *) ret + rows[i].at, &f, sizeof f);
    }
    if (!ret->ncclGetVersion)
        return cc_fail(err, -ENOENT, "%.250s is not NCCL: it has no ncclGetVersion()", file);
    if (ret->ncclGetVersion(&version) != NCCL_OK)
        version = 0;
    if (missing || nccl_version_order(version) < NCCL_OLDEST)
        return too_old(version, info.dli_fname ? info.dli_fname : file, missing, err);
    return 0;
}

/* A peer that ends is a remote error, or one of the system's (a socket) to who is connecting to it just then.
 */
static int code_of(nccl_result result)
{
    return result == NCCL_REMOTE_ERROR || result == NCCL_SYSTEM_ERROR ? -ECONNRESET : -EIO;
}

int nccl_fail(const struct nccl_api *api, nccl_result result, nccl_comm comm, struct cc_err *err)
{
    const char *text = api->ncclGetErrorString(result), *more = api->ncclGetLastError(comm);
    size_t      n = more ? strlen(more) : 0;

    while (n > 0 && (more[n - 1] == '\n' || more[n - 1] == ' '))
        n--;
    return cc_fail(err, code_of(result), "%s%s%.*s%s", text ? text : "NCCL failed", n > 0 ? " (" : "",
                   n > 160 ? 160 : (int) n, n > 0 ? more : "", n > 0 ? ")" : "");
}
