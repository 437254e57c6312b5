#include "agent/uplink.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/link.h"
#include "agent/resolver.h"
#include "agent/secret.h"
#include "store/base/clock.h"
#include "store/base/macros.h"

enum {
    PAUSE_MIN_MS = 20,
    PAUSE_MAX_MS = 1000,
    CONNECT_MS = 5000,   /* for one address: a firewall may swallow what we send */
    HANDSHAKE_MS = 2000, /* for the other end to show that it is one of us */
    HOST_MAX = 256,
};

enum state { RESOLVING, CONNECTING, GREETING, CONNECTED, PAUSING, FAILED };

struct uplink {
    uv_loop_t               *loop;
    struct uplink_cfg        cfg;
    const struct uplink_cbs *cbs;
    void                    *ctx;
    char                     host[HOST_MAX], from[INET6_ADDRSTRLEN], trouble[CC_ERR_MSG_MAX], job[PROTO_JOB_MAX];
    struct secret           *secret; /* NULL: none */
    struct proto_open        open;   /* what we said on this connection */
    bool                     has_answered; /* to its challenge */
    enum state               state;
    bool                     was_resolved; /* at least once: what fails now will pass */
    bool                     is_closing;
    uint64_t                 began_at, pause;
    uv_timer_t               timer;
    struct resolver         *lookup;      /* NULL: none is under way */
    struct addrinfo         *list, *next; /* addresses of this round of attempts */
    uv_poll_t               *poll;        /* while connecting: its own allocation, closed on its own */
    int                      fd;
    struct link             *link;
    char                     peer[INET6_ADDRSTRLEN + 16];
};

static void try_next(struct uplink *u);
static void resolve(struct uplink *u);

__attribute__((format(printf, 2, 3))) static void note(struct uplink *u, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    (void) vsnprintf(u->trouble, sizeof u->trouble, fmt, ap);
    va_end(ap);
}

/* ---- time */

static void on_timer(uv_timer_t *t);

static void arm(struct uplink *u, uint64_t ms)
{
    uv_update_time(u->loop);
    (void) uv_timer_start(&u->timer, on_timer, ms, 0);
}

static void pause_then_retry(struct uplink *u)
{
    uint64_t ms = u->pause;

    u->state = PAUSING;
    u->pause = u->pause * 2 > PAUSE_MAX_MS ? PAUSE_MAX_MS : u->pause * 2;
    arm(u, ms - (uv_hrtime() >> 10) % (ms / 4 + 1)); /* many agents wait for one host: not all in the same moment */
}

/* ---- one connection */

static void on_poll_closed(uv_handle_t *h)
{
    free(h);
}

static void stop_connecting(struct uplink *u)
{
    if (u->poll) {
        (void) uv_poll_stop(u->poll);
        uv_close((uv_handle_t *) u->poll, on_poll_closed);
        u->poll = NULL;
    }
    if (u->fd >= 0)
        (void) close(u->fd);
    u->fd = -1;
}

static void lose_link(struct uplink *u)
{
    if (u->link)
        link_close(u->link);
    u->link = NULL;
}

/* The zeros of a proof tell the host that we do not trust it. */
static void distrust(struct uplink *u, const struct proto_challenge *c)
{
    struct proto_msg proof = { .type = PROTO_PROOF };
    struct proto_msg m = { .type = PROTO_REFUSED, .u.refused.why = RDZV_REFUSED_JOB };

    link_send(u->link, &proof);
    lose_link(u);
    (void) uv_timer_stop(&u->timer);
    u->state = FAILED;
    (void) snprintf(m.u.refused.sentence, sizeof m.u.refused.sentence,
                    "the secret of job '%.100s', run by %s, is another one (--job-token-file)", c->job, c->host);
    u->cbs->message(u->ctx, &m);
}

static void challenged(struct uplink *u, const struct proto_challenge *c)
{
    struct proto_msg ping = { .type = PROTO_PING, .u.ping = 1 };
    struct proto_msg m = { .type = PROTO_PROOF };
    uint8_t          want[PROTO_PROOF_BYTES];

    secret_prove(u->secret, PROTO_HOST, &u->open, c, want);
    if (u->secret && !secret_is_same(want, c->proof)) {
        distrust(u, c);
        return;
    }
    u->has_answered = true;
    memcpy(u->job, c->job, sizeof u->job);
    secret_prove(u->secret, PROTO_AGENT, &u->open, c, m.u.proof.proof);
    link_send(u->link, &m);
    link_send(u->link, &ping); /* what comes back says that it believes us */
}

