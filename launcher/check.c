#include "launcher/check.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/base/cleanup.h"

enum { BLAMES_MAX = 64, DIFFERENCES_MAX = 64, NAME_MAX_ = CHECK_HOST_MAX + 32 };

void check_fault(struct check_report *r, enum check_fault_kind kind, int node, const char *fmt, ...)
{
    struct check_fault *f = r->n_faults < CHECK_FAULTS_MAX ? &r->faults[r->n_faults] : NULL;
    va_list             ap;

    if (!f)
        return; /* the first ones say what is wrong */
    f->kind = kind;
    f->node = node;
    va_start(ap, fmt);
    (void) vsnprintf(f->text, sizeof f->text, fmt, ap);
    va_end(ap);
    for (unsigned i = 0; i < r->n_faults; i++)
        if (strcmp(r->faults[i].text, f->text) == 0)
            return; /* many ranks say the same */
    r->n_faults++;
}

void check_warn(struct check_report *r, const char *fmt, ...)
{
    va_list ap;

    if (r->n_warnings == CHECK_WARNINGS_MAX) {
        r->n_more_warnings++;
        return;
    }
    va_start(ap, fmt);
    (void) vsnprintf(r->warnings[r->n_warnings], CHECK_TEXT_MAX, fmt, ap);
    va_end(ap);
    for (unsigned i = 0; i < r->n_warnings; i++)
        if (strcmp(r->warnings[i], r->warnings[r->n_warnings]) == 0)
            return; /* the second time it was the same */
    r->n_warnings++;
}

const char *check_fault_name(enum check_fault_kind kind)
{
    static const char *const names[] = { "silent",      "failed",    "wrong-result", "broken-node",
                                         "broken-link", "slow-node", "slow-link",    "threshold" };

    return names[kind];
}

const char *check_node_name(const struct check_report *r, int node, char buf[CHECK_HOST_MAX + 32])
{
    if (r->is_by_rank)
        (void) snprintf(buf, NAME_MAX_, "rank %d", node);
    else
        (void) snprintf(buf, NAME_MAX_, "node %d (%s)", node, r->nodes[node].host);
    return buf;
}

/* ---- pairs */

static void tell_blame(struct check_report *r, const struct check_blame *b)
{
    char a[NAME_MAX_], other[NAME_MAX_];

    (void) check_node_name(r, (int) b->a, a);
    switch (b->kind) {
    case CHECK_BROKEN_UNIT:
        check_fault(r, CHECK_FAULT_BROKEN_NODE, (int) b->a, "%s is broken: it failed with %u of %u partners", a, b->count,
                    b->tried);
        break;
    case CHECK_BROKEN_WAY:
        check_fault(r, CHECK_FAULT_BROKEN_LINK, -1, "%s and %s cannot communicate with each other", a,
                    check_node_name(r, (int) b->b, other));
        break;
    case CHECK_SLOW_UNIT:
        check_fault(r, CHECK_FAULT_SLOW_NODE, (int) b->a,
                    "%s is slow: %.3g GB/s with its best partners, below %g of the %.3g GB/s that is usual", a, b->value,
                    r->options->slow, b->reference);
        break;
    case CHECK_SLOW_WAY:
        check_fault(r, CHECK_FAULT_SLOW_LINK, -1, "the way from %s to %s%s is slow: %.3g GB/s, below %g of %s %.3g GB/s", a,
                    check_node_name(r, (int) b->b, other), b->is_both ? " and back" : "", b->value, r->options->slow,
                    r->n_nodes == 2 ? "half of the way back," : "half of what both can do,", b->reference);
        break;
    }
}

