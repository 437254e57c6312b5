/* terminal.h - who may read from the terminal: us, or the worker that gets stdin.
 *
 * A worker can read from a terminal only in the foreground process group of our own session.  It is put there when
 * ccrun itself was in the foreground; a ccrun in the background, or with several workers and no wish of the user, gives
 * its workers /dev/null instead of a terminal that would answer with an error.
 */
#ifndef AGENT_TERMINAL_H
#define AGENT_TERMINAL_H

#include <stdbool.h>
#include <sys/types.h>

#include "store/base/err.h"

struct terminal {
    int   null_fd;     /* /dev/null */
    bool  is_ours;     /* stdin is a terminal, we were in its foreground, and a worker gets it */
    bool  is_unusable; /* stdin is a terminal that no worker can read */
    pid_t worker;      /* process group that has it; 0: none */
};

/* `is_wanted`: a worker shall have the terminal if there is one. */
int  terminal_take(struct terminal *t, bool is_wanted, struct cc_err *err);
void terminal_give(struct terminal *t); /* back to the worker, after job control stopped us */
void terminal_close(struct terminal *t);

#endif
