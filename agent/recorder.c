#include "agent/recorder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/base/fdwrite.h"

struct recorder {
    int                      fd; /* -1: it could not be written any more */
    const struct member_ops *member;
    const struct rdzv_ops   *rdzv;
    void                    *member_ctx, *rdzv_ctx;
    uint32_t                 member_sum, rdzv_sum;
    char                     trouble[160];
    bool                     is_told;
};

static void put(struct recorder *r, const uint8_t *bytes, size_t n)
{
    int err = r->fd < 0 ? 0 : cc_write_all(r->fd, (const char *) bytes, n, NULL);

    if (err == 0)
        return;
    (void) snprintf(r->trouble, sizeof r->trouble, "the recording of this job stops here: %s", strerror(-err));
    (void) close(r->fd);
    r->fd = -1;
}

struct recorder *recorder_open(const char *path, const char *our_host, struct cc_err *err)
{
    struct recorder *r = calloc(1, sizeof *r);
    struct stat      st;
    uint8_t          head[RECORD_HEAD];
    char             full[4096];

    if (!r) {
        (void) cc_fail(err, -ENOMEM, "no memory to record the job");
        return NULL;
    }
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        (void) snprintf(full, sizeof full, "%s/%s-%d.record", path, our_host, (int) getpid());
    else
        (void) snprintf(full, sizeof full, "%s", path);
    r->fd = open(full, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (r->fd < 0) {
        (void) cc_fail(err, -errno, "record the job in '%s': %s", full, strerror(errno));
        free(r);
        return NULL;
    }
    record_head(head);
    put(r, head, sizeof head);
    return r;
}

struct recorder *recorder_close(struct recorder *r)
{
    if (r && r->fd >= 0)
        (void) close(r->fd);
    free(r);
    return NULL;
}

void recorder_note(struct recorder *r, const struct record *e)
{
    struct record copy;
    uint8_t       bytes[RECORD_MAX];

    if (!r)
        return;
    copy = *e;
    copy.sum = record_is_coordinators(e->kind) ? r->rdzv_sum : r->member_sum;
    put(r, bytes, record_encode(&copy, bytes));
}

void recorder_note_event(struct recorder *r, const struct rdzv_event *ev)
{
    static const enum record_kind kinds[] = {
        [RDZV_EV_HELLO] = RECORD_HELLO, [RDZV_EV_BROKEN] = RECORD_BROKEN, [RDZV_EV_TICK] = RECORD_DUE,
    };
    struct record e;

    if (!r)
        return;
    e = (struct record) { .kind = kinds[ev->kind], .now = ev->now };
    if (ev->kind != RDZV_EV_TICK) {
        e.u.heard.link = ev->link;
        e.u.heard.incarnation = ev->incarnation;
    }
    if (ev->kind == RDZV_EV_HELLO)
        e.u.heard.hello = *ev->hello;
    recorder_note(r, &e);
}

void recorder_note_state(struct recorder *r, uint64_t now, const uint8_t *state, size_t n)
{
    struct record e = { .kind = RECORD_STATE, .now = now };
    size_t        at = 0;

    do {
        e.u.state.n = (uint16_t) (n - at < RECORD_PIECE ? n - at : RECORD_PIECE);
        memcpy(e.u.state.bytes, state + at, e.u.state.n);
        at += e.u.state.n;
        e.u.state.n_left = (uint32_t) (n - at);
        recorder_note(r, &e);
    } while (at < n);
}

const char *recorder_trouble(struct recorder *r)
{
    if (!r || !r->trouble[0] || r->is_told)
        return NULL;
    r->is_told = true;
    return r->trouble;
}

/* ---- the ops of a member, on their way */

static void decided(struct recorder *r, enum record_decision what, uint64_t number)
{
    r->member_sum = record_sum_number(r->member_sum, what, number);
}

static void op_hello(void *ctx, const struct rdzv_hello *h)
{
    struct recorder *r = ctx;
    struct proto_msg m = { .type = PROTO_HELLO, .u.hello = *h };

    r->member_sum = record_sum_message(r->member_sum, 0, &m);
    r->member->hello(r->member_ctx, h);
}

static void op_start(void *ctx, const struct rdzv_view *view)
{
    struct recorder *r = ctx;

    decided(r, RECORD_DOES_START, view->round);
    r->member->start(r->member_ctx, view);
}

static void op_signal(void *ctx, int signum)
{
    struct recorder *r = ctx;

    decided(r, RECORD_DOES_SIGNAL, (uint64_t) signum);
    r->member->signal(r->member_ctx, signum);
}

static void op_sweep(void *ctx, int signum)
{
    struct recorder *r = ctx;

    decided(r, RECORD_DOES_SWEEP, (uint64_t) signum);
    r->member->sweep(r->member_ctx, signum);
}

static unsigned op_attempt_ended(void *ctx)
{
    struct recorder *r = ctx;
    struct record    e = { .kind = RECORD_ENDED, .u.number = r->member->attempt_ended(r->member_ctx) };

    recorder_note(r, &e);
    return e.u.number;
}

static void op_node_news(void *ctx, enum node_news news, int arg)
{
    struct recorder *r = ctx;

    decided(r, RECORD_DOES_NODE_NEWS, (uint64_t) news);
    r->member->node_news(r->member_ctx, news, arg);
}

static void op_describe(void *ctx, struct rdzv_cause *c)
{
    struct recorder *r = ctx;
    struct record    e = { .kind = RECORD_DESCRIBED };

    r->member->describe(r->member_ctx, c);
    e.u.cause = *c;
    recorder_note(r, &e);
}

static void op_host_store(void *ctx, uint32_t round)
{
    struct recorder *r = ctx;

    decided(r, RECORD_DOES_HOST, round);
    r->member->host_store(r->member_ctx, round);
}

static void op_notice(void *ctx, uint64_t ms_left)
{
    struct recorder *r = ctx;

    decided(r, RECORD_DOES_NOTICE, ms_left);
    r->member->notice(r->member_ctx, ms_left);
}

static void op_news(void *ctx, enum member_news news, const struct rdzv_view *view)
{
    struct recorder *r = ctx;

    decided(r, RECORD_DOES_NEWS, (uint64_t) news);
    r->member->news(r->member_ctx, news, view);
}

static void op_finish(void *ctx, unsigned status)
{
    struct recorder *r = ctx;

    decided(r, RECORD_DOES_FINISH, status);
    r->member->finish(r->member_ctx, status);
}

static const struct member_ops member_ops = {
    .hello = op_hello,
    .start = op_start,
    .signal = op_signal,
    .sweep = op_sweep,
    .attempt_ended = op_attempt_ended,
    .node_news = op_node_news,
    .describe = op_describe,
    .host_store = op_host_store,
    .notice = op_notice,
    .news = op_news,
    .finish = op_finish,
};

const struct member_ops *recorder_member_ops(struct recorder *r, const struct member_ops *ops, void **ctx)
{
    if (!r)
        return ops;
    r->member = ops;
    r->member_ctx = *ctx;
    *ctx = r;
    return &member_ops;
}

/* ---- those of the coordinator */

static void op_view(void *ctx, uint64_t link, const struct rdzv_view *view)
{
    struct recorder *r = ctx;
    struct proto_msg m = { .type = PROTO_VIEW, .u.view = *view };

    r->rdzv_sum = record_sum_message(r->rdzv_sum, link, &m);
    r->rdzv->view(r->rdzv_ctx, link, view);
}

static void op_refuse(void *ctx, uint64_t link, const struct rdzv_refused *refused)
{
    struct recorder *r = ctx;
    struct proto_msg m = { .type = PROTO_REFUSED, .u.refused = *refused };

    r->rdzv_sum = record_sum_message(r->rdzv_sum, link, &m);
    r->rdzv->refuse(r->rdzv_ctx, link, refused);
}

static const struct rdzv_ops rdzv_ops = { op_view, op_refuse };

const struct rdzv_ops *recorder_rdzv_ops(struct recorder *r, const struct rdzv_ops *ops, void **ctx)
{
    if (!r)
        return ops;
    r->rdzv = ops;
    r->rdzv_ctx = *ctx;
    *ctx = r;
    return &rdzv_ops;
}
