/* nccl.c - the backend on GPUs: libnccl.so.2 and the driver's libcuda.so.1, both loaded when they are asked
 * for.
 *
 * The communicator is a non-blocking one: no call of NCCL waits, so each is made under one lock, which
 * abort() gets soon from any thread, and who waits for a result asks again and again: is the event behind it
 * there, has NCCL failed, has another rank said that it gave up, is the deadline over.
 *
 * Calls are issued in their order, in one group for each collective.  Messages that were started are issued
 * together in one group when one of them is asked for, so that an exchange is not in its own way.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backends/backend.h"
#include "backends/calltext.h"
#include "backends/lastwords.h"
#include "backends/nccl_lib.h"
#include "backends/nccl_work.h"
#include "store/base/clock.h"

enum {
    WATCH_MS = 250,  /* how often somebody who waits asks whether another rank has given up */
    CLOSE_MS = 5000, /* for NCCL to end in good order */
    SPINS = 30,      /* a small call is over in some 20 us */
    PAUSE_MIN_NS = 20000,
    PAUSE_MAX_NS = 1000000,
};

struct nccl {
    struct nccl_api   api;
    struct cuda       cuda;
    int               rank, size;
    struct lastwords *words;
    pthread_mutex_t   words_turn;

    pthread_mutex_t   turn; /* of what follows, of the GPU and of NCCL */
    nccl_comm         comm; /* NULL: not yet, or aborted */
    cu_address        one;  /* for barriers */
    bool              is_launching;
    struct nccl_work *first, *last; /* issued and not, in their order */
    struct cc_err     failed;       /* code 0: it has not */
};

static void enter(struct nccl *b)
{
    (void) pthread_mutex_lock(&b->turn);
    cuda_enter(&b->cuda);
}

static void leave(struct nccl *b)
{
    cuda_leave(&b->cuda);
    (void) pthread_mutex_unlock(&b->turn);
}

static struct nccl_who who_of(struct nccl *b)
{
    return (struct nccl_who){ &b->api, &b->cuda, b->comm, b->rank, b->size, b->one };
}

/* The n-th pause of somebody who waits: none at first, then longer ones. */
static void pause_for(unsigned n)
{
    struct timespec t = { .tv_nsec = PAUSE_MAX_NS };

    if (n < SPINS)
        return;
    if (n - SPINS < 6)
        t.tv_nsec = (long) PAUSE_MIN_NS << (n - SPINS);
    (void) clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
}

/* ---- listening to other ranks */

/* *next: when to ask again; 0 at first. */
static bool has_heard(struct nccl *b, uint64_t *next, struct cc_err *err)
{
    uint64_t now = cc_monotonic_ms(), interval = b->size > WATCH_MS ? (uint64_t) b->size : WATCH_MS;
    bool     has = *next > 0 && now >= *next;

    if (has || *next == 0)
        *next = now + interval;
    if (!has)
        return false;
    (void) pthread_mutex_lock(&b->words_turn);
    has = lastwords_heard(b->words, err);
    (void) pthread_mutex_unlock(&b->words_turn);
    return has;
}

static void abort_comm(struct nccl *b)
{
    enter(b);
    if (b->comm)
        (void) b->api.ncclCommAbort(b->comm);
    b->comm = NULL;
    leave(b);
}

/* The first failure ends the communicator, is told to the other ranks, and learns from them whose fault it
 * is. */
static int mourn(struct nccl *b, const struct nccl_work *w, struct cc_err *err)
{
    char        text[CALLTEXT_MAX];
    const char *doing = calltext(&w->call, text);
    bool        is_first;

    (void) pthread_mutex_lock(&b->turn);
    is_first = b->failed.code == 0;
    if (is_first)
        b->failed = *err;
    else
        *err = b->failed;
    (void) pthread_mutex_unlock(&b->turn);
    if (!is_first)
        return err->code;
    (void) pthread_mutex_lock(&b->words_turn);
    lastwords_say(b->words, doing, err->msg); /* before they find out by themselves */
    (void) pthread_mutex_unlock(&b->words_turn);
    abort_comm(b);
    (void) pthread_mutex_lock(&b->words_turn);
    if (err->code != -ECANCELED)
        lastwords_ask(b->words, doing, !work_is_message(w), err);
    (void) pthread_mutex_unlock(&b->words_turn);
    return err->code;
}

