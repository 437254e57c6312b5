#include "agent/hosting.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <limits.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/resolver.h"
#include "store/base/cleanup.h"
#include "store/base/clock.h"
#include "store/base/macros.h"

enum {
    FIRST_PAUSE_MS = 100,
    PAUSE_MS = 1000,
    FOUND_MAX = 64,
    TEXT_MAX = 256,
};

struct hosting {
    uv_loop_t        *loop;
    hosting_done_fn  *done;
    void             *ctx;
    uint64_t          resolve_timeout, began_at, pause;
    enum hosting_wish wish;
    char              host[TEXT_MAX], iface[TEXT_MAX], subnet[TEXT_MAX], local_addr[TEXT_MAX], trouble[CC_ERR_MSG_MAX];
    bool              is_closing;
    uv_timer_t        timer;
    struct resolver  *lookup; /* NULL: none is under way */
};

/* ---- what the system knows, as data */

static bool is_mapped(const struct hostpick_addr *a)
{
    static const uint8_t head[12] = { [10] = 0xff, [11] = 0xff };

    return a->is_v6 && memcmp(a->ip, head, sizeof head) == 0;
}

static void write_text(struct hostpick_addr *a)
{
    char   name[IF_NAMESIZE];
    size_t n;

    (void) inet_ntop(a->is_v6 ? AF_INET6 : AF_INET, a->ip, a->text, sizeof a->text);
    n = strlen(a->text);
    if (a->is_v6 && a->scope != 0 && if_indextoname(a->scope, name))
        (void) snprintf(a->text + n, sizeof a->text - n, "%%%s", name);
}

/* False: neither IPv4 nor IPv6. */
static bool take_address(struct hostpick_addr *ret, const struct sockaddr *sa)
{
    *ret = (struct hostpick_addr) { 0 };
    if (!sa || (sa->sa_family != AF_INET && sa->sa_family != AF_INET6))
        return false;
    if (sa->sa_family == AF_INET) {
        memcpy(ret->ip, &((const struct sockaddr_in *) (const void *) sa)->sin_addr, 4);
    } else {
        const struct sockaddr_in6 *v6 = (const void *) sa;

        ret->is_v6 = true;
        memcpy(ret->ip, &v6->sin6_addr, 16);
        ret->scope = IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr) ? v6->sin6_scope_id : 0;
    }
    if (is_mapped(ret)) {
        memmove(ret->ip, ret->ip + 12, 4);
        memset(ret->ip + 4, 0, 12);
        ret->is_v6 = false;
    }
    write_text(ret);
    return true;
}

static unsigned count_bits(const struct sockaddr *mask, bool is_v6)
{
    const uint8_t *p;
    unsigned       i, n = 0;

    if (!mask)
        return is_v6 ? 128 : 32;
    p = is_v6 ? (const void *) &((const struct sockaddr_in6 *) (const void *) mask)->sin6_addr
              : (const void *) &((const struct sockaddr_in *) (const void *) mask)->sin_addr;
    for (i = 0; i < (is_v6 ? 128u : 32u) && (p[i / 8] & 0x80u >> i % 8); i++)
        n++;
    return n;
}

static bool has_address(const struct ifaddrs *list, const char *name)
{
    for (; list; list = list->ifa_next)
        if (strcmp(list->ifa_name, name) == 0 && list->ifa_addr &&
            (list->ifa_addr->sa_family == AF_INET || list->ifa_addr->sa_family == AF_INET6))
            return true;
    return false;
}

static bool take_iface(struct hostpick_iface *ret, const struct ifaddrs *list, const struct ifaddrs *i)
{
    *ret = (struct hostpick_iface) { 0 };
    if (!take_address(&ret->addr, i->ifa_addr) && has_address(list, i->ifa_name))
        return false;
    (void) snprintf(ret->name, sizeof ret->name, "%s", i->ifa_name);
    ret->prefix = ret->addr.text[0] != '\0' ? count_bits(i->ifa_netmask, i->ifa_addr->sa_family == AF_INET6) : 0;
    ret->is_up = (i->ifa_flags & IFF_UP) && (i->ifa_flags & IFF_RUNNING);
    ret->is_loopback = (i->ifa_flags & IFF_LOOPBACK) != 0;
    return true;
}

static int take_ifaces(struct hostpick_iface **ret, size_t *ret_n, struct cc_err *err)
{
    struct ifaddrs *list = NULL, *i;
    size_t          n = 0;

    if (getifaddrs(&list) < 0)
        return cc_fail(err, -errno, "list the addresses of this machine: %s", strerror(errno));
    for (i = list; i; i = i->ifa_next)
        n++;
    *ret = calloc(n + 1, sizeof **ret);
    for (i = list, n = 0; *ret && i; i = i->ifa_next)
        n += take_iface(*ret + n, list, i);
    freeifaddrs(list);
    if (!*ret)
        return cc_fail(err, -ENOMEM, "no memory for the addresses of this machine");
    *ret_n = n;
    return 0;
}

