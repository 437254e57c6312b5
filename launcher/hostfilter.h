/* hostfilter.h - DeepSpeed's --include and --exclude: NODE[:SLOT,SLOT...] with '@' between them.  Pure. */
#ifndef LAUNCHER_HOSTFILTER_H
#define LAUNCHER_HOSTFILTER_H

#include "launcher/hostlist.h"
#include "store/base/err.h"

/* Keeps or drops hosts, or GPUs of a host (host.devices and host.slots), and leaves the rest in its order.  Names may have
 * brackets.  NULL: not given; only one may be.  -EINVAL: a host or slot that there is not, or nothing is left. */
int hostfilter(struct hostlist *l, const char *include, const char *exclude, struct cc_err *err);

#endif
