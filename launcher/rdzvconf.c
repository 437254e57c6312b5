#include "launcher/rdzvconf.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "launcher/near.h"
#include "store/base/macros.h"
#include "store/base/pyvalue.h"

enum { KEY_SHOWN = 80 };

/* What a value must be. */
enum rule {
    RULE_TEXT,
    RULE_INT,
    RULE_BOOL,
    RULE_POSITIVE,
    RULE_READ_TIMEOUT,
    RULE_STORE_TYPE,
    RULE_PROTOCOL
};

/* All keys that torchrun's backends know; `name` is how its message calls a timeout. */
static const struct key {
    const char *key;
    enum rule   rule;
    const char *name;
} keys[] = {
    { "join_timeout", RULE_POSITIVE, "join" },
    { "last_call_timeout", RULE_POSITIVE, "last_call" },
    { "close_timeout", RULE_POSITIVE, "close" },
    { "heartbeat_timeout", RULE_POSITIVE, "heartbeat" },
    { "keep_alive_interval", RULE_INT, NULL },
    { "keep_alive_max_attempt", RULE_INT, NULL },
    { "read_timeout", RULE_READ_TIMEOUT, NULL },
    { "store_type", RULE_STORE_TYPE, NULL },
    { "is_host", RULE_BOOL, NULL },
    { "timeout", RULE_INT, NULL },
    { "rank", RULE_INT, NULL },
    { "protocol", RULE_PROTOCOL, NULL },
    { "ssl_cert", RULE_TEXT, NULL },
    { "ssl_cert_key", RULE_TEXT, NULL },
    { "ca_cert", RULE_TEXT, NULL },
    { "cert", RULE_TEXT, NULL },
    { "key", RULE_TEXT, NULL },
    { "cacert", RULE_TEXT, NULL },
    { "etcd_prefix", RULE_TEXT, NULL },
    { "user", RULE_TEXT, NULL },
    { "password", RULE_TEXT, NULL },
};

/* Parameters of a rendezvous that have an option of their own; torchrun dies of them with a TypeError. */
static const struct {
    const char *key, *option;
} options[] = {
    { "backend", "--rdzv-backend" }, { "endpoint", "--rdzv-endpoint" }, { "run_id", "--rdzv-id" },
    { "min_nodes", "--nnodes" },     { "max_nodes", "--nnodes" },       { "local_addr", "--local-addr" },
};

/* str.strip() in place, for ASCII. */
static char *strip(char *text)
{
    size_t len;

    text += strspn(text, " \t\n\v\f\r");
    len = strlen(text);
    while (len > 0 && strchr(" \t\n\v\f\r", text[len - 1]))
        text[--len] = '\0';
    return text;
}

static int add(struct rdzvconf *c, char *item, struct cc_err *err)
{
    char *value = strchr(item, '='), *key;

    if (value)
        *value++ = '\0';
    key = strip(item);
    value = value ? strip(value) : NULL;
    if (!*key)
        return cc_fail(err, -EINVAL,
                       "The rendezvous configuration string must be in format "
                       "<key1>=<value1>,...,<keyN>=<valueN>.");
    if (!value || !*value)
        return cc_fail(err, -EINVAL,
                       "The rendezvous configuration option '%.*s' must have a value specified.", KEY_SHOWN,
                       key);
    if (c->n == RDZVCONF_MAX)
        return cc_fail(err, -EINVAL, "--rdzv-conf has more than %d settings", RDZVCONF_MAX);
    c->items[c->n].key = key;
    c->items[c->n++].value = value;
    return 0;
}

int rdzvconf_parse(struct rdzvconf *c, const char *text, struct cc_err *err)
{
    char  *item, *rest;
    size_t len = strlen(text);

    c->n = 0;
    if (len >= sizeof c->text)
        return cc_fail(err, -EINVAL, "--rdzv-conf is %zu bytes long; the limit is %zu", len,
                       sizeof c->text - 1);
    memcpy(c->text, text, len + 1);
    rest = strip(c->text);
    len = strlen(rest);
    if (len >= 2 && (*rest == '\'' || *rest == '"') && rest[len - 1] == *rest) {
        rest[len - 1] = '\0';
        rest = strip(rest + 1);
    }
    if (!*rest)
        return 0;
    while ((item = strsep(&rest, ",")) != NULL) {
        int r = add(c, item, err);

        if (r < 0)
            return r;
    }
    return 0;
}

const char *rdzvconf_get(const struct rdzvconf *c, const char *key)
{
    unsigned i = c->n;

    while (i-- > 0)
        if (strcmp(c->items[i].key, key) == 0)
            return c->items[i].value;
    return NULL;
}

