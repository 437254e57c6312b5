/* keeper.h - the process that the user started: it keeps the agent, and empties the tree when the agent is gone.
 *
 * keeper_start() forks.  The child returns with *ret_fd, on which end of file means that the keeper is gone, and goes
 * on as the agent, in a process group of its own.  The parent never returns: it is a subreaper, forwards signals and
 * job control to the agent, drains the workers' log pipes if the agent dies (keeper_hand_over), empties the tree, and
 * exits with the agent's status.  As PID 1 there is no second process: *ret_fd is -1.
 */
#ifndef AGENT_KEEPER_H
#define AGENT_KEEPER_H

#include <stdint.h>

#include "store/base/err.h"

int keeper_start(int *ret_fd, struct cc_err *err);

/* The agent tells the keeper what to do for a stream when the agent dies: read `pipe_fd` to its end and append it to
 * `file_fd`.  Both are duplicated into the keeper.  `id` names the stream; handing over the same id again replaces it. */
int  keeper_hand_over(int keeper_fd, uint32_t id, int pipe_fd, int file_fd, struct cc_err *err);
void keeper_take_back(int keeper_fd, uint32_t id); /* the stream is done */

/* A path (file or directory) to remove if the agent dies; `path` NULL or "" removes none. At most 16 are kept. */
void keeper_remove_later(int keeper_fd, const char *path);

#endif
