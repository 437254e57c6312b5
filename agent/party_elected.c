#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/party_inside.h"
#include "store/base/clock.h"
#include "store/server.h"

static void on_address(void *ctx, const char *own)
{
    struct party            *p = ctx;
    const struct hosting_cfg cfg = {
        .host = own,
        .iface = p->cfg.iface,
        .subnet = p->cfg.subnet,
        .local_addr = p->cfg.local_addr,
        .wish = HOSTING_YES,
        .resolve_timeout = p->cfg.resolve_timeout,
    };

    p->hosting = hosting_start(p->loop, &cfg, party_on_found, p);
    if (!p->hosting)
        party_finish_with(p, AGENT_EXIT_INTERNAL, "no memory for the job");
    p->ops->woken(p->ctx);
}

/* Everybody listens, since everybody may host. */
int party_stand(struct party *p, struct cc_err *err)
{
    int r;

    if (!p->place.publish[0])
        memcpy(p->place.publish, p->place.bind, sizeof p->place.publish);
    r = party_listen(p, p->place.bind, 0, true, err);
    if (r == 0)
        directory_stand(p->directory, p->place.publish, store_server_port(p->store));
    return r;
}

static void drop_uplink(struct party *p)
{
    if (p->uplink)
        uplink_close(p->uplink);
    p->uplink = NULL;
}

static void on_host(void *ctx, const struct directory_host *h)
{
    struct party *p = ctx;
    struct cc_err err = { 0 };
    char          line[256];

    drop_uplink(p);
    if (p->stage > STAGE_MEMBER)
        return;
    if (p->stage < STAGE_MEMBER)
        p->stage = STAGE_JOINING;
    (void) snprintf(line, sizeof line, "%s hosts the job, at %s port %u", h->name, h->addr, h->port);
    p->ops->say(p->ctx, 1, line);
    if (party_connect(p, h->addr, h->port, NULL, &err) < 0)
        party_finish_with(p, AGENT_EXIT_INTERNAL, err.msg);
    p->ops->woken(p->ctx);
}

/* A state that cannot be used is of another run: this one begins anew. */
static void on_elected(void *ctx, const uint8_t *state, size_t n)
{
    struct party *p = ctx;
    struct cc_err err = { 0 };
    uint64_t      now = cc_monotonic_ms();
    int           r;

    drop_uplink(p);
    r = party_make_coordinator(p, n > 0 ? state : NULL, n, &err);
    if (r == -ESTALE || r == -EINVAL) {
        p->ops->say(p->ctx, 0, err.msg);
        r = party_make_coordinator(p, NULL, 0, &err);
    }
    if (r < 0) {
        party_finish_with(p, AGENT_EXIT_INTERNAL, err.msg);
    } else {
        party_say_hosting(p);
        if (p->stage < STAGE_MEMBER) {
            party_take_part(p, p->place.publish);
        } else if (p->stage == STAGE_MEMBER) {
            recorder_note(p->recorder, &(struct record) { .kind = RECORD_CONNECTED, .now = now });
            member_connected(&p->member, now);
        }
        party_drain(p, cc_monotonic_ms());
    }
    p->ops->woken(p->ctx);
}

static void on_saved(void *ctx, uint64_t version)
{
    struct party *p = ctx;

    coordinator_saved(p->coordinator, version);
}

static void on_lost(void *ctx, const char *why)
{
    struct party *p = ctx;
    char          line[CC_ERR_MSG_MAX + 64];

    (void) snprintf(line, sizeof line, "this node does not host the job any more: %s", why);
    p->ops->say(p->ctx, 0, line);
    if (p->coordinator)
        coordinator_close(p->coordinator);
    p->coordinator = NULL;
    p->has_view = p->has_refused = false;
    p->ops->woken(p->ctx);
}

static void on_says(void *ctx, const char *sentence)
{
    struct party *p = ctx;

    p->ops->say(p->ctx, 0, sentence);
}

static const struct directory_cbs directory_cbs = {
    .address = on_address,
    .host = on_host,
    .elected = on_elected,
    .saved = on_saved,
    .lost = on_lost,
    .say = on_says,
};

int party_start_election(struct party *p, struct cc_err *err)
{
    struct directory_cfg cfg = p->cfg.directory;

    if (rdzv_save_max(&p->cfg.rdzv) > DIRECTORY_STATE_MAX)
        return cc_fail(err, -EINVAL, "%u nodes are too many for --rdzv-backend etcd or a file: what a successor needs would be "
                                     "%zu bytes, at most %d can be", p->cfg.rdzv.max_nodes, rdzv_save_max(&p->cfg.rdzv),
                       DIRECTORY_STATE_MAX);
    cfg.job = party_job(p);
    cfg.our_host = p->cfg.our_host;
    cfg.incarnation = p->incarnation;
    p->directory = directory_new(p->loop, &cfg, &directory_cbs, p, err);
    if (p->directory)
        return 0;
    return err->code == -ENOMEM ? err->code : -EINVAL; /* what was asked for cannot be had here */
}
