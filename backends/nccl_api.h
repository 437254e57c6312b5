/* nccl_api.h - the types of NCCL's functions that libccrun calls, without NVIDIA's header. */
#ifndef BACKENDS_NCCL_API_H
#define BACKENDS_NCCL_API_H

#include <limits.h>
#include <stddef.h>

#include "backends/cuda_api.h"

enum { NCCL_ID_BYTES = 128, NCCL_MAGIC = (int) 0xcafebeef, NCCL_UNDEFINED = INT_MIN };

#ifndef NCCL_API_TYPES /* tests/abi/ has those of nccl.h in their place */
typedef int              nccl_result;
typedef int              nccl_type;
typedef int              nccl_op;
typedef struct nccl_co  *nccl_comm;
typedef struct nccl_conf nccl_config;
typedef struct {
    char internal[NCCL_ID_BYTES];
} nccl_id;
#endif

enum {
    NCCL_OK = 0,
    NCCL_CUDA_ERROR = 1,
    NCCL_SYSTEM_ERROR = 2,
    NCCL_INTERNAL_ERROR = 3,
    NCCL_INVALID_ARGUMENT = 4,
    NCCL_INVALID_USAGE = 5,
    NCCL_REMOTE_ERROR = 6,
    NCCL_IN_PROGRESS = 7,

    NCCL_I8 = 0,
    NCCL_U8 = 1,
    NCCL_I32 = 2,
    NCCL_I64 = 4,
    NCCL_F16 = 6,
    NCCL_F32 = 7,
    NCCL_F64 = 8,
    NCCL_BF16 = 9,

    NCCL_SUM = 0,
    NCCL_PROD = 1,
    NCCL_MAX = 2,
    NCCL_MIN = 3,
    NCCL_AVG = 4,
};

/* As it was in 2.14.  Its size and version tell every later one which of its own settings are left out; the
 * last is only there so that no byte of it is unset. */
struct nccl_conf {
    size_t   size;
    unsigned magic, version;
    int      blocking;
    int      cga_cluster_size;
};
enum { NCCL_CONF_VERSION = 21400 };

#define NCCL_FN(symbol, since, result, arguments) result(*symbol) arguments;
struct nccl_api {
#include "backends/nccl_api.def"
};
#undef NCCL_FN

#endif
