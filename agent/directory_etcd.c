#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/directory_inside.h"
#include "store/base/clock.h"
#include "store/base/macros.h"
#include "store/etcd.h"

enum {
    LEASE_S = 4,       /* etcd itself is silent for 1 to 1.3 s when its own leader dies */
    STATE_LEASE_S = 15, /* what is left of a job when all of its agents are gone */
    TRY_MS = 500,
    CALL_MS = 2000,
    TICK_MS = 500,
    SLACK_MS = 500,   /* we stop so long before others can take over: two clocks may differ in speed, and a loop be late */
    POLL_TICKS = 6,   /* a watch may hang without our knowing */
    KEY_MAX = 256,
};

enum state {
    ASKING,    /* who hosts: a call is under way */
    PAUSING,   /* until the next tick, then ASKING */
    FOLLOWING, /* another hosts */
    STANDING,  /* a call of our candidacy is under way */
    HOSTING,
    CLOSING,   /* the lease is being given back */
};

struct etcd_directory {
    struct directory   d;
    uv_loop_t         *loop;
    struct etcd       *etcd;
    struct etcd_watch *watch;
    uv_timer_t         timer;
    enum state         state;
    char               host_key[KEY_MAX], state_key[KEY_MAX], line[DIRECTORY_LINE_MAX];
    size_t             n_line;   /* of our own candidacy; 0: we do not stand */
    struct directory_host host;  /* whom we follow */
    int64_t            lease, state_lease, created; /* created: the revision of our host key */
    uint64_t           lease_until, asked_at, state_kept_at;
    bool               is_keeping, is_keeping_state, has_address, is_stale, is_saving;
    unsigned           n_ticks;
    uint8_t           *saving;   /* the newest state, until it is saved */
    size_t             n_saving;
    uint64_t           version;
};

static void ask(struct etcd_directory *f);
static void on_tick(uv_timer_t *t);

static void note(struct etcd_directory *f, const char *why)
{
    directory_note(&f->d, why);
}

/* A call that cannot even be made is made later. */
static void later(struct etcd_directory *f)
{
    f->state = PAUSING;
}

/* ---- another hosts */

static void on_changed(void *ctx, const struct etcd_kv *kv)
{
    struct etcd_directory *f = ctx;

    (void) kv;
    f->is_stale = true;
    (void) uv_timer_start(&f->timer, on_tick, 0, TICK_MS);
}

static void on_watch_ended(void *ctx, const char *why)
{
    struct etcd_directory *f = ctx;

    (void) why;
    f->watch = NULL; /* the next tick asks, and watches again */
}

static const struct etcd_watch_cbs watch_cbs = { on_changed, on_watch_ended };

static void follow(struct etcd_directory *f, const struct etcd_answer *a)
{
    struct directory_host  h;
    struct directory_owner o;

    f->state = FOLLOWING;
    if (!f->watch)
        f->watch = etcd_watch(f->etcd, f->host_key, a->revision + 1, &watch_cbs, f);
    if (directory_read((const char *) a->kv.value, a->kv.n, &h, &o) < 0) {
        char why[CC_ERR_MSG_MAX];

        (void) snprintf(why, sizeof why, "the key %s in etcd is not ccrun's: remove it, or choose another etcd_prefix",
                        f->host_key);
        note(f, why);
        return;
    }
    note(f, "");
    if (h.incarnation == f->host.incarnation)
        return;
    f->host = h;
    f->d.cbs->host(f->d.ctx, &h);
}

/* ---- a place of our own */

static void lose(struct etcd_directory *f, const char *why)
{
    etcd_cancel(f->etcd);
    if (f->lease != 0)
        (void) etcd_revoke(f->etcd, f->lease, NULL, NULL);
    f->lease = f->created = 0;
    f->is_saving = f->is_keeping = f->is_keeping_state = false;
    free(f->saving);
    f->saving = NULL;
    f->host = (struct directory_host) { 0 };
    later(f);
    f->d.cbs->lost(f->d.ctx, why);
}

