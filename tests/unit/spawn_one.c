#include "tests/unit/spawn_one.h"

#include <errno.h>
#include <sys/wait.h>

int spawn_one(const struct spawn_req *req, pid_t *ret_pid, struct cc_err *err)
{
    struct spawn_batch *b = spawn_batch_new();
    pid_t               pid = -1;
    int                 r = b ? spawn_begin(b, req, &pid, err) : -ENOMEM;

    if (r == 0)
        r = spawn_next(b, &pid, err);
    while (r < 0 && pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    (void) spawn_batch_free(b);
    if (r < 0)
        return r;
    *ret_pid = pid;
    return 0;
}
