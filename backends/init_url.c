#include "backends/init_url.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/base/macros.h"
#include "store/base/pyvalue.h"

#define SETTING "Error initializing torch.distributed using "

enum { QUOTE_MAX = 160 };

/* The parts of a URL, in one copy of it.  What is not there is empty; the fragment is dropped. */
struct parts {
    char *copy;
    char *scheme, *netloc, *path, *query;
};

/* A query, or the environment in its place. */
struct params {
    const char *rank, *world_size; /* NULL: not there */
    const char *not_a_pair;        /* NULL: they all are */
};

/* ---- splitting, as Python's urllib.parse.urlsplit() */

static bool has_scheme(const char *url, size_t len)
{
    if (len == 0 || !isalpha((unsigned char) url[0]))
        return false;
    for (size_t i = 0; i < len; i++)
        if (!isalnum((unsigned char) url[i]) && !strchr("+-.", url[i]))
            return false;
    return true;
}

static void to_lower(char *s, char until)
{
    for (; *s && *s != until; s++)
        *s = (char) tolower((unsigned char) *s);
}

/* Cuts s at the first of `marks` and returns what is behind it; an empty string when there is none. */
static char *cut(char *s, const char *marks)
{
    char *at = s + strcspn(s, marks);

    if (*at)
        *at++ = '\0';
    return at;
}

/* Leading blanks and control characters go, and these three wherever they are. */
static void clean(char *url)
{
    char *to = url, *from = url;

    while (*from && (unsigned char) *from <= ' ')
        from++;
    for (; *from; from++)
        if (!strchr("\t\r\n", *from))
            *to++ = *from;
    *to = '\0';
}

static int check_brackets(const char *netloc, struct cc_err *err)
{
    const char     *open = strchr(netloc, '['), *close = strchr(netloc, ']');
    char            host[INIT_HOST_MAX], quoted[QUOTE_MAX];
    struct in6_addr v6;
    size_t          len;
    char           *zone;

    if (!open != !close)
        return cc_fail(err, -EINVAL, "Invalid IPv6 URL");
    if (!open)
        return 0;
    len = strcspn(open + 1, "]");
    (void) snprintf(host, sizeof host, "%.*s", (int) (len < sizeof host ? len : sizeof host), open + 1);
    (void) pyvalue_repr(host, quoted, sizeof quoted);
    if (inet_pton(AF_INET, host, &v6) == 1)
        return cc_fail(err, -EINVAL, "An IPv4 address cannot be in brackets");
    zone = strchr(host, '%');
    if (zone)
        *zone++ = '\0';
    if (inet_pton(AF_INET6, host, &v6) != 1 || (zone && (!*zone || strchr(zone, '%'))))
        return cc_fail(err, -EINVAL, "%s does not appear to be an IPv4 or IPv6 address", quoted);
    return 0;
}

static int split(struct parts *p, const char *url, struct cc_err *err)
{
    static char none[] = "";
    char       *rest;
    size_t      colon;

    *p = (struct parts){ .copy = malloc(strlen(url) + 2), .scheme = none, .netloc = none };
    if (!p->copy)
        return cc_fail(err, -ENOMEM, "no memory for the init method");
    rest = memcpy(p->copy, url, strlen(url) + 1);
    clean(rest);
    colon = strcspn(rest, ":");
    if (rest[colon] && has_scheme(rest, colon)) {
        p->scheme = rest;
        rest = cut(rest, ":");
        to_lower(p->scheme, '\0');
    }
    if (strncmp(rest, "//", 2) == 0) {
        size_t len = strcspn(rest + 2, "/?#");

        /* One to the left: the mark behind the name is still needed. */
        p->netloc = memmove(rest + 1, rest + 2, len);
        p->netloc[len] = '\0';
        rest += 2 + len;
    }
    (void) cut(rest, "#");
    p->query = cut(rest, "?");
    p->path = rest;
    return check_brackets(p->netloc, err);
}

/* ---- the query */

static struct params read_query(char *query)
{
    struct params ret = { 0 };

    while (query && *query) {
        char *pair = query, *value;

        query = cut(pair, "&");
        if (!*pair)
            continue;
        if (!strchr(pair, '=')) {
            ret.not_a_pair = pair;
            break;
        }
        value = cut(pair, "=");
        (void) cut(value, "="); /* a=b=c is a=b */
        if (strcmp(pair, "rank") == 0)
            ret.rank = value;
        else if (strcmp(pair, "world_size") == 0)
            ret.world_size = value;
    }
    return ret;
}