/* Our address on the way to everywhere else: the kernel chooses it for a datagram socket, and sends nothing. */
static bool take_way_out(struct hostpick_addr *ret, bool is_v6)
{
    struct sockaddr_in  v4 = { .sin_family = AF_INET, .sin_port = 9, .sin_addr.s_addr = htonl(0xc6336401) }; /* RFC 5737 */
    struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = 9, .sin6_addr.s6_addr = { 0x20, 1, 0x0d, 0xb8 } };
    CC_AUTO_FD int fd = socket(is_v6 ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    socklen_t      len = sizeof v6;
    int            r;

    if (fd < 0)
        return false;
    v6.sin6_addr.s6_addr[15] = 1; /* of 2001:db8::/32, RFC 3849 */
    r = is_v6 ? connect(fd, (struct sockaddr *) &v6, sizeof v6) : connect(fd, (struct sockaddr *) &v4, sizeof v4);
    if (r < 0 || getsockname(fd, (struct sockaddr *) &v6, &len) < 0)
        return false;
    return take_address(ret, (struct sockaddr *) &v6);
}

static const struct hostpick_addr *first_up(const struct hostpick_iface *ifaces, size_t n, bool is_v6)
{
    for (size_t i = 0; i < n; i++)
        if (ifaces[i].is_up && !ifaces[i].is_loopback && ifaces[i].addr.text[0] && ifaces[i].addr.is_v6 == is_v6 &&
            ifaces[i].addr.scope == 0)
            return &ifaces[i].addr;
    return NULL;
}

void hosting_own_address(char *ret, size_t size)
{
    CC_AUTO_FREE struct hostpick_iface *ifaces = NULL;
    const struct hostpick_addr         *a = NULL;
    struct hostpick_addr                out;
    size_t                              n = 0;

    if (take_way_out(&out, false) || take_way_out(&out, true))
        a = &out;
    else if (take_ifaces(&ifaces, &n, NULL) == 0)
        a = first_up(ifaces, n, false) ? first_up(ifaces, n, false) : first_up(ifaces, n, true);
    (void) snprintf(ret, size, "%s", a ? a->text : "127.0.0.1");
}

static bool take_number(struct hostpick_addr *ret, const char *text)
{
    struct addrinfo *list = resolver_number(text, 0);
    bool             is_number = list && take_address(ret, list->ai_addr);

    if (list)
        freeaddrinfo(list);
    return is_number;
}

int hosting_parse_subnet(struct hostpick_net *ret, const char *text, struct cc_err *err)
{
    char                 address[INET6_ADDRSTRLEN];
    const char          *slash = strchr(text, '/');
    size_t               n = slash ? (size_t) (slash - text) : strlen(text);
    struct hostpick_addr a = { 0 };
    char                *end;
    unsigned long        bits;

    if (n >= sizeof address)
        n = 0;
    memcpy(address, text, n);
    address[n] = '\0';
    a.is_v6 = inet_pton(AF_INET6, address, a.ip) == 1;
    if (!a.is_v6 && inet_pton(AF_INET, address, a.ip) != 1)
        return cc_fail(err, -EINVAL, "--subnet: '%.60s' is not NETWORK/BITS, as in 10.0.0.0/16 or fd00::/64", text);
    bits = a.is_v6 ? 128 : 32;
    if (slash) {
        unsigned long said = slash[1] >= '0' && slash[1] <= '9' ? strtoul(slash + 1, &end, 10) : ULONG_MAX;

        if (said > bits || *end != '\0')
            return cc_fail(err, -EINVAL, "--subnet: '%.60s': '%.20s' is no number of bits from 0 to %lu", text, slash + 1, bits);
        bits = said;
    }
    *ret = (struct hostpick_net) { .is_v6 = a.is_v6, .prefix = (unsigned) bits };
    memcpy(ret->ip, a.ip, sizeof ret->ip);
    return 0;
}

/* ---- the answer */

static const char *said(const char *text)
{
    return text[0] != '\0' ? text : NULL;
}

static bool is_own_name(const struct hosting *h)
{
    char own[TEXT_MAX] = "";

    (void) gethostname(own, sizeof own - 1);
    return hostpick_is_same_name(h->host, own);
}

