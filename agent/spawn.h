/* spawn.h - start processes with a clean state, at a cost that does not grow with the agent's memory.
 *
 * clone(CLONE_VM) on a stack of its own, and the kernel says when the child has exec'd (CLONE_CHILD_CLEARTID), so an
 * exec error comes back as an errno.  Unlike with vfork the caller need not sleep meanwhile: a batch has several starts
 * under way, since each new session begins by waiting for its turn on a busy machine (its scheduling group is new), and
 * one after the other these waits add up.
 *
 * The child has default signal dispositions (1..64), an empty signal mask, descriptors 0, 1, 2 (and 3, if it is given) and
 * those of `pass` only, its own session (or the terminal's foreground process group), PR_SET_PDEATHSIG = SIGKILL, and the
 * resource limits, directory and (unless it is given another) umask of the caller.  PDEATHSIG follows the calling thread:
 * call from the thread that lives as long as the agent.
 */
#ifndef AGENT_SPAWN_H
#define AGENT_SPAWN_H

#include <sched.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "store/base/err.h"

struct spawn_req {
    const char  *path; /* execve's; no search */
    char *const *argv, *const *env;
    int          fd[4];         /* become 0, 1, 2, and 3 when has_fd3 */
    bool         has_fd3;
    const cpu_set_t *mask;      /* NULL: inherit */
    int          cgroup_fd;     /* directory of a cgroup v2 group to start in (cgroup.h), or -1; best effort */
    bool         is_foreground; /* own process group in our session, made the terminal's foreground group (fd[0] a tty) */
    const int  *pass;           /* n_pass descriptors that stay open with their numbers; ascending, >= 3 (>= 4 with has_fd3);
                                 * borrowed until spawn_next() has told of this child */
    unsigned    n_pass;
    const mode_t *umask;        /* NULL: inherit */
    const struct rlimit *nofile; /* RLIMIT_NOFILE of the child where the caller has raised its own, or NULL: inherit */
};

struct spawn_batch; /* several starts that are under way at once */

struct spawn_batch *spawn_batch_new(void); /* NULL: out of memory */
/* Starts one, and copies what it needs of *req.  0: *ret_pid is a child of ours, of which spawn_next() will tell whether
 * it has come up; it must not be reaped before.  Negative: nothing was started; when the errno is that of an earlier
 * one, whose exec has failed, spawn_next() tells which. */
int spawn_begin(struct spawn_batch *b, const struct spawn_req *req, pid_t *ret_pid, struct cc_err *err);
/* Waits for the next in the order of their starts. 1: *ret_pid is up; 0: there are no more; negative: *ret_pid has failed,
 * and is about to exit with 127: reap it. */
int spawn_next(struct spawn_batch *b, pid_t *ret_pid, struct cc_err *err);
struct spawn_batch *spawn_batch_free(struct spawn_batch *b); /* only when spawn_next() says that there are no more */

#endif
