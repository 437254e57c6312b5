/* control.h - the agent's local socket: it answers whether it is alive and whether its workers run.
 *
 * A datagram socket with an abstract name, so that it needs no directory that can be written to and leaves nothing behind.
 * The name has the PID namespace and the pid that the user knows (the keeper's): who may ask is in the same container, or the
 * same machine.  One datagram is a question, one the answer: "1 text" for yes or "0 text" for no.  Only our own user and root
 * are answered.
 */
#ifndef AGENT_CONTROL_H
#define AGENT_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "store/base/err.h"

enum { CONTROL_TEXT_MAX = 256, CONTROL_AGENTS_MAX = 64 };

/* Yes or no, and a few words; from the loop. */
typedef bool control_fn(void *ctx, const char *question, char ret_text[CONTROL_TEXT_MAX]);

struct control;

/* -EADDRINUSE: another has this name.  Close before the loop ends. */
int  control_open(struct control **ret, uv_loop_t *loop, pid_t pid, control_fn *answer, void *ctx, struct cc_err *err);
void control_close(struct control *c); /* accepts NULL; frees it once the loop has let go of it */

/* ---- for those who ask; no loop */

/* Which agents run in our PID namespace and use our network: their pids, at most CONTROL_AGENTS_MAX.  How many. */
unsigned control_agents(pid_t ret[CONTROL_AGENTS_MAX]);
/* 1 yes, 0 no, with its words; -ECONNREFUSED: no agent has this pid; -ETIMEDOUT: it is there and does not answer; another
 * errno. */
int      control_ask(pid_t pid, const char *question, uint64_t timeout_ms, char ret_text[CONTROL_TEXT_MAX], struct cc_err *err);

#endif
