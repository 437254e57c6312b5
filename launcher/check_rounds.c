/* check_rounds.c - pairs of nodes, alone with each other: a tournament. */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/check_measure.h"
#include "launcher/check_run.h"
#include "launcher/check_words.h"
#include "store/base/cleanup.h"

enum {
    ITERS = 10,
    WARMUP = 1,
    PAIR_TIMEOUT_MS = 20000, /* of a pair that cannot communicate all the others wait for the end */
    POST_MAX = 600,
    TRIES = 3, /* with so many partners, each in vain, a node has shown what it is */
    BLAMES_MAX = 64,
    AGAIN_MAX = 32, /* rounds that are played once more: with so many partners a node was not slow by chance */
};

struct rounds {
    struct check_run *c;
    unsigned          n, n_rounds;
    uint64_t          timeout_ms;
    bool             *is_out; /* nodes that are not tried any more */
    char            **posts;  /* rank 0 */

    unsigned n_played;
    bool    *is_asked; /* the second time: nodes whose pair is to be measured again in this round; NULL: the first */
};

/* The rank on that node which has our number there; -1: there is none. */
static int rank_at(const struct check_run *c, int node, int local)
{
    for (int i = 0; i < c->board.size; i++)
        if (c->place[i] == node && c->local[i] == local)
            return i;
    return -1;
}

/* -1: this rank rests in this round. */
static int partner_rank(const struct rounds *t, unsigned round)
{
    const struct check_run *c = t->c;
    int                     own = c->place[c->board.rank];
    int                     node = check_pairs_partner(t->n, round, (unsigned) own);

    if (node < 0 || t->is_out[own] || t->is_out[node] || (t->is_asked && !t->is_asked[own]))
        return -1;
    return rank_at(c, node, c->local[c->board.rank]);
}

static int measure_with(const struct rounds *t, int partner, struct measured *ret, struct cc_err *err)
{
    const struct check_run *c = t->c;
    struct ccrun_pg        *pg;
    struct measure          m;
    int                     r = check_open_pair(c, partner, t->timeout_ms, &pg, err);

    if (r < 0)
        return r;
    r = measure_open(&m, pg, c->options->pair_bytes, ITERS, WARMUP, err);
    if (r == 0) {
        r = measure_pair(&m, c->options->pair_bytes, ret, err);
        measure_close(&m);
    }
    check_close_group(c, pg);
    return r;
}

/* "-": it rested; "NS WRONG"; or a failure. */
static void play(const struct rounds *t, unsigned round, char *post, size_t size)
{
    int             partner = partner_rank(t, round);
    struct measured got;
    struct cc_err   err = { 0 };

    if (partner < 0)
        (void) snprintf(post, size, "-");
    else if (measure_with(t, partner, &got, &err) < 0)
        check_put_failure(&err, post, size);
    else
        (void) snprintf(post, size, "%" PRIu64 " %" PRIu64, got.ns, got.n_wrong);
}

/* ---- rank 0 */

static double *cell_of(const struct rounds *t, int from, int to)
{
    return &t->c->report->cells[(size_t) from * t->n + (size_t) to];
}

