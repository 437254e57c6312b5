#include "launcher/check_pairs.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "store/base/cleanup.h"

#define SPREAD (3 * 1.4826) /* three standard deviations of what is spread normally, in median absolute deviations */

unsigned check_pairs_rounds(unsigned n)
{
    return n < 2 ? 0 : n - 1 + n % 2;
}

/* The circle method: the last of an even number stays, the others move round it.  An odd one has nobody there: rest. */
int check_pairs_partner(unsigned n, unsigned round, unsigned unit)
{
    unsigned m = check_pairs_rounds(n), other;

    if (n < 2 || unit >= n || round >= m)
        return -1;
    if (unit == m)
        return (int) round;
    other = (unsigned) ((2ul * round + m - unit) % m);
    if (other != unit)
        return (int) other;
    return n % 2 == 0 ? (int) m : -1;
}

/* ---- numbers in order */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *) a, y = *(const double *) b;

    return (x > y) - (x < y);
}

/* Of n > 0 values, sorted by this, the one below which 3 quarters of the others are. */
static double upper_quarter(double *v, unsigned n)
{
    qsort(v, n, sizeof v[0], by_value);
    return v[(3 * (n - 1) + 3) / 4];
}

static double median_up(double *v, unsigned n)
{
    qsort(v, n, sizeof v[0], by_value);
    return v[n / 2];
}

static double median_down(double *v, unsigned n)
{
    qsort(v, n, sizeof v[0], by_value);
    return v[(n - 1) / 2];
}

static double able(const double *first, unsigned n, unsigned step, double *scratch)
{
    unsigned k = 0;

    for (unsigned i = 0; i < n; i++)
        if (first[(size_t) i * step] > 0)
            scratch[k++] = first[(size_t) i * step];
    return k > 0 ? upper_quarter(scratch, k) : CHECK_UNTRIED;
}

void check_pairs_able(const double *cells, unsigned n, unsigned unit, double *scratch, double *ret_out, double *ret_in)
{
    *ret_out = able(cells + (size_t) unit * n, n, 1, scratch);
    *ret_in = able(cells + unit, n, n, scratch);
}

/* ---- the blame */

struct inquiry {
    const double       *cells;
    unsigned            n;
    double              ratio;
    double             *out, *in, *scratch;
    bool               *is_out; /* blamed already, so its pairs are explained */
    struct check_blame *ret;
    unsigned            n_ret, max;
};

static void blame(struct inquiry *q, const struct check_blame *b)
{
    if (q->n_ret < q->max)
        q->ret[q->n_ret++] = *b;
}

static double cell(const struct inquiry *q, unsigned from, unsigned to)
{
    return q->cells[(size_t) from * q->n + to];
}

static bool is_broken(const struct inquiry *q, unsigned a, unsigned b)
{
    return cell(q, a, b) == CHECK_BROKEN || cell(q, b, a) == CHECK_BROKEN;
}

static bool is_tried(const struct inquiry *q, unsigned a, unsigned b)
{
    return cell(q, a, b) != CHECK_UNTRIED || cell(q, b, a) != CHECK_UNTRIED;
}

/* The pairs of a unit with those that are not blamed, and how many of them failed. */
static unsigned count_broken(const struct inquiry *q, unsigned u, unsigned *ret_tried)
{
    unsigned n_broken = 0;

    *ret_tried = 0;
    for (unsigned v = 0; v < q->n; v++) {
        if (v == u || q->is_out[v] || !is_tried(q, u, v))
            continue;
        ++*ret_tried;
        n_broken += is_broken(q, u, v);
    }
    return n_broken;
}

/* Who takes part in most of the failures explains them; then the rest is looked at again. */
static bool blame_broken_unit(struct inquiry *q)
{
    struct check_blame worst = { .kind = CHECK_BROKEN_UNIT };

    for (unsigned u = 0; u < q->n; u++) {
        unsigned tried, broken = q->is_out[u] ? 0 : count_broken(q, u, &tried);

        if (broken > worst.count) {
            worst.a = u;
            worst.count = broken;
            worst.tried = tried;
        }
    }
    if (worst.count < 2 || 2 * worst.count <= worst.tried)
        return false;
    q->is_out[worst.a] = true;
    blame(q, &worst);
    return true;
}

