#include "store/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "store/base/cleanup.h"
#include "store/portowner.h"

union address {
    struct sockaddr_storage any;
    struct sockaddr_in      v4;
    struct sockaddr_in6     v6;
};

static uint16_t port_of(const union address *a)
{
    return ntohs(a->any.ss_family == AF_INET6 ? a->v6.sin6_port : a->v4.sin_port);
}

void store_write_address(const struct sockaddr_storage *storage, char buf[STORE_ADDRESS_MAX])
{
    union address a = { .any = *storage };
    char          ip[INET6_ADDRSTRLEN] = "?", scope[IF_NAMESIZE];

    if (a.any.ss_family == AF_INET6) {
        bool has_scope = a.v6.sin6_scope_id != 0 && if_indextoname(a.v6.sin6_scope_id, scope);

        (void) inet_ntop(AF_INET6, &a.v6.sin6_addr, ip, sizeof ip);
        (void) snprintf(buf, STORE_ADDRESS_MAX, "[%s%s%s]:%u", ip, has_scope ? "%" : "", has_scope ? scope : "",
                        port_of(&a));
    } else {
        (void) inet_ntop(AF_INET, &a.v4.sin_addr, ip, sizeof ip);
        (void) snprintf(buf, STORE_ADDRESS_MAX, "%s:%u", ip, port_of(&a));
    }
}

/* ADDRESS or ADDRESS%INTERFACE. */
static bool read_v6(const char *host, struct sockaddr_in6 *ret)
{
    char   number[INET6_ADDRSTRLEN];
    size_t n = strcspn(host, "%");

    if (n >= sizeof number)
        return false;
    memcpy(number, host, n);
    number[n] = '\0';
    if (inet_pton(AF_INET6, number, &ret->sin6_addr) != 1)
        return false;
    ret->sin6_scope_id = host[n] == '%' ? if_nametoindex(host + n + 1) : 0;
    return host[n] == '\0' || ret->sin6_scope_id != 0;
}

static int read_address(const char *host, uint16_t port, union address *ret, socklen_t *ret_len, struct cc_err *err)
{
    *ret = (union address) { 0 };
    if (inet_pton(AF_INET, host, &ret->v4.sin_addr) == 1) {
        ret->v4.sin_family = AF_INET;
        ret->v4.sin_port = htons(port);
        *ret_len = sizeof ret->v4;
        return 0;
    }
    if (read_v6(host, &ret->v6)) {
        ret->v6.sin6_family = AF_INET6;
        ret->v6.sin6_port = htons(port);
        *ret_len = sizeof ret->v6;
        return 0;
    }
    return cc_fail(err, -EINVAL, "cannot listen on '%s': it is not a numeric address such as 127.0.0.1 or ::1", host);
}

static int fail_to_listen(const union address *a, int code, bool is_tried, struct cc_err *err)
{
    char at[STORE_ADDRESS_MAX], who[128];

    store_write_address(&a->any, at);
    if (code == EADDRINUSE) {
        if (!is_tried && portowner_find(port_of(a), who, sizeof who) == 0)
            return cc_fail(err, -code, "cannot listen on %s: %s has the port; choose another, or 0 for any", at, who);
        return cc_fail(err, -code, "cannot listen on %s: the port is taken; choose another, or 0 for any", at);
    }
    if (code == EADDRNOTAVAIL)
        return cc_fail(err, -code, "cannot listen on %s: no interface of this machine has this address", at);
    if (code == EACCES)
        return cc_fail(err, -code, "cannot listen on %s: ports below 1024 are for root; choose a higher one", at);
    return cc_fail(err, -code, "cannot listen on %s: %s", at, strerror(code));
}

/* What is set on the listening socket holds for the accepted ones. */
int store_listen(const char *host, uint16_t port, bool is_tried, uint16_t *ret_port, struct cc_err *err)
{
    union address  a;
    socklen_t      n = 0;
    int            r = read_address(host, port, &a, &n, err), one = 1, zero = 0;
    CC_AUTO_FD int fd = -1;

    if (r < 0)
        return r;
    fd = socket(a.any.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return fail_to_listen(&a, errno, is_tried, err);
    (void) setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    (void) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (a.any.ss_family == AF_INET6)
        (void) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof zero);
    if (bind(fd, (struct sockaddr *) &a, n) < 0 || listen(fd, SOMAXCONN) < 0)
        return fail_to_listen(&a, errno, is_tried, err);
    n = sizeof a;
    if (getsockname(fd, (struct sockaddr *) &a, &n) < 0)
        return fail_to_listen(&a, errno, is_tried, err);
    *ret_port = port_of(&a);
    return cc_steal_fd(&fd);
}
