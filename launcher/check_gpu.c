#include "launcher/check_gpu.h"

#include <errno.h>

enum { BLOCKS = 1024, THREADS = 256 };

/* check_kernel.cu in PTX, which the driver compiles for its GPU; empty where there was no nvcc. */
static const char ptx[] =
#include "check_kernel.inc"
    ;

/* What it takes is there once, for all that are made of it. */
static void load_kernel(struct check_gpu *g)
{
    const struct cuda_api *api = &g->cuda.api;
    cu_result              cu;

    cu = api->cuModuleLoadData(&g->module, ptx);
    if (cu == CU_OK)
        cu = api->cuModuleGetFunction(&g->fill, g->module, "ccrun_fill");
    if (cu == CU_OK)
        cu = api->cuModuleGetFunction(&g->count, g->module, "ccrun_count");
    if (cu == CU_OK)
        return;
    (void) cuda_fail(&g->cuda, cu, &g->why, "load the kernel of ccrun-check");
    if (g->module)
        (void) api->cuModuleUnload(g->module);
    g->module = NULL;
}

int check_gpu_open(struct check_gpu *g, size_t bytes, struct cc_err *err)
{
    int r;

    *g = (struct check_gpu) { .module = NULL };
    r = cuda_open(&g->cuda, NULL, err);
    if (r < 0)
        return r;
    cuda_enter(&g->cuda);
    r = cuda_alloc(&g->cuda, bytes, &g->send, err);
    if (r == 0)
        r = cuda_alloc(&g->cuda, bytes, &g->recv, err);
    if (r == 0)
        r = cuda_alloc(&g->cuda, sizeof(uint64_t), &g->wrong, err);
    if (r == 0 && sizeof ptx > 1)
        load_kernel(g);
    else if (r == 0)
        (void) cc_fail(&g->why, -ENOENT, "this ccrun-check was built without nvcc");
    cuda_leave(&g->cuda);
    return r;
}

void check_gpu_close(struct check_gpu *g)
{
    if (!g->cuda.has_context)
        return;
    cuda_enter(&g->cuda);
    if (g->module)
        (void) g->cuda.api.cuModuleUnload(g->module);
    cuda_free(&g->cuda, g->send, g->cuda.work);
    cuda_free(&g->cuda, g->recv, g->cuda.work);
    cuda_free(&g->cuda, g->wrong, g->cuda.work);
    cuda_leave(&g->cuda);
    cuda_close(&g->cuda);
    g->module = NULL;
}

/* ---- by the kernel */

static int launch(struct check_gpu *g, cu_function f, void **arguments, struct cc_err *err)
{
    const struct cuda_api *api = &g->cuda.api;
    cu_result cu = api->cuLaunchKernel(f, BLOCKS, 1, 1, THREADS, 1, 1, 0, g->cuda.work, arguments, NULL);

    if (cu == CU_OK)
        cu = api->cuStreamSynchronize(g->cuda.work);
    return cu == CU_OK ? 0 : cuda_fail(&g->cuda, cu, err, "fill or check a buffer on the GPU");
}

int check_gpu_fill(struct check_gpu *g, size_t n, unsigned at, struct cc_err *err)
{
    void *arguments[] = { &g->send, &n, &at };
    int   r;

    cuda_enter(&g->cuda);
    r = launch(g, g->fill, arguments, err);
    cuda_leave(&g->cuda);
    return r;
}

int check_gpu_count(struct check_gpu *g, size_t first, size_t n, const struct check_period *period, unsigned at,
                    uint64_t *ret_wrong, struct cc_err *err)
{
    struct check_period should = *period;
    cu_address          got = g->recv + first * sizeof(float);
    uint64_t            wrong = 0;
    void               *arguments[] = { &got, &n, &should, &at, &g->wrong };
    int                 r;

    cuda_enter(&g->cuda);
    r = cuda_to_device(&g->cuda, g->wrong, &wrong, sizeof wrong, err);
    if (r == 0)
        r = launch(g, g->count, arguments, err);
    if (r == 0)
        r = cuda_to_host(&g->cuda, &wrong, g->wrong, sizeof wrong, err);
    cuda_leave(&g->cuda);
    if (r == 0)
        *ret_wrong = wrong;
    return r;
}

/* ---- by copies */

int check_gpu_push(struct check_gpu *g, const float *from, size_t n, struct cc_err *err)
{
    int r;

    cuda_enter(&g->cuda);
    r = cuda_to_device(&g->cuda, g->send, from, n * sizeof(float), err);
    cuda_leave(&g->cuda);
    return r;
}

int check_gpu_pull(struct check_gpu *g, float *to, size_t n, struct cc_err *err)
{
    int r;

    cuda_enter(&g->cuda);
    r = cuda_to_host(&g->cuda, to, g->recv, n * sizeof(float), err);
    cuda_leave(&g->cuda);
    return r;
}
