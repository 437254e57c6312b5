/* macros.h - the few macros that every module may use. */
#ifndef CC_MACROS_H
#define CC_MACROS_H

#include <stddef.h>

#define CC_CONTAINER_OF(ptr, type, member) ((type *) (void *) ((char *) (ptr) - offsetof(type, member)))
#define CC_COUNT(a) (sizeof(a) / sizeof((a)[0]))

#endif
