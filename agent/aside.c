#include "agent/aside.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "store/base/macros.h"

struct aside {
    uv_async_t              async;
    const struct aside_cbs *cbs;
    void                   *ctx;
    pthread_t               thread;
    pthread_mutex_t         mutex; /* of what follows */
    pthread_cond_t          is_news;
    void                   *job;
    enum { IDLE, RUNNING, BACK } state; /* BACK: until the loop has seen it */
    bool                    is_closing;
    unsigned                n_owners; /* the thread, and the loop's handle */
};

/* With the mutex held, which goes with the last. */
static void let_go(struct aside *a)
{
    bool is_last = --a->n_owners == 0;

    (void) pthread_mutex_unlock(&a->mutex);
    if (!is_last)
        return;
    (void) pthread_cond_destroy(&a->is_news);
    (void) pthread_mutex_destroy(&a->mutex);
    free(a);
}

static void *be_aside(void *arg)
{
    struct aside *a = arg;

    (void) pthread_mutex_lock(&a->mutex);
    while (!a->is_closing) {
        if (a->state != RUNNING) {
            (void) pthread_cond_wait(&a->is_news, &a->mutex);
            continue;
        }
        (void) pthread_mutex_unlock(&a->mutex);
        a->cbs->run(a->job);
        (void) pthread_mutex_lock(&a->mutex);
        a->state = BACK;
        (void) pthread_cond_broadcast(&a->is_news);
        if (!a->is_closing)
            (void) uv_async_send(&a->async);
    }
    if (a->state != IDLE)
        a->cbs->free(a->job);
    let_go(a);
    return NULL;
}

static void on_async(uv_async_t *u)
{
    struct aside *a = CC_CONTAINER_OF(u, struct aside, async);
    bool          is_back;

    (void) pthread_mutex_lock(&a->mutex);
    is_back = a->state == BACK;
    if (is_back)
        a->state = IDLE;
    (void) pthread_mutex_unlock(&a->mutex);
    if (is_back)
        a->cbs->done(a->ctx, a->job);
}

/* Every signal is for the loop. */
static int start_thread(struct aside *a)
{
    sigset_t all, old;
    int      r;

    (void) sigfillset(&all);
    (void) pthread_sigmask(SIG_SETMASK, &all, &old);
    r = pthread_create(&a->thread, NULL, be_aside, a);
    (void) pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (r == 0)
        (void) pthread_detach(a->thread);
    return -r;
}

static void on_closed(uv_handle_t *u)
{
    struct aside *a = CC_CONTAINER_OF((uv_async_t *) (void *) u, struct aside, async);

    (void) pthread_mutex_lock(&a->mutex);
    let_go(a);
}

struct aside *aside_new(uv_loop_t *loop, const struct aside_cbs *cbs, void *ctx, struct cc_err *err)
{
    struct aside      *a = calloc(1, sizeof *a);
    pthread_condattr_t attr;
    int                r = a ? uv_async_init(loop, &a->async, on_async) : -ENOMEM;

    if (r < 0) {
        free(a);
        (void) cc_fail(err, r, "start a thread: %s", strerror(-r));
        return NULL;
    }
    a->cbs = cbs;
    a->ctx = ctx;
    (void) pthread_mutex_init(&a->mutex, NULL);
    (void) pthread_condattr_init(&attr);
    (void) pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void) pthread_cond_init(&a->is_news, &attr);
    (void) pthread_condattr_destroy(&attr);
    a->n_owners = 2;
    r = start_thread(a);
    if (r == 0)
        return a;
    a->n_owners = 1;
    uv_close((uv_handle_t *) &a->async, on_closed);
    (void) cc_fail(err, r, "start a thread: %s", strerror(-r));
    return NULL;
}

void aside_start(struct aside *a, void *job)
{
    (void) pthread_mutex_lock(&a->mutex);
    assert(a->state == IDLE);
    a->job = job;
    a->state = RUNNING;
    (void) pthread_cond_broadcast(&a->is_news);
    (void) pthread_mutex_unlock(&a->mutex);
}

bool aside_is_busy(const struct aside *a)
{
    return a->state != IDLE; /* nobody but the loop makes it idle, or busy when it is */
}

bool aside_wait(struct aside *a, uint64_t ms)
{
    struct timespec until;
    bool            is_back;

    (void) clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t) (ms / 1000);
    until.tv_nsec += (long) (ms % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    (void) pthread_mutex_lock(&a->mutex);
    while (a->state == RUNNING && pthread_cond_timedwait(&a->is_news, &a->mutex, &until) == 0)
        ;
    is_back = a->state == BACK;
    if (is_back)
        a->state = IDLE;
    (void) pthread_mutex_unlock(&a->mutex);
    return is_back;
}

void aside_close(struct aside *a)
{
    (void) pthread_mutex_lock(&a->mutex);
    a->is_closing = true;
    (void) pthread_cond_broadcast(&a->is_news);
    (void) pthread_mutex_unlock(&a->mutex);
    uv_close((uv_handle_t *) &a->async, on_closed);
}
