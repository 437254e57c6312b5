/* check_kernel.cu - fills and checks buffers where they are: on the GPU.  Compiled to PTX where nvcc is, and built into
 * ccrun-check; check_gpu.c has the other end of it, and measure_fill() the same on the host. */
#include <stddef.h>

#define PERIOD 13

struct check_period {
    float of[PERIOD];
};

extern "C" __global__ void ccrun_fill(float *to, size_t n, unsigned at)
{
    size_t i = blockIdx.x * (size_t) blockDim.x + threadIdx.x, step = (size_t) gridDim.x * blockDim.x;

    for (; i < n; i += step)
        to[i] = (float) ((at + i) % PERIOD);
}

/* How many are not what they should be; a NaN is not, either. */
extern "C" __global__ void ccrun_count(const float *got, size_t n, struct check_period period, unsigned at,
                                       unsigned long long *wrong)
{
    size_t             i = blockIdx.x * (size_t) blockDim.x + threadIdx.x, step = (size_t) gridDim.x * blockDim.x;
    unsigned long long own = 0;

    for (; i < n; i += step)
        own += !(got[i] == period.of[(at + i) % PERIOD]);
    if (own > 0)
        atomicAdd(wrong, own);
}
