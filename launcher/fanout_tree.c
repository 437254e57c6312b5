#include "launcher/fanout_tree.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launcher/launchdata.h"
#include "launcher/plan.h"

enum { PARTS = 6, HOST_TEXT_MAX = 4096 };

unsigned fanout_tree_share(unsigned n_hosts, unsigned most)
{
    unsigned n = 1;

    if (n_hosts <= most)
        return 1;
    while (n < most && n * n < n_hosts)
        n++;
    return (n_hosts + n - 1) / n;
}

/* ---- a host as text: RANK SLOTS PORT USER GPUS NAME, with tabs between, and nothing where nothing was said */

int fanout_tree_add(struct cc_buf *block, unsigned rank, const struct host *h)
{
    char text[HOST_TEXT_MAX];

    if (snprintf(text, sizeof text, "%u\t%u\t%u\t%s\t%s\t%s", rank, h->slots, h->port, h->user ? h->user : "",
                 h->devices ? h->devices : "", h->name) >= (int) sizeof text)
        return -E2BIG;
    return launchdata_text(block, LAUNCHDATA_HOST, text);
}

static const char *kept(struct hostlist *l, const char *text)
{
    return *text ? hostlist_keep(l, text, strlen(text)) : NULL;
}

static int take_host(struct fanout *f, const char *text, unsigned rank, struct cc_err *err)
{
    char        copy[HOST_TEXT_MAX], *rest = copy, *part[PARTS];
    struct host h;

    (void) snprintf(copy, sizeof copy, "%s", text);
    for (unsigned i = 0; i < PARTS; i++)
        part[i] = i + 1 < PARTS ? strsep(&rest, "\t") : rest;
    if (!part[PARTS - 1] || !*part[PARTS - 1] || strtoul(part[0], NULL, 10) != rank)
        return cc_fail(err, -EPROTO, "the data of the job is damaged: no host of node %u", rank);
    h = (struct host) {
        .slots = (unsigned) strtoul(part[1], NULL, 10),
        .port = (unsigned) strtoul(part[2], NULL, 10),
        .user = kept(&f->hosts, part[3]),
        .devices = kept(&f->hosts, part[4]),
        .name = kept(&f->hosts, part[5]),
    };
    if (!h.name || (*part[3] && !h.user) || (*part[4] && !h.devices))
        return cc_fail(err, -ENOMEM, "no memory for the hosts");
    return hostlist_add(&f->hosts, &h, err);
}

static int take_hosts(struct fanout *f, const struct launchdata *d, struct cc_err *err)
{
    int r = 0;

    f->first_rank = (unsigned) strtoul(d->hosts[0], NULL, 10);
    for (unsigned i = 0; r == 0 && i < d->n_hosts; i++)
        r = take_host(f, d->hosts[i], f->first_rank + i, err);
    return r;
}

/* ---- what each of them is told: all that we were but for the hosts */

static int copy_common(struct fanout *f, const struct launchdata *d)
{
    const struct {
        enum launchdata_tag tag;
        char *const        *texts;
    } lists[] = {
        { LAUNCHDATA_ARG, d->argv }, { LAUNCHDATA_OWN, d->own }, { LAUNCHDATA_PREFER, d->prefer }, { LAUNCHDATA_ENV, d->env },
    };
    int r = launchdata_begin(&f->common);

    for (size_t i = 0; r == 0 && i < sizeof lists / sizeof *lists; i++)
        r = launchdata_texts(&f->common, lists[i].tag, lists[i].texts);
    for (unsigned i = 0; r == 0 && i < d->n_set; i++)
        r = launchdata_text(&f->common, LAUNCHDATA_SET, d->set[i]);
    if (r == 0)
        r = launchdata_text(&f->common, LAUNCHDATA_DIR, d->dir);
    if (r == 0)
        r = launchdata_text(&f->common, LAUNCHDATA_WHO, d->who);
    return r < 0 ? r : launchdata_text(&f->common, LAUNCHDATA_MARK, d->mark);
}

static int take_common(struct fanout *f, const struct farend *far, struct cc_err *err)
{
    const struct launchdata *d = &far->data;
    int                      r;

    if (d->n_secret != sizeof f->secret || strlen(d->mark) >= sizeof f->mark)
        return cc_fail(err, -EPROTO, "the head of this job has another version of ccrun: its secret has %zu bytes", d->n_secret);
    memcpy(f->secret, d->secret, sizeof f->secret);
    (void) snprintf(f->mark, sizeof f->mark, "%s", d->mark);
    r = copy_common(f, d);
    return r < 0 ? cc_fail(err, r, "the data of the job cannot be written: %s", strerror(-r)) : 0;
}

/* How long agents may take to stop is written in the command line. */
static int take_times(struct fanout *f, struct options *o, const struct farend *far, struct cc_err *err)
{
    struct plan_values p;
    int                r = farend_suggest(far, o, err);

    if (r == 0)
        r = plan_resolve(&p, o, "", err);
    if (r == 0)
        f->grace = p.shutdown_timeout + o->unkillable_timeout;
    return r;
}

int fanout_tree_relay(struct fanout *f, struct options *o, struct farend *far, struct cc_err *err)
{
    int r;

    *f = (struct fanout) { .way = FANOUT_SSH, .program = "ssh", .who = far->data.who, .is_relay = true, .options = o };
    f->leash_fd = far->fd;
    far->fd = -1;
    if (gethostname(f->host, sizeof f->host - 1) < 0 || f->host[0] == '\0')
        (void) snprintf(f->host, sizeof f->host, "localhost");
    f->verbosity = o->verbose > 0 ? 1 : 0;
    f->is_keep_cr = true; /* the head's console is not ours */
    r = take_hosts(f, &far->data, err);
    if (r == 0)
        r = take_times(f, o, far, err);
    if (r == 0)
        r = take_common(f, far, err);
    if (r == 0)
        r = fanout_ssh_lines(f, o, err);
    explicit_bzero((uint8_t *) (uintptr_t) far->data.secret, far->data.n_secret); /* the rest of it is our environment */
    return r;
}