static void blame_broken_ways(struct inquiry *q)
{
    for (unsigned a = 0; a < q->n; a++)
        for (unsigned b = a + 1; b < q->n; b++)
            if (!q->is_out[a] && !q->is_out[b] && is_tried(q, a, b) && is_broken(q, a, b))
                blame(q, &(struct check_blame) { .kind = CHECK_BROKEN_WAY, .a = a, .b = b });
}

static double less(double a, double b)
{
    return a < b ? a : b;
}

enum { FEW = 8 }; /* so many have a usual spread */

/* Median of what all can do, and below what it is not the usual spread. */
static double usual(struct inquiry *q, const double *able_of, double *ret_below)
{
    unsigned k = 0;
    double   median;

    for (unsigned u = 0; u < q->n; u++)
        if (!q->is_out[u] && able_of[u] > 0)
            q->scratch[k++] = able_of[u];
    if (k == 0)
        return 0;
    median = median_up(q->scratch, k);
    for (unsigned i = 0; i < k; i++)
        q->scratch[i] = q->scratch[i] > median ? q->scratch[i] - median : median - q->scratch[i];
    *ret_below = k < FEW ? median : median - SPREAD * median_down(q->scratch, k);
    return median;
}

/* Of two, none can be compared with others. */
static void blame_slow_units(struct inquiry *q)
{
    double    below_out = 0, below_in = 0;
    double    usual_out = q->n > 2 ? usual(q, q->out, &below_out) : 0;
    double    usual_in = q->n > 2 ? usual(q, q->in, &below_in) : 0;

    for (unsigned u = 0; u < q->n; u++) {
        bool is_slow_out = q->out[u] > 0 && q->out[u] < q->ratio * usual_out && q->out[u] < below_out;
        bool is_slow_in = q->in[u] > 0 && q->in[u] < q->ratio * usual_in && q->in[u] < below_in;
        bool is_by_out = is_slow_out && (!is_slow_in || q->out[u] <= q->in[u]);

        if (q->is_out[u] || !(is_slow_out || is_slow_in))
            continue;
        blame(q, &(struct check_blame) { .kind = CHECK_SLOW_UNIT,
                                         .a = u,
                                         .value = is_by_out ? q->out[u] : q->in[u],
                                         .reference = is_by_out ? usual_out : usual_in });
        q->is_out[u] = true;
    }
}

/* A way was measured once, and one hiccup can spoil that: it takes more to blame it.  Of two units, each way can only be
 * compared with the other. */
static double expected(const struct inquiry *q, unsigned from, unsigned to)
{
    return (q->n == 2 ? cell(q, to, from) : less(q->out[from], q->in[to])) / 2;
}

static bool is_slow_way(const struct inquiry *q, unsigned from, unsigned to)
{
    return cell(q, from, to) > 0 && cell(q, from, to) < q->ratio * expected(q, from, to);
}

static void blame_slow_ways(struct inquiry *q)
{
    for (unsigned a = 0; a < q->n; a++)
        for (unsigned b = a + 1; b < q->n; b++) {
            bool is_there = is_slow_way(q, a, b), is_back = is_slow_way(q, b, a);
            bool is_first = is_there && (!is_back || cell(q, a, b) <= cell(q, b, a));
            unsigned from = is_first ? a : b, to = is_first ? b : a;

            if (q->is_out[a] || q->is_out[b] || !(is_there || is_back))
                continue;
            blame(q, &(struct check_blame) { .kind = CHECK_SLOW_WAY,
                                             .a = from,
                                             .b = to,
                                             .value = cell(q, from, to),
                                             .reference = expected(q, from, to),
                                             .is_both = is_there && is_back });
        }
}

int check_pairs_blame(const double *cells, unsigned n, double ratio, struct check_blame *ret, unsigned max)
{
    CC_AUTO_FREE double *numbers = calloc((size_t) n * 3 + 1, sizeof *numbers);
    CC_AUTO_FREE bool   *is_out = calloc((size_t) n + 1, sizeof *is_out);
    struct inquiry       q = { .cells = cells, .n = n, .ratio = ratio, .is_out = is_out, .ret = ret, .max = max };

    if (!numbers || !is_out)
        return -ENOMEM;
    q.out = numbers;
    q.in = numbers + n;
    q.scratch = numbers + 2 * (size_t) n;
    for (unsigned u = 0; u < n; u++)
        check_pairs_able(cells, n, u, q.scratch, &q.out[u], &q.in[u]);
    while (blame_broken_unit(&q))
        ;
    blame_broken_ways(&q);
    blame_slow_units(&q);
    blame_slow_ways(&q);
    return (int) q.n_ret;
}
