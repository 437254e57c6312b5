#include "agent/party.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#include "agent/attempt.h"
#include "agent/party_inside.h"
#include "store/base/clock.h"
#include "store/base/macros.h"
#include "store/base/signame.h"
#include "store/portowner.h"
#include "store/server.h"

enum {
    TELL_EVERY_MS = 5000,
    DOUBT_MS = 2000,          /* for whoever has our port to answer as one of us */
    LINGER_MS = 5000,         /* for the others to have heard that the job has ended */
    LINGER_STOPPED_MS = 1000, /* the same, when somebody waits for our end */
    LINGER_ELECTED_MS = 300,  /* for the state without us to be saved: another goes on with it */
    ELECTION_MS = 20000,      /* how much longer a coordinator may be silent when another can take over */
};

enum { ENDPOINT_TEXT_MAX = 320 };

static const uint64_t never = UINT64_MAX;

/* ---- the end */

static void finish(struct party *p, unsigned status)
{
    if (p->stage == STAGE_FINISHED)
        return;
    p->stage = STAGE_FINISHED;
    p->ops->finish(p->ctx, status, p->last_words[0] ? p->last_words : NULL);
}

void party_finish_with(struct party *p, unsigned status, const char *why)
{
    (void) snprintf(p->last_words, sizeof p->last_words, "%s", why);
    finish(p, status);
}

bool party_is_ended(const struct party *p)
{
    struct rdzv_status s;

    if (!p->coordinator)
        return p->member.view.phase == RDZV_ENDED;
    coordinator_status(p->coordinator, &s);
    return s.phase == RDZV_ENDED;
}

static bool is_host_needed(const struct party *p)
{
    struct rdzv_status s;

    if (p->coordinator && p->cfg.decline)
        return !party_is_told(p);
    if (!p->coordinator || coordinator_links(p->coordinator) == 0)
        return false;
    coordinator_status(p->coordinator, &s);
    return s.n_known > 0;
}

static void linger(struct party *p, uint64_t now)
{
    if (p->stage == STAGE_LINGERING && (now >= p->linger_until || !is_host_needed(p)))
        finish(p, p->status);
}

/* Where the nodes meet, for people. */
static const char *endpoint(const struct party *p, char ret[ENDPOINT_TEXT_MAX])
{
    (void) snprintf(ret, ENDPOINT_TEXT_MAX, p->directory ? "%s" : "%s:%u", p->cfg.host, p->cfg.port);
    return ret;
}

/* ---- what is recorded */

static void note(struct party *p, enum record_kind kind, uint64_t now)
{
    recorder_note(p->recorder, &(struct record) { .kind = kind, .now = now });
}

/* ---- what the member wants */

static void send_hello(struct party *p, uint64_t now, const struct rdzv_hello *h)
{
    struct proto_msg m = { .type = PROTO_HELLO, .u.hello = *h };

    if (p->coordinator)
        coordinator_hello(p->coordinator, now, h);
    else if (p->uplink)
        uplink_send(p->uplink, &m);
}

static void op_hello(void *ctx, const struct rdzv_hello *h)
{
    send_hello(ctx, cc_monotonic_ms(), h);
}

static void op_start(void *ctx, const struct rdzv_view *view)
{
    struct party *p = ctx;

    if (!view->hosts_store && p->store_round > 0)
        store_server_end_round(p->store);
    p->ops->start(p->ctx, view);
}

static void op_signal(void *ctx, int signum)
{
    struct party *p = ctx;

    p->ops->signal(p->ctx, signum);
}

static void op_sweep(void *ctx, int signum)
{
    struct party *p = ctx;

    p->ops->sweep(p->ctx, signum);
}

static unsigned op_attempt_ended(void *ctx)
{
    struct party *p = ctx;

    return p->ops->attempt_ended(p->ctx);
}

static void op_node_news(void *ctx, enum node_news news, int arg)
{
    struct party *p = ctx;

    p->ops->node_news(p->ctx, news, arg);
}

static void op_describe(void *ctx, struct rdzv_cause *c)
{
    struct party *p = ctx;

    p->ops->describe(p->ctx, c);
}

static void op_host_store(void *ctx, uint32_t round)
{
    struct party *p = ctx;
    uint64_t      now = cc_monotonic_ms();

    store_server_new_round(p->store);
    p->store_round = round;
    recorder_note(p->recorder, &(struct record) { .kind = RECORD_SWITCHED, .now = now, .u.number = round });
    member_store_switched(&p->member, now, round);
}

