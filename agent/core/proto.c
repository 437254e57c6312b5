#include "agent/core/proto.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "agent/core/fields.h"

/* One description of each message serves both ways; see fields.h. */

static void about(struct fields *io, struct rdzv_about *a)
{
    fields_u32(io, &a->nproc);
    fields_i32(io, &a->wish);
    fields_u64(io, &a->group);
    fields_u32(io, &a->pid);
    fields_u16(io, &a->port);
    fields_text(io, a->host, sizeof(a->host));
    fields_text(io, a->addr, sizeof(a->addr));
    fields_text(io, a->role, sizeof(a->role));
    fields_u32(io, &a->plan.min_nodes);
    fields_u32(io, &a->plan.max_nodes);
    fields_u64(io, &a->plan.arguments);
    fields_text(io, a->plan.program, sizeof(a->plan.program));
    fields_text(io, a->plan.version, sizeof(a->plan.version));
}

static void hello(struct fields *io, struct rdzv_hello *h)
{
    fields_u64(io, &h->incarnation);
    fields_u64(io, &h->seq);
    fields_u64(io, &h->sent_at);
    fields_u32(io, &h->term);
    fields_u32(io, &h->round);
    h->phase = (enum rdzv_node_phase) fields_number(io, 1, h->phase, RDZV_NODE_N_PHASES - 1);
    fields_u32(io, &h->store_round);
    fields_u32(io, &h->notice_ms);
    fields_u64(io, &h->first_done);
    fields_flag(io, &h->has_about);
    fields_flag(io, &h->has_cause);
    if (h->has_about)
        about(io, &h->about);
    if (h->has_cause)
        fields_cause(io, &h->cause);
}

/* Workers start with these numbers, and they are divided by. */
static bool has_sound_ranks(const struct rdzv_view *v)
{
    bool is_member = v->phase == RDZV_ACTIVE && v->group_rank != RDZV_NO_RANK;

    return !is_member ||
           (v->group_rank < v->group_world && v->base_rank < v->world && v->base_role_rank < v->role_world);
}

static void view(struct fields *io, struct rdzv_view *v)
{
    fields_u64(io, &v->incarnation);
    fields_u64(io, &v->seq);
    fields_u64(io, &v->clock);
    fields_u64(io, &v->echo);
    fields_u32(io, &v->round);
    v->phase = (enum rdzv_phase) fields_number(io, 1, v->phase, RDZV_N_PHASES - 1);
    fields_flag(io, &v->is_unknown);
    fields_flag(io, &v->hosts_store);
    fields_u32(io, &v->group_rank);
    fields_u32(io, &v->group_world);
    fields_u32(io, &v->base_rank);
    fields_u32(io, &v->world);
    fields_u32(io, &v->base_role_rank);
    fields_u32(io, &v->role_world);
    fields_u32(io, &v->restarts);
    fields_u32(io, &v->n_ready);
    fields_u32(io, &v->n_wanted);
    fields_u32(io, &v->n_min);
    fields_u32(io, &v->wait_ms);
    fields_u64(io, &v->notice_at);
    fields_u16(io, &v->port);
    fields_flag(io, &v->has_cause);
    fields_text(io, v->master, sizeof(v->master));
    fields_text(io, v->have, sizeof(v->have));
    fields_text(io, v->missing, sizeof(v->missing));
    if (v->has_cause)
        fields_cause(io, &v->cause);
    if (!io->out && !has_sound_ranks(v))
        io->bad = "has ranks that cannot be";
}

static void refused(struct fields *io, struct rdzv_refused *r)
{
    r->why = (enum rdzv_refusal) fields_number(io, 1, r->why, RDZV_REFUSED_N - 1);
    fields_u64(io, &r->incarnation);
    fields_text(io, r->sentence, sizeof(r->sentence));
}

static void octets(struct fields *io, uint8_t *v, size_t n)
{
    size_t i;

    for (i = 0; i < n; i++)
        v[i] = (uint8_t) fields_number(io, 1, v[i], UINT8_MAX);
}

/* What follows the version may be anything when the version is another: it is not looked at. */
static void open_job(struct fields *io, struct proto_open *o)
{
    fields_u16(io, &o->version);
    if (o->version != PROTO_VERSION) {
        io->n = io->out ? io->n : io->size;
        return;
    }
    fields_flag(io, &o->has_secret);
    fields_text(io, o->job, sizeof(o->job));
    octets(io, o->nonce, sizeof(o->nonce));
}

static void challenge(struct fields *io, struct proto_challenge *c)
{
    fields_text(io, c->job, sizeof(c->job));
    fields_text(io, c->host, sizeof(c->host));
    octets(io, c->nonce, sizeof(c->nonce));
    octets(io, c->proof, sizeof(c->proof));
}

