#include "agent/core/proto.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

/* One description of each message serves both ways, so that the two cannot differ: every field is passed through, and comes
 * back as it was (encoding) or as it stands in the frame (decoding). */
struct io {
    uint8_t    *out; /* NULL: decoding */
    const uint8_t *in;
    size_t      n, size;
    const char *bad; /* what does not fit, NULL: nothing so far */
};

static uint64_t number(struct io *io, unsigned n_bytes, uint64_t value, uint64_t max)
{
    unsigned i;

    if (io->out) {
        assert(value <= max && io->n + n_bytes <= io->size);
        for (i = 0; i < n_bytes; i++)
            io->out[io->n++] = (uint8_t) (value >> 8 * (n_bytes - 1 - i));
        return value;
    }
    if (io->size - io->n < n_bytes) {
        io->bad = "is cut short";
        io->n = io->size;
        return 0;
    }
    for (value = 0, i = 0; i < n_bytes; i++)
        value = value << 8 | io->in[io->n++];
    if (value <= max)
        return value;
    io->bad = "has a value that does not exist";
    return 0;
}

static void u16(struct io *io, uint16_t *v)
{
    *v = (uint16_t) number(io, 2, *v, UINT16_MAX);
}

static void u32(struct io *io, uint32_t *v)
{
    *v = (uint32_t) number(io, 4, *v, UINT32_MAX);
}

static void u64(struct io *io, uint64_t *v)
{
    *v = number(io, 8, *v, UINT64_MAX);
}

static void flag(struct io *io, bool *v)
{
    *v = number(io, 1, *v, 1) != 0;
}

static bool is_text(uint8_t c)
{
    return c >= 0x20 && c != 0x7f;
}

static void text(struct io *io, char *v, size_t size)
{
    size_t len = io->out ? strnlen(v, size - 1) : 0, i;

    len = (size_t) number(io, 2, len, size - 1);
    if (io->out) {
        assert(io->n + len <= io->size);
        for (i = 0; i < len; i++)
            io->out[io->n++] = is_text((uint8_t) v[i]) ? (uint8_t) v[i] : '?';
        return;
    }
    if (io->size - io->n < len) {
        io->bad = "is cut short";
        len = io->size - io->n;
    }
    for (i = 0; i < len; i++) {
        uint8_t c = io->in[io->n++];

        if (!is_text(c))
            io->bad = "has a byte that is no text";
        v[i] = (char) c;
    }
    v[len] = '\0';
}

static void cause(struct io *io, struct rdzv_cause *c)
{
    c->kind = (enum rdzv_cause_kind) number(io, 1, c->kind, RDZV_CAUSE_N_KINDS - 1);
    u32(io, &c->round);
    u64(io, &c->at);
    u32(io, &c->rank);
    u32(io, &c->code);
    u64(io, &c->progress);
    flag(io, &c->is_final);
    text(io, c->host, sizeof(c->host));
    text(io, c->text, sizeof(c->text));
}

static void about(struct io *io, struct rdzv_about *a)
{
    uint32_t wish = (uint32_t) a->wish;

    u32(io, &a->nproc);
    u32(io, &wish);
    a->wish = (int32_t) wish;
    u16(io, &a->port);
    text(io, a->host, sizeof(a->host));
    text(io, a->addr, sizeof(a->addr));
    text(io, a->role, sizeof(a->role));
    u32(io, &a->plan.min_nodes);
    u32(io, &a->plan.max_nodes);
    u64(io, &a->plan.arguments);
    text(io, a->plan.program, sizeof(a->plan.program));
    text(io, a->plan.version, sizeof(a->plan.version));
}

static void hello(struct io *io, struct rdzv_hello *h)
{
    u64(io, &h->incarnation);
    u64(io, &h->seq);
    u64(io, &h->sent_at);
    u32(io, &h->round);
    h->phase = (enum rdzv_node_phase) number(io, 1, h->phase, RDZV_NODE_N_PHASES - 1);
    u32(io, &h->store_round);
    u32(io, &h->notice_ms);
    flag(io, &h->has_about);
    flag(io, &h->has_cause);
    if (h->has_about)
        about(io, &h->about);
    if (h->has_cause)
        cause(io, &h->cause);
}

static void view(struct io *io, struct rdzv_view *v)
{
    u64(io, &v->incarnation);
    u64(io, &v->seq);
    u64(io, &v->clock);
    u64(io, &v->echo);
    u32(io, &v->round);
    v->phase = (enum rdzv_phase) number(io, 1, v->phase, RDZV_N_PHASES - 1);
    flag(io, &v->is_unknown);
    flag(io, &v->hosts_store);
    u32(io, &v->group_rank);
    u32(io, &v->group_world);
    u32(io, &v->base_rank);
    u32(io, &v->world);
    u32(io, &v->base_role_rank);
    u32(io, &v->role_world);
    u32(io, &v->restarts);
    u32(io, &v->n_ready);
    u32(io, &v->n_wanted);
    u32(io, &v->n_min);
    u32(io, &v->wait_ms);
    u64(io, &v->notice_at);
    u16(io, &v->port);
    flag(io, &v->has_cause);
    text(io, v->master, sizeof(v->master));
    text(io, v->have, sizeof(v->have));
    text(io, v->missing, sizeof(v->missing));
    if (v->has_cause)
        cause(io, &v->cause);
}

static void refused(struct io *io, struct rdzv_refused *r)
{
    r->why = (enum rdzv_refusal) number(io, 1, r->why, RDZV_REFUSED_N - 1);
    u64(io, &r->incarnation);
    text(io, r->sentence, sizeof(r->sentence));
}

static void octets(struct io *io, uint8_t *v, size_t n)
{
    size_t i;

    for (i = 0; i < n; i++)
        v[i] = (uint8_t) number(io, 1, v[i], UINT8_MAX);
}

/* What follows the version may be anything when the version is another: it is not looked at. */
static void open_job(struct io *io, struct proto_open *o)
{
    u16(io, &o->version);
    if (o->version != PROTO_VERSION) {
        io->n = io->out ? io->n : io->size;
        return;
    }
    flag(io, &o->has_secret);
    text(io, o->job, sizeof(o->job));
    octets(io, o->nonce, sizeof(o->nonce));
}

static void challenge(struct io *io, struct proto_challenge *c)
{
    text(io, c->job, sizeof(c->job));
    text(io, c->host, sizeof(c->host));
    octets(io, c->nonce, sizeof(c->nonce));
    octets(io, c->proof, sizeof(c->proof));
}

static void message(struct io *io, struct proto_msg *m)
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
        u64(io, &m->u.ping);
        break;
    case PROTO_N_TYPES:
        assert(0);
    }
}

size_t proto_encode(const struct proto_msg *m, uint8_t frame[PROTO_FRAME_MAX])
{
    struct proto_msg copy = *m;
    struct io        io = { .out = frame, .n = PROTO_HEAD, .size = PROTO_FRAME_MAX };

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
    struct io              io = { .out = ret, .size = PROTO_TRANSCRIPT_MAX };
    char                   label[] = "secret of a ccrun job, known to x";

    label[sizeof(label) - 2] = side == PROTO_HOST ? 'h' : 'a';
    memset(answer.proof, 0, sizeof(answer.proof));
    text(&io, label, sizeof(label));
    open_job(&io, &open);
    challenge(&io, &answer);
    return io.n;
}

static int decode(const struct proto_parser *p, struct proto_msg *ret, struct cc_err *err)
{
    struct io io = { .in = p->frame, .n = PROTO_HEAD, .size = p->n };

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
