#include "agent/core/record.h"

#include <errno.h>
#include <string.h>

#include "agent/core/fields.h"

enum { LENGTH = 2 };

static const uint8_t mark[RECORD_HEAD] = { 'c', 'c', 'r', 'e', 'c', 0, 0, RECORD_VERSION };

bool record_is_coordinators(enum record_kind kind)
{
    return kind >= RECORD_COORDINATOR;
}

void record_head(uint8_t ret[RECORD_HEAD])
{
    memcpy(ret, mark, sizeof(mark));
}

int record_check_head(const uint8_t *bytes, size_t n, struct cc_err *err)
{
    if (n < RECORD_HEAD || memcmp(bytes, mark, RECORD_HEAD - 1) != 0)
        return cc_fail(err, -EPROTO, "this is no recording of a job");
    if (bytes[RECORD_HEAD - 1] != RECORD_VERSION)
        return cc_fail(err, -EPROTO, "the recording has version %u, and this program knows %d", bytes[RECORD_HEAD - 1],
                       RECORD_VERSION);
    return 0;
}

/* Messages are written as they are on the wire. */
static void message(struct fields *f, struct proto_msg *m)
{
    struct proto_parser parser = { 0 };
    struct cc_err       err;
    uint8_t             frame[PROTO_FRAME_MAX] = { 0 };
    enum proto_type     type = m->type;
    size_t              n = f->out ? proto_encode(m, frame) : 0, used, i;

    n = (size_t) fields_number(f, 2, n, PROTO_FRAME_MAX);
    for (i = 0; i < n; i++)
        frame[i] = (uint8_t) fields_number(f, 1, f->out ? frame[i] : 0, UINT8_MAX);
    if (f->out || f->bad)
        return;
    if (proto_feed(&parser, frame, n, &used, m, &err) != 1 || used != n || m->type != type) {
        f->bad = "has a message that cannot be read";
        *m = (struct proto_msg) { .type = type };
    }
}

static void view(struct fields *f, struct rdzv_view *v)
{
    struct proto_msg m = { .type = PROTO_VIEW, .u.view = *v };

    message(f, &m);
    *v = m.u.view;
}

static void refused(struct fields *f, struct rdzv_refused *r)
{
    struct proto_msg m = { .type = PROTO_REFUSED, .u.refused = *r };

    message(f, &m);
    *r = m.u.refused;
}

static void hello(struct fields *f, struct rdzv_hello *h)
{
    struct proto_msg m = { .type = PROTO_HELLO, .u.hello = *h };

    message(f, &m);
    *h = m.u.hello;
}

static void member(struct fields *f, struct member_cfg *c)
{
    struct rdzv_hello h = { .has_about = true, .about = c->about };

    hello(f, &h);
    c->about = h.about;
    fields_u64(f, &c->node.term_grace);
    fields_u64(f, &c->node.kill_grace);
    fields_u64(f, &c->node.sweep_grace);
    fields_u64(f, &c->incarnation);
    fields_u64(f, &c->heartbeat);
    fields_u64(f, &c->join_timeout);
    fields_u64(f, &c->lost_after);
    fields_u64(f, &c->exit_barrier);
}

static void budget(struct fields *f, struct budget_cfg *b)
{
    fields_u32(f, &b->max_restarts);
    fields_u64(f, &b->window);
    fields_u64(f, &b->backoff_min);
    fields_u64(f, &b->backoff_max);
    fields_u64(f, &b->quick);
    fields_u32(f, &b->same_max);
}

static void rdzv(struct fields *f, struct rdzv_cfg *c)
{
    struct rdzv_hello h = { .has_about = true, .about.plan = c->plan };

    hello(f, &h);
    c->plan = h.about.plan;
    fields_u32(f, &c->nodes_cap);
    fields_u32(f, &c->min_nodes);
    fields_u32(f, &c->max_nodes);
    fields_u32(f, &c->expected);
    fields_u32(f, &c->n_spares);
    fields_u32(f, &c->max_rejoins);
    budget(f, &c->budget);
    fields_u64(f, &c->last_call);
    fields_u64(f, &c->join_timeout);
    fields_u64(f, &c->replace_timeout);
    fields_u64(f, &c->dead_after);
    fields_u64(f, &c->reset_grace);
    fields_u64(f, &c->settle_timeout);
    fields_u64(f, &c->switch_timeout);
    fields_u64(f, &c->scale_delay);
    fields_u64(f, &c->finish_timeout);
    fields_u64(f, &c->own);
    fields_flag(f, &c->has_successor);
    fields_flag(f, &c->scales_on_restart_only);
}