static int check_pairs(const struct params *q, struct cc_err *err)
{
    char quoted[QUOTE_MAX];

    if (!q->not_a_pair)
        return 0;
    return cc_fail(err, -EINVAL, "the query of the init method has %s, which is not KEY=VALUE",
                   pyvalue_repr(q->not_a_pair, quoted, sizeof quoted));
}

static int read_int(int64_t *ret, const char *what, const char *text, struct cc_err *err)
{
    char quoted[QUOTE_MAX];
    int  r = pyvalue_int(text, ret);

    if (r == -EINVAL)
        return cc_fail(err, r, "invalid literal for int() with base 10: %s",
                       pyvalue_repr(text, quoted, sizeof quoted));
    return r < 0 ? cc_fail(err, -EINVAL, "%s %s is too large", what, text) : 0;
}

static int check_place(struct init_where *ret, int64_t rank, int64_t size, struct cc_err *err)
{
    if (size < 1 || size > INIT_WORLD_MAX)
        return cc_fail(err, -EINVAL, "world size %" PRId64 " is not from 1 to %d", size, INIT_WORLD_MAX);
    if (rank < 0 || rank >= size)
        return cc_fail(err, -EINVAL,
                       "rank %" PRId64 " does not exist in a world of size %" PRId64
                       ": ranks are 0 to %" PRId64,
                       rank, size, size - 1);
    ret->rank = (int) rank;
    ret->world_size = (int) size;
    return 0;
}

/* ---- the three methods */

static int set_host(struct init_where *ret, const char *host, struct cc_err *err)
{
    if (strlen(host) >= sizeof ret->host)
        return cc_fail(err, -EINVAL, "the store's host '%.40s...' is longer than %zu characters", host,
                       sizeof ret->host - 1);
    (void) snprintf(ret->host, sizeof ret->host, "%s", host);
    return 0;
}

/* host:port of the part between // and /; *ret_port is empty when there is none. */
static char *find_host(char *netloc, char **ret_port)
{
    char *at = strrchr(netloc, '@'), *host = at ? at + 1 : netloc, *open = strchr(host, '[');

    if (!open) {
        *ret_port = cut(host, ":");
        return host;
    }
    host = open + 1;
    *ret_port = cut(cut(host, "]"), ":");
    return host;
}

static int read_tcp(struct init_where *ret, struct parts *p, const struct params *q, struct cc_err *err)
{
    char    quoted[QUOTE_MAX], *port, *host = find_host(p->netloc, &port);
    int64_t rank, size;
    int     r;

    if (!*port)
        return cc_fail(err, -EINVAL, SETTING "tcp:// rendezvous: port number missing");
    if (port[strspn(port, "0123456789")])
        return cc_fail(err, -EINVAL, "Port could not be cast to integer value as %s",
                       pyvalue_repr(port, quoted, sizeof quoted));
    if (strtoull(port, NULL, 10) > UINT16_MAX)
        return cc_fail(err, -EINVAL, "Port out of range 0-65535");
    ret->port = (uint16_t) strtoull(port, NULL, 10);
    if ((r = check_pairs(q, err)) < 0)
        return r;
    if (!q->rank)
        return cc_fail(err, -EINVAL, SETTING "tcp:// rendezvous: rank parameter missing");
    if (!q->world_size)
        return cc_fail(err, -EINVAL, SETTING "tcp:// rendezvous: world size parameter missing");
    if ((r = read_int(&rank, "rank", q->rank, err)) < 0 ||
        (r = read_int(&size, "world size", q->world_size, err)) < 0)
        return r;
    if (!*host)
        return cc_fail(err, -EINVAL, "hostname cannot be None");
    to_lower(host, '%'); /* the zone of an IPv6 address is the name of an interface */
    r = set_host(ret, host, err);
    return r < 0 ? r : check_place(ret, rank, size, err);
}

static int read_file(struct init_where *ret, struct parts *p, const struct params *q, bool is_given,
                     struct cc_err *err)
{
    /* file:name is taken for file:///name by the step that adds the caller's rank to the URL. */
    bool    is_rooted = is_given && !*p->netloc && *p->path && *p->path != '/';
    int64_t rank, size;
    int     r;