/* ---- meeting */

static int get_id(struct nccl *b, const struct backend_cfg *cfg, uint64_t deadline, nccl_id *ret,
                  struct cc_err *err)
{
    uint64_t next = 0;
    int      r = -ETIMEDOUT;

    while (r == -ETIMEDOUT) {
        struct cc_buf v = { 0 };

        r = keystore_get(cfg->store, "id", WATCH_MS, &v, err);
        if (r == 0 && cc_buf_len(&v) == sizeof *ret)
            memcpy(ret, cc_buf_data(&v), sizeof *ret);
        else if (r == 0)
            r = cc_fail(err, -EPROTO, "rank 0 has published %zu bytes as the id of the group",
                        cc_buf_len(&v));
        cc_buf_free(&v);
        if (r == -ETIMEDOUT && has_heard(b, &next, err))
            return err->code;
        if (r == -ETIMEDOUT && cc_monotonic_ms() >= deadline)
            return cc_fail(err, r, "rank 0 has not published the id of the group within %.3g s",
                           (double) cfg->timeout_ms / 1000);
    }
    return r;
}

static int make_id(struct nccl *b, const struct backend_cfg *cfg, nccl_id *ret, struct cc_err *err)
{
    nccl_result n;

    enter(b);
    n = b->api.ncclGetUniqueId(ret);
    if (n != NCCL_OK)
        (void) nccl_fail(&b->api, n, NULL, err);
    leave(b);
    return n != NCCL_OK ? err->code
                        : keystore_set(cfg->store, "id", (struct cc_bytes){ (void *) ret, sizeof *ret }, err);
}

/* 0, -EAGAIN, or NCCL's own failure. */
static int ask_state(struct nccl *b, struct cc_err *err)
{
    nccl_result state = NCCL_OK, n = b->api.ncclCommGetAsyncError(b->comm, &state);

    if (n == NCCL_OK)
        n = state;
    if (n == NCCL_IN_PROGRESS)
        return -EAGAIN;
    return n == NCCL_OK ? 0 : nccl_fail(&b->api, n, b->comm, err);
}

static int begin_init(struct nccl *b, nccl_id id, struct cc_err *err)
{
    struct nccl_conf conf = { .size = sizeof conf,
                              .magic = (unsigned) NCCL_MAGIC,
                              .version = NCCL_CONF_VERSION,
                              .blocking = 0,
                              .cga_cluster_size = NCCL_UNDEFINED };
    nccl_result      n = b->api.ncclCommInitRankConfig(&b->comm, b->size, id, b->rank, &conf);

    if (n == NCCL_OK || n == NCCL_IN_PROGRESS)
        return 0;
    b->comm = NULL;
    return nccl_fail(&b->api, n, NULL, err);
}

static int wait_init(struct nccl *b, uint64_t deadline, uint64_t timeout_ms, struct cc_err *err)
{
    uint64_t next = 0;

    for (unsigned n = 0;; n++) {
        int r;

        enter(b);
        r = ask_state(b, err);
        leave(b);
        if (r != -EAGAIN)
            return r;
        if (has_heard(b, &next, err))
            return err->code;
        if (cc_monotonic_ms() >= deadline)
            return cc_fail(err, -ETIMEDOUT, "the ranks are not connected within %.3g s",
                           (double) timeout_ms / 1000);
        pause_for(n);
    }
}

static int connect_all(struct nccl *b, const struct backend_cfg *cfg, struct cc_err *err)
{
    uint64_t deadline = cc_deadline_in(cfg->timeout_ms);
    int32_t  zero = 0;
    nccl_id  id;
    int      r = b->rank == 0 ? make_id(b, cfg, &id, err) : get_id(b, cfg, deadline, &id, err);

    if (r < 0)
        return r;
    enter(b);
    r = cuda_alloc(&b->cuda, sizeof zero, &b->one, err);
    if (r == 0)
        r = cuda_to_device(&b->cuda, b->one, &zero, sizeof zero, err);
    if (r == 0)
        r = begin_init(b, id, err);
    leave(b);
    return r < 0 ? r : wait_init(b, deadline, cfg->timeout_ms, err);
}

