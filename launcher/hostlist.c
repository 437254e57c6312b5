#include "launcher/hostlist.h"

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

enum { GROUPS_MAX = 16, TEXT_CHUNK = 65536, QUOTED_MAX = 60, SENTENCE_MAX = 256 };
enum { NAME_ROOM = 2 * HOSTLIST_NAME_MAX + 1 }; /* for a number behind a name that is as long as it may be */

/* ---- the list */

struct hostlist_text {
    struct hostlist_text *next;
    size_t                used, size;
    char                  bytes[];
};

void hostlist_clear(struct hostlist *l)
{
    while (l->texts) {
        struct hostlist_text *next = l->texts->next;

        free(l->texts);
        l->texts = next;
    }
    free(l->host);
    *l = (struct hostlist){ 0 };
}

const char *hostlist_keep(struct hostlist *l, const char *text, size_t n)
{
    struct hostlist_text *t = l->texts;
    char                 *copy;

    if (!t || t->size - t->used <= n) {
        size_t size = n < TEXT_CHUNK / 2 ? TEXT_CHUNK : n + 1;

        t = malloc(sizeof *t + size);
        if (!t)
            return NULL;
        *t = (struct hostlist_text){ .next = l->texts, .size = size };
        l->texts = t;
    }
    copy = t->bytes + t->used;
    memcpy(copy, text, n);
    copy[n] = '\0';
    t->used += n + 1;
    return copy;
}

static int reserve(struct hostlist *l, uint64_t more, struct cc_err *err)
{
    size_t       cap = l->cap ? l->cap : 16;
    struct host *host;

    if (more > HOSTLIST_MAX - l->n)
        return cc_fail(err, -E2BIG, "%llu hosts are too many: the limit is %d", (unsigned long long) more + l->n,
                       HOSTLIST_MAX);
    if (l->n + more <= l->cap)
        return 0;
    while (cap < l->n + more)
        cap *= 2;
    host = realloc(l->host, cap * sizeof *host);
    if (!host)
        return cc_fail(err, -ENOMEM, "no memory for %zu hosts", cap);
    l->host = host;
    l->cap = cap;
    return 0;
}

int hostlist_add(struct hostlist *l, const struct host *h, struct cc_err *err)
{
    struct host copy = *h;
    int         r = reserve(l, 1, err);

    if (r < 0)
        return r;
    copy.name = hostlist_keep(l, h->name, strlen(h->name));
    copy.user = h->user ? hostlist_keep(l, h->user, strlen(h->user)) : NULL;
    copy.devices = h->devices ? hostlist_keep(l, h->devices, strlen(h->devices)) : NULL;
    if (!copy.name || (h->user && !copy.user) || (h->devices && !copy.devices))
        return cc_fail(err, -ENOMEM, "no memory for host '%s'", h->name);
    l->host[l->n++] = copy;
    return 0;
}

bool host_is(const char *a, const char *b)
{
    size_t n = strcspn(a, "."), m = strcspn(b, ".");

    if (strcasecmp(a, b) == 0)
        return true;
    if (a[n] && b[m])
        return false; /* two full names, or two addresses */
    return n == m && strspn(a, "0123456789") < n && strncasecmp(a, b, n) == 0;
}

const struct host *hostlist_find(const struct hostlist *l, const char *name)
{
    for (size_t i = 0; i < l->n; i++)
        if (host_is(l->host[i].name, name))
            return &l->host[i];
    return NULL;
}

/* ---- one item: text and brackets in turn, and text behind the last */

struct range {
    uint64_t first;
    uint32_t count, step;
    uint8_t  width; /* zeros in front up to so many digits */
};

struct group {
    const char *lead; /* the text in front of the bracket */
    size_t      n_lead;
    size_t      begin, end; /* its ranges */
    uint64_t    total;      /* values */
    size_t      range;      /* where the expansion is: in which range, */
    uint32_t    at;         /* and how far into it */
};

struct parser {
    const struct hostlist_item *item;
    const char   *p, *end;
    struct group  group[GROUPS_MAX];
    unsigned      n_groups;
    const char   *tail;
    size_t        n_tail;
    struct range *range;
    size_t        n_ranges, cap;
    const char   *colon; /* the first; only an IPv6 address has any */
};

