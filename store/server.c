#include "store/server.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "store/base/cleanup.h"
#include "store/base/macros.h"
#include "store/base/ration.h"
#include "store/core/pace.h"
#include "store/core/session.h"
#include "store/listen.h"
#include "store/sendlot.h"

enum {
    READ_SIZE = 64 << 10,    /* what one client may make us do in one turn */
    ACCEPTS_PER_TURN = 1024, /* many: where the queue overflows, a client waits for a second */
    SILENT_ROUNDS = 2, /* who has said nothing when so many have begun is no agent */
    OTHER_FIRST = 0x80,
    LOT_MIN = 8,        /* answers at once: fewer are sent one by one */
    LOTS_TO_LEARN = 64, /* so often, and it is worth to prepare for more */
    ANY_PORT_TRIES = 16,
    SILENT_MS = 1000, /* a client of the store speaks at once, as a rule: then one is given up for another */
};

#define DEFAULT_MAX_MEMORY ((uint64_t) 1 << 30)

struct client {
    struct session       session;
    struct store_server *server;
    uv_poll_t            watch;
    int                  fd;
    int                  events; /* what `watch` looks for */
    bool is_dirty, has_ended;    /* has_ended: sends nothing more, is closed once it has its answers */
    unsigned n_rounds;           /* that have begun since it came */
    bool has_spoken;             /* and is a client of the store */
    bool is_stale;               /* from an earlier round: if it is for the store, then not for this one */
    uint64_t came_at;
    TAILQ_ENTRY(client) all, dirty, silent;
};

TAILQ_HEAD(client_list, client);

struct listener {
    struct store_server *server;
    uv_poll_t            watch;
    int                  fd;
};

struct store_server {
    struct store_server_cfg cfg;
    uv_loop_t              *loop;
    struct session_space    space;
    struct client_list      clients, dirty; /* dirty: has something to send, in the order in which it came */
    struct client_list      silent;         /* has said nothing yet, in the order in which they came */
    struct listener         listeners[1 + STORE_SERVER_ALSO_MAX];
    unsigned                n_listeners, n_watched;
    int                     spare_fd;
    uint16_t                port;
    unsigned        n_clients, n_dirty, n_events; /* n_events: requests and connections of this turn */
    struct pace     pace;
    struct sendlot *lot; /* NULL: not worth it yet, or not to be had */
    unsigned        n_lots;
    uv_check_t      after_poll; /* answers go out when all that has come was run: one send for each client */
    uv_idle_t       more;       /* active: somebody has work left that no event will announce */
    unsigned        n_open;     /* handles that libuv still knows */
    bool            is_closing;
    bool            is_between; /* rounds: clients are refused */
    bool            has_begun;  /* the first round */
    void (*on_closed)(void *ctx);
    void    *on_closed_ctx;
    struct cc_ration ration; /* of what is logged */
    uint8_t          in[READ_SIZE];
};

/* ---- telling */

static void say(struct store_server *s, const char *sentence)
{
    unsigned n_kept;
    bool     is_due = cc_ration_take(&s->ration, uv_now(s->loop), &n_kept);
    char     kept[96];

    if (!s->cfg.log)
        return;
    if (n_kept > 0) {
        (void) snprintf(kept, sizeof kept, "%u more connections were closed or refused", n_kept);
        s->cfg.log(s->cfg.ctx, kept);
    }
    if (is_due)
        s->cfg.log(s->cfg.ctx, sentence);
}

static void say_why(struct client *c, const struct cc_err *err)
{
    struct sockaddr_storage a = { 0 };
    socklen_t               n = sizeof a;
    char                    peer[STORE_ADDRESS_MAX], sentence[CC_ERR_MSG_MAX + 128];

    (void) getpeername(c->fd, (struct sockaddr *) &a, &n);
    store_write_address(&a, peer);
    (void) snprintf(sentence, sizeof sentence, "the connection from %s was closed: %s", peer, err->msg);
    say(c->server, sentence);
}

/* ---- clients */

