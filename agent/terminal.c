#include "agent/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

int terminal_take(struct terminal *t, bool is_wanted, struct cc_err *err)
{
    bool is_tty = isatty(STDIN_FILENO);
    pid_t front = is_tty ? tcgetpgrp(STDIN_FILENO) : -1;

    *t = (struct terminal) { .null_fd = open("/dev/null", O_RDWR | O_CLOEXEC) };
    if (t->null_fd < 0)
        return cc_fail(err, -errno, "open '/dev/null': %s", strerror(errno));
    /* The agent has a process group of its own; the one in front is that of the keeper, or ours as PID 1. */
    t->is_ours = is_tty && is_wanted && front > 0 && (front == getpgrp() || front == getpgid(getppid()));
    t->is_unusable = is_tty && !t->is_ours;
    return 0;
}

void terminal_give(struct terminal *t)
{
    if (t->is_ours && t->worker > 0)
        (void) tcsetpgrp(STDIN_FILENO, t->worker);
}

void terminal_close(struct terminal *t)
{
    if (t->null_fd >= 0)
        (void) close(t->null_fd);
    t->null_fd = -1;
}