static int fail_at(const struct parser *ps, const char *at, struct cc_err *err, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

static int fail_at(const struct parser *ps, const char *at, struct cc_err *err, const char *fmt, ...)
{
    char    text[SENTENCE_MAX];
    va_list args;

    va_start(args, fmt);
    (void) vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return cc_fail(err, -EINVAL, "%s: position %zu: %s", ps->item->where, (size_t) (at - ps->item->text) + 1, text);
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* The letters of a name, without those that have a meaning of their own. */
static bool is_plain(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '_' || c == '.';
}

static int fail_number(const struct parser *ps, struct cc_err *err)
{
    const char *open = ps->p;

    if (ps->p == ps->end) {
        while (*open != '[')
            open--;
        return fail_at(ps, open, err, "this '[' is not closed");
    }
    if (is_blank(*ps->p))
        return fail_at(ps, ps->p, err, "a blank cannot stand inside brackets");
    if (*ps->p == '[')
        return fail_at(ps, ps->p, err, "'[' cannot stand inside brackets");
    if (*ps->p == 'x' && is_digit(ps->p[-1]))
        return fail_at(ps, ps->p, err, "boxes of clusters with several dimensions (000x133) are not supported");
    return fail_at(ps, ps->p, err, "a number, or a range of numbers like 1-4, is wanted inside brackets");
}

static int parse_number(struct parser *ps, uint64_t *ret, size_t *ret_width, struct cc_err *err)
{
    const char *begin = ps->p;
    uint64_t    v = 0;

    for (; ps->p < ps->end && is_digit(*ps->p); ps->p++) {
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, (uint64_t) (*ps->p - '0'), &v))
            return fail_at(ps, begin, err, "the number is larger than 18446744073709551615");
    }
    if (ps->p == begin)
        return fail_number(ps, err);
    if (ps->p - begin > HOSTLIST_NAME_MAX)
        return fail_at(ps, begin, err, "the number has more than %d digits", HOSTLIST_NAME_MAX);
    *ret = v;
    *ret_width = (size_t) (ps->p - begin);
    return 0;
}

/* "/2" behind a range */
static int parse_step(struct parser *ps, uint32_t *ret, struct cc_err *err)
{
    const char *slash = ps->p;
    uint64_t    step = 1;
    size_t      width;
    int         r = 0;

    if (ps->p < ps->end && *ps->p == '/') {
        if (!ps->item->has_steps)
            return fail_at(ps, slash, err, "Slurm knows no steps ('/') in a range");
        ps->p++;
        r = parse_number(ps, &step, &width, err);
        if (r == 0 && (step == 0 || step > HOSTLIST_RANGE_MAX))
            return fail_at(ps, slash + 1, err, "a step is 1 to %d", HOSTLIST_RANGE_MAX);
    }
    *ret = (uint32_t) step;
    return r;
}

/* "7", "07-11", and "7-", which Slurm takes for 7 */
static int parse_range(struct parser *ps, struct range *ret, struct cc_err *err)
{
    const char *begin = ps->p;
    size_t      width, ignored;
    uint64_t    last;
    int         r = parse_number(ps, &ret->first, &width, err);

    if (r < 0)
        return r;
    ret->width = (uint8_t) width;
    last = ret->first;
    if (ps->p < ps->end && *ps->p == '-') {
        ps->p++;
        if (ps->p == ps->end || (*ps->p != ',' && *ps->p != ']'))
            r = parse_number(ps, &last, &ignored, err);
    }
    if (r == 0)
        r = parse_step(ps, &ret->step, err);
    if (r < 0)
        return r;
    if (last < ret->first)
        return fail_at(ps, begin, err, "the range ends before it begins");
    if ((last - ret->first) / ret->step >= HOSTLIST_RANGE_MAX)
        return fail_at(ps, begin, err, "the range has more than %d hosts", HOSTLIST_RANGE_MAX);
    ret->count = (uint32_t) ((last - ret->first) / ret->step) + 1;
    return 0;
}