static void on_kept(void *ctx, const struct etcd_answer *a)
{
    struct etcd_directory *f = ctx;

    f->is_keeping = false;
    if (f->state != HOSTING)
        return;
    if (a->code == 0 && a->ttl > 0)
        f->lease_until = f->asked_at + (uint64_t) a->ttl * 1000;
    else if (a->code == 0 || a->code == -ENOENT)
        lose(f, "the lease in etcd has expired");
    else
        note(f, a->why);
}

static void on_state_kept(void *ctx, const struct etcd_answer *a)
{
    struct etcd_directory *f = ctx;

    f->is_keeping_state = false;
    if (a->code == -ENOENT || (a->code == 0 && a->ttl == 0))
        f->state_lease = 0; /* the next state gets another */
}

static void keep(struct etcd_directory *f)
{
    uint64_t now = cc_monotonic_ms();

    if (now + SLACK_MS >= f->lease_until) {
        char why[CC_ERR_MSG_MAX];

        (void) snprintf(why, sizeof why, "nothing was heard from etcd for too long%s%.300s", f->d.trouble[0] ? ": " : "",
                        f->d.trouble);
        lose(f, why);
        return;
    }
    if (!f->is_keeping) {
        f->asked_at = now;
        f->is_keeping = etcd_keep(f->etcd, f->lease, on_kept, f) == 0;
    }
    if (!f->is_keeping_state && f->state_lease != 0 && now - f->state_kept_at > STATE_LEASE_S * 1000 / 4) {
        f->state_kept_at = now;
        f->is_keeping_state = etcd_keep(f->etcd, f->state_lease, on_state_kept, f) == 0;
    }
}

static void put_state(struct etcd_directory *f);

static const char no_lease[] = "etcd was asked for a lease, and its answer has none";

static void on_state_lease(void *ctx, const struct etcd_answer *a)
{
    struct etcd_directory *f = ctx;

    f->is_saving = false;
    if (f->state != HOSTING)
        return;
    if (a->code < 0 || a->lease == 0) {
        note(f, a->code < 0 ? a->why : no_lease); /* the next tick tries again */
        return;
    }
    f->state_lease = a->lease;
    f->state_kept_at = cc_monotonic_ms();
    put_state(f);
}

static void on_put(void *ctx, const struct etcd_answer *a)
{
    struct etcd_directory *f = ctx;

    f->is_saving = false;
    if (f->state != HOSTING || !f->saving)
        return;
    if (a->code == -ENOENT) {
        f->state_lease = 0;
        put_state(f);
    } else if (a->code < 0) {
        note(f, a->why);
    } else if (!a->is_done) {
        lose(f, "another agent has taken its place in etcd");
    } else {
        note(f, "");
        free(f->saving);
        f->saving = NULL;
        f->d.cbs->saved(f->d.ctx, f->version);
    }
}

static void put_state(struct etcd_directory *f)
{
    struct etcd_value v = { f->saving, f->n_saving };

    if (f->is_saving || !f->saving)
        return;
    if (f->state_lease == 0)
        f->is_saving = etcd_grant(f->etcd, STATE_LEASE_S, on_state_lease, f) == 0;
    else
        f->is_saving = etcd_put_if(f->etcd, f->host_key, f->created, f->state_key, v, f->state_lease, on_put, f) == 0;
}

/* ---- our candidacy: a lease, the key, what was saved */

static bool is_failed(struct etcd_directory *f, const struct etcd_answer *a)
{
    if (a->code == 0)
        return false;
    note(f, a->why);
    if (f->lease != 0)
        (void) etcd_revoke(f->etcd, f->lease, NULL, NULL);
    f->lease = 0;
    later(f);
    return true;
}

