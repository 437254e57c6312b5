#include "launcher/hostfile.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "launcher/oneline.h"
#include "store/base/cleanup.h"
#include "store/base/macros.h"

enum { WHERE_MAX = 256, USER_MAX = 64, QUOTED_MAX = 60 };

/* Where we are: begins every sentence. */
struct place {
    const char *name;
    const char *line; /* positions count from here */
    unsigned    number;
    char        where[WHERE_MAX];
};

struct word {
    const char *at;
    size_t      n;
};

static int fail(const struct place *p, const char *at, struct cc_err *err, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

static int fail(const struct place *p, const char *at, struct cc_err *err, const char *fmt, ...)
{
    char    text[WHERE_MAX];
    va_list args;

    va_start(args, fmt);
    (void) vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return cc_fail(err, -EINVAL, "%s: position %zu: %s", p->where, (size_t) (at - p->line) + 1, text);
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* ---- numbers and names */

static int parse_count(const struct place *p, struct word w, unsigned max, unsigned *ret, struct cc_err *err)
{
    unsigned v = 0;

    for (size_t i = 0; i < w.n; i++) {
        if (w.at[i] < '0' || w.at[i] > '9')
            return fail(p, w.at, err, "'%.*s' is not a number", (int) (w.n < QUOTED_MAX ? w.n : QUOTED_MAX), w.at);
        v = v > max ? v : v * 10 + (unsigned) (w.at[i] - '0');
    }
    if (v < 1 || v > max)
        return fail(p, w.at, err, "a number from 1 to %u is wanted", max);
    *ret = v;
    return 0;
}

/* What a user name and the zone of an address may have, and nothing that a shell or ssh would read otherwise. */
static bool is_name(struct word w)
{
    if (w.n == 0 || w.at[0] == '-')
        return false;
    for (size_t i = 0; i < w.n; i++) {
        char c = w.at[i];

        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || strchr("-_.", c)) || !c)
            return false;
    }
    return true;
}

static int take_user(const struct place *p, struct word w, char user[USER_MAX], struct cc_err *err)
{
    if (!is_name(w) || w.n >= USER_MAX)
        return fail(p, w.at, err, "a user name of 1 to %d letters, digits and '-_.' is wanted", USER_MAX - 1);
    memcpy(user, w.at, w.n);
    user[w.n] = '\0';
    return 0;
}

/* [fe80::1] or [fe80::1%eth0]: its length with the brackets, 0 when it is none. */
static size_t address_length(struct word w, char name[HOSTLIST_NAME_MAX + 1])
{
    const char     *end = w.n > 0 && w.at[0] == '[' ? memchr(w.at, ']', w.n) : NULL;
    size_t          n = end ? (size_t) (end - w.at) - 1 : 0;
    char           *zone;
    struct in6_addr ignored;
    bool            is_address;

    if (n == 0 || n > HOSTLIST_NAME_MAX || !memchr(w.at + 1, ':', n))
        return 0;
    memcpy(name, w.at + 1, n);
    name[n] = '\0';
    zone = strchr(name, '%');
    if (zone && !is_name((struct word){ zone + 1, strlen(zone + 1) }))
        return 0;
    if (zone)
        *zone = '\0';
    is_address = inet_pton(AF_INET6, name, &ignored) == 1;
    if (zone)
        *zone = '%';
    return is_address ? n + 2 : 0;
}

/* The ':' in front of a count; NULL: there is none. */
static const char *find_colon(struct word w)
{
    const char *colon = memrchr(w.at, ':', w.n);

    return colon && !memchr(colon, ']', (size_t) (w.at + w.n - colon)) ? colon : NULL;
}

