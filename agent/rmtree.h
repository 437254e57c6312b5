/* rmtree.h - remove a file, or a directory with all that is in it.
 *
 * Symbolic links are removed, never followed, also when somebody swaps one in meanwhile.  A cgroup's directory goes
 * too: its files cannot be removed one by one, but need not be.
 */
#ifndef AGENT_RMTREE_H
#define AGENT_RMTREE_H

/* 0 also when it is not there; else the negative errno of what stayed. */
int rmtree(const char *path);

#endif
