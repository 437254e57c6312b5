#include "agent/resolver.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/base/macros.h"

struct resolver {
    atomic_uint       n_owners; /* the loop and the thread; who leaves last frees it */
    pthread_mutex_t   lock;
    bool              is_forgotten; /* under the lock: `ready` is not to be touched by the thread */
    uv_async_t        ready;
    resolver_done_fn *done;
    void             *ctx;
    char              host[RESOLVER_HOST_MAX], port[8];
    bool              is_usable;
    int               status, error; /* of getaddrinfo() */
    struct addrinfo  *list;
};

static void leave(struct resolver *r)
{
    if (atomic_fetch_sub(&r->n_owners, 1) > 1)
        return;
    if (r->list)
        freeaddrinfo(r->list);
    (void) pthread_mutex_destroy(&r->lock);
    free(r);
}

/* ---- the thread */

static void *look_up(void *arg)
{
    struct resolver       *r = arg;
    const struct addrinfo  hints = { .ai_socktype = SOCK_STREAM, .ai_flags = r->is_usable ? AI_ADDRCONFIG : 0 };
    struct addrinfo       *list = NULL;
    int                    status = getaddrinfo(r->host, r->port, &hints, &list), error = errno;

    (void) pthread_mutex_lock(&r->lock);
    r->status = status;
    r->error = error;
    r->list = status == 0 ? list : NULL;
    if (!r->is_forgotten)
        (void) uv_async_send(&r->ready);
    (void) pthread_mutex_unlock(&r->lock);
    leave(r);
    return NULL;
}

/* Signals are for the loop's thread. */
static int start_thread(struct resolver *r)
{
    sigset_t       all, was;
    pthread_attr_t attr;
    pthread_t      thread;
    int            code = pthread_attr_init(&attr);

    if (code != 0)
        return -code;
    (void) pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    (void) sigfillset(&all);
    (void) pthread_sigmask(SIG_SETMASK, &all, &was);
    r->n_owners++;
    code = pthread_create(&thread, &attr, look_up, r);
    (void) pthread_sigmask(SIG_SETMASK, &was, NULL);
    (void) pthread_attr_destroy(&attr);
    if (code != 0)
        r->n_owners--; /* nobody else has seen it */
    return -code;
}

/* ---- the loop */

static void on_closed(uv_handle_t *h)
{
    leave(CC_CONTAINER_OF(h, struct resolver, ready));
}

static void on_ready(uv_async_t *a)
{
    struct resolver *r = CC_CONTAINER_OF(a, struct resolver, ready);
    struct addrinfo *list = r->list;

    r->list = NULL;
    uv_close((uv_handle_t *) a, on_closed);
    r->done(r->ctx, list, list ? "" : r->status == EAI_SYSTEM ? strerror(r->error) : gai_strerror(r->status));
}

struct addrinfo *resolver_number(const char *host, uint16_t port)
{
    const struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV };
    struct addrinfo      *list = NULL;
    char                  text[8];

    (void) snprintf(text, sizeof text, "%u", port);
    return getaddrinfo(host, text, &hints, &list) == 0 ? list : NULL;
}

struct resolver *resolver_start(uv_loop_t *loop, const char *host, uint16_t port, bool is_usable, resolver_done_fn *done,
                                void *ctx)
{
    struct resolver *r = calloc(1, sizeof *r);

    if (!r)
        return NULL;
    if (uv_async_init(loop, &r->ready, on_ready) < 0) {
        free(r);
        return NULL;
    }
    (void) pthread_mutex_init(&r->lock, NULL);
    r->n_owners = 1;
    r->done = done;
    r->ctx = ctx;
    r->is_usable = is_usable;
    (void) snprintf(r->host, sizeof r->host, "%s", host);
    (void) snprintf(r->port, sizeof r->port, "%u", port);
    r->list = resolver_number(host, port);
    if (r->list) {
        (void) uv_async_send(&r->ready);
    } else if (start_thread(r) < 0) {
        uv_close((uv_handle_t *) &r->ready, on_closed);
        return NULL;
    }
    return r;
}

void resolver_cancel(struct resolver *r)
{
    (void) pthread_mutex_lock(&r->lock);
    r->is_forgotten = true;
    (void) pthread_mutex_unlock(&r->lock);
    uv_close((uv_handle_t *) &r->ready, on_closed);
}