static int add_range(struct parser *ps, const struct range *range, struct cc_err *err)
{
    if (ps->n_ranges == ps->cap) {
        size_t        cap = ps->cap ? 2 * ps->cap : 16;
        struct range *grown = realloc(ps->range, cap * sizeof *grown);

        if (!grown)
            return cc_fail(err, -ENOMEM, "no memory for %zu ranges of hosts", cap);
        ps->range = grown;
        ps->cap = cap;
    }
    ps->range[ps->n_ranges++] = *range;
    return 0;
}

/* p stands behind the '['. */
static int parse_group(struct parser *ps, struct group *g, struct cc_err *err)
{
    struct range range;
    int          r;

    g->begin = ps->n_ranges;
    for (;;) {
        r = parse_range(ps, &range, err);
        if (r == 0)
            r = add_range(ps, &range, err);
        if (r < 0)
            return r;
        g->total += range.count;
        if (ps->p == ps->end || (*ps->p != ',' && *ps->p != ']'))
            return fail_number(ps, err);
        if (*ps->p++ == ']')
            break;
    }
    g->end = ps->n_ranges;
    g->range = g->begin;
    return 0;
}

static int fail_letter(const struct parser *ps, struct cc_err *err)
{
    unsigned char c = (unsigned char) *ps->p;

    if (c == ']')
        return fail_at(ps, ps->p, err, "there is no '[' for this ']'");
    if (c == '{' || c == '}')
        return fail_at(ps, ps->p, err, "braces are not expanded here; write n[1-3] for n1, n2 and n3");
    if (c > ' ' && c < 0x7f)
        return fail_at(ps, ps->p, err, "'%c' cannot be part of a host name", c);
    return fail_at(ps, ps->p, err, "the byte 0x%02x cannot be part of a host name", c);
}

static int parse_item(struct parser *ps, struct cc_err *err)
{
    const char *begin = ps->p;

    for (; ps->p < ps->end && *ps->p != '['; ps->p++) {
        if (*ps->p == ':' && !ps->colon)
            ps->colon = ps->p;
        if (!is_plain(*ps->p) && *ps->p != ':')
            return fail_letter(ps, err);
    }
    if (ps->p == ps->end) {
        ps->tail = begin;
        ps->n_tail = (size_t) (ps->p - begin);
        return 1;
    }
    if (ps->n_groups == GROUPS_MAX)
        return fail_at(ps, ps->p, err, "a name has at most %d brackets", GROUPS_MAX);
    ps->group[ps->n_groups] = (struct group){ .lead = begin, .n_lead = (size_t) (ps->p - begin) };
    ps->p++;
    return parse_group(ps, &ps->group[ps->n_groups++], err);
}

/* How many hosts that makes; nothing is allocated for them before it is known. */
static int count(const struct parser *ps, uint64_t *ret, struct cc_err *err)
{
    uint64_t n = 1;

    for (unsigned i = 0; i < ps->n_groups; i++) {
        if (n > HOSTLIST_RANGE_MAX)
            return fail_at(ps, ps->item->at, err, "the brackets before the last one make more than %d combinations",
                           HOSTLIST_RANGE_MAX);
        n *= ps->group[i].total; /* below 2^16 * 2^32: a bracket has fewer ranges than its text has bytes */
    }
    *ret = n;
    return 0;
}

/* ---- its hosts */

/* The next value of one bracket; false: it begins again. */
static bool turn(const struct parser *ps, struct group *g)
{
    if (++g->at < ps->range[g->range].count)
        return true;
    g->at = 0;
    if (++g->range < g->end)
        return true;
    g->range = g->begin;
    return false;
}

/* The last bracket turns fastest, then the first, then the second ... */
static void turn_all(struct parser *ps)
{
    unsigned last = ps->n_groups - 1;

    if (ps->n_groups == 0 || turn(ps, &ps->group[last]))
        return;
    for (unsigned i = 0; i < last && !turn(ps, &ps->group[i]); i++)
        ;
}

static size_t put_number(char *to, uint64_t v, size_t width)
{
    char   digits[20];
    size_t n = 0, zeros;

    do {
        digits[n++] = (char) ('0' + v % 10);
        v /= 10;
    } while (v > 0);
    zeros = width > n ? width - n : 0;
    memset(to, '0', zeros);
    for (size_t i = 0; i < n; i++)
        to[zeros + i] = digits[n - 1 - i];
    return zeros + n;
}