static void on_handle_closed(struct store_server *s)
{
    void (*on_closed)(void *ctx) = s->on_closed;
    void *ctx = s->on_closed_ctx;

    assert(s->n_open > 0);
    if (--s->n_open > 0 || !s->is_closing)
        return;
    session_space_free(&s->space);
    s->lot = sendlot_free(s->lot);
    free(s);
    if (on_closed)
        on_closed(ctx);
}

static void on_client_closed(uv_handle_t *h)
{
    struct client       *c = CC_CONTAINER_OF(h, struct client, watch);
    struct store_server *s = c->server;

    free(c);
    on_handle_closed(s);
}

static void set_dirty(struct client *c)
{
    if (c->is_dirty)
        return;
    c->is_dirty = true;
    c->server->n_dirty++;
    TAILQ_INSERT_TAIL(&c->server->dirty, c, dirty);
}

static void set_clean(struct client *c)
{
    if (!c->is_dirty)
        return;
    c->is_dirty = false;
    c->server->n_dirty--;
    TAILQ_REMOVE(&c->server->dirty, c, dirty);
}

/* Its descriptor lives on. */
static void let_go(struct client *c)
{
    set_clean(c);
    if (!c->has_spoken)
        TAILQ_REMOVE(&c->server->silent, c, silent);
    TAILQ_REMOVE(&c->server->clients, c, all);
    c->server->n_clients--;
    session_end(&c->session);
    (void) uv_poll_stop(&c->watch);
    uv_close((uv_handle_t *) &c->watch, on_client_closed);
}

static void drop(struct client *c)
{
    int fd = c->fd;

    let_go(c);
    (void) close(fd);
}

static void refuse(struct client *c, const struct cc_err *err)
{
    const struct cc_buf *out = &c->session.out;

    say_why(c, err);
    if (cc_buf_len(out) > 0) /* the answers to what came before, as far as they go */
        (void) send(c->fd, cc_buf_data(out), cc_buf_len(out), MSG_DONTWAIT | MSG_NOSIGNAL);
    drop(c);
}

static void on_ready(uv_poll_t *watch, int status, int events);

static void watch_for(struct client *c, int events)
{
    if (events == c->events)
        return;
    c->events = events;
    if (events == 0)
        (void) uv_poll_stop(&c->watch);
    else
        (void) uv_poll_start(&c->watch, events, on_ready);
}

/* The first bytes tell whom the connection is for. */
static bool is_for_store(struct client *c, size_t n)
{
    struct store_server *s = c->server;
    int                  fd = c->fd;

    if (s->cfg.other && s->in[0] >= OTHER_FIRST) {
        let_go(c);
        s->cfg.other(s->cfg.ctx, fd, s->in, n);
        return false;
    }
    if ((s->is_between && !s->space.is_shut) || c->is_stale) {
        drop(c);
        return false;
    }
    c->has_spoken = true;
    TAILQ_REMOVE(&s->silent, c, silent);
    return true;
}

/* What one recv() brings is what a client can make us do in one turn; the rest waits in the kernel. */
static void read_some(struct client *c)
{
    struct store_server *s = c->server;
    struct cc_err        err = { 0 };
    ssize_t              n = recv(c->fd, s->in, sizeof s->in, MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n < 0) {
        drop(c); /* a reset: nothing to say about a client that is gone */
        return;
    }
    if (n == 0) {
        c->has_ended = true;
        set_dirty(c);
        return;
    }
    if (!c->has_spoken && !is_for_store(c, (size_t) n))
        return;
    if (session_input(&c->session, s->in, (size_t) n, (size_t) n < sizeof s->in, &err) < 0) {
        refuse(c, &err);
        return;
    }
    s->n_events++;
    if (cc_buf_len(&c->session.out) > 0)
        set_dirty(c);
}

static void on_ready(uv_poll_t *watch, int status, int events)
{
    struct client *c = CC_CONTAINER_OF(watch, struct client, watch);

    if (status < 0) {
        drop(c);
        return;
    }
    if (events & UV_WRITABLE)
        set_dirty(c);
    if (events & UV_READABLE)
        read_some(c);
}

static void on_woken(struct session *session)
{
    set_dirty(CC_CONTAINER_OF(session, struct client, session));
}

/* ---- answering */

