#include "backends/selfpath.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool selfpath(char ret[SELFPATH_MAX], const char *name)
{
    static const char own = 0; /* an object of this library */
    char              real[PATH_MAX];
    Dl_info           info;
    char             *slash;
    int               n;

    /* A program's own name is what it was called by, which need not be a path. */
    if (dladdr(&own, &info) == 0 || !info.dli_fname || !strchr(info.dli_fname, '/') ||
        !realpath(info.dli_fname, real))
        if (!realpath("/proc/self/exe", real))
            return false;
    slash = strrchr(real, '/');
    n = snprintf(ret, SELFPATH_MAX, "%.*s/%s", (int) (slash - real), real, name);
    return n > 0 && n < SELFPATH_MAX;
}