/* Ranks of two nodes work side by side: together they are as fast as the slowest of them, times their number. */
static void note(struct rounds *t, int rank, int node, const char *post)
{
    const struct check_run *c = t->c;
    int                     own = c->place[rank];
    int                     theirs = c->report->nodes[node].n_local, links = c->report->nodes[own].n_local;
    double                 *cell = cell_of(t, own, node), gbs;
    uint64_t                ns, n_wrong;
    const char             *why;
    char                    a[CHECK_HOST_MAX + 32], b[CHECK_HOST_MAX + 32];
    int                     code;

    if (check_get_failure(post, &code, &why)) {
        *cell = CHECK_BROKEN;
        c->report->is_usage = c->report->is_usage || code == -EINVAL;
        /* it was not the network */
        if (code == -EINVAL || code == -ENOENT || code == -ENODEV || code == -ENOTSUP || code == -ENOMEM)
            check_fault(c->report, CHECK_FAULT_FAILED, own, "%s: %s", check_node_name(c->report, own, a), why);
        else
            check_warn(c->report, "%s with %s: %s", check_node_name(c->report, own, a), check_node_name(c->report, node, b),
                       why);
    } else if (check_words_measured(post, &ns, &n_wrong)) {
        gbs = (links < theirs ? links : theirs) * check_algbw(c->options->pair_bytes, ns);
        if (*cell == CHECK_UNTRIED || gbs < *cell)
            *cell = gbs;
        if (n_wrong > 0)
            check_fault(c->report, CHECK_FAULT_WRONG, -1, "%llu elements from %s arrived wrong at %s",
                        (unsigned long long) n_wrong, check_node_name(c->report, node, a), check_node_name(c->report, own, b));
    } else if (strcmp(post, "-") != 0) {
        check_fault(c->report, CHECK_FAULT_FAILED, own, "what rank %d on %s has measured cannot be read", rank,
                    check_node_name(c->report, own, a));
    }
}

static bool has_shown_enough(const struct rounds *t, int node)
{
    unsigned n_broken = 0;

    for (unsigned i = 0; i < t->n; i++) {
        double there = *cell_of(t, node, (int) i), back = *cell_of(t, (int) i, node);

        if (there > 0 || back > 0)
            return false;
        n_broken += there == CHECK_BROKEN || back == CHECK_BROKEN;
    }
    return n_broken >= TRIES;
}

/* "go" or "stop", and the nodes that are out. */
static int conclude(struct rounds *t, const char *what, bool *ret_is_over, struct cc_err *err)
{
    struct check_run *c = t->c;
    struct cc_buf     text = { .p = NULL };
    char              item[16];
    bool              is_over = c->board.n_silent > 0;
    int               r;

    for (unsigned i = 0; i < c->report->n_faults; i++)
        is_over = is_over || c->report->faults[i].kind == CHECK_FAULT_FAILED;
    *ret_is_over = is_over;
    r = is_over ? cc_buf_add(&text, "stop", 4) : cc_buf_add(&text, "go", 2);
    for (unsigned i = 0; r == 0 && i < t->n; i++) {
        t->is_out[i] = t->is_out[i] || has_shown_enough(t, (int) i);
        if (!t->is_out[i])
            continue;
        (void) snprintf(item, sizeof item, " %u", i);
        r = cc_buf_add(&text, item, strlen(item));
    }
    if (r == 0)
        r = cc_buf_add(&text, "", 1);
    if (r < 0)
        (void) cc_fail(err, r, "no memory for %u nodes", t->n);
    else
        r = board_announce(&c->board, what, (const char *) cc_buf_data(&text), err);
    cc_buf_free(&text);
    return r;
}

static int collect(struct rounds *t, unsigned round, const char *what, struct cc_err *err)
{
    struct check_run *c = t->c;
    int r = board_collect(&c->board, what, c->options->timeout_ms + 2 * t->timeout_ms, t->posts, err);

    if (r < 0)
        return r;
    assert(t->posts); /* rank 0 has them */
    check_note_silent(c, t->posts, "in a round of pairs");
    for (int i = 0; i < c->board.size; i++) {
        int node = check_pairs_partner(t->n, round, (unsigned) c->place[i]);

        if (t->posts[i] && node >= 0)
            note(t, i, node, t->posts[i]);
    }
    board_texts_free(&c->board, t->posts);
    return 0;
}

/* ---- all */

/* 1: stop. */
static int take_out(struct rounds *t, const char *text, struct cc_err *err)
{
    const char *at = text;
    int         is_over = check_words_next(&at);
    uint64_t    node;

    while (is_over >= 0 && *at)
        if (*at++ == ' ' && check_words_number(&at, t->n - 1, &node))
            t->is_out[node] = true;
        else
            is_over = -1;
    return is_over < 0 ? check_words_refuse("what rank 0 announced after a round of pairs", text, err) : is_over;
}

