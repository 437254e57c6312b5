#include "agent/coordinator.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "agent/link.h"
#include "agent/secret.h"
#include "store/base/clock.h"
#include "store/base/macros.h"
#include "store/base/ration.h"

enum {
    OWN_LINK = 1,
    SAVE_EVERY_MS = 200, /* what no view waits for */
    STRANGER_MS = 10000,  /* to show that it belongs here */
    STRANGERS_EXTRA = 64, /* at one time, beyond two for each node */
};

enum guest_state { GUEST_NEW, GUEST_CHALLENGED, GUEST_REFUSED, GUEST_PROVED, GUEST_KNOWN /* it said hello */ };

/* A view that waits until what it says is saved; the newest for that node. */
struct held {
    uint64_t         needs; /* a state with so many changes */
    struct rdzv_view view;
};

/* One connection. */
struct guest {
    struct coordinator *c;
    struct link        *link;
    uint64_t            id;          /* rdzv's name for it */
    uint64_t            incarnation; /* the last that was heard on it; 0: none */
    enum guest_state    state;
    uint8_t             proof[PROTO_PROOF_BYTES]; /* CHALLENGED: the one that is expected */
    uint64_t            seen_at; /* when it came, or said hello last */
    char                addr[RDZV_ADDR_MAX];
    struct held        *held;
    TAILQ_ENTRY(guest)  entry;
    struct guest       *next; /* of the same slot */
};

TAILQ_HEAD(guests, guest); /* by seen_at */

enum { SLOTS = 4096 }; /* by id, which counts up: as good as any hash */

struct coordinator {
    struct rdzv                  *rdzv;
    const struct coordinator_ops *ops;
    void                         *ctx;
    uv_loop_t                    *loop;
    uint64_t                      last_id;
    unsigned                      n_links, n_open; /* n_open: handles that libuv still knows */
    unsigned                      n_strangers, max_strangers;
    uint64_t                      silence; /* ms in which a guest that is KNOWN says hello, or its node is lost */
    uv_timer_t                    timer;
    uv_idle_t                     hurry; /* active: the loop must not sleep before it ticks */
    uv_check_t                    after_poll;
    char                          job[PROTO_JOB_MAX], host[RDZV_HOST_MAX];
    struct secret                *secret; /* NULL: none */
    struct recorder              *recorder; /* NULL: nothing is recorded */
    struct cc_ration              ration; /* of what others make us say */
    struct guests                 strangers, known;
    struct guest                 *slots[SLOTS];
    /* is_durable: */
    uint8_t      *state; /* room to save it; NULL: it is not */
    uint64_t      saved; /* changes */
    uint64_t      save_at;
    bool          is_saving;
    struct held  *own_held;
};

static void happen(struct coordinator *c, const struct rdzv_event *ev)
{
    recorder_note_event(c->recorder, ev);
    rdzv_event(c->rdzv, ev);
}

/* ---- guests */

static struct guest *find(struct coordinator *c, uint64_t id)
{
    struct guest *g = c->slots[id % SLOTS];

    while (g && g->id != id)
        g = g->next;
    return g;
}

static void take_out(struct guest *g)
{
    struct coordinator *c = g->c;

    TAILQ_REMOVE(g->state == GUEST_KNOWN ? &c->known : &c->strangers, g, entry);
    c->n_strangers -= g->state != GUEST_KNOWN;
}

/* It has said hello. */
static void see(struct guest *g, uint64_t now)
{
    take_out(g);
    g->state = GUEST_KNOWN;
    g->seen_at = now;
    TAILQ_INSERT_TAIL(&g->c->known, g, entry);
}

static void dismiss(struct guest *g)
{
    struct guest **at = &g->c->slots[g->id % SLOTS];

    while (*at != g)
        at = &(*at)->next;
    *at = g->next;
    take_out(g);
    g->c->n_links--;
    link_close(g->link);
    free(g->held);
    free(g);
}

/* ---- what a successor must know is saved before anybody is told */

static bool is_to_be_saved(const struct coordinator *c)
{
    uint64_t vital;

    return c->state && !c->is_saving && rdzv_changes(c->rdzv, &vital) > c->saved;
}

