#include "backends/cuda.h"

#include <assert.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/whois.h"

enum { ORDINAL_MAX = 4095, BUS_MAX = 20 };

/* ---- the library */

struct row {
    const char *symbol;
    int         since;
    size_t      at;
};

static const struct row rows[] = {
#define CUDA_FN(symbol, since, arguments) { #symbol, since, offsetof(struct cuda_api, symbol) },
#include "backends/cuda_api.def"
#undef CUDA_FN
};

static int newest(void)
{
    int r = 0;

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].since > r)
            r = rows[i].since;
    return r;
}

static int too_old(const struct cuda_api *api, const char *symbol, struct cc_err *err)
{
    int version = 0, need = newest();

    if (api->cuDriverGetVersion)
        (void) api->cuDriverGetVersion(&version);
    return cc_fail(err, -ENOENT,
                   "the NVIDIA driver is too old: it is of CUDA %d.%d%s%s, and %d.%d or newer is needed",
                   version / 1000, version % 1000 / 10, symbol ? ", without " : "", symbol ? symbol : "",
                   need / 1000, need % 1000 / 10);
}

static int load(struct cuda_api *ret, struct cc_err *err)
{
    void       *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL); /* stays: it has threads */
    const char *missing = NULL;
    int         version = 0;

    if (!lib) {
        const char *why = dlerror();

        return cc_fail(err, -ENODEV,
                       "no GPU: libcuda.so.1, which comes with the NVIDIA driver, cannot be loaded (%s)",
                       why ? why : "it is not there");
    }
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        void *f = dlsym(lib, rows[i].symbol);

        if (!f && !missing)
            missing = rows[i].symbol;
        memcpy((char *) ret + rows[i].at, &f, sizeof f); /* a function's address, as POSIX has it */
    }
    if (missing || ret->cuDriverGetVersion(&version) != CU_OK || version < newest())
        return too_old(ret, missing, err);
    return 0;
}

/* ---- failures */

int cuda_fail(const struct cuda *c, cu_result result, struct cc_err *err, const char *doing)
{
    const char *name = NULL, *text = NULL;
    int         code = result == CU_OUT_OF_MEMORY ? -ENOMEM : -EIO;

    if (c->api.cuGetErrorName(result, &name) != CU_OK || !name)
        name = "an error that the driver has no name for";
    if (c->api.cuGetErrorString(result, &text) != CU_OK || !text)
        text = "no text";
    return cc_fail(err, code, "cannot %s: %s (%s)", doing, text, name);
}

/* ---- which device */

int cuda_parse(const char *name, int *ret, struct cc_err *err)
{
    const char *digits = strncmp(name, "cuda:", 5) == 0 ? name + 5 : "";
    char       *end = NULL;
    long        n = *digits >= '0' && *digits <= '9' ? strtol(digits, &end, 10) : -1;

    if (n < 0 || *end || n > ORDINAL_MAX)
        return cc_fail(err, -EINVAL, "device '%.40s' is not cuda:N, N from 0 to %d", name, ORDINAL_MAX);
    *ret = (int) n;
    return 0;
}

static int no_gpu(const char *what, struct cc_err *err)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");

    return cc_fail(err, -ENODEV, "no GPU: %s%s%.60s%s", what,
                   visible ? ", and CUDA_VISIBLE_DEVICES is '" : "", visible ? visible : "",
                   visible ? "'" : "");
}

/* A launcher may show each rank one GPU only, which is cuda:0 then, whatever LOCAL_RANK is. */
static int by_local_rank(int n)
{
    const char *local = getenv("LOCAL_RANK");

    return n == 1 || !local ? 0 : (int) strtol(local, NULL, 10);
}

static int pick(struct cuda *c, const char *name, struct cc_err *err)
{
    char      text[48];
    int       n = 0, r = 0;
    cu_result cu = c->api.cuInit(0);

    if (cu == CU_OK)
        cu = c->api.cuDeviceGetCount(&n);
    if (cu == CU_NO_DEVICE || (cu == CU_OK && n == 0))
        return no_gpu("the NVIDIA driver is here and finds none", err);
    if (cu != CU_OK) {
        (void) cuda_fail(c, cu, err, "start the NVIDIA driver");
        return cc_fail(err, -ENODEV, "no GPU that works: %.*s", (int) sizeof err->msg - 32, err->msg);
    }
    if (name)
        r = cuda_parse(name, &c->ordinal, err);
    else
        c->ordinal = by_local_rank(n);
    if (r < 0)
        return r;
    if (c->ordinal >= 0 && c->ordinal < n)
        return 0;
    (void) snprintf(text, sizeof text, "%s is cuda:%d, and this process sees %d",
                    name ? "it" : "LOCAL_RANK's", c->ordinal, n);
    return no_gpu(text, err);
}

