/* hostfile.h - hosts as people list them: host files of Open MPI, MPICH, DeepSpeed and pdsh, and the value of --hosts.
 *
 * A line is HOST [N] [slots=N] [max_slots=N] [user=NAME] [port=N].  HOST is [USER@]NAME[:N]; the name may have brackets
 * (n[01-16], n[0-8/2]), several stand with commas between them, and an IPv6 address stands in brackets ([fe80::1]:4).
 * #, // and slash-star are comments.  A host that is named again gets a slot for each bare line, and what :N says is added
 * (MPICH, PBS); slots=N may be said once (Open MPI, DeepSpeed).  Errors begin with "FILE:LINE: ".
 * Pure, but for hostfile_read().
 */
#ifndef LAUNCHER_HOSTFILE_H
#define LAUNCHER_HOSTFILE_H

#include "launcher/hostlist.h"
#include "launcher/machine.h"
#include "store/base/err.h"

enum { HOSTFILE_SLOTS_MAX = 65536, HOSTFILE_SIZE_MAX = 16 << 20 };

/* Each adds to *l what it finds, no host twice, in the order in which they are first named, and needs one at least.  After
 * an error *l may have any of it.  -EINVAL, -E2BIG, -ENOMEM; hostfile_read() also what open() and read() say. */
int hostfile_parse(struct hostlist *l, const char *name, const char *text, struct cc_err *err);
int hostfile_hosts(struct hostlist *l, const char *text, struct cc_err *err); /* --hosts a:4,b:4 */
int hostfile_read(struct hostlist *l, const struct machine *m, const char *path, struct cc_err *err);

/* Joins the hosts of one name: their slots are added, and one that was not said is 1. */
int hostfile_merge(struct hostlist *l, const char *name, struct cc_err *err);

#endif