/* Sends what there is. False: the client is gone. */
static bool send_some(struct client *c)
{
    struct cc_buf *out = &c->session.out;
    ssize_t        n;

    if (cc_buf_len(out) == 0)
        return true;
    n = send(c->fd, cc_buf_data(out), cc_buf_len(out), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n >= 0)
        session_sent(&c->session, (size_t) n);
    else if (errno != EAGAIN && errno != EINTR) {
        drop(c);
        return false;
    }
    return true;
}

static void flush(struct client *c)
{
    struct cc_err err = { 0 };
    bool          is_paused, is_empty;

    if (c->session.is_broken) {
        (void) cc_fail(&err, -ENOMEM, "no memory for the answer to its WAIT");
        refuse(c, &err);
        return;
    }
    if (!send_some(c))
        return;
    is_empty = cc_buf_len(&c->session.out) == 0;
    if (is_empty && c->session.is_paused) {
        if (session_resume(&c->session, &err) < 0) {
            refuse(c, &err);
            return;
        }
        if (cc_buf_len(&c->session.out) > 0) {
            set_dirty(c); /* in the next turn: others come first */
            return;
        }
    }
    is_paused = c->session.is_paused;
    if (is_empty && c->has_ended)
        drop(c);
    else
        watch_for(c, (is_empty ? 0 : UV_WRITABLE) | (c->has_ended || is_paused ? 0 : UV_READABLE));
}

static void on_more(uv_idle_t *idle)
{
    (void) idle; /* its being active keeps the loop from sleeping */
}

static void on_sent(void *owner, size_t n)
{
    struct client *c = owner;

    session_sent(&c->session, n);
}

/* Of those who have something to read now, as much as goes out at once; flush() sees to the rest. */
static void send_lots(struct store_server *s)
{
    struct client *c;

    if (s->n_dirty < LOT_MIN)
        return;
    if (s->n_lots < LOTS_TO_LEARN && ++s->n_lots == LOTS_TO_LEARN)
        s->lot = sendlot_new();
    if (!s->lot)
        return;
    TAILQ_FOREACH(c, &s->dirty, dirty)
    {
        const struct cc_buf *out = &c->session.out;

        if (c->session.is_broken || cc_buf_len(out) == 0)
            continue;
        if (!sendlot_add(s->lot, c->fd, cc_buf_data(out), cc_buf_len(out), c)) {
            sendlot_go(s->lot, on_sent);
            (void) sendlot_add(s->lot, c->fd, cc_buf_data(out), cc_buf_len(out), c);
        }
    }
    sendlot_go(s->lot, on_sent);
}

/* Everyone who has something to read now; who gets something meanwhile has its turn later. */
static void flush_all(struct store_server *s)
{
    struct client *last = TAILQ_LAST(&s->dirty, client_list), *c = NULL;

    send_lots(s);
    while (c != last) {
        c = TAILQ_FIRST(&s->dirty);
        set_clean(c);
        flush(c);
    }
}

static void on_after_poll(uv_check_t *check)
{
    struct store_server *s = CC_CONTAINER_OF(check, struct store_server, after_poll);
    unsigned             n_dirty = s->n_dirty, n_events = s->n_events;
    bool                 is_held;

    if (n_dirty + n_events > 0) {
        uint64_t now = uv_hrtime();

        s->n_events = 0;
        if (n_events > 0)
            pace_events(&s->pace, now, n_events);
        is_held = pace_is_held(&s->pace, now, n_dirty, s->n_clients);
        if (!is_held) {
            flush_all(s);
            pace_done(&s->pace, uv_hrtime(), n_dirty);
        }
    }
    if (!TAILQ_EMPTY(&s->dirty) || pace_looks_again(&s->pace, uv_hrtime()))
        (void) uv_idle_start(&s->more, on_more);
    else
        (void) uv_idle_stop(&s->more);
}

/* ---- accepting */

static void add_client(struct store_server *s, int fd)
{
    struct client *c = calloc(1, sizeof *c);

    if (!c || uv_poll_init(s->loop, &c->watch, fd) < 0) {
        say(s, "a connection was refused: no memory");
        free(c);
        (void) close(fd);
        return;
    }
    c->server = s;
    c->fd = fd;
    session_init(&c->session, &s->space);
    c->came_at = uv_now(s->loop);
    TAILQ_INSERT_TAIL(&s->clients, c, all);
    TAILQ_INSERT_TAIL(&s->silent, c, silent);
    s->n_clients++;
    s->n_events++;
    s->n_open++;
    watch_for(c, UV_READABLE);
}

