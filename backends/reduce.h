/* reduce.h - element types and operations on host memory: their names, sizes, and the arithmetic.
 *
 * Pure.  Integers wrap; halves are reduced as floats and rounded to the nearest, ties to even.  MIN and MAX
 * of a NaN and a number is the NaN.  AVG adds here; reduce_finish() divides.
 */
#ifndef BACKENDS_REDUCE_H
#define BACKENDS_REDUCE_H

#include <stddef.h>
#include <stdint.h>

#include "backends/ccrun.h"

/* out[i] = a[i] op b[i]; out may be a or b. */
typedef void reduce_fn(void *out, const void *a, const void *b, size_t n);

size_t      type_size(enum ccrun_type type); /* 0: no such type */
const char *type_name(enum ccrun_type type); /* "f32" */
const char *op_name(enum ccrun_op op);       /* "sum"; NULL: no such op */

reduce_fn *reduce_of(enum ccrun_op op, enum ccrun_type type);
/* What is left to do when all is added up. */
void reduce_finish(enum ccrun_op op, enum ccrun_type type, void *buf, size_t n, int size);

float    half_to_float(uint16_t h);
uint16_t half_from_float(float f);
float    bfloat_to_float(uint16_t h);
uint16_t bfloat_from_float(float f);

#endif
