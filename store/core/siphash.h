/* siphash.h - SipHash-1-3 (Aumasson and Bernstein): a fast keyed hash whose collisions an outsider cannot aim
 * for. */
#ifndef STORE_CORE_SIPHASH_H
#define STORE_CORE_SIPHASH_H

#include <stdint.h>

#include "store/base/buf.h"

uint64_t siphash13(const uint64_t key[2], struct cc_bytes s);

#endif
