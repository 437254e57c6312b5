/* pyvalue.h - numbers as Python's int() and float() read them, and text as its repr() shows it.
 *
 * Pure.  PyTorch's users write "1_0", " 3 " and "1e-3", and its error texts quote values with repr().
 */
#ifndef CC_PYVALUE_H
#define CC_PYVALUE_H

#include <stddef.h>
#include <stdint.h>

int pyvalue_int(const char *text, int64_t *ret);  /* -EINVAL: not an int, or over 4,300 bytes; -ERANGE: does not fit */
int pyvalue_float(const char *text, double *ret); /* -EINVAL: not a float, or over 4,300 bytes; inf and nan are floats */
/* 'text' with quotes and escapes; a long text is cut and ends in '...'. Returns buf. */
const char *pyvalue_repr(const char *text, char *buf, size_t size);

#endif