static void on_message(void *ctx, struct link *l, const struct proto_msg *m)
{
    struct uplink *u = ctx;
    char           own[RDZV_ADDR_MAX];

    if (m->type == PROTO_CHALLENGE && u->state == GREETING && !u->has_answered) {
        challenged(u, &m->u.challenge);
    } else if (m->type == PROTO_PONG && u->state == GREETING && u->has_answered) {
        u->state = CONNECTED;
        u->pause = PAUSE_MIN_MS;
        u->trouble[0] = '\0';
        (void) uv_timer_stop(&u->timer);
        u->cbs->connected(u->ctx, link_address(l, LINK_OWN, own, sizeof own));
    } else if (m->type == PROTO_REFUSED || (m->type == PROTO_VIEW && u->state == CONNECTED)) {
        u->cbs->message(u->ctx, m);
    }
}

static void on_broken(void *ctx, struct link *l, const char *why)
{
    struct uplink *u = ctx;
    bool           was_connected = u->state == CONNECTED;

    (void) l;
    lose_link(u);
    if (was_connected)
        note(u, "the connection to %s broke: %s", u->peer, why);
    else
        note(u, "connected to %s, but what answers there is no ccrun: %s", u->peer, why);
    pause_then_retry(u);
    if (was_connected)
        u->cbs->broken(u->ctx, why);
    else
        u->cbs->stranger(u->ctx);
}

static const struct link_cbs link_cbs = { .message = on_message, .broken = on_broken };

static void greet(struct uplink *u)
{
    struct cc_err    err = { 0 };
    struct proto_msg open = { .type = PROTO_OPEN };
    int              fd = u->fd;

    u->fd = -1;
    stop_connecting(u);
    u->link = link_new(u->loop, fd, &link_cbs, u, &err);
    if (!u->link) {
        note(u, "%s", err.msg);
        pause_then_retry(u);
        return;
    }
    u->state = GREETING;
    u->has_answered = false;
    arm(u, HANDSHAKE_MS);
    secret_make_nonce(u->open.nonce);
    open.u.open = u->open;
    link_send(u->link, &open);
}

static void connect_failed(struct uplink *u, int code)
{
    if (code == ECONNREFUSED)
        note(u, "nothing listens on %s yet", u->peer);
    else if (code == ETIMEDOUT)
        note(u, "no answer from %s (a firewall in the way? the machine off?)", u->peer);
    else
        note(u, "cannot connect to %s: %s", u->peer, strerror(code));
    stop_connecting(u);
    try_next(u);
}

static void on_writable(uv_poll_t *p, int status, int events)
{
    struct uplink *u = p->data;
    int            code = 0;
    socklen_t      len = sizeof code;

    (void) events;
    if (getsockopt(u->fd, SOL_SOCKET, SO_ERROR, &code, &len) < 0)
        code = errno;
    else if (code == 0 && status < 0) /* libuv calls every error EBADF: only the socket knows which it was */
        code = -status;
    if (code != 0)
        connect_failed(u, code);
    else
        greet(u);
}

static void name_peer(struct uplink *u, const struct addrinfo *ai)
{
    char ip[INET6_ADDRSTRLEN] = "?";

    if (ai->ai_family == AF_INET6)
        (void) inet_ntop(AF_INET6, &((const struct sockaddr_in6 *) (const void *) ai->ai_addr)->sin6_addr, ip, sizeof ip);
    else
        (void) inet_ntop(AF_INET, &((const struct sockaddr_in *) (const void *) ai->ai_addr)->sin_addr, ip, sizeof ip);
    (void) snprintf(u->peer, sizeof u->peer, ai->ai_family == AF_INET6 ? "[%s]:%u" : "%s:%u", ip, u->cfg.port);
}

/* Our end of the connection, when it was chosen; another family than that of the address cannot be. */
static int bind_from(const struct uplink *u, int family, int fd)
{
    struct sockaddr_in  v4 = { .sin_family = AF_INET };
    struct sockaddr_in6 v6 = { .sin6_family = AF_INET6 };

    if (family == AF_INET && inet_pton(AF_INET, u->from, &v4.sin_addr) == 1)
        return bind(fd, (struct sockaddr *) &v4, sizeof v4);
    if (family == AF_INET6 && inet_pton(AF_INET6, u->from, &v6.sin6_addr) == 1)
        return bind(fd, (struct sockaddr *) &v6, sizeof v6);
    return 0;
}

