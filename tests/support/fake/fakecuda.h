/* fakecuda.h - what the double of libcuda.so.1 exports: the driver's own functions, and one for the double of
 * NCCL. */
#ifndef FAKECUDA_H
#define FAKECUDA_H

#include "backends/cuda_api.h"

typedef cu_result  CUresult;
typedef cu_address CUdeviceptr;

#pragma GCC visibility push(default)

#define CUDA_FN(symbol, since, arguments) cu_result symbol arguments;
#include "backends/cuda_api.def"
#undef CUDA_FN

CUresult cuCtxGetDevice(int *ret);
CUresult cuLaunchHostFunc(cu_stream s, void (*run)(void *), void *arg);
/* Where the host finds the bytes of a device address; NULL: not all of them are device memory. */
void *fake_cuda_host(const void *address, size_t size);

#pragma GCC visibility pop

#endif