static int decide(const struct hosting *h, const struct addrinfo *list, struct hosting_answer *ret, struct cc_err *err)
{
    CC_AUTO_FREE struct hostpick_iface *ifaces = NULL;
    struct hostpick_addr                found[FOUND_MAX], out[2], local;
    struct hostpick_net                 net;
    struct hostpick in = { .host = h->host, .is_own_name = is_own_name(h), .found = found, .wish = h->wish };
    int             r = take_ifaces(&ifaces, &in.n_ifaces, err);

    if (r < 0)
        return r;
    if (h->subnet[0] != '\0') {
        r = hosting_parse_subnet(&net, h->subnet, err);
        if (r < 0)
            return r;
        in.net = &net;
    }
    for (; list && in.n_found < FOUND_MAX; list = list->ai_next)
        in.n_found += take_address(&found[in.n_found], list->ai_addr);
    in.ifaces = ifaces;
    in.way_out[0] = take_way_out(&out[0], false) ? &out[0] : NULL;
    in.way_out[1] = take_way_out(&out[1], true) ? &out[1] : NULL;
    in.iface = said(h->iface);
    in.subnet = said(h->subnet);
    in.local_addr = said(h->local_addr);
    in.local = in.local_addr && take_number(&local, in.local_addr) ? &local : NULL;
    return hostpick_decide(&in, ret, err);
}

static void answer(struct hosting *h, const struct addrinfo *list)
{
    struct hosting_answer a;
    struct cc_err         err = { 0 };
    bool                  is_good = decide(h, list, &a, &err) == 0;

    h->trouble[0] = '\0';
    h->done(h->ctx, is_good ? &a : NULL, is_good ? NULL : &err);
}

/* ---- the name */

static void on_timer(uv_timer_t *t);

/* Nobody knows the name: wait for somebody to learn it, unless that makes no difference. */
static void unresolved(struct hosting *h, const char *why)
{
    struct cc_err err = { 0 };

    if (h->wish != HOSTING_AUTO || is_own_name(h)) {
        answer(h, NULL);
        return;
    }
    (void) snprintf(h->trouble, sizeof h->trouble, "the host '%s' of the endpoint cannot be resolved: %s", h->host,
                    why);
    uv_update_time(h->loop);
    if (cc_monotonic_ms() - h->began_at < h->resolve_timeout) {
        (void) uv_timer_start(&h->timer, on_timer, h->pause, 0);
        h->pause = h->pause * 2 > PAUSE_MS ? PAUSE_MS : h->pause * 2;
        return;
    }
    (void) cc_fail(&err, -EHOSTUNREACH, "%s, and could not be for %llu s (--resolve-timeout)", h->trouble,
                   (unsigned long long) h->resolve_timeout / 1000);
    h->done(h->ctx, NULL, &err);
}

static void on_resolved(void *ctx, struct addrinfo *list, const char *why)
{
    struct hosting *h = ctx;

    h->lookup = NULL;
    if (list)
        answer(h, list);
    else
        unresolved(h, why);
    if (list)
        freeaddrinfo(list);
}

/* Every address that the name has, of families too that this machine lacks: one of them may be ours. */
static void on_timer(uv_timer_t *t)
{
    struct hosting *h = CC_CONTAINER_OF(t, struct hosting, timer);

    h->lookup = resolver_start(h->loop, h->host, 0, false, on_resolved, h);
    if (!h->lookup)
        unresolved(h, "no memory, or no thread");
}

/* ---- the whole */

static void copy(char *text, const char *value)
{
    (void) snprintf(text, TEXT_MAX, "%s", value ? value : "");
}

struct hosting *hosting_start(uv_loop_t *loop, const struct hosting_cfg *cfg, hosting_done_fn *done, void *ctx)
{
    struct hosting *h = calloc(1, sizeof *h);

    if (!h)
        return NULL;
    h->loop = loop;
    h->done = done;
    h->ctx = ctx;
    h->wish = cfg->wish;
    h->resolve_timeout = cfg->resolve_timeout;
    h->began_at = cc_monotonic_ms();
    h->pause = FIRST_PAUSE_MS;
    copy(h->host, cfg->host);
    copy(h->iface, cfg->iface);
    copy(h->subnet, cfg->subnet);
    copy(h->local_addr, cfg->local_addr);
    (void) snprintf(h->trouble, sizeof h->trouble, "its name is being looked up");
    (void) uv_timer_init(loop, &h->timer);
    (void) uv_timer_start(&h->timer, on_timer, 0, 0);
    return h;
}

const char *hosting_trouble(const struct hosting *h)
{
    return h->trouble;
}

static void on_timer_closed(uv_handle_t *t)
{
    free(CC_CONTAINER_OF(t, struct hosting, timer));
}

void hosting_close(struct hosting *h)
{
    if (h->is_closing)
        return;
    h->is_closing = true;
    if (h->lookup)
        resolver_cancel(h->lookup);
    (void) uv_timer_stop(&h->timer);
    uv_close((uv_handle_t *) &h->timer, on_timer_closed);
}
