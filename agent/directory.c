#include "agent/directory.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "agent/directory_inside.h"
#include "store/base/clock.h"

enum { SAY_EVERY_MS = 5000 };

struct directory *directory_new(uv_loop_t *loop, const struct directory_cfg *cfg, const struct directory_cbs *cbs, void *ctx,
                                struct cc_err *err)
{
    return cfg->endpoints ? directory_etcd_new(loop, cfg, cbs, ctx, err) : directory_file_new(loop, cfg, cbs, ctx, err);
}

void directory_stand(struct directory *d, const char *addr, uint16_t port)
{
    d->stand(d, addr, port);
}

void directory_save(struct directory *d, uint64_t version, const uint8_t *state, size_t n)
{
    d->save(d, version, state, n);
}

void directory_forget(struct directory *d)
{
    d->forget(d);
}

const char *directory_trouble(const struct directory *d)
{
    return d->trouble;
}

void directory_close(struct directory *d)
{
    d->close(d);
}

void directory_note(struct directory *d, const char *why)
{
    uint64_t now = cc_monotonic_ms();

    (void) snprintf(d->trouble, sizeof d->trouble, "%s", why);
    if (!why[0] || (d->said_at != 0 && now - d->said_at < SAY_EVERY_MS))
        return;
    d->said_at = now;
    d->cbs->say(d->ctx, d->trouble);
}

/* ---- how a host is written down */

/* A name of a host has no blank; who has one anyway loses it. */
static void one_word(const char *text, char ret[DIRECTORY_NAME_MAX])
{
    size_t i;

    for (i = 0; i + 1 < DIRECTORY_NAME_MAX && text[i]; i++)
        ret[i] = isgraph((unsigned char) text[i]) ? text[i] : '_';
    ret[i] = '\0';
    if (i == 0)
        (void) snprintf(ret, DIRECTORY_NAME_MAX, "-");
}

size_t directory_write(const struct directory_host *h, const struct directory_owner *o, char ret[DIRECTORY_LINE_MAX])
{
    char name[DIRECTORY_NAME_MAX];

    one_word(h->name, name);
    return (size_t) snprintf(ret, DIRECTORY_LINE_MAX, "ccrun 1 %s %u %" PRIx64 " %s %s %" PRIu64 " %" PRId64 " %" PRIu64 "\n",
                             h->addr, h->port, h->incarnation, name, o->boot[0] ? o->boot : "-", o->pid_space, o->pid,
                             o->started);
}

int directory_read(const char *text, size_t n, struct directory_host *h, struct directory_owner *o)
{
    char     line[DIRECTORY_LINE_MAX];
    unsigned port;

    *h = (struct directory_host) { 0 };
    *o = (struct directory_owner) { 0 };
    if (n == 0 || n >= sizeof line || text[n - 1] != '\n')
        return -EINVAL;
    memcpy(line, text, n);
    line[n] = '\0';
    if (sscanf(line, "ccrun 1 %63s %5u %" SCNx64 " %63s %39s %" SCNu64 " %" SCNd64 " %" SCNu64, h->addr, &port, &h->incarnation,
               h->name, o->boot, &o->pid_space, &o->pid, &o->started) != 8 || port == 0 || port > UINT16_MAX)
        return -EINVAL;
    h->port = (uint16_t) port;
    return 0;
}
