#include "agent/core/hostpick.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const struct hostpick_addr loopback4 = { .ip = { 127, 0, 0, 1 }, .text = "127.0.0.1" };
static const struct hostpick_addr loopback6 = { .is_v6 = true, .ip = { [15] = 1 }, .text = "::1" };

/* ---- addresses */

static bool is_loopback(const struct hostpick_addr *a)
{
    return a->is_v6 ? memcmp(a->ip, loopback6.ip, sizeof a->ip) == 0 : a->ip[0] == 127;
}

static bool is_link_local(const struct hostpick_addr *a)
{
    return a->is_v6 ? a->ip[0] == 0xfe && (a->ip[1] & 0xc0) == 0x80 : a->ip[0] == 169 && a->ip[1] == 254;
}

static bool is_anywhere(const struct hostpick_addr *a)
{
    static const uint8_t zeros[16];

    return memcmp(a->ip, zeros, a->is_v6 ? 16 : 4) == 0;
}

/* A link-local address without its interface is that of any. */
static bool is_same(const struct hostpick_addr *a, const struct hostpick_addr *b)
{
    if (a->is_v6 != b->is_v6 || memcmp(a->ip, b->ip, a->is_v6 ? 16 : 4) != 0)
        return false;
    return !is_link_local(a) || a->scope == 0 || b->scope == 0 || a->scope == b->scope;
}

static bool is_within(const struct hostpick_addr *a, bool is_v6, const uint8_t *net, unsigned prefix)
{
    unsigned whole = prefix / 8, rest = prefix % 8;

    if (a->is_v6 != is_v6 || prefix > (is_v6 ? 128u : 32u) || memcmp(a->ip, net, whole) != 0)
        return false;
    return rest == 0 || (a->ip[whole] ^ net[whole]) >> (8 - rest) == 0;
}

static const struct hostpick_iface *find(const struct hostpick *in, const struct hostpick_addr *a)
{
    size_t i;

    for (i = 0; i < in->n_ifaces; i++)
        if (in->ifaces[i].addr.text[0] != '\0' && is_same(&in->ifaces[i].addr, a))
            return &in->ifaces[i];
    return NULL;
}

/* All of 127.0.0.0/8 is this machine, listed or not; and ::1 is, even where IPv6 is off. */
static bool is_ours(const struct hostpick *in, const struct hostpick_addr *a)
{
    return is_loopback(a) || find(in, a);
}

/* Whether one can listen on it. */
static bool is_there(const struct hostpick *in, const struct hostpick_addr *a)
{
    return find(in, a) || (!a->is_v6 && is_loopback(a) && find(in, &loopback4));
}

static void put(char *text, size_t size, const char *value)
{
    (void) snprintf(text, size, "%s", value);
}

/* ---- names */

bool hostpick_is_same_name(const char *host, const char *own)
{
    size_t n_host = strlen(host), n_own = strlen(own), first;

    if (n_host > 0 && host[n_host - 1] == '.')
        n_host--;
    if (n_host == 0 || n_own == 0)
        return false;
    if (n_host == n_own)
        return strncasecmp(host, own, n_own) == 0;
    first = n_host < n_own ? n_host : n_own;
    if (memchr(n_host < n_own ? host : own, '.', first))
        return false; /* both have a domain, and not the same */
    return (n_host < n_own ? own : host)[first] == '.' && strncasecmp(host, own, first) == 0;
}

/* ---- which address to take where there is a choice */

static bool is_found(const struct hostpick *in, const struct hostpick_addr *a)
{
    size_t i;

    for (i = 0; i < in->n_found; i++)
        if (is_same(&in->found[i], a))
            return true;
    return false;
}

static int worth(const struct hostpick *in, const struct hostpick_iface *f)
{
    const struct hostpick_addr *out = in->way_out[f->addr.is_v6];
    int                         score = 0;

    score += f->is_loopback || is_loopback(&f->addr) ? 0 : 64;
    score += f->is_up ? 32 : 0;
    score += is_link_local(&f->addr) ? 0 : 16;
    score += is_found(in, &f->addr) ? 8 : 0;
    score += out && is_same(out, &f->addr) ? 4 : 0;
    score += in->n_found > 0 && in->found[0].is_v6 == f->addr.is_v6 ? 2 : 0;
    score += f->addr.is_v6 ? 0 : 1;
    return score;
}

static bool is_wished(const struct hostpick *in, const struct hostpick_iface *f)
{
    if (f->addr.text[0] == '\0' || (in->iface && strcmp(in->iface, f->name) != 0))
        return false;
    return !in->net || is_within(&f->addr, in->net->is_v6, in->net->ip, in->net->prefix);
}