static void save(struct coordinator *c, uint64_t now)
{
    uint64_t vital, newest = rdzv_changes(c->rdzv, &vital);

    if (!is_to_be_saved(c) || (vital <= c->saved && now < c->save_at))
        return;
    c->is_saving = true;
    c->save_at = now + SAVE_EVERY_MS;
    c->ops->save(c->ctx, newest, c->state, rdzv_save(c->rdzv, now, c->state));
}

bool coordinator_is_saved(const struct coordinator *c)
{
    uint64_t vital;

    (void) rdzv_changes(c->rdzv, &vital);
    return !c->state || vital <= c->saved;
}

/* True: it is kept, or there is no memory and the next heartbeat asks again. */
static bool hold(struct coordinator *c, struct held **h, const struct rdzv_view *v)
{
    uint64_t vital;

    if (coordinator_is_saved(c))
        return false;
    (void) rdzv_changes(c->rdzv, &vital);
    if (!*h)
        *h = malloc(sizeof **h);
    if (*h) {
        (*h)->needs = vital;
        (*h)->view = *v;
    }
    return true;
}

/* ---- time */

static void on_timer(uv_timer_t *t);

static uint64_t deadline(const struct coordinator *c)
{
    const struct guest *stranger = TAILQ_FIRST(&c->strangers), *known = TAILQ_FIRST(&c->known);
    uint64_t            at = rdzv_deadline(c->rdzv);

    if (is_to_be_saved(c) && c->save_at < at)
        at = c->save_at;
    if (stranger && stranger->seen_at + STRANGER_MS < at)
        at = stranger->seen_at + STRANGER_MS;
    return known && known->seen_at + c->silence < at ? known->seen_at + c->silence : at;
}

/* Who was cut off leaves a connection that never breaks: nothing is sent to a node that is lost. */
static void dismiss_silent(struct guests *guests, uint64_t now, uint64_t ms)
{
    struct guest *g;

    while ((g = TAILQ_FIRST(guests)) && now - g->seen_at >= ms)
        dismiss(g);
}

static void rearm(struct coordinator *c)
{
    uint64_t now = cc_monotonic_ms(), at;

    save(c, now);
    at = deadline(c);
    uv_update_time(c->loop);
    if (at == UINT64_MAX)
        (void) uv_timer_stop(&c->timer);
    else
        (void) uv_timer_start(&c->timer, on_timer, at > now ? at - now : 0, 0);
}

static void on_hurry(uv_idle_t *i)
{
    (void) i; /* its being active keeps the loop from sleeping */
}

/* Whoever is due to be lost may have spoken while we were away: first everything that has come is read. */
static void on_after_poll(uv_check_t *check)
{
    struct coordinator     *c = CC_CONTAINER_OF(check, struct coordinator, after_poll);
    const struct rdzv_event ev = { .kind = RDZV_EV_TICK, .now = cc_monotonic_ms() };

    (void) uv_check_stop(check);
    (void) uv_idle_stop(&c->hurry);
    dismiss_silent(&c->strangers, ev.now, STRANGER_MS);
    dismiss_silent(&c->known, ev.now, c->silence);
    if (ev.now >= rdzv_deadline(c->rdzv))
        happen(c, &ev);
    rearm(c);
    c->ops->woken(c->ctx);
}

static void on_timer(uv_timer_t *t)
{
    struct coordinator *c = CC_CONTAINER_OF(t, struct coordinator, timer);

    (void) uv_idle_start(&c->hurry, on_hurry);
    (void) uv_check_start(&c->after_poll, on_after_poll);
}

/* ---- what rdzv wants */

static void op_view(void *ctx, uint64_t link, const struct rdzv_view *v)
{
    struct coordinator *c = ctx;
    struct proto_msg    m = { .type = PROTO_VIEW, .u.view = *v };
    struct guest       *g;

    if (link == OWN_LINK) {
        if (!hold(c, &c->own_held, v))
            c->ops->view(c->ctx, v);
        return;
    }
    g = find(c, link);
    if (g && !hold(c, &g->held, v))
        link_send(g->link, &m);
}

