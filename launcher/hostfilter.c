#include "launcher/hostfilter.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/oneline.h"
#include "store/base/cleanup.h"

enum { SLOTS_MAX = 256, WHERE_MAX = 128, QUOTED_MAX = 60, TEXT_MAX = 4 * SLOTS_MAX };

struct pick { /* what the filter says of a host */
    bool    is_whole;
    bool    has_slots;
    uint8_t slots[SLOTS_MAX / 8];
};

struct filter {
    struct hostlist *list;
    struct pick     *pick; /* one for each host */
    const char      *text;
    char             where[WHERE_MAX];
};

/* Reads "0,2" up to `end` into the pick. */
static int take_slots(const struct filter *f, const char *at, const char *end, struct pick *pick, struct cc_err *err)
{
    while (at <= end) {
        const char *begin = at;
        unsigned    v = 0;

        for (; at < end && *at >= '0' && *at <= '9' && v < SLOTS_MAX; at++)
            v = v * 10 + (unsigned) (*at - '0');
        if (at == begin || (at < end && *at != ','))
            return cc_fail(err, -EINVAL, "%s: position %zu: slots are numbers below %d with commas between them", f->where,
                           (size_t) (at - f->text) + 1, SLOTS_MAX);
        if (v >= SLOTS_MAX)
            return cc_fail(err, -EINVAL, "%s: position %zu: a slot is a number below %d", f->where,
                           (size_t) (begin - f->text) + 1, SLOTS_MAX);
        pick->slots[v / 8] |= (uint8_t) (1 << v % 8);
        at++;
    }
    pick->has_slots = true;
    return 0;
}

static bool has_slot(const struct pick *pick, unsigned i)
{
    return pick->slots[i / 8] >> i % 8 & 1;
}

static int pick_host(const struct filter *f, const char *name, const struct pick *what, struct cc_err *err)
{
    const struct host *h = hostlist_find(f->list, name);
    struct pick       *pick;

    if (!h)
        return cc_fail(err, -EINVAL, "%s: there is no host '%s' among the %zu", f->where, name, f->list->n);
    for (unsigned i = h->slots; h->slots > 0 && i < SLOTS_MAX; i++)
        if (has_slot(what, i))
            return cc_fail(err, -EINVAL, "%s: host '%s' has no slot %u: its %u are 0 to %u", f->where, name, i, h->slots,
                           h->slots - 1);
    pick = &f->pick[h - f->list->host];
    pick->is_whole |= !what->has_slots;
    pick->has_slots |= what->has_slots;
    for (size_t i = 0; i < sizeof pick->slots; i++)
        pick->slots[i] |= what->slots[i];
    return 0;
}

/* NODE[:SLOT,...] */
static int take_node(const struct filter *f, const char *at, size_t n, struct cc_err *err)
{
    const char          *colon = memrchr(at, ':', n), *bracket = memrchr(at, ']', n);
    struct hostlist      names = { 0 };
    struct hostlist_item item = { .where = f->where, .text = f->text, .at = at, .n = n, .has_steps = true };
    struct pick          what = { 0 };
    int                  r = 0;

    if (colon && bracket > colon)
        colon = NULL; /* inside an IPv6 address */
    if (colon) {
        item.n = (size_t) (colon - at);
        r = take_slots(f, colon + 1, at + n, &what, err);
    }
    if (item.n > 2 && at[0] == '[' && memchr(at, ':', item.n) && at[item.n - 1] == ']') { /* an IPv6 address */
        item.at++;
        item.n -= 2;
    }
    if (r == 0)
        r = hostlist_expand(&names, &item, err);
    for (size_t i = 0; i < names.n && r == 0; i++)
        r = pick_host(f, names.host[i].name, &what, err);
    hostlist_clear(&names);
    return r;
}

/* The slots that are left of a host as "0,2"; returns how many. */
static unsigned list_slots(const struct pick *pick, bool is_wanted, unsigned n, char text[TEXT_MAX])
{
    unsigned count = 0;
    size_t   used = 0;

    text[0] = '\0';
    for (unsigned i = 0; i < n; i++) {
        if (has_slot(pick, i) != is_wanted)
            continue;
        used += (size_t) snprintf(text + used, TEXT_MAX - used, "%s%u", count ? "," : "", i);
        count++;
    }
    return count;
}

/* 1: the host stays, 0: it goes. */
static int apply(const struct filter *f, struct host *h, const struct pick *pick, bool is_include, struct cc_err *err)
{
    char     text[TEXT_MAX];
    unsigned n;

    if (pick->is_whole || !pick->has_slots)
        return pick->is_whole == is_include;
    if (!is_include && h->slots == 0)
        return cc_fail(err, -EINVAL, "%s: how many slots host '%s' has is not said; slots=N is wanted to leave some out",
                       f->where, h->name);
    n = list_slots(pick, is_include, is_include ? SLOTS_MAX : h->slots, text);
    if (n == 0)
        return 0;
    h->slots = n;
    h->devices = hostlist_keep(f->list, text, strlen(text));
    return h->devices ? 1 : cc_fail(err, -ENOMEM, "no memory for the slots of host '%s'", h->name);
}

static int run(struct filter *f, bool is_include, struct cc_err *err)
{
    struct hostlist *l = f->list;
    const char      *at = f->text;
    size_t           i, n = 0;
    int              r = 0;

    while (r == 0) {
        size_t len = strcspn(at, "@");

        r = take_node(f, at, len, err);
        at += len;
        if (!*at++)
            break;
    }
    for (i = 0; i < l->n && r >= 0; i++) {
        r = apply(f, &l->host[i], &f->pick[i], is_include, err);
        if (r > 0)
            l->host[n++] = l->host[i];
    }
    if (r < 0)
        return r;
    l->n = n;
    return n > 0 ? 0 : cc_fail(err, -EINVAL, "%s: no host is left", f->where);
}

int hostfilter(struct hostlist *l, const char *include, const char *exclude, struct cc_err *err)
{
    struct filter             f = { .list = l, .text = include ? include : exclude };
    CC_AUTO_FREE struct pick *pick = NULL;

    if (include && exclude)
        return cc_fail(err, -EINVAL, "--include and --exclude: only one of them may be given");
    if (!f.text)
        return 0;
    (void) snprintf(f.where, sizeof f.where, "--%s '%.*s%s'", include ? "include" : "exclude", QUOTED_MAX, f.text,
                    strlen(f.text) > QUOTED_MAX ? "..." : "");
    f.pick = pick = calloc(l->n + 1, sizeof *pick);
    if (!pick)
        return cc_fail(err, -ENOMEM, "no memory for a filter of %zu hosts", l->n);
    return oneline_err(err, run(&f, include, err));
}