int rdzvconf_int(const struct rdzvconf *c, const char *key, int64_t dflt, int64_t *ret, struct cc_err *err)
{
    const char *value = rdzvconf_get(c, key);

    if (!value) {
        *ret = dflt;
        return 0;
    }
    if (pyvalue_int(value, ret) == 0)
        return 0;
    return cc_fail(err, -EINVAL,
                   "The rendezvous configuration option '%s' does not represent a valid integer value.", key);
}

int rdzvconf_bool(const struct rdzvconf *c, const char *key, bool dflt, bool *ret, struct cc_err *err)
{
    static const char *const words[] = { "0", "1", "false", "true", "f", "t", "no", "yes", "n", "y" };
    const char              *value = rdzvconf_get(c, key);
    size_t                   i;

    if (!value) {
        *ret = dflt;
        return 0;
    }
    for (i = 0; i < CC_COUNT(words); i++)
        if (strcasecmp(value, words[i]) == 0) {
            *ret = i % 2 == 1;
            return 0;
        }
    return cc_fail(err, -EINVAL,
                   "The rendezvous configuration option '%s' does not represent a valid boolean value.", key);
}

/* A number of seconds as Python's timedelta shows it: 0:00:00, -1 day, 23:59:55. */
static const char *duration(int64_t seconds, char *buf, size_t size)
{
    int64_t days = seconds / 86400 - (seconds % 86400 < 0), rest = seconds - days * 86400;
    int     used = 0;

    if (days != 0)
        used = snprintf(buf, size, "%lld day%s, ", (long long) days, days == 1 || days == -1 ? "" : "s");
    (void) snprintf(buf + used, size - (size_t) used, "%d:%02d:%02d", (int) (rest / 3600),
                    (int) (rest / 60 % 60), (int) (rest % 60));
    return buf;
}

static int check_number(const struct rdzvconf *c, const struct key *k, struct cc_err *err)
{
    char    buf[64];
    int64_t n;
    int     r = rdzvconf_int(c, k->key, 1, &n, err);

    if (r == 0 && k->rule == RULE_POSITIVE && n <= 0)
        return cc_fail(err, -EINVAL, "The %s timeout (%s) must be positive.", k->name,
                       duration(n, buf, sizeof buf));
    if (r == 0 && k->rule == RULE_READ_TIMEOUT && n <= 0)
        return cc_fail(err, -EINVAL, "The read timeout must be a positive integer.");
    return r;
}

static int check_key(const struct rdzvconf *c, const struct key *k, struct cc_err *err)
{
    const char *value = rdzvconf_get(c, k->key);
    bool        is_on;

    switch (k->rule) {
    case RULE_TEXT: return 0;
    case RULE_BOOL: return rdzvconf_bool(c, k->key, false, &is_on, err);
    case RULE_INT:
    case RULE_POSITIVE:
    case RULE_READ_TIMEOUT: return check_number(c, k, err);
    case RULE_STORE_TYPE:
        if (strcasecmp(value, "tcp") != 0 && strcasecmp(value, "file") != 0)
            return cc_fail(err, -EINVAL, "Invalid store type given. Currently only supports file and tcp.");
        return 0;
    case RULE_PROTOCOL:
        if (strcasecmp(value, "http") != 0 && strcasecmp(value, "https") != 0)
            return cc_fail(err, -EINVAL, "The protocol must be HTTP or HTTPS.");
        return 0;
    }
    return 0;
}

static void warn_unknown(const char *key, struct warnings *w)
{
    struct near n;
    size_t      i;

    near_start(&n, key);
    for (i = 0; i < CC_COUNT(keys); i++)
        near_try(&n, keys[i].key);
    warnings_add(w, "--rdzv-conf: unknown key '%.*s' is ignored%s%s%s", KEY_SHOWN, key,
                 n.best ? "; did you mean " : "", n.best ? n.best : "", n.best ? "?" : "");
}

int rdzvconf_check(const struct rdzvconf *c, struct warnings *w, struct cc_err *err)
{
    unsigned i;
    size_t   k;

    for (i = 0; i < c->n; i++) {
        const struct key *found = NULL;
        int               r = 0;

        for (k = 0; k < CC_COUNT(keys); k++)
            if (strcmp(keys[k].key, c->items[i].key) == 0)
                found = &keys[k];
        for (k = 0; k < CC_COUNT(options); k++)
            if (strcmp(options[k].key, c->items[i].key) == 0)
                return cc_fail(err, -EINVAL, "--rdzv-conf: '%s' is set with %s, not here", options[k].key,
                               options[k].option);
        if (found)
            r = check_key(c, found, err);
        else
            warn_unknown(c->items[i].key, w);
        if (r < 0)
            return r;
    }
    return 0;
}