/* The best address that fits --iface and --subnet, or simply the best. */
static const struct hostpick_iface *choose(const struct hostpick *in)
{
    const struct hostpick_iface *best = NULL;
    size_t                       i;

    for (i = 0; i < in->n_ifaces; i++)
        if (is_wished(in, &in->ifaces[i]) && (!best || worth(in, &in->ifaces[i]) > worth(in, best)))
            best = &in->ifaces[i];
    return best;
}

/* "eth0 10.0.0.5/24, ib0 (no address)": as many as there is room for. */
static void list(const struct hostpick *in, char *text, size_t size)
{
    size_t i, n = 0;

    text[0] = '\0';
    for (i = 0; i < in->n_ifaces; i++) {
        const struct hostpick_iface *f = &in->ifaces[i];
        char                         one[HOSTING_ADDR_MAX + HOSTPICK_NAME_MAX + 24];
        int                          len;

        if (f->addr.text[0] == '\0')
            len = snprintf(one, sizeof one, "%s%s (no address)", n > 0 ? ", " : "", f->name);
        else
            len = snprintf(one, sizeof one, "%s%s %s/%u", n > 0 ? ", " : "", f->name, f->addr.text, f->prefix);
        if (len < 0 || n + (size_t) len + sizeof ", ..." > size) {
            (void) snprintf(text + n, size - n, ", ...");
            return;
        }
        memcpy(text + n, one, (size_t) len + 1);
        n += (size_t) len;
    }
    if (n == 0)
        put(text, size, "none");
}

static int no_such(const struct hostpick *in, struct cc_err *err)
{
    char   there[300];
    bool   is_known = false;
    size_t i;

    list(in, there, sizeof there);
    for (i = 0; in->iface && i < in->n_ifaces; i++)
        is_known = is_known || strcmp(in->ifaces[i].name, in->iface) == 0;
    if (in->iface && !is_known)
        return cc_fail(err, -ENODEV, "--iface: this machine has no interface '%.40s'; there are: %s", in->iface, there);
    if (!in->net)
        return cc_fail(err, -ENODEV, "--iface: the interface '%.40s' has no address; there are: %s", in->iface, there);
    if (in->iface)
        return cc_fail(err, -ENODEV, "--subnet: no address of interface '%.40s' is in '%.50s'; there are: %s", in->iface,
                       in->subnet, there);
    return cc_fail(err, -ENODEV, "--subnet: no address of this machine is in '%.50s'; there are: %s", in->subnet, there);
}

/* A name may be that of a gateway before us, which we cannot know. */
static int not_ours(const struct hostpick *in, struct cc_err *err)
{
    char there[300];

    list(in, there, sizeof there);
    return cc_fail(err, -EADDRNOTAVAIL,
                   "--local-addr: '%.60s' is no address of this machine; there are: %s (if it is that of a gateway before it, "
                   "give the gateway's name)",
                   in->local_addr, there);
}

/* ---- where to listen */

static void add_also(struct hosting_answer *a, const char *text)
{
    size_t i;

    if (text[0] == '\0' || strcmp(text, a->bind) == 0)
        return;
    for (i = 0; i < 2; i++) {
        if (strcmp(a->also[i], text) == 0)
            return;
        if (a->also[i][0] == '\0') {
            put(a->also[i], sizeof a->also[i], text);
            return;
        }
    }
}

/* 127.0.0.1, ::1 and localhost mean the same: whoever says one finds who said another.  127.0.0.2 is itself. */
static void listen_on_loopback(const struct hostpick *in, const struct hostpick_addr *a, struct hosting_answer *ret)
{
    const struct hostpick_addr *twin = a->is_v6 ? &loopback4 : &loopback6;

    if (!is_same(a, &loopback4) && !is_same(a, &loopback6)) {
        put(ret->bind, sizeof ret->bind, a->text);
        return;
    }
    put(ret->bind, sizeof ret->bind, is_there(in, a) || !is_there(in, twin) ? a->text : twin->text);
    if (is_there(in, twin))
        add_also(ret, twin->text);
}

/* The interface knows the scope of a link-local address where the endpoint does not say it. */
static const char *text_of(const struct hostpick *in, const struct hostpick_addr *a)
{
    const struct hostpick_iface *f = find(in, a);

    return f ? f->addr.text : a->text;
}

/* The addresses of the name that are ours: the first of them, and the first of the other family.  False: none but
 * loopback. */
static bool listen_on_found(const struct hostpick *in, struct hosting_answer *ret)
{
    const struct hostpick_addr *first = NULL;
    size_t                      i;

    for (i = 0; i < in->n_found; i++) {
        const struct hostpick_addr *a = &in->found[i];

        if (is_loopback(a) || !is_ours(in, a))
            continue;
        if (!first) {
            first = a;
            put(ret->bind, sizeof ret->bind, text_of(in, a));
        } else if (a->is_v6 != first->is_v6 && ret->also[0][0] == '\0') {
            add_also(ret, text_of(in, a));
        }
    }
    return first != NULL;
}