/* Somebody who holds connections without a word must not keep the workers and the agents out. */
static bool drop_silent(struct store_server *s)
{
    struct client *c = TAILQ_FIRST(&s->silent);

    if (!c || uv_now(s->loop) - c->came_at < SILENT_MS)
        return false;
    say(s, "a connection on which nothing was said was closed for another: the limit of open files is reached (ulimit -n)");
    drop(c);
    return true;
}

/* There is one descriptor more than there should be. */
static void add_beyond_limit(struct store_server *s, int fd)
{
    if (drop_silent(s)) {
        add_client(s, fd);
        return;
    }
    (void) close(fd);
    say(s, "a connection was refused: the limit of open files is reached (ulimit -n)");
}

/* No descriptor is left: give one up for a moment, so that the client hears of it at once and tries again
 * later.  False: nobody waits. */
static bool accept_without_files(struct listener *l)
{
    struct store_server *s = l->server;
    int                  fd;

    (void) close(s->spare_fd);
    fd = accept4(l->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0)
        add_beyond_limit(s, fd);
    s->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    return fd >= 0;
}

static void on_connection(uv_poll_t *watch, int status, int events)
{
    struct listener     *l = CC_CONTAINER_OF(watch, struct listener, watch);
    struct store_server *s = l->server;

    (void) status, (void) events;
    for (unsigned i = 0; i < ACCEPTS_PER_TURN; i++) {
        int  fd = accept4(l->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        bool is_full = fd < 0 && (errno == EMFILE || errno == ENFILE); /* also when nobody waits */

        if (fd >= 0 && s->cfg.max_files > 0 && (unsigned) fd >= s->cfg.max_files)
            add_beyond_limit(s, fd);
        else if (fd >= 0)
            add_client(s, fd);
        else if (is_full ? !accept_without_files(l) : errno != ECONNABORTED && errno != EINTR)
            return;
    }
}

static void close_listeners(struct store_server *s)
{
    for (unsigned i = 0; i < s->n_listeners; i++)
        (void) close(s->listeners[i].fd);
    s->n_listeners = 0;
}

static int add_listener(struct store_server *s, const char *host, struct cc_err *err)
{
    struct listener *l = &s->listeners[s->n_listeners];
    int              fd = store_listen(host, s->port, s->cfg.is_tried, &s->port, err);

    if (fd < 0)
        return fd;
    l->server = s;
    l->fd = fd;
    s->n_listeners++;
    return 0;
}

/* All of the addresses at one port.  Any one: what the first address gives may be taken at another, so that
 * is tried again. */
static int listen_on_all(struct store_server *s, const struct store_server_cfg *cfg, struct cc_err *err)
{
    int r, tries = 0;

    do {
        close_listeners(s);
        s->port = cfg->port;
        r = add_listener(s, cfg->host ? cfg->host : "127.0.0.1", err);
        for (unsigned i = 0; r == 0 && i < STORE_SERVER_ALSO_MAX; i++)
            if (cfg->also[i] && cfg->also[i][0] != '\0')
                r = add_listener(s, cfg->also[i], err);
    } while (r == -EADDRINUSE && cfg->port == 0 && s->n_listeners > 0 && ++tries < ANY_PORT_TRIES);
    return r;
}

static int watch_listeners(struct store_server *s, struct cc_err *err)
{
    for (unsigned i = 0; i < s->n_listeners; i++) {
        struct listener *l = &s->listeners[i];
        int              r = uv_poll_init(s->loop, &l->watch, l->fd);

        if (r < 0)
            return cc_fail(err, r, "watch the store's socket: %s", uv_strerror(r));
        (void) uv_poll_start(&l->watch, UV_READABLE, on_connection);
        s->n_watched++;
        s->n_open++;
    }
    return 0;
}

/* ---- the whole */

static struct store_server *abandon(struct store_server *s)
{
    close_listeners(s);
    if (s->spare_fd >= 0)
        (void) close(s->spare_fd);
    session_space_free(&s->space);
    free(s);
    return NULL;
}

int store_server_start(struct store_server **ret, uv_loop_t *loop, const struct store_server_cfg *cfg,
                       struct cc_err *err)
{
    struct store_server *s = calloc(1, sizeof *s);
    uint64_t             seed[2], max = cfg->max_memory > 0 ? cfg->max_memory : DEFAULT_MAX_MEMORY;
    int                  r;

    if (!s)
        return cc_fail(err, -ENOMEM, "no memory for the store");
    s->cfg = *cfg;
    s->loop = loop;
    s->spare_fd = -1;
    TAILQ_INIT(&s->clients);
    TAILQ_INIT(&s->dirty);
    TAILQ_INIT(&s->silent);
    if (getrandom(seed, sizeof seed, 0) != sizeof seed ||
        session_space_init(&s->space, seed, max, on_woken) < 0) {
        (void) abandon(s);
        return cc_fail(err, -ENOMEM, "no memory for the store");
    }
    s->space.is_of_job = cfg->other != NULL;
    r = listen_on_all(s, cfg, err);
    if (r < 0) {
        (void) abandon(s);
        return r;
    }
    s->cfg.host = NULL; /* the caller's, and not needed any more */
    memset(s->cfg.also, 0, sizeof s->cfg.also);
    s->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    (void) uv_check_init(loop, &s->after_poll);
    (void) uv_check_start(&s->after_poll, on_after_poll);
    (void) uv_idle_init(loop, &s->more);
    s->n_open = 2;
    r = watch_listeners(s, err);
    if (r < 0) {
        store_server_close(s, NULL, NULL);
        return r;
    }
    *ret = s;
    return 0;
}

uint16_t store_server_port(const struct store_server *s)
{
    return s->port;
}

static void drop_all(struct store_server *s)
{
    struct client *c;

    while ((c = TAILQ_FIRST(&s->clients)) != NULL)
        drop(c);
}

/* Who has said nothing yet may be an agent, whose connection belongs to no round; but an agent speaks at once. */
static void drop_clients(struct store_server *s)
{
    struct client *c, *next;

    for (c = TAILQ_FIRST(&s->clients); c; c = next) {
        next = TAILQ_NEXT(c, all);
        if (c->has_spoken || !s->cfg.other || c->n_rounds == SILENT_ROUNDS)
            drop(c);
        else
            c->is_stale = true;
    }
}

void store_server_new_round(struct store_server *s)
{
    struct client *c;

    s->is_between = s->space.is_shut = false;
    s->has_begun = true;
    TAILQ_FOREACH(c, &s->clients, all)
        c->n_rounds++;
    drop_clients(s);
    session_space_clear(&s->space);
}

void store_server_end_round(struct store_server *s)
{
    s->is_between = true;
    s->space.is_shut = s->space.is_of_job && !s->has_begun; /* who comes so early may be no worker: let it say what it is */
    drop_clients(s);
    session_space_clear(&s->space);
}

static void on_listen_closed(uv_handle_t *h)
{
    on_handle_closed(CC_CONTAINER_OF(h, struct listener, watch)->server);
}

static void on_check_closed(uv_handle_t *h)
{
    on_handle_closed(CC_CONTAINER_OF(h, struct store_server, after_poll));
}

static void on_idle_closed(uv_handle_t *h)
{
    on_handle_closed(CC_CONTAINER_OF(h, struct store_server, more));
}

void store_server_close(struct store_server *s, void (*on_closed)(void *ctx), void *ctx)
{
    assert(!s->is_closing);
    s->is_closing = true;
    s->on_closed = on_closed;
    s->on_closed_ctx = ctx;
    drop_all(s);
    for (unsigned i = 0; i < s->n_watched; i++) {
        (void) uv_poll_stop(&s->listeners[i].watch);
        uv_close((uv_handle_t *) &s->listeners[i].watch, on_listen_closed);
    }
    close_listeners(s);
    uv_close((uv_handle_t *) &s->after_poll, on_check_closed);
    uv_close((uv_handle_t *) &s->more, on_idle_closed);
    (void) close(s->spare_fd);
}