static void on_loaded(void *ctx, const struct etcd_answer *a)
{
    struct etcd_directory *f = ctx;

    if (f->state == CLOSING || is_failed(f, a))
        return;
    f->state = HOSTING;
    f->state_lease = 0;
    f->host = (struct directory_host) { 0 };
    note(f, "");
    keep(f);
    if (f->state == HOSTING)
        f->d.cbs->elected(f->d.ctx, a->kv.value, a->kv.is_there ? a->kv.n : 0);
}

static void on_created(void *ctx, const struct etcd_answer *a)
{
    struct etcd_directory *f = ctx;
    bool                   is_ours;

    if (f->state == CLOSING || is_failed(f, a))
        return;
    /* An earlier try may have worked although its answer was lost. */
    is_ours = a->is_done || (a->kv.lease == f->lease && a->kv.n == f->n_line && memcmp(a->kv.value, f->line, f->n_line) == 0);
    if (!is_ours) {
        (void) etcd_revoke(f->etcd, f->lease, NULL, NULL);
        f->lease = 0;
        follow(f, a);
        return;
    }
    f->created = a->is_done ? a->revision : a->kv.create_revision;
    if (etcd_get(f->etcd, f->state_key, on_loaded, f) < 0)
        later(f);
}

static void on_granted(void *ctx, const struct etcd_answer *a)
{
    struct etcd_directory *f = ctx;
    struct etcd_value      v = { f->line, f->n_line };

    if (f->state == CLOSING || is_failed(f, a))
        return;
    if (a->lease == 0 || a->ttl == 0) {
        note(f, no_lease);
        later(f);
        return;
    }
    f->lease = a->lease;
    f->lease_until = f->asked_at + (uint64_t) a->ttl * 1000;
    if (etcd_create(f->etcd, f->host_key, v, f->lease, on_created, f) < 0)
        later(f);
}

static void stand(struct etcd_directory *f)
{
    f->state = STANDING;
    f->asked_at = cc_monotonic_ms();
    if (etcd_grant(f->etcd, f->d.cfg.lease_s ? (int64_t) f->d.cfg.lease_s : LEASE_S, on_granted, f) < 0)
        later(f);
}

/* ---- who hosts? */

static void on_asked(void *ctx, const struct etcd_answer *a)
{
    struct etcd_directory *f = ctx;

    if (f->state != ASKING || is_failed(f, a))
        return;
    if (!f->has_address) {
        f->has_address = true;
        f->d.cbs->address(f->d.ctx, a->own);
    }
    if (f->state != ASKING) /* closed, or already standing */
        return;
    note(f, "");
    if (a->kv.is_there)
        follow(f, a);
    else if (f->n_line > 0)
        stand(f);
    else
        later(f);
}

static void ask(struct etcd_directory *f)
{
    f->state = ASKING;
    f->is_stale = false;
    if (etcd_get(f->etcd, f->host_key, on_asked, f) < 0)
        later(f);
}

static void on_tick(uv_timer_t *t)
{
    struct etcd_directory *f = CC_CONTAINER_OF(t, struct etcd_directory, timer);

    f->n_ticks++;
    switch (f->state) {
    case PAUSING:
        ask(f);
        break;
    case FOLLOWING:
        if (f->is_stale || !f->watch || f->n_ticks % POLL_TICKS == 0)
            ask(f);
        break;
    case HOSTING:
        keep(f);
        if (f->state == HOSTING)
            put_state(f);
        break;
    case ASKING: case STANDING: case CLOSING:
        break;
    }
}

/* ---- the operations */

static void op_stand(struct directory *d, const char *addr, uint16_t port)
{
    struct etcd_directory *f = CC_CONTAINER_OF(d, struct etcd_directory, d);
    struct directory_host  h = { .port = port, .incarnation = d->cfg.incarnation };
    struct directory_owner o = { 0 };

    (void) snprintf(h.addr, sizeof h.addr, "%s", addr);
    (void) snprintf(h.name, sizeof h.name, "%s", d->cfg.our_host);
    f->n_line = directory_write(&h, &o, f->line);
    if (f->state == PAUSING)
        ask(f);
}