static void op_notice(void *ctx, uint64_t ms_left)
{
    struct party *p = ctx;

    p->ops->notice(p->ctx, ms_left);
}

static void say_orphaned(const struct party *p)
{
    char at[ENDPOINT_TEXT_MAX], line[ENDPOINT_TEXT_MAX + 128];

    (void) snprintf(line, sizeof line, "nothing was heard from the host of the job, %s, for %llu s: stopping", endpoint(p, at),
                    (unsigned long long) p->member.cfg.lost_after / 1000);
    p->ops->say(p->ctx, -1, line);
}

static void op_news(void *ctx, enum member_news news, const struct rdzv_view *view)
{
    struct party *p = ctx;

    if (news == MEMBER_ORPHANED)
        say_orphaned(p);
    p->ops->news(p->ctx, news, view);
}

static void op_finish(void *ctx, unsigned status)
{
    struct party *p = ctx;
    bool          is_stopped = p->member.node.policy.is_stopped;

    p->status = status;
    p->stage = STAGE_LINGERING;
    p->linger_until = cc_monotonic_ms() + (is_stopped ? LINGER_STOPPED_MS : LINGER_MS);
    if (p->directory && !party_is_ended(p))
        p->linger_until = cc_monotonic_ms() + LINGER_ELECTED_MS;
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

void party_become_member(struct party *p)
{
    void                    *ctx = p;
    const struct member_ops *ops = recorder_member_ops(p->recorder, &member_ops, &ctx);
    uint64_t                 now = cc_monotonic_ms();
    const struct member_cfg cfg = {
        .node = p->cfg.node,
        .incarnation = p->incarnation,
        .about = p->about,
        .heartbeat = p->cfg.heartbeat,
        .join_timeout = p->cfg.join_timeout,
        .lost_after = p->cfg.lost_after + (p->directory ? ELECTION_MS : 0),
        .exit_barrier = p->coordinator ? never : p->cfg.exit_barrier, /* the others cannot go on without us */
    };

    p->stage = STAGE_MEMBER;
    recorder_note(p->recorder, &(struct record) { .kind = RECORD_MEMBER, .now = now, .u.member = cfg });
    member_init(&p->member, &cfg, now, ops, ctx);
}

/* The store listens, and the coordinator is there. */
void party_take_part(struct party *p, const char *addr)
{
    if (p->cfg.decline) {
        party_decline(p, addr);
        return;
    }
    party_set_about(p, addr);
    party_become_member(p);
}

/* ---- what the coordinator says */

static void take_view(struct party *p, uint64_t now, const struct rdzv_view *v)
{
    if (v->has_cause)
        p->cause = v->cause;
    recorder_note(p->recorder, &(struct record) { .kind = RECORD_VIEW, .now = now, .u.view = *v });
    member_view(&p->member, now, v);
}

static void take_refusal(struct party *p, uint64_t now, const struct rdzv_refused *r)
{
    struct rdzv_refused ours = *r;
    char                at[ENDPOINT_TEXT_MAX];

    (void) snprintf(p->last_words, sizeof p->last_words, "%.180s: %.320s", endpoint(p, at), r->sentence);
    if (p->stage < STAGE_MEMBER) {
        finish(p, p->cfg.decline ? p->cfg.decline->code : AGENT_EXIT_USAGE);
        return;
    }
    if (ours.incarnation == 0) /* the connection is refused, whoever we are */
        ours.incarnation = p->incarnation;
    recorder_note(p->recorder, &(struct record) { .kind = RECORD_REFUSED, .now = now, .u.refused = ours });
    member_refused(&p->member, now, &ours);
}

/* What the coordinator in this process has said, and what it says to that. */
void party_drain(struct party *p, uint64_t now)
{
    const char *trouble = recorder_trouble(p->recorder);

    while (p->has_view || p->has_refused) {
        struct rdzv_view    v = p->view;
        struct rdzv_refused r = p->refused;
        bool                has_view = p->has_view, has_refused = p->has_refused;

        p->has_view = p->has_refused = false;
        if (has_view)
            take_view(p, now, &v);
        if (has_refused)
            take_refusal(p, now, &r);
    }
    if (trouble)
        p->ops->say(p->ctx, 0, trouble);
    linger(p, now);
}

static void on_own_view(void *ctx, const struct rdzv_view *v)
{
    struct party *p = ctx;

    p->view = *v;
    p->has_view = true;
}

static void on_own_refused(void *ctx, const struct rdzv_refused *r)
{
    struct party *p = ctx;

    p->refused = *r;
    p->has_refused = true;
}

static void on_coordinator_says(void *ctx, const char *sentence)
{
    struct party *p = ctx;

    p->ops->say(p->ctx, 0, sentence);
}

static void on_woken(void *ctx)
{
    struct party *p = ctx;

    party_drain(p, cc_monotonic_ms());
    p->ops->woken(p->ctx);
}

static void on_save(void *ctx, uint64_t version, const uint8_t *state, size_t n)
{
    struct party *p = ctx;

    directory_save(p->directory, version, state, n);
}

static const struct coordinator_ops coordinator_ops = {
    .view = on_own_view,
    .refused = on_own_refused,
    .say = on_coordinator_says,
    .save = on_save,
    .woken = on_woken,
};

/* ---- the store, and hosting */

static void on_store_log(void *ctx, const char *sentence)
{
    struct party *p = ctx;
    char          line[CC_ERR_MSG_MAX + 128];

    (void) snprintf(line, sizeof line, "store: %s", sentence);
    p->ops->say(p->ctx, 0, line);
}

static void on_agent(void *ctx, int fd, const uint8_t *bytes, size_t n)
{
    struct party *p = ctx;

    if (p->coordinator)
        coordinator_accept(p->coordinator, fd, bytes, n);
    else
        (void) close(fd); /* we may host one day, or did: it will be told who does */
}

static const char *other_than(const char *addr, const char *taken)
{
    return strcmp(addr, taken) != 0 ? addr : NULL;
}

/* Whoever connects must leave us the descriptors for a start of the workers. */
static unsigned max_files(const struct party *p)
{
    rlim_t        own = ATTEMPT_FILES_OWN + (rlim_t) p->cfg.nproc * ATTEMPT_FILES_PER_WORKER, n;
    struct rlimit lim;

    if (getrlimit(RLIMIT_NOFILE, &lim) < 0 || lim.rlim_cur > INT_MAX)
        return 0;
    n = lim.rlim_cur > 2 * own ? lim.rlim_cur - own : lim.rlim_cur / 2;
    return (unsigned) n;
}

/* At addr, and wherever else others may look for us. */
int party_listen(struct party *p, const char *addr, uint16_t port, bool is_host, struct cc_err *err)
{
    const struct store_server_cfg cfg = {
        .host = addr,
        .also = { other_than(p->place.also[0], addr), other_than(p->place.also[1], addr) },
        .port = port,
        .is_tried = is_host && p->cfg.hosting == PARTY_HOST_AUTO && !p->is_port_taken,
        .max_memory = p->cfg.store_max_memory,
        .max_files = max_files(p),
        .log = on_store_log,
        .other = is_host ? on_agent : NULL,
        .ctx = p,
    };
    int r = store_server_start(&p->store, p->loop, &cfg, err);

    if (r == 0)
        store_server_end_round(p->store); /* there is none yet */
    return r;
}

void party_set_about(struct party *p, const char *addr)
{
    const struct party_cfg *c = &p->cfg;

    p->about = (struct rdzv_about) { .nproc = c->nproc, .wish = c->wish, .group = c->group, .plan = c->rdzv.plan };
    p->about.pid = (uint32_t) getpid();
    p->about.port = p->store ? store_server_port(p->store) : 0;
    (void) snprintf(p->about.host, sizeof p->about.host, "%s", c->our_host);
    (void) snprintf(p->about.addr, sizeof p->about.addr, "%s", addr);
    (void) snprintf(p->about.role, sizeof p->about.role, "%s", c->role);
}

/* The store listens already. */
int party_make_coordinator(struct party *p, const uint8_t *state, size_t n_state, struct cc_err *err)
{
    struct coordinator_cfg cfg = {
        .rdzv = p->cfg.rdzv,
        .job = party_job(p),
        .host = p->cfg.our_host,
        .secret = p->cfg.hosting == PARTY_ALONE ? NULL : p->cfg.secret, /* alone there is nobody to ask for it */
        .n_secret = p->cfg.n_secret,
        .recorder = p->recorder,
        .is_durable = p->directory != NULL,
        .state = state,
        .n_state = n_state,
    };

    if (p->cfg.hosting != PARTY_ALONE)
        cfg.rdzv.own = p->incarnation;
    cfg.rdzv.has_successor = p->directory != NULL;
    p->coordinator = coordinator_new(p->loop, &cfg, &coordinator_ops, p, err);
    return p->coordinator ? 0 : err->code;
}

static int host(struct party *p, const char *addr, struct cc_err *err)
{
    int r = party_make_coordinator(p, NULL, 0, err);

    if (r < 0)
        return r;
    party_take_part(p, addr);
    party_drain(p, cc_monotonic_ms());
    return 0;
}

bool party_is_address_trouble(int r)
{
    return r == -EADDRINUSE || r == -EADDRNOTAVAIL || r == -EACCES || r == -EINVAL;
}

/* ---- the way to the host */

static void on_connected(void *ctx, const char *own)
{
    struct party *p = ctx;
    uint64_t      now = cc_monotonic_ms();
    struct cc_err err = { 0 };

    if (p->stage == STAGE_JOINING && p->cfg.decline) {
        party_decline(p, p->place.publish);
    } else if (p->stage == STAGE_JOINING) {
        if (!p->store && party_listen(p, own, 0, false, &err) < 0) {
            party_finish_with(p, AGENT_EXIT_INTERNAL, err.msg);
            p->ops->woken(p->ctx);
            return;
        }
        party_set_about(p, p->place.publish); /* empty: the coordinator sees it */
        party_become_member(p);
    } else {
        note(p, RECORD_CONNECTED, now);
        member_connected(&p->member, now);
    }
    p->ops->woken(p->ctx);
}

static void on_message(void *ctx, const struct proto_msg *m)
{
    struct party *p = ctx;
    uint64_t      now = cc_monotonic_ms();

    if (m->type == PROTO_VIEW && p->stage == STAGE_MEMBER)
        take_view(p, now, &m->u.view);
    else if (m->type == PROTO_REFUSED)
        take_refusal(p, now, &m->u.refused);
    linger(p, now);
    p->ops->woken(p->ctx);
}

static void on_uplink_broken(void *ctx, const char *why)
{
    (void) ctx, (void) why; /* the member counts how long nothing is heard, and says it */
}

static void on_stranger(void *ctx);

static void on_uplink_failed(void *ctx, const struct cc_err *err)
{
    struct party *p = ctx;

    party_finish_with(p, AGENT_EXIT_USAGE, err->msg);
    p->ops->woken(p->ctx);
}

static const struct uplink_cbs uplink_cbs = {
    .connected = on_connected,
    .message = on_message,
    .broken = on_uplink_broken,
    .stranger = on_stranger,
    .failed = on_uplink_failed,
};

int party_connect(struct party *p, const char *host_addr, uint16_t port, const char *from, struct cc_err *err)
{
    const struct uplink_cfg cfg = {
        .host = host_addr,
        .port = port,
        .from = from && from[0] ? from : NULL,
        .resolve_timeout = p->cfg.resolve_timeout,
        .job = p->cfg.job,
        .secret = p->cfg.secret,
        .n_secret = p->cfg.n_secret,
    };

    p->uplink = uplink_new(p->loop, &cfg, &uplink_cbs, p, err);
    return p->uplink ? 0 : err->code;
}

static int join(struct party *p, const char *host_addr, const char *from, struct cc_err *err)
{
    p->stage = STAGE_JOINING;
    return party_connect(p, host_addr, p->cfg.port, from, err);
}

void party_say_hosting(struct party *p)
{
    const char *addr = p->place.bind, *open = strchr(addr, ':') ? "[" : "", *close = *open ? "]" : "";
    bool        is_one = strcmp(addr, p->place.publish) == 0;
    bool        is_here = strncmp(addr, "127.", 4) == 0 || strcmp(addr, "::1") == 0;
    char        line[512];

    (void) snprintf(line, sizeof line, "this node hosts the job, at %s%s%s:%u%s%s%s", open, addr, close,
                    store_server_port(p->store), is_here ? ", which no other machine can reach" : "",
                    is_one ? "" : "; its workers are reached at ", is_one ? "" : p->place.publish);
    p->ops->say(p->ctx, 0, line);
}

static int host_or_join(struct party *p, struct cc_err *err)
{
    const struct hosting_answer *a = &p->place;
    int                          r;

    if (a->note[0])
        p->ops->say(p->ctx, 0, a->note);
    if (!a->is_ours)
        return join(p, p->cfg.host, a->from, err);
    r = party_listen(p, a->bind, p->cfg.port, true, err);
    if (r == -EADDRINUSE && p->cfg.hosting != PARTY_HOST_YES) {
        p->is_port_taken = true; /* perhaps by another agent of this job: ask */
        return join(p, a->bind, NULL, err);
    }
    if (r < 0)
        return r;
    party_say_hosting(p);
    return host(p, a->publish, err);
}

/* The address is ours, and somebody else has the port: an agent of this job, or who?  When it is free meanwhile, we host. */
static int host_after_all(struct party *p, struct cc_err *err)
{
    int r = party_listen(p, p->place.bind, p->cfg.port, true, err);

    if (r < 0)
        return r;
    uplink_close(p->uplink);
    p->uplink = NULL;
    party_say_hosting(p);
    return host(p, p->place.publish, err);
}

/* Once: it is met again every second, and wait_for_host() repeats it less often. */
static void say_stranger(struct party *p)
{
    if (!p->has_met_stranger)
        p->ops->say(p->ctx, 0, uplink_trouble(p->uplink));
    p->has_met_stranger = true;
}

static void on_stranger(void *ctx)
{
    struct party *p = ctx;
    struct cc_err err = { 0 };

    if (p->stage == STAGE_JOINING && p->is_port_taken && host_after_all(p, &err) < 0) {
        /* A host that has its hands full may have turned us away, and one that is suspended says nothing. */
        if (cc_monotonic_ms() - p->waiting_since >= DOUBT_MS && !portowner_runs_our_program(p->cfg.port))
            party_finish_with(p, AGENT_EXIT_USAGE, err.msg);
    } else if (p->stage == STAGE_JOINING && !p->directory) /* who was elected just now is not ready yet: it will be */
        say_stranger(p);
    p->ops->woken(p->ctx);
}

void party_on_found(void *ctx, const struct hosting_answer *a, const struct cc_err *why)
{
    struct party *p = ctx;
    struct cc_err err = { 0 };
    int           r;

    hosting_close(p->hosting);
    p->hosting = NULL;
    if (a)
        p->place = *a;
    if (why)
        party_finish_with(p, AGENT_EXIT_USAGE, why->msg);
    else if ((r = p->directory ? party_stand(p, &err) : host_or_join(p, &err)) < 0)
        party_finish_with(p, party_is_address_trouble(r) ? AGENT_EXIT_USAGE : AGENT_EXIT_INTERNAL, err.msg);
    p->ops->woken(p->ctx);
}

/* ---- the whole */

struct party *party_new(uv_loop_t *loop, const struct party_cfg *cfg, const struct party_ops *ops, void *ctx,
                        struct cc_err *err)
{
    struct party *p = calloc(1, sizeof *p);

    if (!p) {
        (void) cc_fail(err, -ENOMEM, "no memory for the job");
        return NULL;
    }
    p->cfg = *cfg;
    if (cfg->decline && cfg->exit_barrier < cfg->join_timeout)
        p->cfg.join_timeout = cfg->exit_barrier;
    p->loop = loop;
    p->ops = ops;
    p->ctx = ctx;
    p->linger_until = never;
    p->recorder = cfg->record ? recorder_open(cfg->record, cfg->our_host, err) : NULL;
    if (cfg->record && !p->recorder) {
        free(p);
        return NULL;
    }
    while (p->incarnation == 0)
        if (getrandom(&p->incarnation, sizeof p->incarnation, 0) != sizeof p->incarnation)
            p->incarnation = uv_hrtime();
    return p;
}

/* The default port of a rendezvous belongs to whoever was first; another job on this machine does as well with another. */
static int start_alone(struct party *p, struct cc_err *err)
{
    struct cc_err was;
    int           r = party_listen(p, p->cfg.host, p->cfg.port, false, err);

    if (r == -EADDRINUSE && !p->cfg.is_port_named) {
        p->ops->say(p->ctx, 1, err->msg);
        r = party_listen(p, p->cfg.host, 0, false, err);
    }
    if (r == -EADDRNOTAVAIL) { /* the second of two nodes, perhaps, with the address of the first */
        was = *err;
        return cc_fail(err, r, "%s; if it is one of several nodes, give each of them --nnodes N", was.msg);
    }
    return r < 0 ? r : host(p, p->cfg.master_addr, err);
}

int party_start(struct party *p, struct cc_err *err)
{
    const struct hosting_cfg cfg = {
        .host = p->cfg.host,
        .iface = p->cfg.iface,
        .subnet = p->cfg.subnet,
        .local_addr = p->cfg.local_addr,
        .wish = p->cfg.hosting == PARTY_HOST_YES ? HOSTING_YES : p->cfg.hosting == PARTY_HOST_NO ? HOSTING_NO : HOSTING_AUTO,
        .resolve_timeout = p->cfg.resolve_timeout,
    };

    assert(p->stage == STAGE_NEW);
    p->stage = STAGE_FINDING;
    p->waiting_since = p->told_at = cc_monotonic_ms();
    if (p->cfg.hosting == PARTY_ALONE)
        return start_alone(p, err);
    if (p->cfg.hosting == PARTY_HOST_ELECTED)
        return party_start_election(p, err);
    p->hosting = hosting_start(p->loop, &cfg, party_on_found, p);
    return p->hosting ? 0 : cc_fail(err, -ENOMEM, "no memory for the job");
}

void party_started(struct party *p)
{
    note(p, RECORD_STARTED, 0);
    member_started(&p->member);
}

void party_cannot_start(struct party *p, uint64_t now, unsigned code)
{
    recorder_note(p->recorder, &(struct record) { .kind = RECORD_CANNOT_START, .now = now, .u.number = code });
    member_cannot_start(&p->member, now, code);
}

enum policy_exit party_exited(struct party *p, uint64_t now, int status, bool is_terminal)
{
    recorder_note(p->recorder, &(struct record) { .kind = RECORD_EXITED, .now = now, .u.exited = { status, is_terminal } });
    return member_exited(&p->member, now, status, is_terminal);
}

/* What keeps us from the host of the job. */
static const char *trouble(const struct party *p)
{
    return p->hosting ? hosting_trouble(p->hosting) : p->uplink ? uplink_trouble(p->uplink)
           : p->directory ? directory_trouble(p->directory) : "";
}

static void say_stopped_early(struct party *p, int signum)
{
    char        name[CC_SIGNAME_MAX], at[ENDPOINT_TEXT_MAX], line[CC_ERR_MSG_MAX + 480];
    const char *why = trouble(p);

    (void) snprintf(line, sizeof line, "%s: stopped before the job's host, %s, was reached%s%s", cc_signal_name(signum, name),
                    endpoint(p, at), why[0] ? ": " : "", why);
    p->ops->say(p->ctx, 0, line);
}

void party_signal(struct party *p, uint64_t now, int signum)
{
    if (p->stage < STAGE_MEMBER) {
        say_stopped_early(p, signum);
        finish(p, 128 + (unsigned) signum);
    } else if (p->stage == STAGE_MEMBER) {
        recorder_note(p->recorder, &(struct record) { .kind = RECORD_SIGNAL, .now = now, .u.number = (uint32_t) signum });
        member_signal(&p->member, now, signum);
        party_drain(p, now);
    } else {
        p->linger_until = now;
        linger(p, now);
    }
}

void party_pressed(struct party *p, uint64_t now)
{
    if (p->stage != STAGE_MEMBER)
        return;
    note(p, RECORD_PRESSED, now);
    member_pressed(&p->member, now);
    party_drain(p, now);
}

void party_notice(struct party *p, uint64_t now, uint64_t ms_left)
{
    if (p->stage == STAGE_MEMBER) {
        recorder_note(p->recorder, &(struct record) { .kind = RECORD_NOTICE, .now = now, .u.ms = ms_left });
        member_notice(&p->member, now, ms_left);
    }
    party_drain(p, now);
}

/* Nobody waits in silence. */
static void wait_for_host(struct party *p, uint64_t now)
{
    struct cc_err err = { 0 };
    const char *why = trouble(p);
    char        at[ENDPOINT_TEXT_MAX];
    uint64_t    waited = now - p->waiting_since;
    char        line[CC_ERR_MSG_MAX + 480];

    if (!why[0])
        why = "it has not answered yet";
    if (waited >= p->cfg.join_timeout) {
        (void) snprintf(p->last_words, sizeof p->last_words, "no host of the job at %s in %llu s: %s", endpoint(p, at),
                        (unsigned long long) waited / 1000, why);
        finish(p, p->cfg.decline ? p->cfg.decline->code : (unsigned) MEMBER_EXIT_ORPHAN);
    } else if (now - p->told_at >= TELL_EVERY_MS) {
        p->told_at = now;
        if (p->is_port_taken && p->uplink && host_after_all(p, &err) == 0)
            return;
        if (err.msg[0]) /* ours to host, and no agent of the job has the port */
            why = err.msg;
        (void) snprintf(line, sizeof line, "waiting for the host of the job, %s: %s; %llu s left", endpoint(p, at), why,
                        (unsigned long long) (p->cfg.join_timeout - waited) / 1000);
        p->ops->say(p->ctx, 0, line);
    }
}

static bool tick_member(struct party *p, uint64_t now)
{
    note(p, RECORD_TICK, now);
    return member_tick(&p->member, now);
}

bool party_tick(struct party *p, uint64_t now)
{
    bool is_failure = false;

    if (p->stage == STAGE_FINDING || p->stage == STAGE_JOINING)
        wait_for_host(p, now);
    else if (p->stage == STAGE_MEMBER && now >= member_deadline(&p->member))
        is_failure = tick_member(p, now);
    party_drain(p, now);
    return is_failure;
}

/* Every callback ends here; what is recorded are those that can lead to something. */
static void settle_member(struct party *p, uint64_t now, bool is_empty, bool is_drained)
{
    const struct member *m = &p->member;

    if (m->is_busy && (m->node.n_alive == 0 || m->node.group.state != GROUP_RUNNING))
        recorder_note(p->recorder, &(struct record) { .kind = RECORD_SETTLE, .now = now, .u.settle = { is_empty, is_drained } });
    member_settle(&p->member, now, is_empty, is_drained);
}

void party_settle(struct party *p, uint64_t now, bool is_empty, bool is_drained)
{
    if (p->stage == STAGE_MEMBER)
        settle_member(p, now, is_empty, is_drained);
    party_drain(p, now);
}

void party_paused(struct party *p, uint64_t ms)
{
    if (p->stage == STAGE_MEMBER) {
        recorder_note(p->recorder, &(struct record) { .kind = RECORD_PAUSED, .u.ms = ms });
        member_paused(&p->member, ms);
    }
    p->waiting_since += ms;
}

uint64_t party_deadline(const struct party *p)
{
    uint64_t ends = p->waiting_since + p->cfg.join_timeout;

    switch (p->stage) {
    case STAGE_FINDING: case STAGE_JOINING:
        return p->told_at + TELL_EVERY_MS < ends ? p->told_at + TELL_EVERY_MS : ends;
    case STAGE_MEMBER:
        return member_deadline(&p->member);
    case STAGE_LINGERING:
        return p->linger_until;
    case STAGE_NEW: case STAGE_FINISHED:
        break;
    }
    return never;
}

const struct node *party_node(const struct party *p)
{
    return &p->member.node;
}

const struct rdzv_view *party_view(const struct party *p)
{
    return &p->member.view;
}

const char *party_job(const struct party *p)
{
    const char *job = p->uplink ? uplink_job(p->uplink) : p->cfg.job;

    return job[0] ? job : "none"; /* torchrun's default */
}

bool party_is_needed(const struct party *p)
{
    return p->coordinator && p->cfg.hosting != PARTY_HOST_ELECTED;
}

const struct rdzv_cause *party_cause(const struct party *p)
{
    return &p->cause;
}

void party_close(struct party *p)
{
    if (p->is_closed)
        return;
    p->is_closed = true;
    p->stage = STAGE_FINISHED;
    if (p->hosting)
        hosting_close(p->hosting);
    if (p->uplink)
        uplink_close(p->uplink);
    if (p->directory && p->coordinator && party_is_ended(p))
        directory_forget(p->directory);
    if (p->coordinator)
        coordinator_close(p->coordinator);
    if (p->directory)
        directory_close(p->directory);
    if (p->store)
        store_server_close(p->store, NULL, NULL);
    p->hosting = NULL;
    p->uplink = NULL;
    p->coordinator = NULL;
    p->directory = NULL;
    p->store = NULL;
}

struct party *party_free(struct party *p)
{
    if (p)
        recorder_close(p->recorder);
    free(p);
    return NULL;
}
