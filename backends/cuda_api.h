/* cuda_api.h - the types of the CUDA driver's functions that libccrun calls, without NVIDIA's header.
 *
 * The driver and not the runtime: where a GPU is there is a libcuda.so.1, while libcudart has a name for
 * every major version and is often inside other libraries.  Its streams and addresses are those of the
 * runtime, and it works in the context that the runtime uses, the device's primary one.
 */
#ifndef BACKENDS_CUDA_API_H
#define BACKENDS_CUDA_API_H

#include <stddef.h>
#include <stdint.h>

#ifndef CUDA_API_TYPES /* tests/abi/ has those of cuda.h in their place */
typedef int                cu_result;
typedef int                cu_device;
typedef int                cu_attribute;
typedef unsigned long long cu_address;
typedef struct cu_ctx     *cu_context;
typedef struct cu_st      *cu_stream;
typedef struct cu_ev      *cu_event;
typedef struct cu_mod     *cu_module;
typedef struct cu_fn      *cu_function;
#endif

enum {
    CU_OK = 0,
    CU_OUT_OF_MEMORY = 2,
    CU_NO_DEVICE = 100,
    CU_INVALID_DEVICE = 101,
    CU_NOT_READY = 600,
    CU_NOT_SUPPORTED = 801,

    CU_STREAM_OWN = 1, /* does not wait for the default stream */
    CU_EVENT_NO_TIME = 2,

    CU_ATTR_MEMORY_TYPE = 2,
    CU_ATTR_IS_MANAGED = 8,
    CU_ATTR_DEVICE = 9,
    CU_MEMORY_DEVICE = 2,
    CU_MEMORY_UNIFIED = 4,
};

#define CUDA_FN(symbol, since, arguments) cu_result(*symbol) arguments;
struct cuda_api {
#include "backends/cuda_api.def"
};
#undef CUDA_FN

#endif
