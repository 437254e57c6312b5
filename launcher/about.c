#include "launcher/about.h"

#include <cjson/cJSON.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>
#include <uv.h>

#include "launcher/nvml.h"
#include "launcher/program.h"
#include "store/base/macros.h"
#include "store/base/shared.h"
#include "store/http.h"

enum { VERSION_MAX = 64 };

static int find_nvml(char *ret, size_t n)
{
    struct nvml library;
    int         r = nvml_load(&library);

    if (r == 0)
        nvml_unload(&library);
    (void) snprintf(ret, n, "libnvidia-ml.so.1");
    return r;
}

static int find_pmix(char *ret, size_t n)
{
    char path[PATH_MAX];

    (void) snprintf(ret, n, "ccrun-pmix");
    return program_beside_us("ccrun-pmix", path);
}

/* What the parts are called that a machine, or a build, may lack. */
static const struct feature {
    const char *name;
    int (*find)(char *ret, size_t n); /* the library's own name and version; negative: it is not there */
    const char *why;                  /* when it is not */
    bool is_loaded;                   /* into ccrun: nothing is into a static one */
} features[] = {
    { "etcd", http_library, "no libcurl", true },
    { "NVML", find_nvml, "no libnvidia-ml.so.1", true },
    { "MPI by PMIx", find_pmix, "no ccrun-pmix beside ccrun", false },
};

static const char *why_not(const struct feature *f)
{
    return f->is_loaded && !cc_shared_can() ? "this program is static" : f->why;
}

void about_print(FILE *to)
{
    char version[CC_COUNT(features)][VERSION_MAX] = { { 0 } };
    bool is_there[CC_COUNT(features)], is_first = true;

    (void) fprintf(to, "libuv %s, cJSON %s\nfeatures: rendezvous by c10d, static and file; job token; MPI by PMI-1",
                   uv_version_string(), cJSON_Version());
    for (size_t i = 0; i < CC_COUNT(features); i++) {
        is_there[i] = features[i].find(version[i], sizeof version[i]) == 0;
        if (is_there[i])
            (void) fprintf(to, "; %s (%s)", features[i].name, version[i]);
    }
    for (size_t i = 0; i < CC_COUNT(features); i++) {
        if (!is_there[i])
            (void) fprintf(to, "%s%s (%s)", is_first ? "\nnot here: " : "; ", features[i].name, why_not(&features[i]));
        is_first = is_first && is_there[i];
    }
    (void) fputc('\n', to);
}
