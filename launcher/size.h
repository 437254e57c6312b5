/* size.h - sizes as people write them: 4096, 64K, 10M, 1G; also KB and KiB, all powers of 1024. Pure. */
#ifndef LAUNCHER_SIZE_H
#define LAUNCHER_SIZE_H

#include <stdint.h>

int size_parse(const char *text, uint64_t *ret_bytes); /* -EINVAL: no size; -ERANGE: more than 64 bits hold */

#endif