static void nccl_close(void *ctx);

static int nccl_open(void **ret, struct backend_cfg *cfg, struct cc_err *err)
{
    struct nccl *b = calloc(1, sizeof *b);
    int          r;

    if (!b)
        return cc_fail(err, -ENOMEM, "no memory");
    b->rank = cfg->rank;
    b->size = cfg->size;
    (void) pthread_mutex_init(&b->turn, NULL);
    (void) pthread_mutex_init(&b->words_turn, NULL);
    r = lastwords_open(&b->words, cfg->store, cfg->rank, cfg->size,
                       err); /* first: others wait for us below */
    if (r == 0)
        r = cuda_open(&b->cuda, cfg->device, err);
    if (r == 0)
        r = nccl_load(&b->api, err);
    if (r == 0)
        r = connect_all(b, cfg, err);
    if (r < 0) {
        if (b->words)
            lastwords_say(b->words, "init", err->msg);
        if (b->words && r == -ETIMEDOUT)
            lastwords_ask(b->words, "init", true, err);
        if (b->cuda.has_context)
            abort_comm(b);
        nccl_close(b);
    } else {
        *ret = b;
    }
    return r;
}

static int nccl_probe(const char *device, char ret_place[BACKEND_PLACE_MAX], struct cc_err *err)
{
    struct nccl_api api;
    int             r = cuda_probe(device, ret_place, BACKEND_PLACE_MAX, err);

    return r < 0 ? r : nccl_load(&api, err);
}

static int nccl_version(char ret[BACKEND_VERSION_MAX], struct cc_err *err)
{
    struct nccl_api api;
    char            text[NCCL_VERSION_TEXT_MAX];
    int             version = 0, r = nccl_load(&api, err);

    if (r < 0)
        return r;
    if (api.ncclGetVersion(&version) != NCCL_OK)
        return cc_fail(err, -EIO, "NCCL does not say its version");
    (void) snprintf(ret, BACKEND_VERSION_MAX, "NCCL %s", nccl_version_text(version, text));
    return 0;
}

/* ---- issuing; all within enter() */

static void append(struct nccl *b, struct nccl_work *w)
{
    if (b->last)
        b->last->next = w;
    else
        b->first = w;
    b->last = w;
}

static void unlink_work(struct nccl *b, struct nccl_work *w)
{
    struct nccl_work **at = &b->first, *before = NULL;

    while (*at && *at != w) {
        before = *at;
        at = &before->next;
    }
    if (!*at)
        return;
    *at = w->next;
    if (b->last == w)
        b->last = before;
}

static int submit(struct nccl *b, struct nccl_work *w, const struct ccrun_call *call, uint64_t timeout_ms,
                  struct cc_err *err)
{
    struct nccl_who who = who_of(b);
    int             r;

    w->call = *call;
    w->timeout_ms = timeout_ms;
    w->deadline = cc_deadline_in(timeout_ms);
    w->stream = call->stream ? call->stream : b->cuda.work;
    r = work_stage(w, &who, err);
    if (r == 0)
        append(b, w);
    return r;
}

static struct nccl_work *first_waiting(const struct nccl *b)
{
    struct nccl_work *w = b->first;

    while (w && w->state != WORK_WAITING)
        w = w->next;
    return w;
}

