/* cgroup.h - a cgroup v2 group for the workers where one may be made, and evidence of the out-of-memory killer.
 *
 * Best effort: a group is only a faster and tighter way to end the workers' trees, which tree.h ends without one too.
 * One for all of them, since a job starts and ends as a whole: a group for each would cost a worker 40 to 200 us.
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

/* Only finds the place, ccrun-<our pid> below our own group: it can be registered with the keeper before there is
 * anything to remove. NULL: there is no cgroup v2, or no memory. */
struct cgroup *cgroup_new(const char *root);
const char    *cgroup_path(const struct cgroup *c);
/* Before each attempt: makes the group, anew after a kill; the first time it removes what dead ones left beside it.  0, or
 * a negative errno: none may be made here, or it takes nobody; then cgroup_fd() is -1 and the attempt goes without. */
int            cgroup_renew(struct cgroup *c);
int            cgroup_fd(const struct cgroup *c); /* for spawn_req.cgroup_fd; -1 also when c is NULL */
int            cgroup_kill(struct cgroup *c);     /* SIGKILL to all in it; 0, or a negative errno: walk the tree */
/* Removes the group, unless a process in D state is in it. Accepts NULL, returns NULL. */
struct cgroup *cgroup_free(struct cgroup *c);

#endif