/* Anybody who reaches the port can make us say this. */
static void tell_about(struct coordinator *c, const char *addr, const char *what, const char *why)
{
    char     sentence[2 * RDZV_TEXT_MAX + RDZV_ADDR_MAX + 64];
    unsigned n_kept;
    bool     is_due = cc_ration_take(&c->ration, cc_monotonic_ms(), &n_kept);

    if (n_kept > 0) {
        (void) snprintf(sentence, sizeof sentence, "%u more agents were turned away", n_kept);
        c->ops->say(c->ctx, sentence);
    }
    (void) snprintf(sentence, sizeof sentence, "the agent at %s %s: %s", addr, what, why);
    if (is_due)
        c->ops->say(c->ctx, sentence);
}

static void tell_refusal(struct coordinator *c, const char *addr, const char *why)
{
    tell_about(c, addr, "was turned away", why);
}

static void op_refuse(void *ctx, uint64_t link, const struct rdzv_refused *r)
{
    struct coordinator *c = ctx;
    struct proto_msg    m = { .type = PROTO_REFUSED, .u.refused = *r };
    struct guest       *g;

    if (link == OWN_LINK) {
        c->ops->refused(c->ctx, r);
        return;
    }
    g = find(c, link);
    if (!g)
        return;
    tell_refusal(c, g->addr, r->sentence);
    link_send(g->link, &m); /* it closes the connection when it has read that */
}

static const struct rdzv_ops rdzv_ops = { .view = op_view, .refuse = op_refuse };

static bool is_free(const struct coordinator *c, const struct held *h)
{
    return h && h->needs <= c->saved;
}

void coordinator_saved(struct coordinator *c, uint64_t version)
{
    struct guest *g;

    c->saved = version;
    c->is_saving = false;
    if (is_free(c, c->own_held)) {
        c->ops->view(c->ctx, &c->own_held->view);
        free(c->own_held);
        c->own_held = NULL;
    }
    TAILQ_FOREACH(g, &c->known, entry)
    {
        struct proto_msg m = { .type = PROTO_VIEW };

        if (!is_free(c, g->held))
            continue;
        m.u.view = g->held->view;
        link_send(g->link, &m);
        free(g->held);
        g->held = NULL;
    }
    rearm(c);
    c->ops->woken(c->ctx);
}

/* ---- what guests say */

__attribute__((format(printf, 2, 3))) static void refuse_open(struct guest *g, const char *fmt, ...)
{
    struct proto_msg m = { .type = PROTO_REFUSED, .u.refused.why = RDZV_REFUSED_JOB };
    va_list          ap;

    va_start(ap, fmt);
    (void) vsnprintf(m.u.refused.sentence, sizeof m.u.refused.sentence, fmt, ap);
    va_end(ap);
    g->state = GUEST_REFUSED;
    tell_refusal(g->c, g->addr, m.u.refused.sentence);
    link_send(g->link, &m);
}

/* Our proof first: an agent gives its own only to who has shown that it knows the secret. */
static void challenge(struct guest *g, const struct proto_open *open)
{
    const struct coordinator *c = g->c;
    struct proto_msg          m = { .type = PROTO_CHALLENGE };

    (void) snprintf(m.u.challenge.job, sizeof m.u.challenge.job, "%s", c->job);
    (void) snprintf(m.u.challenge.host, sizeof m.u.challenge.host, "%s", c->host);
    secret_make_nonce(m.u.challenge.nonce);
    secret_prove(c->secret, PROTO_HOST, open, &m.u.challenge, m.u.challenge.proof);
    secret_prove(c->secret, PROTO_AGENT, open, &m.u.challenge, g->proof);
    g->state = GUEST_CHALLENGED;
    link_send(g->link, &m);
}

static void opened(struct guest *g, const struct proto_open *open)
{
    const struct coordinator *c = g->c;

    if (open->version != PROTO_VERSION)
        refuse_open(g, "its protocol is version %u, and that of job '%.100s', run by %s, is %d; use the same ccrun on all nodes",
                    open->version, c->job, c->host, PROTO_VERSION);
    else if (open->job[0] != '\0' && strcmp(open->job, c->job) != 0)
        refuse_open(g,
                    "the agent is for job '%.60s', and this is job '%.60s', run by %s; give all nodes of a job the same "
                    "--rdzv-id",
                    open->job, c->job, c->host);
    else if (c->secret && !open->has_secret)
        refuse_open(g, "job '%.100s', run by %s, has a secret, and the agent brings none (--job-token-file)", c->job, c->host);
    else if (!c->secret && open->has_secret)
        refuse_open(g, "job '%.100s', run by %s, has no secret, and the agent brings one (--job-token-file)", c->job, c->host);
    else
        challenge(g, open);
}

