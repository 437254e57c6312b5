#include "agent/decline.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/signals.h"
#include "store/base/clock.h"
#include "store/base/macros.h"

struct decline {
    const struct decline_cfg *cfg;
    uv_loop_t                 loop;
    struct signals            signals;
    struct party             *party;
    uv_timer_t                timer;
    uv_poll_t                 leash;
    bool                      has_leash, is_finished;
    unsigned                  status;
};

/* ---- the party: there are no workers, so there is nothing to do but to listen to it */

static void op_say(void *ctx, int verbosity, const char *sentence)
{
    const struct decline *d = ctx;

    if (d->cfg->verbosity >= verbosity)
        d->cfg->say(sentence);
}

static void op_finish(void *ctx, unsigned status, const char *error)
{
    struct decline *d = ctx;

    if (error)
        op_say(d, -1, error);
    d->status = status;
    d->is_finished = true;
}

static void on_timer(uv_timer_t *t);

static void close_all(struct decline *d)
{
    if (uv_is_closing((uv_handle_t *) &d->timer))
        return;
    party_close(d->party);
    signals_close(&d->signals);
    uv_close((uv_handle_t *) &d->timer, NULL);
    if (d->has_leash)
        uv_close((uv_handle_t *) &d->leash, NULL);
}

static void look_again(struct decline *d)
{
    uint64_t now = cc_monotonic_ms(), at = party_deadline(d->party);

    if (d->is_finished) {
        close_all(d);
        return;
    }
    uv_update_time(&d->loop);
    if (at != UINT64_MAX)
        (void) uv_timer_start(&d->timer, on_timer, at > now ? at - now : 0, 0);
}

static void on_timer(uv_timer_t *t)
{
    struct decline *d = CC_CONTAINER_OF(t, struct decline, timer);

    (void) party_tick(d->party, cc_monotonic_ms());
    look_again(d);
}

static void op_woken(void *ctx)
{
    look_again(ctx);
}

static const struct party_ops party_ops = { .say = op_say, .finish = op_finish, .woken = op_woken };

/* ---- who wants us to leave */

static void leave(struct decline *d, int signum)
{
    if (signum == SIGTERM || signum == SIGINT || signum == SIGHUP || signum == SIGQUIT)
        party_signal(d->party, cc_monotonic_ms(), signum);
    look_again(d);
}

static void on_signal(void *ctx, const struct signalfd_siginfo *info)
{
    leave(ctx, (int) info->ssi_signo);
}

static void on_leash(uv_poll_t *p, int status, int events)
{
    struct decline *d = CC_CONTAINER_OF(p, struct decline, leash);
    uint8_t         order;
    ssize_t         n = read(d->cfg->leash_fd, &order, 1);

    (void) status, (void) events;
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (n <= 0)
        (void) uv_poll_stop(p);
    leave(d, n > 0 ? order : SIGTERM);
}

/* ---- the whole */

static int start(struct decline *d, const struct party_cfg *party, struct cc_err *err)
{
    int r = signals_start(&d->signals, &d->loop, NULL, on_signal, d, err);

    if (r < 0)
        return r;
    d->party = party_new(&d->loop, party, &party_ops, d, err);
    if (!d->party)
        return err->code;
    (void) uv_timer_init(&d->loop, &d->timer);
    if (d->cfg->leash_fd >= 0 && uv_poll_init(&d->loop, &d->leash, d->cfg->leash_fd) == 0) {
        d->has_leash = true;
        (void) uv_poll_start(&d->leash, UV_READABLE, on_leash);
    }
    r = party_start(d->party, err);
    if (r < 0) {
        close_all(d);
        return r;
    }
    look_again(d);
    return 0;
}

unsigned decline_run(const struct decline_cfg *cfg)
{
    struct decline    d = { .cfg = cfg, .signals.fd = -1, .status = cfg->status };
    struct rdzv_cause cause = { .kind = RDZV_CAUSE_LOST, .rank = RDZV_NO_RANK, .code = cfg->status };
    struct party_cfg  party = *cfg->party;
    struct cc_err     err = { 0 };

    (void) snprintf(cause.host, sizeof cause.host, "%s", party.our_host);
    (void) snprintf(cause.text, sizeof cause.text, "%s", cfg->why);
    party.decline = &cause;
    if (uv_loop_init(&d.loop) < 0)
        return cfg->status;
    if (start(&d, &party, &err) < 0)
        op_say(&d, 1, err.msg); /* why we are here has been said, and matters more */
    (void) uv_run(&d.loop, UV_RUN_DEFAULT);
    d.party = party_free(d.party);
    (void) uv_loop_close(&d.loop);
    return d.status;
}