/* 1: it was the last one. */
static int play_round(struct rounds *t, unsigned round, struct cc_err *err)
{
    struct check_run  *c = t->c;
    CC_AUTO_FREE char *next = NULL;
    char               post[POST_MAX], what[32];
    bool               is_over = false;
    int                r;

    play(t, round, post, sizeof post);
    (void) snprintf(what, sizeof what, "pair/%u", t->n_played);
    r = board_post(&c->board, what, post, err);
    if (r < 0)
        return r;
    if (c->board.rank == 0) {
        r = collect(t, round, what, err);
        (void) snprintf(what, sizeof what, "next/%u", t->n_played++);
        c->report->n_rounds = t->n_played;
        if (r == 0)
            r = conclude(t, what, &is_over, err);
        return r < 0 ? r : is_over;
    }
    (void) snprintf(what, sizeof what, "next/%u", t->n_played++);
    r = board_hear(&c->board, what, 2 * c->options->timeout_ms + 4 * t->timeout_ms + CHECK_GRACE_MS, &next, err);
    return r < 0 ? r : take_out(t, next, err);
}

/* ---- once more: who is suspected is accused only when the same is seen a second time */

static bool is_suspect(const struct rounds *t, const struct check_blame *blames, int n, unsigned a, unsigned b)
{
    if (*cell_of(t, (int) a, (int) b) == CHECK_UNTRIED && *cell_of(t, (int) b, (int) a) == CHECK_UNTRIED)
        return false;
    for (int i = 0; i < n; i++) {
        const struct check_blame *it = &blames[i];

        if (it->kind == CHECK_BROKEN_UNIT || it->kind == CHECK_SLOW_UNIT) {
            if (it->a == a || it->a == b)
                return true;
        } else if ((it->a == a && it->b == b) || (it->a == b && it->b == a)) {
            return true;
        }
    }
    return false;
}

/* "ROUND.NODE ..." of the pairs that are to be played again, one node of each. */
static int list_suspects(const struct rounds *t, struct cc_buf *to, struct cc_err *err)
{
    struct check_blame blames[BLAMES_MAX];
    unsigned           n_rounds = 0;
    int n = check_pairs_blame(t->c->report->cells, t->n, t->c->options->slow, blames, BLAMES_MAX), r = n < 0 ? n : 0;

    for (unsigned round = 0; r == 0 && n > 0 && round < t->n_rounds && n_rounds < AGAIN_MAX; round++) {
        bool has = false;

        for (unsigned a = 0; r == 0 && a < t->n; a++) {
            int  b = check_pairs_partner(t->n, round, a);
            char item[32];

            if (b <= (int) a || !is_suspect(t, blames, n, a, (unsigned) b))
                continue;
            has = true;
            (void) snprintf(item, sizeof item, "%u.%u ", round, a);
            r = cc_buf_add(to, item, strlen(item));
        }
        n_rounds += has;
    }
    if (r == 0)
        r = cc_buf_add(to, "", 1);
    return r < 0 ? cc_fail(err, r, "no memory for %u nodes", t->n) : 0;
}

/* All ranks get the list, for free(). */
static int agree_on_suspects(struct rounds *t, char **ret, struct cc_err *err)
{
    struct check_run *c = t->c;
    struct cc_buf     text = { .p = NULL };
    int               r;

    if (!c->report)
        return board_hear(&c->board, "again", 2 * c->options->timeout_ms + CHECK_GRACE_MS, ret, err);
    r = list_suspects(t, &text, err);
    if (r == 0)
        r = board_announce(&c->board, "again", (const char *) cc_buf_data(&text), err);
    if (r == 0 && !(*ret = strdup((const char *) cc_buf_data(&text))))
        r = cc_fail(err, -ENOMEM, "no memory for %u nodes", t->n);
    cc_buf_free(&text);
    return r;
}

static void warn_of_one_failure(struct check_report *r, int a, int b)
{
    char from[CHECK_HOST_MAX + 32], to[CHECK_HOST_MAX + 32];

    check_warn(r, "%s with %s: the second time it worked", check_node_name(r, a, from), check_node_name(r, b, to));
}