/* Returns the length, or more than HOSTLIST_NAME_MAX when the name does not fit. */
static size_t put_name(const struct parser *ps, char to[NAME_ROOM])
{
    size_t n = 0;

    for (unsigned i = 0; i < ps->n_groups; i++) {
        const struct group *g = &ps->group[i];
        const struct range *range = &ps->range[g->range];

        if (n + g->n_lead > HOSTLIST_NAME_MAX)
            return HOSTLIST_NAME_MAX + 1;
        memcpy(to + n, g->lead, g->n_lead);
        n += g->n_lead;
        n += put_number(to + n, range->first + (uint64_t) g->at * range->step, range->width);
    }
    if (n + ps->n_tail > HOSTLIST_NAME_MAX)
        return HOSTLIST_NAME_MAX + 1;
    memcpy(to + n, ps->tail, ps->n_tail);
    to[n + ps->n_tail] = '\0';
    return n + ps->n_tail;
}

static int add_hosts(struct hostlist *l, struct parser *ps, uint64_t n, const struct host *like, struct cc_err *err)
{
    char            name[NAME_ROOM];
    struct in6_addr ignored;

    for (; n > 0; n--, turn_all(ps)) {
        size_t       len = put_name(ps, name);
        struct host *h = &l->host[l->n];

        if (len > HOSTLIST_NAME_MAX)
            return fail_at(ps, ps->item->at, err, "the host name is longer than %d bytes", HOSTLIST_NAME_MAX);
        if (ps->colon && inet_pton(AF_INET6, name, &ignored) != 1)
            return fail_at(ps, ps->colon, err, "a ':' belongs to an IPv6 address only, and '%.100s' is none", name);
        *h = *like;
        h->name = hostlist_keep(l, name, len);
        if (!h->name)
            return cc_fail(err, -ENOMEM, "no memory for %llu host names", (unsigned long long) n);
        l->n++;
    }
    return 0;
}

/* The texts that all hosts of the item have in common. */
static int keep_common(struct hostlist *l, struct host *like, struct cc_err *err)
{
    bool is_short = false;

    if (like->user)
        is_short = !(like->user = hostlist_keep(l, like->user, strlen(like->user)));
    if (like->devices)
        is_short |= !(like->devices = hostlist_keep(l, like->devices, strlen(like->devices)));
    return is_short ? cc_fail(err, -ENOMEM, "no memory for a list of hosts") : 0;
}

int hostlist_expand(struct hostlist *l, const struct hostlist_item *item, struct cc_err *err)
{
    struct parser ps = { .item = item, .p = item->at, .end = item->at + item->n };
    struct host   like = item->like;
    uint64_t      n = 0;
    int           r = 0;

    if (item->n == 0)
        return fail_at(&ps, item->at, err, "a host name is missing");
    if (*item->at == '-') /* ssh and srun would take it for an option */
        return fail_at(&ps, item->at, err, "a host name cannot begin with '-'");
    while (r == 0)
        r = parse_item(&ps, err);
    if (r > 0)
        r = count(&ps, &n, err);
    if (r == 0)
        r = reserve(l, n, err) < 0 ? cc_wrap(err, "%s", item->where) : 0;
    if (r == 0)
        r = keep_common(l, &like, err);
    if (r == 0)
        r = add_hosts(l, &ps, n, &like, err);
    free(ps.range);
    return oneline_err(err, r);
}

/* ---- a list of items */

int hostlist_nodes(struct hostlist *l, const char *name, const char *text, struct cc_err *err)
{
    char                 where[QUOTED_MAX + 96];
    struct hostlist_item item = { .where = where, .text = text, .at = text };
    int                  r = 0;

    (void) snprintf(where, sizeof where, "%.64s '%.*s%s'", name, QUOTED_MAX, text,
                    strlen(text) > QUOTED_MAX ? "..." : "");
    for (;;) {
        bool is_open = false;

        item.at += strspn(item.at, ", \t\r\n");
        if (r < 0 || !*item.at)
            return r;
        for (item.n = 0; item.at[item.n]; item.n++) {
            char c = item.at[item.n];

            if (!is_open && (c == ',' || is_blank(c)))
                break;
            is_open = c == '[' || (is_open && c != ']');
        }
        r = hostlist_expand(l, &item, err);
        item.at += item.n;
    }
}