static int start_connecting(struct uplink *u, const struct addrinfo *ai)
{
    int r;

    u->fd = socket(ai->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (u->fd < 0 || bind_from(u, ai->ai_family, u->fd) < 0)
        return -errno;
    if (connect(u->fd, ai->ai_addr, ai->ai_addrlen) < 0 && errno != EINPROGRESS)
        return -errno;
    u->poll = calloc(1, sizeof *u->poll);
    if (!u->poll)
        return -ENOMEM;
    r = uv_poll_init(u->loop, u->poll, u->fd);
    if (r < 0) {
        free(u->poll);
        u->poll = NULL;
        return r;
    }
    u->poll->data = u;
    return uv_poll_start(u->poll, UV_WRITABLE, on_writable);
}

static void try_next(struct uplink *u)
{
    const struct addrinfo *ai = u->next;
    int                    r;

    if (!ai) {
        pause_then_retry(u);
        return;
    }
    u->next = ai->ai_next;
    u->state = CONNECTING;
    name_peer(u, ai);
    if (u->trouble[0] == '\0')
        note(u, "no answer from %s yet", u->peer); /* a firewall may swallow what we send */
    arm(u, CONNECT_MS);
    r = start_connecting(u, ai);
    if (r < 0)
        connect_failed(u, -r);
}

/* ---- the name */

static void unresolvable(struct uplink *u, const char *why)
{
    struct cc_err err = { 0 };

    note(u, "the host '%s' of the endpoint cannot be resolved: %s", u->host, why);
    if (u->was_resolved || cc_monotonic_ms() - u->began_at < u->cfg.resolve_timeout) {
        pause_then_retry(u);
        return;
    }
    u->state = FAILED;
    (void) cc_fail(&err, -EHOSTUNREACH, "%s, and could not be for %llu s (--resolve-timeout)", u->trouble,
                   (unsigned long long) u->cfg.resolve_timeout / 1000);
    u->cbs->failed(u->ctx, &err);
}

static void on_resolved(void *ctx, struct addrinfo *list, const char *why)
{
    struct uplink *u = ctx;

    u->lookup = NULL;
    if (!list) {
        unresolvable(u, why);
        return;
    }
    if (!u->was_resolved)
        u->trouble[0] = '\0';
    u->was_resolved = true;
    if (u->list)
        freeaddrinfo(u->list);
    u->list = u->next = list;
    try_next(u);
}

static void resolve(struct uplink *u)
{
    u->state = RESOLVING;
    if (u->trouble[0] == '\0')
        note(u, "the name '%s' is being looked up", u->host);
    u->lookup = resolver_start(u->loop, u->host, u->cfg.port, true, on_resolved, u);
    if (!u->lookup)
        unresolvable(u, "no memory, or no thread");
}

static void on_timer(uv_timer_t *t)
{
    struct uplink *u = CC_CONTAINER_OF(t, struct uplink, timer);

    switch (u->state) {
    case PAUSING:
        resolve(u);
        break;
    case CONNECTING:
        connect_failed(u, ETIMEDOUT);
        break;
    case GREETING:
        lose_link(u);
        note(u, "connected to %s, but what listens there does not answer as a ccrun does", u->peer);
        pause_then_retry(u);
        u->cbs->stranger(u->ctx);
        break;
    case RESOLVING: case CONNECTED: case FAILED:
        break;
    }
}

/* ---- the whole */

struct uplink *uplink_new(uv_loop_t *loop, const struct uplink_cfg *cfg, const struct uplink_cbs *cbs, void *ctx,
                          struct cc_err *err)
{
    struct uplink *u = calloc(1, sizeof *u);

    if (!u) {
        (void) cc_fail(err, -ENOMEM, "no memory for the way to the host of the job");
        return NULL;
    }
    if (cfg->secret) {
        u->secret = secret_new(cfg->secret, cfg->n_secret, err);
        if (!u->secret) {
            free(u);
            return NULL;
        }
    }
    u->loop = loop;
    u->cfg = *cfg;
    u->cbs = cbs;
    u->ctx = ctx;
    u->fd = -1;
    u->pause = PAUSE_MIN_MS;
    u->began_at = cc_monotonic_ms();
    (void) snprintf(u->host, sizeof u->host, "%s", cfg->host);
    (void) snprintf(u->from, sizeof u->from, "%s", cfg->from ? cfg->from : "");
    u->open.version = PROTO_VERSION;
    u->open.has_secret = u->secret != NULL;
    (void) snprintf(u->open.job, sizeof u->open.job, "%s", cfg->job);
    (void) uv_timer_init(loop, &u->timer);
    u->state = PAUSING;
    arm(u, 0);
    return u;
}

void uplink_send(struct uplink *u, const struct proto_msg *m)
{
    if (u->state == CONNECTED)
        link_send(u->link, m);
}

const char *uplink_job(const struct uplink *u)
{
    return u->job;
}

const char *uplink_trouble(const struct uplink *u)
{
    return u->trouble;
}

static void on_timer_closed(uv_handle_t *h)
{
    free(CC_CONTAINER_OF(h, struct uplink, timer));
}

void uplink_close(struct uplink *u)
{
    if (u->is_closing)
        return;
    u->is_closing = true;
    lose_link(u);
    stop_connecting(u);
    if (u->lookup)
        resolver_cancel(u->lookup);
    if (u->list)
        freeaddrinfo(u->list);
    u->secret = secret_free(u->secret);
    (void) uv_timer_stop(&u->timer);
    uv_close((uv_handle_t *) &u->timer, on_timer_closed);
}
