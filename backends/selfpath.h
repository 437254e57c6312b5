/* selfpath.h - files beside this library (or beside the program that it is linked into). */
#ifndef BACKENDS_SELFPATH_H
#define BACKENDS_SELFPATH_H

#include <limits.h>
#include <stdbool.h>

enum { SELFPATH_MAX = PATH_MAX };

/* `name` in the folder of this library; false: not known, or too long. Whether there is such a file is not
 * looked at. */
bool selfpath(char ret[SELFPATH_MAX], const char *name);

#endif