static void proved(struct guest *g, const struct proto_proof *proof)
{
    const struct coordinator *c = g->c;

    if (c->secret && !secret_is_same(proof->proof, g->proof))
        refuse_open(g, "the secret of job '%.100s', run by %s, is another one (--job-token-file)", c->job, c->host);
    else
        g->state = GUEST_PROVED;
}

static void heard(struct guest *g, const struct rdzv_hello *h)
{
    struct rdzv_hello said = *h;
    const struct rdzv_event ev = {
        .kind = RDZV_EV_HELLO, .now = cc_monotonic_ms(), .link = g->id, .incarnation = h->incarnation, .hello = &said,
    };

    /* Where others reach it, if it does not know better: where it was reached from. */
    if (said.has_about && said.about.addr[0] == '\0')
        memcpy(said.about.addr, g->addr, sizeof g->addr);
    if (h->phase == RDZV_NODE_GONE && h->has_about && h->has_cause && !rdzv_knows(g->c->rdzv, h->incarnation))
        tell_about(g->c, h->about.host, "takes no part", h->cause.text);
    g->incarnation = h->incarnation;
    see(g, ev.now);
    happen(g->c, &ev);
}

static void on_message(void *ctx, struct link *l, const struct proto_msg *m)
{
    struct guest       *g = ctx;
    struct coordinator *c = g->c;
    bool                is_trusted = g->state >= GUEST_PROVED;

    if (m->type == PROTO_OPEN && g->state == GUEST_NEW)
        opened(g, &m->u.open);
    else if (m->type == PROTO_PROOF && g->state == GUEST_CHALLENGED)
        proved(g, &m->u.proof);
    else if (m->type == PROTO_PING && is_trusted)
        link_send(l, &(struct proto_msg) { .type = PROTO_PONG, .u.ping = m->u.ping });
    else if (m->type == PROTO_HELLO && is_trusted)
        heard(g, &m->u.hello);
    rearm(c);
    c->ops->woken(c->ctx);
}

static void on_broken(void *ctx, struct link *l, const char *why)
{
    struct guest           *g = ctx;
    struct coordinator     *c = g->c;
    const struct rdzv_event ev = {
        .kind = RDZV_EV_BROKEN, .now = cc_monotonic_ms(), .link = g->id, .incarnation = g->incarnation,
    };

    (void) l, (void) why;
    dismiss(g);
    if (ev.incarnation != 0)
        happen(c, &ev);
    rearm(c);
    c->ops->woken(c->ctx);
}

static const struct link_cbs link_cbs = { .message = on_message, .broken = on_broken };

void coordinator_accept(struct coordinator *c, int fd, const uint8_t *bytes, size_t n)
{
    struct guest *g = calloc(1, sizeof *g);
    struct cc_err err = { 0 };
    struct guest **slot;

    if (g)
        g->link = link_new(c->loop, fd, &link_cbs, g, &err);
    if (!g || !g->link) {
        tell_refusal(c, "?", "no memory");
        free(g);
        return;
    }
    g->c = c;
    g->id = ++c->last_id;
    g->seen_at = cc_monotonic_ms();
    (void) link_address(g->link, LINK_PEER, g->addr, sizeof g->addr);
    slot = &c->slots[g->id % SLOTS];
    g->next = *slot;
    *slot = g;
    TAILQ_INSERT_TAIL(&c->strangers, g, entry);
    c->n_links++;
    if (c->n_strangers++ == c->max_strangers) /* an agent that was in earnest comes again */
        dismiss(TAILQ_FIRST(&c->strangers));
    link_input(g->link, bytes, n);
}

/* ---- the whole */

