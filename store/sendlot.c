#include "store/sendlot.h"

#include <errno.h>
#include <linux/aio_abi.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct sendlot {
    aio_context_t   aio;
    long            n;
    struct iocb     writes[SENDLOT_MAX], *list[SENDLOT_MAX];
    struct io_event done[SENDLOT_MAX];
};

struct sendlot *sendlot_new(void)
{
    struct sendlot *l = calloc(1, sizeof *l);

    if (!l || syscall(SYS_io_setup, SENDLOT_MAX, &l->aio) < 0) {
        free(l);
        return NULL;
    }
    for (unsigned i = 0; i < SENDLOT_MAX; i++)
        l->list[i] = &l->writes[i];
    return l;
}

struct sendlot *sendlot_free(struct sendlot *l)
{
    if (l)
        (void) syscall(SYS_io_destroy, l->aio);
    free(l);
    return NULL;
}

bool sendlot_add(struct sendlot *l, int fd, const void *bytes, size_t n, void *owner)
{
    if (l->n == SENDLOT_MAX)
        return false;
    l->writes[l->n++] = (struct iocb){
        .aio_data = (uintptr_t) owner,
        .aio_lio_opcode = IOCB_CMD_PWRITE,
        .aio_fildes = (uint32_t) fd,
        .aio_buf = (uintptr_t) bytes,
        .aio_nbytes = n,
    };
    return true;
}

/* A write to a socket that the peer has reset raises SIGPIPE, and here is no MSG_NOSIGNAL to forbid it.  So
 * it is blocked meanwhile, and taken back unless it was there before. */
static long submit_quietly(struct sendlot *l)
{
    static const struct timespec at_once = { 0 };
    sigset_t                     pipe, old, before;
    long                         n, i;
    bool                         is_raised = false;

    (void) sigemptyset(&pipe);
    (void) sigaddset(&pipe, SIGPIPE);
    (void) pthread_sigmask(SIG_BLOCK, &pipe, &old);
    (void) sigemptyset(&before);
    if (sigismember(&old, SIGPIPE))
        (void) sigpending(&before);
    n = syscall(SYS_io_submit, l->aio, l->n, l->list);
    if (n > 0) /* a socket that does not block is done with by now, whatever came of it */
        n = syscall(SYS_io_getevents, l->aio, n, n, l->done, NULL);
    for (i = 0; i < n; i++)
        is_raised |= l->done[i].res == -EPIPE;
    if (is_raised && !sigismember(&before, SIGPIPE))
        (void) sigtimedwait(&pipe, NULL, &at_once);
    (void) pthread_sigmask(SIG_SETMASK, &old, NULL);
    return n;
}

void sendlot_go(struct sendlot *l, void (*sent)(void *owner, size_t n))
{
    long n = l->n > 0 ? submit_quietly(l) : 0, i;

    l->n = 0;
    for (i = 0; i < n; i++) {
        if (l->done[i].res > 0)
            sent((void *) (uintptr_t) l->done[i].data, (size_t) l->done[i].res);
    }
}
