#include "launcher/check_table.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS = 80, BAR = 23, LINE = 1024, NODES_SHOWN = 32 };

struct page {
    const struct check_report *r;
    const struct check_style  *style;
    struct cc_buf             *to;
    int                        error;
};

__attribute__((format(printf, 2, 3))) static void put(struct page *p, const char *fmt, ...)
{
    char    line[LINE];
    va_list ap;
    int     n;

    va_start(ap, fmt);
    n = vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    if (n >= (int) sizeof line)
        n = (int) sizeof line - 1;
    while (n > 1 && line[n - 1] == '\n' && line[n - 2] == ' ') /* of a bar that is none */
        line[--n - 1] = '\n';
    if (p->error == 0 && n > 0)
        p->error = cc_buf_add(p->to, line, (size_t) n);
}

/* ---- numbers */

const char *check_size_text(uint64_t bytes, char *buf)
{
    static const char units[] = "\0KMGT";
    unsigned          u = 0;

    for (; bytes >= 1024 && bytes % 1024 == 0 && u < 4; u++)
        bytes /= 1024;
    if (u > 0)
        (void) snprintf(buf, CHECK_NUMBER_MAX, "%llu%c", (unsigned long long) bytes, units[u]);
    else
        (void) snprintf(buf, CHECK_NUMBER_MAX, "%llu", (unsigned long long) bytes);
    return buf;
}

/* Three digits, and never an exponent. */
static int digits_after(double x)
{
    return x < 10 ? 2 : x < 100 ? 1 : 0;
}

const char *check_time_text(uint64_t ns, char *buf)
{
    double      x = (double) ns / 1000;
    const char *unit = "us";

    if (x >= 1e6) {
        x /= 1e6;
        unit = "s";
    } else if (x >= 1e3) {
        x /= 1e3;
        unit = "ms";
    }
    (void) snprintf(buf, CHECK_NUMBER_MAX, "%.*f %s", digits_after(x), x, unit);
    return buf;
}

const char *check_gbs_text(double gbs, char *buf)
{
    (void) snprintf(buf, CHECK_NUMBER_MAX, "%.*f", gbs < 1 ? 3 : digits_after(gbs), gbs);
    return buf;
}

const char *check_bar(double part, double whole, unsigned width, bool is_utf8, char *buf)
{
    double   share = whole > 0 && part > 0 ? part / whole : 0;
    unsigned eighths = (unsigned) ((share < 1 ? share : 1) * width * 8 + 0.5);
    size_t   at = 0;

    for (unsigned i = 0; i < (is_utf8 ? eighths / 8 : (eighths + 4) / 8); i++) {
        const char *block = is_utf8 ? "\xe2\x96\x88" : "#";

        memcpy(buf + at, block, strlen(block));
        at += strlen(block);
    }
    if (is_utf8 && eighths % 8 > 0) {
        buf[at++] = (char) 0xe2; /* U+2588 minus as many eighths as are missing: U+2589 is seven of them */
        buf[at++] = (char) 0x96;
        buf[at++] = (char) (0x88 + 8 - eighths % 8);
    }
    buf[at] = '\0';
    return buf;
}

/* ---- sections */

static const char *marked(const struct page *p, bool is_bad, bool is_on)
{
    return p->style->is_colour && is_bad ? (is_on ? "\033[31m" : "\033[0m") : "";
}

static double most(const struct page *p)
{
    double max = 0;

    for (unsigned i = 0; i < p->r->n_rows; i++) {
        const struct check_row *w = &p->r->rows[i];
        double                  b = check_busbw(w->op, (unsigned) p->r->n_ranks, w->bytes, w->ns);

        max = b > max ? b : max;
    }
    return max;
}

static void put_rows(struct page *p)
{
    double max = most(p);

    if (p->r->n_rows > 0)
        put(p, "\n%-14s %8s %9s %7s %7s  %s\n", "operation", "bytes", "time", "algbw", "busbw", "GB/s");
    for (unsigned i = 0; i < p->r->n_rows; i++) {
        const struct check_row *w = &p->r->rows[i];
        double                  busbw = check_busbw(w->op, (unsigned) p->r->n_ranks, w->bytes, w->ns);
        bool                    is_bad = w->is_missed || w->n_wrong > 0;
        char                    size[CHECK_NUMBER_MAX], time[CHECK_NUMBER_MAX], alg[CHECK_NUMBER_MAX], bus[CHECK_NUMBER_MAX];
        char                    bar[3 * BAR + 1];

        put(p, "%s%-14s %8s %9s %7s %7s  %s%s%s\n", marked(p, is_bad, true), check_op_name(w->op),
            check_size_text(w->bytes, size), check_time_text(w->ns, time), check_gbs_text(check_algbw(w->bytes, w->ns), alg),
            check_gbs_text(busbw, bus), check_bar(busbw, max, BAR, p->style->is_utf8, bar),
            w->n_wrong > 0    ? " wrong"
            : w->is_missed ? " low"
                           : "",
            marked(p, is_bad, false));
    }
}

static double able(const struct check_node *n)
{
    return n->out < n->in ? n->out : n->in;
}

static int by_able(const void *a, const void *b)
{
    double x = able(*(const struct check_node *const *) a), y = able(*(const struct check_node *const *) b);

    return (x > y) - (x < y);
}

static bool is_blamed(const struct check_report *r, int node)
{
    for (unsigned i = 0; i < r->n_faults; i++)
        if (r->faults[i].node == node &&
            (r->faults[i].kind == CHECK_FAULT_SLOW_NODE || r->faults[i].kind == CHECK_FAULT_BROKEN_NODE))
            return true;
    return false;
}