/* [USER@]NAME[:N] */
static int take_host(struct hostlist *l, const struct place *p, struct word w, const struct host *like, struct cc_err *err)
{
    struct hostlist_item item = { .where = p->where, .text = p->line, .has_steps = true, .like = *like };
    const char *sign = memchr(w.at, '@', w.n), *colon = find_colon(w), *end = w.at + w.n;
    char        user[USER_MAX], name[HOSTLIST_NAME_MAX + 1];
    size_t      n;
    int         r = 0;

    if (sign) {
        r = take_user(p, (struct word){ w.at, (size_t) (sign - w.at) }, user, err);
        item.like.user = user;
        w = (struct word){ sign + 1, (size_t) (end - sign - 1) };
    }
    if (memchr(w.at, ' ', w.n) || memchr(w.at, '\t', w.n))
        return fail(p, w.at, err, "a blank in the name of a host: commas stand between hosts");
    if (r == 0 && colon && colon >= w.at && !(end - colon == 2 && colon[1] == '*')) { /* h:* is all of h */
        if (colon > w.at && memchr(w.at, ':', (size_t) (colon - w.at)) && !memchr(w.at, ']', (size_t) (colon - w.at)))
            return fail(p, w.at, err, "an IPv6 address stands in brackets, as in [fe80::1]:4");
        if (like->slots > 0)
            return fail(p, colon, err, "the slots are given twice");
        r = parse_count(p, (struct word){ colon + 1, (size_t) (end - colon - 1) }, HOSTFILE_SLOTS_MAX, &item.like.slots, err);
    }
    if (r < 0)
        return r;
    w.n = colon && colon >= w.at ? (size_t) (colon - w.at) : w.n;
    if (w.n > 0 && strchr("^+", w.at[0]))
        return fail(p, w.at, err, "'%c' is understood by mpirun only%s", w.at[0],
                    w.at[0] == '^' ? "; --exclude leaves out hosts" : "");
    n = address_length(w, name);
    if (n > 0 && n == w.n) {
        item.like.name = name;
        return hostlist_add(l, &item.like, err);
    }
    item.at = w.at;
    item.n = w.n;
    return hostlist_expand(l, &item, err);
}

/* Up to the next comma that stands outside of brackets. */
static struct word next_item(const char *at, const char *end)
{
    bool   is_open = false;
    size_t n;

    for (n = 0; at + n < end && (is_open || at[n] != ','); n++)
        is_open = at[n] == '[' || (is_open && at[n] != ']');
    return (struct word){ at, n };
}

static int take_hosts(struct hostlist *l, const struct place *p, struct word w, const struct host *like, struct cc_err *err)
{
    const char *at = w.at, *end = w.at + w.n;

    for (;;) {
        struct word item = next_item(at, end);
        int         r;

        at += item.n + 1;
        for (; item.n > 0 && is_blank(item.at[0]); item.n--)
            item.at++;
        while (item.n > 0 && is_blank(item.at[item.n - 1]))
            item.n--;
        r = take_host(l, p, item, like, err);
        if (r < 0 || at > end)
            return r;
    }
}

/* ---- hosts that are named again */

/* By name, and in the order in which they stand in the list. */
static int compare(const void *a, const void *b)
{
    const struct host *x = *(struct host *const *) a, *y = *(struct host *const *) b;
    int                r = strcasecmp(x->name, y->name);

    return r ? r : (x > y) - (x < y);
}

static int join(struct host *first, const struct host *again, struct cc_err *err)
{
    if (first->is_slots_key && again->is_slots_key)
        return cc_fail(err, -EINVAL, "the slots of host '%s' were given in line %u", first->name, first->line);
    if (first->user && again->user && strcmp(first->user, again->user) != 0)
        return cc_fail(err, -EINVAL, "host '%s' has user '%s' already", first->name, first->user);
    first->slots = (first->slots ? first->slots : 1) + (again->slots ? again->slots : 1);
    first->is_slots_key |= again->is_slots_key;
    first->user = first->user ? first->user : again->user;
    first->port = first->port ? first->port : again->port;
    first->max_slots = again->max_slots ? again->max_slots : first->max_slots;
    return first->slots <= HOSTFILE_SLOTS_MAX
               ? 0
               : cc_fail(err, -EINVAL, "host '%s' has more than %d slots", first->name, HOSTFILE_SLOTS_MAX);
}

static int check_max(const struct host *h, struct cc_err *err)
{
    if (h->max_slots == 0 || h->slots <= h->max_slots)
        return 0;
    return cc_fail(err, -EINVAL, "host '%s' has %u slots and at most %u", h->name, h->slots, h->max_slots);
}