static void content(struct fields *f, struct record *r)
{
    switch (r->kind) {
    case RECORD_MEMBER:
        member(f, &r->u.member);
        break;
    case RECORD_VIEW:
        view(f, &r->u.view);
        break;
    case RECORD_REFUSED:
        refused(f, &r->u.refused);
        break;
    case RECORD_EXITED:
        fields_i32(f, &r->u.exited.status);
        fields_flag(f, &r->u.exited.is_terminal);
        break;
    case RECORD_SETTLE:
        fields_flag(f, &r->u.settle.is_empty);
        fields_flag(f, &r->u.settle.is_drained);
        break;
    case RECORD_NOTICE: case RECORD_PAUSED:
        fields_u64(f, &r->u.ms);
        break;
    case RECORD_SIGNAL: case RECORD_CANNOT_START: case RECORD_SWITCHED: case RECORD_ENDED:
        fields_u32(f, &r->u.number);
        break;
    case RECORD_DESCRIBED:
        fields_cause(f, &r->u.cause);
        break;
    case RECORD_COORDINATOR:
        rdzv(f, &r->u.rdzv);
        break;
    case RECORD_HELLO:
        fields_u64(f, &r->u.heard.link);
        hello(f, &r->u.heard.hello);
        break;
    case RECORD_BROKEN:
        fields_u64(f, &r->u.heard.link);
        fields_u64(f, &r->u.heard.incarnation);
        break;
    case RECORD_STATE:
        fields_u32(f, &r->u.state.n_left);
        r->u.state.n = (uint16_t) fields_number(f, 2, r->u.state.n, RECORD_PIECE);
        for (unsigned i = 0; i < r->u.state.n; i++)
            r->u.state.bytes[i] = (uint8_t) fields_number(f, 1, r->u.state.bytes[i], UINT8_MAX);
        break;
    case RECORD_CONNECTED: case RECORD_PRESSED: case RECORD_TICK: case RECORD_STARTED: case RECORD_DUE: case RECORD_N_KINDS:
        break;
    }
}

static void entry(struct fields *f, struct record *r)
{
    r->kind = (enum record_kind) fields_number(f, 1, r->kind, RECORD_N_KINDS - 1);
    fields_u64(f, &r->now);
    fields_u32(f, &r->sum);
    content(f, r);
}

size_t record_encode(const struct record *r, uint8_t ret[RECORD_MAX])
{
    struct record copy = *r;
    struct fields f = { .out = ret, .n = LENGTH, .size = RECORD_MAX };

    entry(&f, &copy);
    ret[0] = (uint8_t) ((f.n - LENGTH) >> 8);
    ret[1] = (uint8_t) (f.n - LENGTH);
    return f.n;
}

int record_decode(const uint8_t *bytes, size_t n, size_t *ret_used, struct record *ret, struct cc_err *err)
{
    struct fields f = { .in = bytes, .n = LENGTH };

    if (n < LENGTH)
        return 0;
    f.size = LENGTH + ((size_t) bytes[0] << 8 | bytes[1]);
    if (f.size > RECORD_MAX)
        return cc_fail(err, -EPROTO, "the recording has an entry of %zu bytes, at most %d", f.size, RECORD_MAX);
    if (n < f.size)
        return 0;
    memset(ret, 0, sizeof(*ret));
    entry(&f, ret);
    if (!f.bad && f.n < f.size)
        f.bad = "is too long";
    if (f.bad)
        return cc_fail(err, -EPROTO, "the recording is damaged: its entry of kind %u %s", ret->kind, f.bad);
    *ret_used = f.size;
    return 1;
}

/* FNV-1a: it is to notice a difference, not to withstand an enemy. */
static uint32_t mix(uint32_t sum, const uint8_t *bytes, size_t n)
{
    size_t i;

    for (i = 0; i < n; i++)
        sum = (sum ^ bytes[i]) * 0x01000193u;
    return sum;
}

uint32_t record_sum_number(uint32_t sum, enum record_decision what, uint64_t number)
{
    uint8_t       bytes[9];
    struct fields f = { .out = bytes, .size = sizeof(bytes) };

    (void) fields_number(&f, 1, what, UINT8_MAX);
    fields_u64(&f, &number);
    return mix(sum ^ 0x811c9dc5u, bytes, f.n);
}

uint32_t record_sum_message(uint32_t sum, uint64_t link, const struct proto_msg *m)
{
    uint8_t frame[PROTO_FRAME_MAX];
    size_t  n = proto_encode(m, frame);

    return mix(record_sum_number(sum, (enum record_decision) m->type, link), frame, n);
}
