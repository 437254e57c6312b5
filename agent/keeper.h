/* keeper.h - the process that the user started: it keeps the agent, and empties the tree when the agent is gone.
 *
 * keeper_start() forks.  The child returns with *ret_fd, on which end of file means that the keeper is gone, and goes
 * on as the agent, in a process group of its own, so that a terminal's signals reach the keeper only.  The parent never
 * returns: it is a subreaper, forwards signals and job control to the agent, and exits with the agent's status.  If the
 * agent is killed, it ends every process of the job, completes the log files (keeper_hand_over), removes what was
 * registered (keeper_remove_later), says so on stderr and exits 70.  If the keeper is killed, the agent has to do as much.
 *
 * Forwarded, to the agent alone: TERM INT HUP QUIT USR1 USR2 WINCH CONT TSTP, the real-time signals, and those of `extra`
 * (0-terminated, or NULL).  The same INT,
 * TERM, HUP or QUIT twice within 50 ms is one: timeout(1) signals its child and then its group.  After a TSTP the agent
 * stops itself (SIGSTOP) when its workers are; then the keeper does.  What was ignored when we were started stays so,
 * as nohup wants, except TERM, CHLD, CONT and TSTP.  An agent that dies of TERM, INT, HUP or QUIT before it handles
 * them ends as stopped: 128 + signal.
 *
 * As PID 1 there is no second process, *ret_fd is -1 and the agent handles the signals itself; unless there is a leash, or
 * an entry script that exec'd us left children: they are not the job's, and stay apart under the keeper.
 *
 * Who starts agents on other nodes leads them by a leash: each byte that comes on it is the number of a signal, forwarded
 * like those above, and its end, which is what the death of the other end looks like, is a TERM.
 *
 * In the agent: subreaper, SIGCHLD at its default, SIGTTIN and SIGTTOU ignored, and every signal blocked: what comes
 * before the agent can deal with it is neither lost nor deadly.
 */
#ifndef AGENT_KEEPER_H
#define AGENT_KEEPER_H

#include <stdint.h>

#include "store/base/err.h"

struct keeper_leash { /* both are called in the keeper's process, if they are there */
    int fd;                               /* closed in the agent; -1: nobody leads us */
    void (*began)(void *ctx);             /* the agent lives: what only it needs can be wiped */
    void (*ended)(void *ctx, int status); /* the last */
    void *ctx;
};

/* leash: copied, or NULL. */
int keeper_start(const int *extra, const struct keeper_leash *leash, int *ret_fd, struct cc_err *err);

/* The rest is for the agent; all of it does nothing, with success, when keeper_fd is -1. */

/* What to do for a stream when the agent dies: read `pipe_fd` to its end and append it to `file_fd`.  Both are duplicated
 * into the keeper.  `id` names the stream; handing over the same id again replaces it. */
int  keeper_hand_over(int keeper_fd, uint32_t id, int pipe_fd, int file_fd, struct cc_err *err);
void keeper_take_back(int keeper_fd, uint32_t id); /* the stream is done */

/* A path (file, directory with all in it, or cgroup, whose processes are killed first) to remove if the agent dies; at
 * most 16. NULL or "": forget those registered so far. */
void keeper_remove_later(int keeper_fd, const char *path);

/* The foreground worker has gone: the terminal belongs to the keeper's process group again, or Ctrl-C reaches nobody. */
void keeper_reclaim_terminal(int keeper_fd);

#endif