static int judge_pairs(struct check_report *r, struct cc_err *err)
{
    struct check_blame   blames[BLAMES_MAX];
    unsigned             n_nodes = (unsigned) r->n_nodes;
    CC_AUTO_FREE double *scratch = calloc(n_nodes, sizeof *scratch);
    int n = scratch ? check_pairs_blame(r->cells, n_nodes, r->options->slow, blames, BLAMES_MAX) : -ENOMEM;

    if (n < 0)
        return cc_fail(err, n, "no memory for %u nodes", n_nodes);
    for (int i = 0; i < n; i++)
        tell_blame(r, &blames[i]);
    for (unsigned u = 0; u < n_nodes; u++)
        check_pairs_able(r->cells, n_nodes, u, scratch, &r->nodes[u].out, &r->nodes[u].in);
    return 0;
}

/* ---- operations */

static bool is_largest(const struct check_report *r, unsigned row)
{
    return row + 1 == r->n_rows || r->rows[row + 1].op != r->rows[row].op;
}

static void judge_rows(struct check_report *r)
{
    double min = r->options->min_busbw;

    for (unsigned i = 0; i < r->n_rows; i++) {
        struct check_row *w = &r->rows[i];
        double            busbw = check_busbw(w->op, (unsigned) r->n_ranks, w->bytes, w->ns);

        if (w->n_wrong > 0)
            check_fault(r, CHECK_FAULT_WRONG, -1, "%s of %llu bytes: %llu elements arrived wrong", check_op_name(w->op),
                        (unsigned long long) w->bytes, (unsigned long long) w->n_wrong);
        w->is_missed = min > 0 && is_largest(r, i) && busbw < min;
        if (w->is_missed)
            check_fault(r, CHECK_FAULT_THRESHOLD, -1, "%s of %llu bytes: bus bandwidth %.3g GB/s, below --min-busbw %g",
                        check_op_name(w->op), (unsigned long long) w->bytes, busbw, min);
    }
}

/* ---- nodes */

static void judge_clocks(struct check_report *r)
{
    double limit = (double) r->options->max_skew_ms;

    for (int i = 0; i < r->n_nodes; i++) {
        const struct check_node *n = &r->nodes[i];
        double                   off = n->skew_ms < 0 ? -n->skew_ms : n->skew_ms;
        char                     name[NAME_MAX_];

        if (n->has_skew && off - n->skew_error_ms > limit)
            check_warn(r, "the clock of %s is %.3g s %s that of node 0, give or take %.2g ms", check_node_name(r, i, name),
                       off / 1000, n->skew_ms < 0 ? "behind" : "ahead of", n->skew_error_ms);
    }
}

static int judge_facts(struct check_report *r, struct cc_err *err)
{
    struct nodefacts_difference          d[DIFFERENCES_MAX];
    CC_AUTO_FREE const struct nodefacts **all = calloc((size_t) r->n_nodes, sizeof *all);
    unsigned                             n;

    if (!all)
        return cc_fail(err, -ENOMEM, "no memory for %d nodes", r->n_nodes);
    for (int i = 0; i < r->n_nodes; i++)
        all[i] = r->nodes[i].is_known ? &r->nodes[i].facts : NULL;
    n = nodefacts_compare(all, (unsigned) r->n_nodes, d, DIFFERENCES_MAX);
    for (unsigned i = 0; i < n; i++) {
        char name[NAME_MAX_];

        (void) check_node_name(r, (int) d[i].node, name);
        check_warn(r, "%s: %s is %s, on %u of %u nodes %s", name, d[i].name, d[i].value, d[i].n_same, d[i].n, d[i].usual);
    }
    return 0;
}

int check_judge(struct check_report *r, struct cc_err *err)
{
    bool has_failed = r->n_faults > 0 && r->faults[0].kind == CHECK_FAULT_FAILED; /* that is why pairs failed */
    int  x = r->cells && !has_failed ? judge_pairs(r, err) : 0;

    judge_rows(r);
    if (x == 0 && !r->is_by_rank) {
        judge_clocks(r);
        x = judge_facts(r, err);
    }
    return x;
}

void check_report_clear(struct check_report *r)
{
    free(r->nodes);
    free(r->node_of);
    free(r->rows);
    free(r->cells);
    r->nodes = NULL;
    r->node_of = NULL;
    r->rows = NULL;
    r->cells = NULL;
}