static int merge(struct host **order, size_t n, const char *name, struct cc_err *err)
{
    struct host *first = NULL;
    int          r = 0;

    for (size_t i = 0; i < n && r == 0; i++) {
        unsigned line = order[i]->line;

        if (first && strcasecmp(first->name, order[i]->name) == 0) {
            r = join(first, order[i], err);
            order[i]->name = NULL;
        } else {
            first = order[i];
        }
        if (r == 0 && (i + 1 == n || strcasecmp(first->name, order[i + 1]->name) != 0))
            r = check_max(first, err);
        if (r < 0 && line > 0)
            return cc_wrap(err, "%.200s:%u", name, line);
    }
    return r < 0 ? cc_wrap(err, "%.200s", name) : 0;
}

int hostfile_merge(struct hostlist *l, const char *name, struct cc_err *err)
{
    CC_AUTO_FREE struct host **order = calloc(l->n + 1, sizeof(struct host *));
    size_t                     i, n = 0;
    int                        r;

    if (!order)
        return cc_fail(err, -ENOMEM, "no memory for %zu hosts", l->n);
    for (i = 0; i < l->n; i++)
        order[i] = &l->host[i];
    qsort(order, l->n, sizeof(struct host *), compare);
    r = merge(order, l->n, name, err);
    for (i = 0; i < l->n; i++)
        if (l->host[i].name)
            l->host[n++] = l->host[i];
    l->n = n;
    return r;
}

/* ---- lines */

static bool is_key(struct word w, const char *key, struct word *ret_value)
{
    size_t n = strlen(key);

    if (w.n <= n || strncmp(w.at, key, n) != 0 || w.at[n] != '=')
        return false;
    *ret_value = (struct word){ w.at + n + 1, w.n - n - 1 };
    return true;
}

/* The words that Open MPI, MPICH and DeepSpeed have. */
static const struct key {
    const char *name;
    enum { KEY_SLOTS, KEY_MAX, KEY_USER, KEY_PORT } what;
} keys[] = {
    { "slots", KEY_SLOTS },   { "cpu", KEY_SLOTS },     { "count", KEY_SLOTS },   { "max_slots", KEY_MAX },
    { "max-slots", KEY_MAX }, { "slots_max", KEY_MAX }, { "username", KEY_USER }, { "user", KEY_USER },
    { "port", KEY_PORT },
};

static int take_slots(const struct place *p, struct word w, struct host *like, struct cc_err *err)
{
    if (like->slots > 0)
        return fail(p, w.at, err, "the slots are given twice");
    return parse_count(p, w, HOSTFILE_SLOTS_MAX, &like->slots, err);
}

/* A word behind the host. */
static int take_word(const struct place *p, struct word w, struct host *like, char user[USER_MAX], struct cc_err *err)
{
    struct word value;
    size_t      i;

    if (w.at[0] >= '0' && w.at[0] <= '9')
        return take_slots(p, w, like, err);
    for (i = 0; i < CC_COUNT(keys) && !is_key(w, keys[i].name, &value); i++)
        ;
    if (i == CC_COUNT(keys))
        return fail(p, w.at, err, "'%.*s' is not known; a line is HOST [slots=N] [max_slots=N] [user=NAME] [port=N]",
                    (int) (w.n < QUOTED_MAX ? w.n : QUOTED_MAX), w.at);
    switch (keys[i].what) {
    case KEY_SLOTS:
        like->is_slots_key = true;
        return take_slots(p, value, like, err);
    case KEY_MAX: return parse_count(p, value, HOSTFILE_SLOTS_MAX, &like->max_slots, err);
    case KEY_PORT: return parse_count(p, value, UINT16_MAX, &like->port, err);
    case KEY_USER: like->user = user; return take_user(p, value, user, err);
    }
    return 0;
}

static struct word next_word(const char *at, const char *end)
{
    struct word w;

    while (at < end && is_blank(*at))
        at++;
    w.at = at;
    while (at < end && !is_blank(*at))
        at++;
    w.n = (size_t) (at - w.at);
    return w;
}