static void op_save(struct directory *d, uint64_t version, const uint8_t *state, size_t n)
{
    struct etcd_directory *f = CC_CONTAINER_OF(d, struct etcd_directory, d);

    if (f->state != HOSTING)
        return;
    free(f->saving);
    f->saving = malloc(n > 0 ? n : 1);
    f->n_saving = n;
    f->version = version;
    if (!f->saving) {
        note(f, "no memory to save the state of the job");
        return;
    }
    memcpy(f->saving, state, n);
    put_state(f);
}

/* It goes with its lease, soon: until then it tells late agents that the job has ended. */
static void op_forget(struct directory *d)
{
    (void) d;
}

static void on_timer_closed(uv_handle_t *h)
{
    struct etcd_directory *f = CC_CONTAINER_OF(h, struct etcd_directory, timer);

    free(f->saving);
    free(f);
}

static void let_go(struct etcd_directory *f)
{
    etcd_close(f->etcd);
    uv_close((uv_handle_t *) &f->timer, on_timer_closed);
}

static void on_revoked(void *ctx, const struct etcd_answer *a)
{
    (void) a;
    let_go(ctx);
}

static void op_close(struct directory *d)
{
    struct etcd_directory *f = CC_CONTAINER_OF(d, struct etcd_directory, d);

    f->state = CLOSING;
    (void) uv_timer_stop(&f->timer);
    if (f->watch)
        etcd_watch_close(f->watch);
    f->watch = NULL;
    if (f->lease == 0 || etcd_revoke(f->etcd, f->lease, on_revoked, f) < 0)
        let_go(f);
}

static int set_keys(struct etcd_directory *f, const struct directory_cfg *cfg, struct cc_err *err)
{
    const char *prefix = cfg->prefix && cfg->prefix[0] ? cfg->prefix : "/ccrun";
    size_t      len = strlen(prefix);

    while (len > 0 && prefix[len - 1] == '/')
        len--;
    if (len + strlen(cfg->job) + 8 > KEY_MAX)
        return cc_fail(err, -EINVAL, "etcd_prefix and the id of the job have %zu characters, at most %d can be",
                       len + strlen(cfg->job), KEY_MAX - 8);
    (void) snprintf(f->host_key, sizeof f->host_key, "%.*s/%s/host", (int) len, prefix, cfg->job);
    (void) snprintf(f->state_key, sizeof f->state_key, "%.*s/%s/state", (int) len, prefix, cfg->job);
    return 0;
}

struct directory *directory_etcd_new(uv_loop_t *loop, const struct directory_cfg *cfg, const struct directory_cbs *cbs,
                                     void *ctx, struct cc_err *err)
{
    struct etcd_cfg etcd = {
        .endpoints = cfg->endpoints,
        .protocol = cfg->protocol,
        .ca_file = cfg->ca_file,
        .cert_file = cfg->cert_file,
        .key_file = cfg->key_file,
        .user = cfg->user,
        .password = cfg->password,
        .try_timeout = TRY_MS,
        .call_timeout = CALL_MS,
    };
    struct etcd_directory *f = calloc(1, sizeof *f);

    if (!f) {
        (void) cc_fail(err, -ENOMEM, "no memory for etcd");
        return NULL;
    }
    f->d = (struct directory) { .stand = op_stand, .save = op_save, .forget = op_forget, .close = op_close, .cfg = *cfg,
                                .cbs = cbs, .ctx = ctx };
    f->loop = loop;
    if (set_keys(f, cfg, err) == 0)
        f->etcd = etcd_new(loop, &etcd, err);
    if (!f->etcd) {
        free(f);
        return NULL;
    }
    (void) uv_timer_init(loop, &f->timer);
    (void) uv_timer_start(&f->timer, on_tick, TICK_MS, TICK_MS);
    ask(f);
    return &f->d;
}