/* Tells NCCL of one collective, or of all the messages up to the next one. */
static int issue(struct nccl *b, struct nccl_work *first, struct cc_err *err)
{
    struct nccl_who who = who_of(b);
    nccl_result     n = b->api.ncclGroupStart(), end;
    cu_result       cu = CU_OK;
    bool            is_message = work_is_message(first);

    if (n != NCCL_OK)
        return nccl_fail(&b->api, n, b->comm, err);
    for (struct nccl_work *w = first; w && cu == CU_OK && (n == NCCL_OK || n == NCCL_IN_PROGRESS);
         w = w->next) {
        if (w != first && (!is_message || !work_is_message(w)))
            break;
        n = work_issue(w, &who, &cu);
        w->state = WORK_LAUNCHING;
    }
    end = b->api.ncclGroupEnd();
    b->is_launching = true;
    if (cu != CU_OK)
        return cuda_fail(&b->cuda, cu, err, "copy within the GPU");
    if (n == NCCL_OK || n == NCCL_IN_PROGRESS)
        n = end;
    return n == NCCL_OK || n == NCCL_IN_PROGRESS ? 0 : nccl_fail(&b->api, n, b->comm, err);
}

/* What NCCL has launched is in its streams: marks the place behind it. */
static int mark(struct nccl *b, struct cc_err *err)
{
    const struct cuda_api *api = &b->cuda.api;

    for (struct nccl_work *w = b->first; w; w = w->next) {
        cu_result cu;

        if (w->state != WORK_LAUNCHING)
            continue;
        cu = api->cuEventCreate(&w->event, CU_EVENT_NO_TIME);
        if (cu == CU_OK)
            cu = api->cuEventRecord(w->event, w->stream);
        if (cu != CU_OK)
            return cuda_fail(&b->cuda, cu, err, "mark a stream");
        w->state = WORK_RUNNING;
    }
    b->is_launching = false;
    return 0;
}

/* As far as it goes without waiting. */
static int advance(struct nccl *b, struct cc_err *err)
{
    struct nccl_work *w;
    int               r;

    for (;;) {
        r = ask_state(b, err);
        if (r == -EAGAIN)
            return 0;
        if (r == 0 && b->is_launching)
            r = mark(b, err);
        w = r == 0 ? first_waiting(b) : NULL;
        if (!w)
            return r;
        r = issue(b, w, err);
        if (r < 0)
            return r;
    }
}

static bool is_over(struct nccl *b, const struct nccl_work *w, cu_result *ret)
{
    *ret = w->state == WORK_RUNNING ? b->cuda.api.cuEventQuery(w->event) : CU_NOT_READY;
    return *ret != CU_NOT_READY;
}

/* 0: it is over; -EAGAIN. */
static int step(struct nccl *b, struct nccl_work *w, struct cc_err *err)
{
    struct nccl_who who = who_of(b);
    cu_result       cu;
    int             r = 0;

    if (b->failed.code < 0) {
        *err = b->failed;
        return err->code;
    }
    if (!b->comm)
        return cc_fail(err, -ECANCELED, "aborted");
    /* First: a peer that ended after its part of this one has not failed it. */
    if (!is_over(b, w, &cu)) {
        r = advance(b, err);
        if (r < 0 || !is_over(b, w, &cu))
            return r < 0 ? r : -EAGAIN;
    }
    if (cu != CU_OK)
        return cuda_fail(&b->cuda, cu, err, "finish on the GPU");
    w->state = WORK_OVER;
    return work_collect(w, &who, err);
}

/* ---- waiting */

static bool is_late(const struct nccl_work *w, struct cc_err *err)
{
    if (cc_monotonic_ms() < w->deadline)
        return false;
    (void) cc_fail(err, -ETIMEDOUT, "not done within %.3g s", (double) w->timeout_ms / 1000);
    return true;
}

/* Until it is over or failed; -EAGAIN: not within wait_ms. */
static int drive(struct nccl *b, struct nccl_work *w, uint64_t wait_ms, struct cc_err *err)
{
    uint64_t until = cc_deadline_in(wait_ms);
    int      r;

    for (unsigned n = 0;; n++) {
        enter(b);
        r = step(b, w, err);
        leave(b);
        if (r != -EAGAIN)
            break;
        if (is_late(w, err) || has_heard(b, &w->next_watch, err)) {
            r = err->code;
            break;
        }
        if (cc_monotonic_ms() >= until)
            return r;
        pause_for(n);
    }
    return r < 0 ? mourn(b, w, err) : 0;
}

