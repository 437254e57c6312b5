/* nccl_abi.c - compiled only: what backends/ says of NCCL and of the CUDA driver is what NVIDIA's own headers
 * say.
 *
 *   cc -std=c11 -fsyntax-only -I. -I$CUDA_HOME/include -I$NCCL_HOME/include tests/abi/nccl_abi.c
 */
#include <cuda.h>
#include <nccl.h>

#define CUDA_API_TYPES
typedef CUresult            cu_result;
typedef CUdevice            cu_device;
typedef CUpointer_attribute cu_attribute;
typedef CUdeviceptr         cu_address;
typedef CUcontext           cu_context;
typedef CUstream            cu_stream;
typedef CUevent             cu_event;
typedef CUmodule            cu_module;
typedef CUfunction          cu_function;

#define NCCL_API_TYPES
typedef ncclResult_t   nccl_result;
typedef ncclDataType_t nccl_type;
typedef ncclRedOp_t    nccl_op;
typedef ncclComm_t     nccl_comm;
typedef ncclConfig_t   nccl_config;
typedef ncclUniqueId   nccl_id;

#include "backends/nccl_api.h"

/* Every function has the type that the header gives it. */
#define SAME(symbol, api)                                                                                    \
    _Static_assert(                                                                                          \
        __builtin_types_compatible_p(__typeof__(symbol), __typeof__(*((struct api *) 0)->symbol)),           \
        #symbol " has another type");
#define CUDA_FN(symbol, since, arguments) SAME(symbol, cuda_api)
#include "backends/cuda_api.def"
#define NCCL_FN(symbol, since, result, arguments) SAME(symbol, nccl_api)
#include "backends/nccl_api.def"

/* Ours are as wide as theirs: values of enums go through functions as ints. */
_Static_assert(sizeof(CUresult) == sizeof(int) && sizeof(CUpointer_attribute) == sizeof(int),
               "cuda.h's enums");
_Static_assert(sizeof(ncclResult_t) == sizeof(int) && sizeof(ncclDataType_t) == sizeof(int),
               "nccl.h's enums");
_Static_assert(sizeof(ncclRedOp_t) == sizeof(int), "ncclRedOp_t");
_Static_assert(sizeof(CUdevice) == sizeof(int) && sizeof(CUdeviceptr) == sizeof(unsigned long long),
               "cuda.h's numbers");
_Static_assert(sizeof(ncclUniqueId) == NCCL_ID_BYTES && _Alignof(ncclUniqueId) == 1, "ncclUniqueId");

#define EQUAL(ours, theirs) _Static_assert((int) (ours) == (int) (theirs), #ours " is not " #theirs)
EQUAL(CU_OK, CUDA_SUCCESS);
EQUAL(CU_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY);
EQUAL(CU_NO_DEVICE, CUDA_ERROR_NO_DEVICE);
EQUAL(CU_INVALID_DEVICE, CUDA_ERROR_INVALID_DEVICE);
EQUAL(CU_NOT_READY, CUDA_ERROR_NOT_READY);
EQUAL(CU_STREAM_OWN, CU_STREAM_NON_BLOCKING);
EQUAL(CU_EVENT_NO_TIME, CU_EVENT_DISABLE_TIMING);
EQUAL(CU_ATTR_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
EQUAL(CU_ATTR_IS_MANAGED, CU_POINTER_ATTRIBUTE_IS_MANAGED);
EQUAL(CU_ATTR_DEVICE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
EQUAL(CU_MEMORY_DEVICE, CU_MEMORYTYPE_DEVICE);
EQUAL(CU_MEMORY_UNIFIED, CU_MEMORYTYPE_UNIFIED);
EQUAL(NCCL_MAGIC, NCCL_API_MAGIC);
EQUAL(NCCL_UNDEFINED, NCCL_CONFIG_UNDEF_INT);
EQUAL(NCCL_OK, ncclSuccess);
EQUAL(NCCL_CUDA_ERROR, ncclUnhandledCudaError);
EQUAL(NCCL_SYSTEM_ERROR, ncclSystemError);
EQUAL(NCCL_INTERNAL_ERROR, ncclInternalError);
EQUAL(NCCL_INVALID_ARGUMENT, ncclInvalidArgument);
EQUAL(NCCL_INVALID_USAGE, ncclInvalidUsage);
EQUAL(NCCL_REMOTE_ERROR, ncclRemoteError);
EQUAL(NCCL_IN_PROGRESS, ncclInProgress);
EQUAL(NCCL_I8, ncclInt8);
EQUAL(NCCL_U8, ncclUint8);
EQUAL(NCCL_I32, ncclInt32);
EQUAL(NCCL_I64, ncclInt64);
EQUAL(NCCL_F16, ncclFloat16);
EQUAL(NCCL_F32, ncclFloat32);
EQUAL(NCCL_F64, ncclFloat64);
EQUAL(NCCL_BF16, ncclBfloat16);
EQUAL(NCCL_SUM, ncclSum);
EQUAL(NCCL_PROD, ncclProd);
EQUAL(NCCL_MAX, ncclMax);
EQUAL(NCCL_MIN, ncclMin);
EQUAL(NCCL_AVG, ncclAvg);

/* Settings are where 2.14 had them, in every later one. */
#define PLACED(field, theirs)                                                                                \
    _Static_assert(offsetof(struct nccl_conf, field) == offsetof(ncclConfig_t, theirs), #field)
PLACED(size, size);
PLACED(magic, magic);
PLACED(version, version);
PLACED(blocking, blocking);
PLACED(cga_cluster_size, cgaClusterSize);
_Static_assert(sizeof(struct nccl_conf) <= sizeof(ncclConfig_t), "settings");
_Static_assert(NCCL_VERSION(2, 14, 0) == NCCL_CONF_VERSION, "how versions are counted");