    if (!*p->path)
        return cc_fail(err, -EINVAL, SETTING "file:// rendezvous: path missing");
    if ((r = check_pairs(q, err)) < 0)
        return r;
    if (!q->rank)
        return cc_fail(err, -EINVAL, SETTING "file:// rendezvous: rank parameter missing");
    if (!q->world_size)
        return cc_fail(err, -EINVAL, SETTING "file:// rendezvous: world size parameter missing");
    if (strlen(p->path) + is_rooted >= sizeof ret->path)
        return cc_fail(err, -EINVAL, "the path '%.40s...' is longer than %zu bytes", p->path,
                       sizeof ret->path - 1);
    ret->path[0] = '/';
    memcpy(ret->path + is_rooted, p->path, strlen(p->path) + 1);
    if ((r = read_int(&rank, "rank", q->rank, err)) < 0 ||
        (r = read_int(&size, "world size", q->world_size, err)) < 0)
        return r;
    return check_place(ret, rank, size, err);
}

static const char *get_env(const struct init_args *a, const char *name, int *r, struct cc_err *err)
{
    const char *value = *r == 0 && a->env ? a->env(a->ctx, name) : NULL;

    if (*r == 0 && (!value || !*value))
        *r = cc_fail(err, -EINVAL, SETTING "env:// rendezvous: environment variable %s expected, but not set",
                     name);
    return value;
}

/* Each number is read as soon as it is there: PyTorch names the first thing that is wrong. */
static int read_env(struct init_where *ret, const struct init_args *a, struct params *q, struct cc_err *err)
{
    int64_t     rank = 0, size = 0, port = 0;
    const char *host, *text;
    int         r = check_pairs(q, err);

    if (!q->rank)
        q->rank = get_env(a, "RANK", &r, err);
    if (r == 0)
        r = read_int(&rank, "rank", q->rank, err);
    if (!q->world_size)
        q->world_size = get_env(a, "WORLD_SIZE", &r, err);
    if (r == 0)
        r = read_int(&size, "world size", q->world_size, err);
    host = get_env(a, "MASTER_ADDR", &r, err);
    if (r == 0)
        r = set_host(ret, host, err);
    text = get_env(a, "MASTER_PORT", &r, err);
    if (r == 0)
        r = read_int(&port, "MASTER_PORT", text, err);
    if (r < 0)
        return r;
    if (port < 0 || port > UINT16_MAX)
        return cc_fail(err, -EINVAL, "port must have value from 0 to 65535 but was %" PRId64 ".", port);
    ret->port = (uint16_t) port;
    return check_place(ret, rank, size, err);
}

static int find_scheme(struct init_where *ret, const char *scheme, struct cc_err *err)
{
    static const char *const names[] = { [INIT_TCP] = "tcp", [INIT_FILE] = "file", [INIT_ENV] = "env" };

    for (size_t i = 0; i < CC_COUNT(names); i++)
        if (strcmp(scheme, names[i]) == 0) {
            ret->scheme = (enum init_scheme) i;
            return 0;
        }
    return cc_fail(err, -EINVAL, "No rendezvous handler for %s://", scheme);
}

static int read_parts(struct init_where *ret, const struct init_args *a, struct parts *p, struct cc_err *err)
{
    bool          is_given = a->rank != INIT_NOT_GIVEN || a->world_size != INIT_NOT_GIVEN;
    char          rank[24], size[24];
    struct params q;
    const char   *agent = a->env ? a->env(a->ctx, "TORCHELASTIC_USE_AGENT_STORE") : NULL;
    int           r;

    q = read_query(p->query);
    if (is_given && (r = check_pairs(&q, err)) < 0)
        return r;
    if (is_given && (q.rank || q.world_size))
        return cc_fail(err, -EINVAL, "The url: %s has node-specific arguments(rank, world_size) already.",
                       a->url);
    if (a->rank != INIT_NOT_GIVEN) {
        (void) snprintf(rank, sizeof rank, "%" PRId64, a->rank);
        q.rank = rank;
    }
    if (a->world_size != INIT_NOT_GIVEN) {
        (void) snprintf(size, sizeof size, "%" PRId64, a->world_size);
        q.world_size = size;
    }
    if ((r = find_scheme(ret, p->scheme, err)) < 0)
        return r;
    ret->has_server = ret->scheme != INIT_FILE && agent && strcmp(agent, "True") == 0;
    switch (ret->scheme) {
    case INIT_TCP: return read_tcp(ret, p, &q, err);
    case INIT_FILE: return read_file(ret, p, &q, is_given, err);
    case INIT_ENV: return read_env(ret, a, &q, err);
    default: abort();
    }
}

int init_url_read(struct init_where *ret, const struct init_args *args, struct cc_err *err)
{
    struct parts p;
    int          r;

    *ret = (struct init_where){ 0 };
    r = split(&p, args->url ? args->url : "env://", err);
    if (r == 0)
        r = read_parts(ret, args, &p, err);
    free(p.copy);
    return r;
}
