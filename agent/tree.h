/* tree.h - the processes below us: find, signal and reap them, whoever daemonised and wherever they hide.
 *
 * The caller is a subreaper (tree_adopt), so whatever its children leave behind becomes its child: every descendant of
 * the calling process belongs to the job, and nothing else does.  No names, no patterns.
 */
#ifndef AGENT_TREE_H
#define AGENT_TREE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "store/base/err.h"

int  tree_adopt(struct cc_err *err);        /* PR_SET_CHILD_SUBREAPER */
int  tree_signal(int signum);               /* to every descendant; how many it reached, zombies not counted */
bool tree_is_empty(void);                   /* no child left, not even a zombie */
/* Kill every descendant and reap it, until none is left or `timeout_ms` have passed. Returns how many are left
 * (processes in D state outlive SIGKILL); *ret_stuck, when not NULL, is one of them. */
int  tree_kill_all(uint64_t timeout_ms, pid_t *ret_stuck);

#endif