/* What NCCL compares, too: the machine, and the place on its bus. */
int cuda_probe(const char *name, char *ret_id, size_t size, struct cc_err *err)
{
    struct cuda  c = { 0 };
    struct whois me;
    char         bus[BUS_MAX] = "";
    cu_result    cu;
    int          r = load(&c.api, err);

    if (r == 0)
        r = pick(&c, name, err);
    if (r < 0)
        return r;
    cu = c.api.cuDeviceGet(&c.device, c.ordinal);
    if (cu == CU_OK)
        cu = c.api.cuDeviceGetPCIBusId(bus, sizeof bus, c.device);
    if (cu != CU_OK)
        return cuda_fail(&c, cu, err, "look at the GPU");
    whois_self(&me);
    (void) snprintf(ret_id, size, "%s/%s", me.boot, bus);
    return 0;
}

/* ---- its life */

int cuda_open(struct cuda *c, const char *name, struct cc_err *err)
{
    cu_result cu;
    char      text[48];
    int       r;

    *c = (struct cuda){ 0 };
    r = load(&c->api, err);
    if (r == 0)
        r = pick(c, name, err);
    if (r < 0)
        return r;
    (void) snprintf(text, sizeof text, "use cuda:%d", c->ordinal);
    cu = c->api.cuDeviceGet(&c->device, c->ordinal);
    if (cu == CU_OK)
        cu = c->api.cuDevicePrimaryCtxRetain(&c->context, c->device);
    if (cu != CU_OK)
        return cuda_fail(c, cu, err, text);
    c->has_context = true;
    cuda_enter(c);
    cu = c->api.cuStreamCreate(&c->work, CU_STREAM_OWN);
    if (cu == CU_OK)
        cu = c->api.cuStreamCreate(&c->copy, CU_STREAM_OWN);
    cuda_leave(c);
    return cu == CU_OK ? 0 : cuda_fail(c, cu, err, text);
}

void cuda_close(struct cuda *c)
{
    if (!c->has_context)
        return;
    cuda_enter(c);
    if (c->work)
        (void) c->api.cuStreamDestroy_v2(c->work);
    if (c->copy)
        (void) c->api.cuStreamDestroy_v2(c->copy);
    cuda_leave(c);
    (void) c->api.cuDevicePrimaryCtxRelease_v2(c->device);
    c->has_context = false;
}

/* They fail only where the context is lost; then so does what comes next, which tells it. */
void cuda_enter(struct cuda *c)
{
    assert(c->has_context);
    (void) c->api.cuCtxPushCurrent_v2(c->context);
}

void cuda_leave(struct cuda *c)
{
    cu_context was;

    (void) c->api.cuCtxPopCurrent_v2(&was);
}

/* ---- memory */

int cuda_alloc(struct cuda *c, size_t size, cu_address *ret, struct cc_err *err)
{
    cu_result cu = c->api.cuMemAllocAsync(ret, size, c->copy);
    char      text[64];

    if (cu == CU_OK) /* the stream has only copies: it does not wait for long */
        cu = c->api.cuStreamSynchronize(c->copy);
    (void) snprintf(text, sizeof text, "have %zu bytes on cuda:%d for a host buffer", size, c->ordinal);
    return cu == CU_OK ? 0 : cuda_fail(c, cu, err, text);
}

/* cuMemFree() would wait for everything on the device, which may be another group's call that hangs. */
void cuda_free(struct cuda *c, cu_address address, cu_stream stream)
{
    if (address)
        (void) c->api.cuMemFreeAsync(address, stream);
}

int cuda_to_device(struct cuda *c, cu_address to, const void *from, size_t size, struct cc_err *err)
{
    cu_result cu = c->api.cuMemcpyHtoDAsync_v2(to, from, size, c->copy);

    if (cu == CU_OK)
        cu = c->api.cuStreamSynchronize(c->copy);
    return cu == CU_OK ? 0 : cuda_fail(c, cu, err, "copy a host buffer to the GPU");
}

int cuda_to_host(struct cuda *c, void *to, cu_address from, size_t size, struct cc_err *err)
{
    cu_result cu = c->api.cuMemcpyDtoHAsync_v2(to, from, size, c->copy);

    if (cu == CU_OK)
        cu = c->api.cuStreamSynchronize(c->copy);
    return cu == CU_OK ? 0 : cuda_fail(c, cu, err, "copy a result from the GPU");
}

/* What the driver does not know is the host's, and so is memory that was pinned there. */
enum cuda_place cuda_place_of(const struct cuda *c, const void *p, int *ret_ordinal)
{
    unsigned     type = 0, is_managed = 0;
    int          ordinal = -1;
    cu_attribute which[] = { CU_ATTR_MEMORY_TYPE, CU_ATTR_IS_MANAGED, CU_ATTR_DEVICE };
    void        *where[] = { &type, &is_managed, &ordinal };

    if (c->api.cuPointerGetAttributes(3, which, where, (cu_address) (uintptr_t) p) != CU_OK)
        return CUDA_HOST;
    if (is_managed || type == CU_MEMORY_UNIFIED)
        return CUDA_HERE;
    if (type != CU_MEMORY_DEVICE)
        return CUDA_HOST;
    *ret_ordinal = ordinal;
    return ordinal == c->ordinal ? CUDA_HERE : CUDA_ELSEWHERE;
}