/* Of a pair the better of both times counts. */
static int play_again(struct rounds *t, unsigned round, struct cc_err *err)
{
    struct check_report *report = t->c->report;
    size_t               n_cells = (size_t) t->n * t->n;
    CC_AUTO_FREE double *before = report ? malloc(n_cells * sizeof *before) : NULL;
    int                  r;

    if (report && !before)
        return cc_fail(err, -ENOMEM, "no memory for pairs of %u nodes", t->n);
    for (unsigned a = 0; report && a < t->n; a++) {
        memcpy(before + (size_t) a * t->n, report->cells + (size_t) a * t->n, t->n * sizeof *before);
        for (unsigned b = 0; t->is_asked[a] && b < t->n; b++)
            if (check_pairs_partner(t->n, round, a) == (int) b && !t->is_out[a] && !t->is_out[b])
                *cell_of(t, (int) a, (int) b) = CHECK_UNTRIED;
    }
    r = play_round(t, round, err);
    for (size_t i = 0; report && i < n_cells; i++) {
        if (report->cells[i] < before[i])
            report->cells[i] = before[i];
        else if (before[i] == CHECK_BROKEN && report->cells[i] > 0)
            warn_of_one_failure(report, (int) (i / t->n), (int) (i % t->n));
    }
    return r;
}

/* The rounds of the list, one after the other.  Who could not be reached by anybody is tried again, too. */
static int play_suspects(struct rounds *t, struct cc_err *err)
{
    CC_AUTO_FREE char *list = NULL;
    CC_AUTO_FREE bool *is_asked = calloc(t->n, sizeof *is_asked);
    unsigned           round, next, node;
    int                r;

    if (!is_asked)
        return cc_fail(err, -ENOMEM, "no memory for %u nodes", t->n);
    r = agree_on_suspects(t, &list, err);
    memset(t->is_out, 0, t->n * sizeof *t->is_out);
    t->is_asked = is_asked;
    for (const char *at = list; r == 0 && *at;) {
        const char *behind;
        int         other;

        if (!check_words_pair(&at, t->n, &round, &node))
            return check_words_refuse("what rank 0 announced of pairs to measure again", list, err);
        other = check_pairs_partner(t->n, round, node);
        if (other >= 0)
            is_asked[node] = is_asked[other] = true;
        behind = at;
        if (check_words_pair(&behind, t->n, &next, &node) && next == round)
            continue;
        r = play_again(t, round, err);
        memset(is_asked, 0, t->n * sizeof *is_asked);
    }
    t->is_asked = NULL;
    return r;
}

static int make_tables(struct rounds *t, struct cc_err *err)
{
    struct check_report *r = t->c->report;
    size_t               n = t->n;

    t->is_out = calloc(n, sizeof *t->is_out);
    if (r) {
        t->posts = calloc((size_t) t->c->board.size, sizeof *t->posts);
        r->cells = malloc(n * n * sizeof *r->cells);
        for (size_t i = 0; r->cells && i < n * n; i++)
            r->cells[i] = CHECK_UNTRIED;
    }
    if (!t->is_out || (r && (!t->posts || !r->cells)))
        return cc_fail(err, -ENOMEM, "no memory for pairs of %zu nodes", n);
    return 0;
}

int check_pairs(struct check_run *c, struct cc_err *err)
{
    const struct check_options *o = c->options;
    struct rounds               t = { .c = c, .n = (unsigned) c->n_nodes };
    int                         r;

    t.n_rounds = check_pairs_rounds(t.n);
    if (o->pair_rounds > 0 && o->pair_rounds < t.n_rounds)
        t.n_rounds = o->pair_rounds;
    t.timeout_ms = o->timeout_ms < PAIR_TIMEOUT_MS ? o->timeout_ms : PAIR_TIMEOUT_MS;
    r = make_tables(&t, err);
    for (unsigned i = 0; r == 0 && i < t.n_rounds; i++)
        r = play_round(&t, i, err);
    if (r == 0)
        r = play_suspects(&t, err);
    free(t.is_out);
    free(t.posts);
    return r;
}
