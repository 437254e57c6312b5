/* cgroup.h - a cgroup v2 group for each worker where one may be made, and evidence of the out-of-memory killer.
 *
 * Best effort: a group is only a faster and tighter way to end a worker's tree, which tree.h ends without one too.
 * Where no group may be made (read-only, not delegated, v1 only) cgroup_new() says NULL and that is no error.
 * No controller is ever enabled, so the rule against processes in inner groups does not bite.
 *
 * `root` is put before /proc and /sys by every function that reads them: NULL or "" for the machine itself.
 */
#ifndef AGENT_CGROUP_H
#define AGENT_CGROUP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* What the kernel's out-of-memory killer did to the group that we and our workers are in (v2 memory.events or v1
 * memory.oom_control; hybrids have either). */
struct cgroup_oom {
    bool     is_known;  /* a memory controller was found and could be read */
    uint64_t oom_kills; /* processes killed so far; only the difference of two readings says something */
    uint64_t limit;     /* bytes; the lowest limit from our group upwards; 0: none */
    uint64_t peak;      /* bytes; the highest use of the group that has this limit; 0: not known */
};

int cgroup_oom_read(const char *root, struct cgroup_oom *ret); /* 0; or -ENOENT and *ret all zero: not known */
/* How many processes were killed between the two readings; 0 when either is not known. */
uint64_t cgroup_oom_delta(const struct cgroup_oom *before, const struct cgroup_oom *after);

struct cgroup;

enum { CGROUP_ALL = -1 }; /* for `k`: the whole job */

/* Makes ccrun-<our pid> below our own group, for `n` workers. NULL: not possible here. */
struct cgroup *cgroup_new(const char *root, unsigned n);
/* Directory descriptor of worker k's group for spawn_req.cgroup_fd, made at first use; -1: none. */
int         cgroup_fd(struct cgroup *c, unsigned k);
int         cgroup_kill(struct cgroup *c, int k); /* SIGKILL to all in it; 0, or a negative errno: walk the tree */
bool        cgroup_is_empty(struct cgroup *c, int k); /* true also when that cannot be known */
const char *cgroup_path(const struct cgroup *c); /* of the job's group: for keeper_remove_later() */
struct cgroup *cgroup_free(struct cgroup *c);    /* removes the groups that are empty; accepts NULL, returns NULL */

#endif