static int take_line(struct hostlist *l, const struct place *p, const char *end, struct cc_err *err)
{
    struct host like = { .line = p->number };
    struct word hosts = next_word(p->line, end), w = next_word(hosts.at + hosts.n, end);
    char        user[USER_MAX];
    int         r = 0;

    for (; r == 0 && w.n > 0; w = next_word(w.at + w.n, end))
        r = take_word(p, w, &like, user, err);
    if (r == 0 && hosts.n > 0)
        r = take_hosts(l, p, hosts, &like, err);
    return r;
}

/* Comments become blanks. -EINVAL: one is not closed. */
static int blank_comments(const struct place *p, char *text, struct cc_err *err)
{
    unsigned line = 1;

    for (; *text; text++) {
        if (*text == '#' || (text[0] == '/' && text[1] == '/')) {
            while (*text && *text != '\n')
                *text++ = ' ';
        } else if (text[0] == '/' && text[1] == '*') {
            char    *end = strstr(text + 2, "*/");
            unsigned begin = line;

            if (!end)
                return cc_fail(err, -EINVAL, "%.200s:%u: this comment is not closed", p->name, begin);
            for (; text < end + 2; text++)
                *text == '\n' ? (void) line++ : (void) (*text = ' ');
        }
        if (!*text)
            break;
        line += *text == '\n';
    }
    return 0;
}

int hostfile_parse(struct hostlist *l, const char *name, const char *text, struct cc_err *err)
{
    CC_AUTO_FREE char *plain = strdup(text);
    struct place       p = { .name = name, .line = plain };
    size_t             n = l->n;
    int                r;

    if (!plain)
        return cc_fail(err, -ENOMEM, "no memory for host file '%.200s'", name);
    r = blank_comments(&p, plain, err);
    while (r == 0 && *p.line) {
        const char *end = strchrnul(p.line, '\n');

        (void) snprintf(p.where, sizeof p.where, "%.200s:%u", name, ++p.number);
        r = take_line(l, &p, end, err);
        p.line = end + (*end == '\n');
    }
    if (r == 0 && l->n == n)
        r = cc_fail(err, -EINVAL, "host file '%.200s' names no host", name);
    if (r == 0)
        r = hostfile_merge(l, name, err);
    return oneline_err(err, r);
}

int hostfile_hosts(struct hostlist *l, const char *text, struct cc_err *err)
{
    struct place p = { .name = "--hosts", .line = text };
    int          r;

    (void) snprintf(p.where, sizeof p.where, "--hosts '%.*s%s'", QUOTED_MAX, text, strlen(text) > QUOTED_MAX ? "..." : "");
    r = take_hosts(l, &p, (struct word){ text, strlen(text) }, &(struct host){ 0 }, err);
    if (r == 0)
        r = hostfile_merge(l, "--hosts", err);
    return oneline_err(err, r);
}

int hostfile_read(struct hostlist *l, const struct machine *m, const char *path, struct cc_err *err)
{
    CC_AUTO_FREE char *text = NULL;
    FILE              *f = machine_open(m, path);
    size_t             n = 0;
    int                code = 0;

    if (!f)
        return cc_fail(err, -errno, "host file '%.200s' cannot be opened: %s", path, strerror(errno));
    text = malloc(HOSTFILE_SIZE_MAX + 1); /* what is not written to is not there */
    if (!text)
        code = -ENOMEM;
    else
        n = fread(text, 1, HOSTFILE_SIZE_MAX + 1, f);
    if (text && ferror(f))
        code = -errno;
    (void) fclose(f);
    if (code < 0)
        return cc_fail(err, code, "host file '%.200s' cannot be read: %s", path, strerror(-code));
    if (n > HOSTFILE_SIZE_MAX)
        return cc_fail(err, -E2BIG, "host file '%.200s' has more than %d MB", path, HOSTFILE_SIZE_MAX >> 20);
    text[n] = '\0';
    if (strlen(text) < n)
        return cc_fail(err, -EINVAL, "host file '%.200s' is not text: it has a zero byte", path);
    return hostfile_parse(l, path, text, err);
}