static void put_pair_node(struct page *p, const struct check_node *n, double max)
{
    int  node = (int) (n - p->r->nodes);
    bool is_bad = is_blamed(p->r, node);
    char name[CHECK_HOST_MAX + 32], out[CHECK_NUMBER_MAX] = "-", in[CHECK_NUMBER_MAX] = "-", bar[3 * BAR + 1];

    if (n->out > 0)
        (void) check_gbs_text(n->out, out);
    if (n->in > 0)
        (void) check_gbs_text(n->in, in);
    put(p, "%s%-32.32s %8s %8s   %s%s%s\n", marked(p, is_bad, true), check_node_name(p->r, node, name), out, in,
        check_bar(able(n), max, BAR - 5, p->style->is_utf8, bar), is_bad ? " bad" : "", marked(p, is_bad, false));
}

/* With many nodes only the slowest are worth a line. */
static int put_pairs(struct page *p)
{
    int                       n = p->r->n_nodes;
    const struct check_node **order = p->r->n_rounds > 0 ? calloc((size_t) n, sizeof(struct check_node *)) : NULL;

    if (p->r->n_rounds == 0)
        return 0;
    if (!order)
        return -ENOMEM;
    for (int i = 0; i < n; i++)
        order[i] = &p->r->nodes[i];
    if (n > NODES_SHOWN)
        qsort(order, (size_t) n, sizeof(struct check_node *), by_able);
    double max = 0;
    char   size[CHECK_NUMBER_MAX];

    for (int i = 0; i < n; i++)
        max = able(order[i]) > max ? able(order[i]) : max;
    put(p, "\n%-32s %8s %8s   GB/s in pairs, %s each\n", p->r->is_by_rank ? "rank" : "node", "sends", "receives",
        check_size_text(p->r->options->pair_bytes, size));
    for (int i = 0; i < n && i < NODES_SHOWN; i++)
        put_pair_node(p, order[i], max);
    if (n > NODES_SHOWN)
        put(p, "and %d that are faster\n", n - NODES_SHOWN);
    free(order);
    return 0;
}

/* Words that go on in the next line, under the first of them; \1 is a blank within a word. */
static void put_wrapped(struct page *p, const char *head, const char *text)
{
    size_t indent = strlen(head), at = indent;

    put(p, "%s", head);
    while (*text) {
        size_t n = strcspn(text, " ");

        if (at > indent && at + 1 + n > COLUMNS) {
            put(p, "\n%*s", (int) indent, "");
            at = indent;
        }
        put(p, "%s", at > indent ? " " : "");
        for (size_t i = 0; i < n; i++)
            put(p, "%c", text[i] == '\1' ? ' ' : text[i]);
        at += n + (at > indent);
        text += n + strspn(text + n, " ");
    }
    put(p, "\n");
}

static void put_facts(struct page *p)
{
    const struct nodefacts *f = &p->r->nodes[0].facts;
    char                    text[LINE] = "", head[64];
    size_t                  n = 0;

    for (unsigned i = 0; i < f->n && n < sizeof text; i++)
        n += (size_t) snprintf(text + n, sizeof text - n, "%s%s: %s", i > 0 ? "; " : "", f->list[i].name, f->list[i].value);
    for (char *c = text; *c; c++) /* keep a name and its value together */
        if (*c == ' ' && c[-1] != ';')
            *c = '\1';
    (void) snprintf(head, sizeof head, p->r->n_nodes > 1 && !p->r->is_by_rank ? "node 0: " : "node: ");
    put(p, "\n");
    if (p->r->nodes[0].is_known)
        put_wrapped(p, head, text);
}

/* With a GPU: who has looked at the buffers there. */
static void put_where(struct page *p)
{
    char text[CHECK_TEXT_MAX + 64];

    if (!p->r->where[0])
        return;
    if (strcmp(p->r->where, "GPU") == 0)
        (void) snprintf(text, sizeof text, "filled and checked on the GPU");
    else
        (void) snprintf(text, sizeof text, "filled and checked on the host, and copied: %s", p->r->where);
    put_wrapped(p, "buffers: ", text);
}

static void put_conclusions(struct page *p)
{
    for (unsigned i = 0; i < p->r->n_warnings; i++)
        put_wrapped(p, "warning: ", p->r->warnings[i]);
    if (p->r->n_more_warnings > 0)
        put(p, "warning: and %u more\n", p->r->n_more_warnings);
    for (unsigned i = 0; i < p->r->n_faults; i++) {
        put(p, "%s", marked(p, true, true));
        put_wrapped(p, "FAULT: ", p->r->faults[i].text);
        put(p, "%s", marked(p, true, false));
    }
    if (p->r->n_faults == 0)
        put(p, "all is well\n");
}

int check_table(const struct check_report *r, const struct check_style *style, struct cc_buf *to)
{
    struct page p = { .r = r, .style = style, .to = to };
    int         x;

    put(&p, "ccrun-check %s: %d rank%s", CCRUN_VERSION, r->n_ranks, r->n_ranks == 1 ? "" : "s");
    if (!r->is_by_rank)
        put(&p, " on %d nodes", r->n_nodes);
    if (r->backend[0])
        put(&p, ", %s, float, median of %u after %u", r->backend, r->options->iters, r->options->warmup);
    put(&p, "\n");
    x = put_pairs(&p);
    put_rows(&p);
    put_facts(&p);
    put_where(&p);
    put_conclusions(&p);
    return x < 0 ? x : p.error;
}