static const struct hostpick_addr *loopback_found(const struct hostpick *in)
{
    size_t i;

    for (i = 0; i < in->n_found; i++)
        if (is_loopback(&in->found[i]))
            return &in->found[i];
    return NULL;
}

/* By the best address that there is. */
static void listen_on_best(const struct hostpick *in, const struct hostpick_iface *best, struct hosting_answer *ret)
{
    const struct hostpick_addr *lo = loopback_found(in);

    put(ret->bind, sizeof ret->bind, best ? best->addr.text : lo ? lo->text : loopback4.text);
    if (!best || best->is_loopback || in->iface || in->net)
        return; /* nothing that was not said */
    if (lo && in->is_own_name)
        (void) snprintf(ret->note, sizeof ret->note,
                        "'%.60s' is %s on this machine, where no other can reach it; hosting on %s (%s) instead; "
                        "--iface or --subnet name another",
                        in->host, lo->text, best->addr.text, best->name);
    else if (in->is_own_name && in->n_found == 0)
        (void) snprintf(ret->note, sizeof ret->note,
                        "the name '%.60s' of this machine does not resolve; hosting on %s (%s); --iface or --subnet name "
                        "another",
                        in->host, best->addr.text, best->name);
    else
        (void) snprintf(ret->note, sizeof ret->note,
                        "'%.60s' is no address of this machine, which is to host the job; hosting on %s (%s)", in->host,
                        best->addr.text, best->name);
}

static void note_strangers(const struct hostpick *in, struct hosting_answer *ret)
{
    size_t i, n = 0;

    for (i = 0; i < in->n_found; i++)
        n += !is_ours(in, &in->found[i]);
    if (n > 0)
        (void) snprintf(ret->note, sizeof ret->note,
                        "'%.60s' is %s, an address of this machine, and %zu that are not; if it is several machines, let the "
                        "endpoint name one",
                        in->host, ret->bind, n);
}

static void host(const struct hostpick *in, const struct hostpick_iface *best, struct hosting_answer *ret)
{
    const struct hostpick_addr *lo = loopback_found(in);

    ret->is_ours = true;
    if (listen_on_found(in, ret))
        note_strangers(in, ret);
    else if (lo && !(in->is_own_name && best && !best->is_loopback))
        listen_on_loopback(in, lo, ret);
    else
        listen_on_best(in, best, ret);
}

/* Connect from the address that we publish where the endpoint is on the same network: elsewhere there may be no way from
 * it. */
static void choose_source(const struct hostpick *in, const struct hostpick_addr *published, struct hosting_answer *ret)
{
    const struct hostpick_iface *f = published ? find(in, published) : NULL;
    bool                         is_near = false;
    size_t                       i;

    for (i = 0; published && i < in->n_found; i++)
        is_near = is_near || (is_loopback(published) && is_loopback(&in->found[i])) ||
                  (f && is_within(&in->found[i], f->addr.is_v6, f->addr.ip, f->prefix));
    if (is_near)
        put(ret->from, sizeof ret->from, published->text);
}

int hostpick_decide(const struct hostpick *in, struct hosting_answer *ret, struct cc_err *err)
{
    const struct hostpick_iface *best = choose(in);
    bool                         has_wish = in->iface || in->net;
    const struct hostpick_addr  *published = in->local_addr ? in->local : has_wish && best ? &best->addr : NULL;
    size_t                       i;

    *ret = (struct hosting_answer) { 0 };
    if (has_wish && !best)
        return no_such(in, err);
    if (in->local && !is_ours(in, in->local))
        return not_ours(in, err);
    for (i = 0; i < in->n_found; i++)
        if (is_anywhere(&in->found[i]))
            return cc_fail(err, -EINVAL,
                           "the endpoint's host '%.60s' is no machine's address; name the one that shall host the job",
                           in->host);
    if (in->wish == HOSTING_YES || (in->wish == HOSTING_AUTO && in->n_found == 0 && in->is_own_name))
        ret->is_ours = true;
    for (i = 0; i < in->n_found && in->wish == HOSTING_AUTO; i++)
        ret->is_ours = ret->is_ours || is_ours(in, &in->found[i]);
    if (ret->is_ours)
        host(in, best, ret);
    if (in->local_addr)
        put(ret->publish, sizeof ret->publish, in->local_addr);
    else if (published)
        put(ret->publish, sizeof ret->publish, published->text);
    else if (ret->is_ours)
        put(ret->publish, sizeof ret->publish, ret->bind);
    if (published && is_ours(in, published))
        add_also(ret, published->text);
    if (!ret->is_ours)
        choose_source(in, published, ret);
    return 0;
}
