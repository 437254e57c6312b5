/* fill_and_check.cu [MIB] - every rank fills a buffer on its GPU, all are added up over NCCL, and the sum is checked on
 * the GPU: the kernel, the collective and the check in one stream, without waiting in between.
 *
 *   nvcc fill_and_check.cu $(pkg-config --cflags --libs ccrun) -o fill_and_check
 *   ccrun --no-python --nproc-per-node gpu ./fill_and_check 256
 */
#include <ccrun.h>
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>

__global__ void fill(float *buf, size_t n, int rank)
{
    for (size_t i = blockIdx.x * (size_t) blockDim.x + threadIdx.x; i < n; i += (size_t) gridDim.x * blockDim.x)
        buf[i] = (float) (rank + i % 1000);
}

/* The sum over all ranks of what fill() writes, which floats hold exactly. */
__global__ void check(const float *buf, size_t n, int size, unsigned long long *n_wrong)
{
    for (size_t i = blockIdx.x * (size_t) blockDim.x + threadIdx.x; i < n; i += (size_t) gridDim.x * blockDim.x)
        if (buf[i] != (float) size * (float) (i % 1000) + (float) (size * (size - 1) / 2))
            atomicAdd(n_wrong, 1ull);
}

static void must(bool is_good, const char *what)
{
    if (is_good)
        return;
    fprintf(stderr, "fill_and_check: %s\n", what);
    exit(1);
}

static void must(cudaError_t e)
{
    must(e == cudaSuccess, cudaGetErrorString(e));
}

int main(int argc, char **argv)
{
    size_t              n = (argc > 1 ? strtoul(argv[1], nullptr, 10) : 64) * (1 << 20) / sizeof(float);
    const char         *local = getenv("LOCAL_RANK");
    int                 n_gpus = 0;
    struct ccrun_init   init = {};
    struct ccrun_call   call = {};
    struct ccrun_pg    *pg;
    float              *buf;
    unsigned long long *n_wrong, wrong = 0;
    cudaStream_t        stream;

    must(cudaGetDeviceCount(&n_gpus));
    must(cudaSetDevice(local && n_gpus > 1 ? (int) strtol(local, nullptr, 10) : 0)); /* the one that the library takes, too */
    must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    must(cudaMalloc(&buf, n * sizeof *buf));
    must(cudaMalloc(&n_wrong, sizeof *n_wrong));
    must(cudaMemset(n_wrong, 0, sizeof *n_wrong));
    init.backend = "nccl";
    init.timeout_ms = 60000;
    must(ccrun_init_process_group(&pg, &init) == 0, ccrun_error());

    fill<<<1024, 256, 0, stream>>>(buf, n, ccrun_rank(pg));
    call.what = CCRUN_ALL_REDUCE;
    call.send = call.recv = buf;
    call.count = n;
    call.type = CCRUN_F32;
    call.op = CCRUN_SUM;
    call.stream = stream;
    must(ccrun_run(pg, &call) == 0, ccrun_error());
    check<<<1024, 256, 0, stream>>>(buf, n, ccrun_size(pg), n_wrong);
    must(cudaMemcpyAsync(&wrong, n_wrong, sizeof wrong, cudaMemcpyDeviceToHost, stream));
    must(cudaStreamSynchronize(stream));

    printf("rank %d of %d: %zu numbers, %llu wrong\n", ccrun_rank(pg), ccrun_size(pg), n, wrong);
    must(ccrun_destroy_process_group(pg) == 0, ccrun_error());
    must(cudaFree(buf));
    must(cudaFree(n_wrong));
    must(cudaStreamDestroy(stream));
    return wrong > 0;
}
