/* cgroupdir.h - the directories of our own control group, whichever version of cgroups governs a controller.
 *
 * A machine has v1, v2 or both at once ("hybrid": v2 is mounted but the controllers are v1's), and a
 * container may see its own group as the root of the mount.  A limit on any ancestor counts: start at the
 * group and go up.
 */
#ifndef CC_CGROUPDIR_H
#define CC_CGROUPDIR_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

enum { CGROUP_MAX_DIRS = 2 };

struct cgroup_dir {
    char   path[PATH_MAX]; /* without the root */
    size_t top;            /* length of the mount point: the highest directory that can be seen */
    bool   is_v2;
};

/* Our own group in the v1 hierarchy of `controller` and in the v2 hierarchy. Returns how many there are: 0, 1
 * or 2.  `root` is put before /proc: "" for the machine itself. */
unsigned cgroup_find(const char *root, const char *controller, struct cgroup_dir ret[CGROUP_MAX_DIRS]);

/* The v2 hierarchy alone. */
bool cgroup_find_v2(const char *root, struct cgroup_dir *ret);

/* Goes to the parent; false at the top. */
bool cgroup_up(struct cgroup_dir *d);

#endif
