/* fakenccl.h - what the double of libnccl.so.2 exports. */
#ifndef FAKENCCL_H
#define FAKENCCL_H

#include "backends/nccl_api.h"

#pragma GCC visibility push(default)

#define NCCL_FN(symbol, since, result, arguments) result symbol arguments;
#include "backends/nccl_api.def"
#undef NCCL_FN

#pragma GCC visibility pop

#endif