static int make_rdzv(struct coordinator *c, const struct coordinator_cfg *cfg, struct cc_err *err)
{
    const struct rdzv_ops *ops;
    void                  *ctx = c;
    uint64_t               now = cc_monotonic_ms();

    c->recorder = cfg->recorder;
    recorder_note(c->recorder, &(struct record) { .kind = RECORD_COORDINATOR, .now = now, .u.rdzv = cfg->rdzv });
    ops = recorder_rdzv_ops(c->recorder, &rdzv_ops, &ctx);
    c->rdzv = rdzv_new(&cfg->rdzv, now, ops, ctx, err);
    if (!c->rdzv)
        return err->code;
    if (!cfg->is_durable)
        return 0;
    c->state = malloc(rdzv_save_max(&cfg->rdzv));
    if (!c->state)
        return cc_fail(err, -ENOMEM, "no memory for the state of the job");
    if (!cfg->state)
        return 0;
    recorder_note_state(c->recorder, now, cfg->state, cfg->n_state);
    return rdzv_load(c->rdzv, now, cfg->state, cfg->n_state, err);
}

struct coordinator *coordinator_new(uv_loop_t *loop, const struct coordinator_cfg *cfg, const struct coordinator_ops *ops,
                                    void *ctx, struct cc_err *err)
{
    struct coordinator *c = calloc(1, sizeof *c);

    if (!c) {
        (void) cc_fail(err, -ENOMEM, "no memory for the coordinator");
        return NULL;
    }
    if (cfg->secret) {
        c->secret = secret_new(cfg->secret, cfg->n_secret, err);
        if (!c->secret) {
            free(c);
            return NULL;
        }
    }
    if (make_rdzv(c, cfg, err) < 0) {
        c->rdzv = rdzv_free(c->rdzv);
        free(c->state);
        c->secret = secret_free(c->secret);
        free(c);
        return NULL;
    }
    c->ops = ops;
    c->ctx = ctx;
    c->loop = loop;
    c->last_id = OWN_LINK;
    (void) snprintf(c->job, sizeof c->job, "%s", cfg->job);
    (void) snprintf(c->host, sizeof c->host, "%s", cfg->host);
    c->max_strangers = 2 * cfg->rdzv.nodes_cap + STRANGERS_EXTRA;
    c->silence = cfg->rdzv.dead_after + STRANGER_MS;
    TAILQ_INIT(&c->strangers);
    TAILQ_INIT(&c->known);
    (void) uv_timer_init(loop, &c->timer);
    (void) uv_idle_init(loop, &c->hurry);
    (void) uv_check_init(loop, &c->after_poll);
    c->n_open = 3;
    rearm(c);
    return c;
}

void coordinator_hello(struct coordinator *c, uint64_t now, const struct rdzv_hello *h)
{
    const struct rdzv_event ev = {
        .kind = RDZV_EV_HELLO, .now = now, .link = OWN_LINK, .incarnation = h->incarnation, .hello = h,
    };

    happen(c, &ev);
    rearm(c);
}

void coordinator_status(const struct coordinator *c, struct rdzv_status *ret)
{
    rdzv_status(c->rdzv, ret);
}

unsigned coordinator_links(const struct coordinator *c)
{
    return c->n_links;
}

static void let_go(struct coordinator *c)
{
    if (--c->n_open == 0)
        free(c);
}

static void on_timer_closed(uv_handle_t *h)
{
    let_go(CC_CONTAINER_OF(h, struct coordinator, timer));
}

static void on_hurry_closed(uv_handle_t *h)
{
    let_go(CC_CONTAINER_OF(h, struct coordinator, hurry));
}

static void on_check_closed(uv_handle_t *h)
{
    let_go(CC_CONTAINER_OF(h, struct coordinator, after_poll));
}

void coordinator_close(struct coordinator *c)
{
    dismiss_silent(&c->strangers, cc_monotonic_ms(), 0);
    dismiss_silent(&c->known, cc_monotonic_ms(), 0);
    c->rdzv = rdzv_free(c->rdzv);
    c->secret = secret_free(c->secret);
    free(c->state);
    free(c->own_held);
    uv_close((uv_handle_t *) &c->timer, on_timer_closed);
    uv_close((uv_handle_t *) &c->hurry, on_hurry_closed);
    uv_close((uv_handle_t *) &c->after_poll, on_check_closed);
}
