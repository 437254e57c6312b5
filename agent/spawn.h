/* spawn.h - start one process with a clean state, at a cost that does not grow with the agent's memory.
 *
 * clone(CLONE_VM | CLONE_VFORK) on a stack of its own: the caller sleeps until the exec, so an exec error comes back
 * as an errno.  The child has default signal dispositions (1..64), an empty signal mask, descriptors 0, 1, 2 only, its own
 * session (or the terminal's foreground process group), PR_SET_PDEATHSIG = SIGKILL, and the resource limits, umask
 * and directory of the caller.  PDEATHSIG follows the calling thread: call from the thread that lives as long as the agent.
 */
#ifndef AGENT_SPAWN_H
#define AGENT_SPAWN_H

#include <sched.h>
#include <stdbool.h>
#include <sys/types.h>

#include "store/base/err.h"

struct spawn_req {
    const char  *path; /* execve's; no search */
    char *const *argv, *const *env;
    int          fd[3];         /* become 0, 1, 2 */
    const cpu_set_t *mask;      /* NULL: inherit */
    int          cgroup_fd;     /* directory of a cgroup v2 group to start in (cgroup.h), or -1; best effort */
    bool         is_foreground; /* own process group in our session, made the terminal's foreground group (fd[0] a tty) */
    int          oom_score_adj; /* value to restore in the child (best effort), or INT_MIN: leave */
};

/* 0 and *ret_pid, or a negative errno of the step that failed, which err names; then no process is left. */
int spawn_process(const struct spawn_req *req, pid_t *ret_pid, struct cc_err *err);

#endif