static void message(struct fields *io, struct proto_msg *m)
{
    switch (m->type) {
    case PROTO_OPEN:
        open_job(io, &m->u.open);
        break;
    case PROTO_CHALLENGE:
        challenge(io, &m->u.challenge);
        break;
    case PROTO_PROOF:
        octets(io, m->u.proof.proof, sizeof(m->u.proof.proof));
        break;
    case PROTO_HELLO:
        hello(io, &m->u.hello);
        break;
    case PROTO_VIEW:
        view(io, &m->u.view);
        break;
    case PROTO_REFUSED:
        refused(io, &m->u.refused);
        break;
    case PROTO_PING:
    case PROTO_PONG:
        fields_u64(io, &m->u.ping);
        break;
    case PROTO_N_TYPES:
        assert(0);
    }
}

size_t proto_encode(const struct proto_msg *m, uint8_t frame[PROTO_FRAME_MAX])
{
    struct proto_msg copy = *m;
    struct fields        io = { .out = frame, .n = PROTO_HEAD, .size = PROTO_FRAME_MAX };

    message(&io, &copy);
    frame[0] = PROTO_MAGIC;
    frame[1] = (uint8_t) m->type;
    frame[2] = (uint8_t) ((io.n - PROTO_HEAD) >> 8);
    frame[3] = (uint8_t) (io.n - PROTO_HEAD);
    return io.n;
}

size_t proto_transcript(enum proto_side side, const struct proto_open *o, const struct proto_challenge *c,
                        uint8_t ret[PROTO_TRANSCRIPT_MAX])
{
    struct proto_open      open = *o;
    struct proto_challenge answer = *c;
    struct fields          io = { .out = ret, .size = PROTO_TRANSCRIPT_MAX };
    char                   label[] = "secret of a ccrun job, known to x";

    label[sizeof(label) - 2] = side == PROTO_HOST ? 'h' : 'a';
    memset(answer.proof, 0, sizeof(answer.proof));
    fields_text(&io, label, sizeof(label));
    open_job(&io, &open);
    challenge(&io, &answer);
    return io.n;
}

static int decode(const struct proto_parser *p, struct proto_msg *ret, struct cc_err *err)
{
    struct fields io = { .in = p->frame, .n = PROTO_HEAD, .size = p->n };

    *ret = (struct proto_msg) { .type = (enum proto_type) p->frame[1] };
    message(&io, ret);
    if (!io.bad && io.n < io.size)
        io.bad = "is too long";
    if (io.bad)
        return cc_fail(err, -EPROTO, "the peer breaks the protocol of ccrun's agents: its message of type %u and %zu bytes %s",
                       ret->type, p->n, io.bad);
    return 1;
}

/* Length of the frame, or PROTO_HEAD while the head is not complete; looks at each byte as early as it can. */
static int frame_length(const struct proto_parser *p, size_t *ret_len, struct cc_err *err)
{
    size_t len;

    *ret_len = PROTO_HEAD;
    if (p->n >= 1 && p->frame[0] != PROTO_MAGIC)
        return cc_fail(err, -EPROTO, "the peer does not speak the protocol of ccrun's agents: it sent byte 0x%02x, not 0x%02x",
                       p->frame[0], PROTO_MAGIC);
    if (p->n >= 2 && (p->frame[1] < PROTO_OPEN || p->frame[1] >= PROTO_N_TYPES))
        return cc_fail(err, -EPROTO, "the peer breaks the protocol of ccrun's agents: there is no message of type %u",
                       p->frame[1]);
    if (p->n < PROTO_HEAD)
        return 0;
    len = PROTO_HEAD + ((size_t) p->frame[2] << 8 | p->frame[3]);
    if (len > PROTO_FRAME_MAX)
        return cc_fail(err, -EPROTO, "the peer breaks the protocol of ccrun's agents: a message of %zu bytes, at most %d", len,
                       PROTO_FRAME_MAX);
    *ret_len = len;
    return 0;
}

int proto_feed(struct proto_parser *p, const uint8_t *bytes, size_t n, size_t *ret_used, struct proto_msg *ret,
               struct cc_err *err)
{
    size_t used = 0, len;
    int    r;

    do {
        size_t take;

        r = frame_length(p, &len, err);
        if (r < 0)
            return r;
        take = len - p->n < n - used ? len - p->n : n - used;
        if (p->n < PROTO_HEAD && take > 1)
            take = 1; /* the head byte by byte: a stranger is told at its first one */
        if (take > 0)
            memcpy(p->frame + p->n, bytes + used, take);
        p->n += take;
        used += take;
        r = frame_length(p, &len, err);
        if (r < 0)
            return r;
    } while (used < n && (p->n < PROTO_HEAD || p->n < len));
    *ret_used = used;
    if (p->n < PROTO_HEAD || p->n < len)
        return 0;
    r = decode(p, ret, err);
    p->n = 0;
    return r;
}
