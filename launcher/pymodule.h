/* pymodule.h - can `python -m NAME` find NAME?
 *
 * First the folders where modules usually are (a few stat() calls).  Only when it is in none of them the
 * interpreter itself is asked: it knows .pth files, zip archives and editable installs.  It asks its finders
 * and imports nothing.
 */
#ifndef LAUNCHER_PYMODULE_H
#define LAUNCHER_PYMODULE_H

#include "launcher/machine.h"
#include "store/base/err.h"

/* 0: there, or nobody can tell.  -ENOENT: it is not. */
int pymodule_check(const struct machine *m, const char *python, const char *name, struct cc_err *err);

#endif
