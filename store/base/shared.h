/* shared.h - libraries that are loaded at first use, since most runs need none: libcurl, NVML.
 *
 * A static program has none: the loader of its C library would look for that same C library on a machine that may have
 * another, or none at all.
 */
#ifndef CC_SHARED_H
#define CC_SHARED_H

#include <stdbool.h>

bool  cc_shared_can(void);              /* false: this program is static, and cc_shared_open() finds nothing */
void *cc_shared_open(const char *name); /* NULL: it is not there */
const char *cc_shared_error(void);      /* why, after that; borrowed */
void *cc_shared_symbol(void *library, const char *name); /* NULL: it has no such name */
void  cc_shared_close(void *library);

#endif
