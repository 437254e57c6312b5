#include "agent/core/mpinodes.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

void mpinodes_say(char line[MPINODES_LINE_MAX], const char *host, uint32_t node, uint32_t nproc)
{
    char   name[MPINODES_HOST_MAX];
    size_t i;

    (void) snprintf(name, sizeof name, "%.48s-%u", host, node);
    for (i = 0; name[i]; i++) /* what would end it in a list */
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-", name[i]))
            name[i] = '-';
    (void) snprintf(line, MPINODES_LINE_MAX, "%u %s", nproc, name);
}

static bool take_line(struct cc_bytes line, uint32_t *ret_nproc, char host[MPINODES_HOST_MAX])
{
    char  text[MPINODES_LINE_MAX], *end;
    unsigned long nproc;

    if (line.n == 0 || line.n >= sizeof text)
        return false;
    memcpy(text, line.p, line.n);
    text[line.n] = '\0';
    nproc = strtoul(text, &end, 10);
    if (end == text || *end != ' ' || nproc == 0 || nproc > UINT32_MAX || !end[1] || strpbrk(end + 1, " ,;") ||
        strlen(end + 1) >= MPINODES_HOST_MAX)
        return false;
    *ret_nproc = (uint32_t) nproc;
    memcpy(host, end + 1, strlen(end + 1) + 1);
    return true;
}

int mpinodes_make(struct mpinodes *ret, const struct cc_bytes *lines, uint32_t n, uint32_t world, struct cc_err *err)
{
    uint64_t sum = 0;
    uint32_t i, nproc;

    *ret = (struct mpinodes) { .n = n, .world = world };
    ret->base = calloc((size_t) n + 1, sizeof *ret->base);
    ret->host = calloc(n, sizeof *ret->host);
    if (!ret->base || !ret->host) {
        mpinodes_clear(ret);
        return cc_fail(err, -ENOMEM, "no memory for %u nodes", n);
    }
    for (i = 0; i < n && sum <= world; i++) {
        if (!take_line(lines[i], &nproc, ret->host[i]))
            break;
        sum += nproc;
        ret->base[i + 1] = sum <= world ? (uint32_t) sum : world;
    }
    if (i < n || sum != world) {
        mpinodes_clear(ret);
        return cc_fail(err, -EPROTO, "node %u of %u says how many workers it has in a way that makes no world of %u", i, n,
                       world);
    }
    return 0;
}

void mpinodes_clear(struct mpinodes *m)
{
    free(m->base);
    free(m->host);
    *m = (struct mpinodes) { .n = 0 };
}

uint32_t mpinodes_of(const struct mpinodes *m, uint32_t rank)
{
    uint32_t from = 0, to = m->n; /* base[from] <= rank < base[to] */

    while (to - from > 1) {
        uint32_t mid = from + (to - from) / 2;

        if (m->base[mid] <= rank)
            from = mid;
        else
            to = mid;
    }
    return from;
}

__attribute__((format(printf, 2, 3))) static int add(struct cc_buf *b, const char *fmt, ...)
{
    char    text[MPINODES_HOST_MAX + 64];
    va_list ap;
    int     n;

    va_start(ap, fmt);
    n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return n < 0 ? -ENOMEM : cc_buf_add(b, text, (size_t) n);
}

static uint32_t nproc_of(const struct mpinodes *m, uint32_t node)
{
    return m->base[node + 1] - m->base[node];
}

int mpinodes_vector(const struct mpinodes *m, struct cc_buf *ret)
{
    uint32_t i, run;
    int      r = add(ret, "(vector");

    for (i = 0; r == 0 && i < m->n; i += run) { /* neighbours with as many ranks are one entry */
        for (run = 1; i + run < m->n && nproc_of(m, i + run) == nproc_of(m, i); run++)
            ;
        r = add(ret, ",(%u,%u,%u)", i, run, nproc_of(m, i));
    }
    return r == 0 ? cc_buf_add(ret, ")", 2) : r;
}

int mpinodes_hosts(const struct mpinodes *m, struct cc_buf *ret)
{
    uint32_t i;
    int      r = 0;

    for (i = 0; r == 0 && i < m->n; i++)
        r = add(ret, "%s%s", i ? "," : "", m->host[i]);
    return r == 0 ? cc_buf_add(ret, "", 1) : r;
}

int mpinodes_ranks(const struct mpinodes *m, struct cc_buf *ret)
{
    uint32_t i, rank;
    int      r = 0;

    for (i = 0; r == 0 && i < m->n; i++)
        for (rank = m->base[i]; r == 0 && rank < m->base[i + 1]; rank++)
            r = add(ret, "%s%u", rank > m->base[i] ? "," : i ? ";" : "", rank);
    return r == 0 ? cc_buf_add(ret, "", 1) : r;
}
