#include "launcher/endpoint.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

/* fd00::1, fe80::1%eth0 */
static bool is_ipv6(const char *text)
{
    struct in6_addr a;
    char            number[INET6_ADDRSTRLEN];
    size_t          n = strcspn(text, "%");

    if (n >= sizeof number || (text[n] == '%' && (text[n + 1] == '\0' || strpbrk(text + n + 1, "%:[] "))))
        return false;
    memcpy(number, text, n);
    number[n] = '\0';
    return inet_pton(AF_INET6, number, &a) == 1;
}

/* ^[0-9]{1,5}$ below 65536; -1: no port. */
static int parse_port(const char *text)
{
    size_t len = strspn(text, "0123456789");
    int    port = 0;

    if (len == 0 || len > 5 || text[len])
        return -1;
    while (*text)
        port = port * 10 + (*text++ - '0');
    return port <= UINT16_MAX ? port : -1;
}

/* ^[\w\.:-]+$, where \w knows letters beyond ASCII. */
static bool is_host(const char *text)
{
    if (!*text)
        return false;
    if (is_ipv6(text))
        return true;
    for (; *text; text++)
        if (!isalnum((unsigned char) *text) && !strchr("_.:-", *text) && !((unsigned char) *text & 0x80))
            return false;
    return true;
}

/* Takes the port off the end of `host`; NULL: there is none. */
static char *split_port(char *host)
{
    size_t len = strlen(host);
    char  *colon = strrchr(host, ':');

    if (!colon || (host[0] == '[' && host[len - 1] == ']'))
        return NULL;
    if (is_ipv6(host)) {
        *colon = '\0';
        if (is_ipv6(host))
            return colon + 1;
        *colon = ':';
        return NULL;
    }
    *colon = '\0';
    return colon + 1;
}

int endpoint_parse(struct endpoint *ret, const char *text, int default_port, struct cc_err *err)
{
    char   host[ENDPOINT_HOST_MAX];
    char  *port, *bare = host;
    int    n = default_port;
    size_t len;

    text += strspn(text, " \t\n\v\f\r");
    len = strlen(text);
    while (len > 0 && isspace((unsigned char) text[len - 1]))
        len--;
    if (len >= sizeof host)
        return cc_fail(err, -EINVAL,
                       "The rendezvous endpoint '%.40s...' is %zu bytes long; the limit is %zu.", text, len,
                       sizeof host - 1);
    if (len == 0) {
        text = "localhost";
        len = strlen(text);
    }
    memcpy(host, text, len);
    host[len] = '\0';
    port = split_port(host);
    if (bare[0] == '[' && strlen(bare) > 1 && bare[strlen(bare) - 1] == ']') {
        bare[strlen(bare) - 1] = '\0';
        bare++;
    }
    if (port && (n = parse_port(port)) < 0)
        return cc_fail(
            err, -EINVAL,
            "The port number of the rendezvous endpoint '%.*s' must be an integer between 0 and 65536.",
            (int) len, text);
    if (!is_host(bare))
        return cc_fail(
            err, -EINVAL,
            "The hostname of the rendezvous endpoint '%.*s' must be a dot-separated list of labels, "
            "an IPv4 address, or an IPv6 address.",
            (int) len, text);
    memcpy(ret->host, bare, strlen(bare) + 1);
    ret->port = n;
    return 0;
}

bool endpoint_is_loopback(const char *host)
{
    return strcmp(host, "localhost") == 0 || strncmp(host, "127.", 4) == 0 || strcmp(host, "::1") == 0;
}

bool endpoint_is_nobody(const char *host)
{
    struct in_addr  v4;
    struct in6_addr v6;
    char            number[INET6_ADDRSTRLEN];
    size_t          n = strcspn(host, "%");

    if (inet_pton(AF_INET, host, &v4) == 1)
        return ntohl(v4.s_addr) >> 24 == 0 || ntohl(v4.s_addr) >> 28 == 14 || v4.s_addr == UINT32_MAX;
    if (n >= sizeof number)
        return false;
    memcpy(number, host, n);
    number[n] = '\0';
    return inet_pton(AF_INET6, number, &v6) == 1 && (IN6_IS_ADDR_UNSPECIFIED(&v6) || IN6_IS_ADDR_MULTICAST(&v6));
}