static void forget(struct nccl *b, struct nccl_work *w)
{
    struct nccl_who who;

    enter(b);
    who = who_of(b);
    unlink_work(b, w);
    work_release(w, &who);
    leave(b);
    if (w->is_heap)
        free(w);
}

static int nccl_run(void *ctx, const struct ccrun_call *call, uint64_t timeout_ms, struct cc_err *err)
{
    struct nccl     *b = ctx;
    struct nccl_work w = { 0 };
    int              r;

    enter(b);
    r = submit(b, &w, call, timeout_ms, err);
    leave(b);
    if (r == 0)
        r = drive(b, &w, UINT64_MAX, err);
    else if (r != -EINVAL)
        r = mourn(b, &w, err);
    forget(b, &w);
    return r;
}

/* Messages are issued later, with others that may come. */
static int nccl_start(void *ctx, const struct ccrun_call *call, uint64_t timeout_ms, void **ret_handle,
                      struct cc_err *err)
{
    struct nccl      *b = ctx;
    struct nccl_work *w = calloc(1, sizeof *w);
    int               r;

    if (!w)
        return cc_fail(err, -ENOMEM, "no memory for a request");
    w->is_heap = true;
    enter(b);
    r = submit(b, w, call, timeout_ms, err);
    if (r == 0 && !work_is_message(w) && b->comm)
        r = advance(b, err);
    leave(b);
    if (r < 0 && r != -EINVAL)
        r = mourn(b, w, err);
    if (r < 0)
        forget(b, w);
    else
        *ret_handle = w;
    return r;
}

static int nccl_poll(void *ctx, void *handle, uint64_t wait_ms, struct cc_err *err)
{
    struct nccl *b = ctx;
    int          r = drive(b, handle, wait_ms, err);

    if (r != -EAGAIN)
        forget(b, handle);
    return r;
}

/* ---- the end */

static void nccl_abort(void *ctx)
{
    struct nccl *b = ctx;
    bool         is_busy;

    abort_comm(b);
    (void) pthread_mutex_lock(&b->turn);
    is_busy = b->first != NULL;
    (void) pthread_mutex_unlock(&b->turn);
    /* Who waits for a call tells the others in which; nobody else waits here for the store. */
    if (!is_busy && pthread_mutex_trylock(&b->words_turn) == 0) {
        lastwords_say(b->words, "ccrun_abort()", "the group was aborted there");
        (void) pthread_mutex_unlock(&b->words_turn);
    }
}

/* NCCL flushes what there is and says goodbye to its peers; a rank that does not hear it is not waited for
 * long. */
static void finish(struct nccl *b)
{
    uint64_t      deadline = cc_deadline_in(CLOSE_MS);
    struct cc_err err;
    nccl_result   end = NCCL_INVALID_USAGE;
    int           r;

    enter(b);
    if (b->comm)
        end = b->api.ncclCommFinalize(b->comm);
    r = end == NCCL_OK || end == NCCL_IN_PROGRESS ? -EAGAIN : -EIO;
    leave(b);
    for (unsigned n = 0; r == -EAGAIN && cc_monotonic_ms() < deadline; n++) {
        enter(b);
        r = ask_state(b, &err);
        leave(b);
        pause_for(n);
    }
    enter(b);
    if (b->comm && r == 0)
        (void) b->api.ncclCommDestroy(b->comm);
    else if (b->comm)
        (void) b->api.ncclCommAbort(b->comm);
    b->comm = NULL;
    cuda_free(&b->cuda, b->one, b->cuda.work);
    leave(b);
}

static void nccl_close(void *ctx)
{
    struct nccl *b = ctx;

    if (b->cuda.has_context)
        finish(b);
    cuda_close(&b->cuda);
    (void) lastwords_free(b->words);
    (void) pthread_mutex_destroy(&b->turn);
    (void) pthread_mutex_destroy(&b->words_turn);
    free(b);
}

const struct backend backend_nccl = {
    .name = "nccl",
    .needs_store = true,
    .probe = nccl_probe,
    .version = nccl_version,
    .open = nccl_open,
    .run = nccl_run,
    .start = nccl_start,
    .poll = nccl_poll,
    .abort = nccl_abort,
    .close = nccl_close,
};
