#include "launcher/check_run.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/check_measure.h"
#include "launcher/check_words.h"
#include "store/base/cleanup.h"
#include "store/base/macros.h"

enum { LINE_MAX_ = 64, WHY_MAX = 600, ERRNO_MAX = 4095 };

/* ---- what all steps need */

static int open_group(const struct check_run *c, const struct ccrun_init *as, struct ccrun_pg **ret, struct cc_err *err)
{
    struct ccrun_init init = *as;
    int               r;

    init.backend = c->options->backend;
    init.interface = c->options->interface;
    r = ccrun_init_process_group(ret, &init);
    return r < 0 ? cc_fail(err, r, "%s", ccrun_error()) : 0;
}

int check_open_all(struct check_run *c, struct ccrun_pg **ret, struct cc_err *err)
{
    const struct ccrun_init as = {
        .rank = c->board.rank,
        .world_size = c->board.size,
        .timeout_ms = c->options->timeout_ms,
        .group = "check",
    };

    *ret = c->world;
    return c->world ? 0 : open_group(c, &as, ret, err);
}

int check_open_pair(const struct check_run *c, int other, uint64_t timeout_ms, struct ccrun_pg **ret, struct cc_err *err)
{
    int               own = c->board.rank, low = own < other ? own : other, both[2] = { own, other }, r;
    char              name[48];
    struct ccrun_init as = { .rank = own != low, .world_size = 2, .timeout_ms = timeout_ms, .group = name };

    (void) snprintf(name, sizeof name, "pair-%d-%d", low, own == low ? other : own);
    if (!c->world)
        return open_group(c, &as, ret, err);
    r = ccrun_new_group(ret, c->world, both, 2);
    return r < 0 ? cc_fail(err, r, "%s", ccrun_error()) : 0;
}

void check_close_group(const struct check_run *c, struct ccrun_pg *pg)
{
    if (pg != c->world)
        (void) ccrun_destroy_process_group(pg);
}

void check_put_failure(const struct cc_err *err, char *buf, size_t size)
{
    (void) snprintf(buf, size, "!%d %s", err->code, err->msg);
    for (char *c = buf; *c; c++)
        if (*c == '\n')
            *c = ' ';
}

bool check_get_failure(const char *post, int *ret_code, const char **ret_sentence)
{
    const char *at = post + 2;
    uint64_t    code = EPROTO; /* of who does not say */

    if (post[0] != '!')
        return false;
    if (post[1] != '-' || !check_words_number(&at, ERRNO_MAX, &code))
        at = post + 1;
    *ret_code = -(int) code;
    *ret_sentence = *at == ' ' ? at + 1 : at;
    return true;
}

void check_note_silent(struct check_run *c, char *const *posts, const char *during)
{
    char name[CHECK_HOST_MAX + 32];

    for (int i = 0; i < c->board.size; i++) {
        int node = c->place[i];

        if (posts[i] || !c->board.is_silent[i])
            continue;
        if (node >= 0 && !c->is_by_rank)
            check_fault(c->report, CHECK_FAULT_SILENT, node, "rank %d on %s was not heard for %.3g s %s", i,
                        check_node_name(c->report, node, name), (double) c->options->timeout_ms / 1000, during);
        else
            check_fault(c->report, CHECK_FAULT_SILENT, -1, "rank %d was not heard for %.3g s %s", i,
                        (double) c->options->timeout_ms / 1000, during);
    }
}

/* ---- operations: every rank measures, posts a line for each, and rank 0 puts them together */

struct lines {
    struct cc_buf text;
    int           r; /* -ENOMEM */
};

static void add_line(struct lines *l, const struct measured *m)
{
    char line[LINE_MAX_];
    int  n = snprintf(line, sizeof line, "%" PRIu64 " %" PRIu64 "\n", m->ns, m->n_wrong);

    if (l->r == 0)
        l->r = cc_buf_add(&l->text, line, (size_t) n);
}

static int measure_all(const struct check_options *o, struct measure *m, struct lines *l, struct cc_err *err)
{
    int r = 0;

    for (enum check_op op = 0; r == 0 && op < CHECK_N_OPS; op++)
        for (unsigned i = 0; r == 0 && o->is_wanted[op] && i < o->sizes.n; i++) {
            struct measured got;

            if (op == CHECK_SENDRECV && m->size == 1)
                continue;
            r = measure_op(m, op, o->sizes.bytes[i], &got, err);
            if (r < 0)
                return cc_wrap(err, "%s of %llu bytes", check_op_name(op), (unsigned long long) o->sizes.bytes[i]);
            add_line(l, &got);
        }
    return r;
}

/* What rank 0 is told of its own part. */
struct means {
    char backend[16], where[CHECK_TEXT_MAX];
};

static int measure_group(struct check_run *c, struct lines *l, struct means *ret, struct cc_err *err)
{
    const struct check_options *o = c->options;
    struct ccrun_pg            *pg;
    struct measure              m;
    int                         r = check_open_all(c, &pg, err);

    if (r < 0)
        return r;
    (void) snprintf(ret->backend, sizeof ret->backend, "%s", ccrun_backend(pg));
    r = measure_open(&m, pg, o->sizes.bytes[o->sizes.n - 1], o->iters, o->warmup, err);
    if (r == 0) {
        (void) snprintf(ret->where, sizeof ret->where, "%s", measure_where(&m));
        r = measure_all(o, &m, l, err);
        measure_close(&m);
    }
    check_close_group(c, pg);
    return r;
}

static struct check_row *row_at(struct check_report *r, unsigned i)
{
    return i < r->max_rows ? &r->rows[i] : NULL;
}

/* The slowest rank's time counts. */
static void merge(struct check_run *c, int rank, const char *post)
{
    struct check_report *r = c->report;
    unsigned             i = 0;
    const char          *at = post, *why;
    char                 name[CHECK_HOST_MAX + 32];
    int                  code;

    for (; *at && *at != '!'; at += strcspn(at, "\n"), at += *at == '\n', i++) {
        struct check_row *row = row_at(r, i);
        uint64_t          ns, n_wrong;

        if (!row || !check_words_measured(at, &ns, &n_wrong)) {
            check_fault(r, CHECK_FAULT_FAILED, -1, "what rank %d has measured cannot be read", rank);
            break;
        }
        row->ns = ns > row->ns ? ns : row->ns;
        row->n_wrong += n_wrong;
    }
    if (i < r->n_rows)
        r->n_rows = i; /* what not all have measured is no result */
    if (!check_get_failure(at, &code, &why))
        return;
    r->is_usage = r->is_usage || code == -EINVAL;
    check_fault(r, CHECK_FAULT_FAILED, -1, "rank %d%s%s: %s", rank, c->is_by_rank ? "" : " on ",
                c->is_by_rank ? "" : check_node_name(r, c->place[rank], name), why);
}

static int make_rows(struct check_run *c, struct cc_err *err)
{
    const struct check_options *o = c->options;
    struct check_report        *r = c->report;

    r->rows = calloc((size_t) CHECK_N_OPS * o->sizes.n, sizeof *r->rows);
    if (!r->rows)
        return cc_fail(err, -ENOMEM, "no memory for results");
    for (enum check_op op = 0; op < CHECK_N_OPS; op++)
        for (unsigned i = 0; o->is_wanted[op] && i < o->sizes.n; i++) {
            size_t count = check_op_count(op, o->sizes.bytes[i], (unsigned) c->board.size);

            if (op == CHECK_SENDRECV && c->board.size == 1)
                continue;
            r->rows[r->max_rows].op = op;
            r->rows[r->max_rows++].bytes = check_op_bytes(op, count, (unsigned) c->board.size);
        }
    r->n_rows = r->max_rows;
    return 0;
}

static int collect_rows(struct check_run *c, struct cc_err *err)
{
    CC_AUTO_FREE char **posts = calloc((size_t) c->board.size, sizeof *posts);
    int                 r;

    if (!posts)
        return cc_fail(err, -ENOMEM, "no memory for %d ranks", c->board.size);
    r = make_rows(c, err);
    /* Ours are done, so those of the others are as good as done; or they wait for one that is gone, as we did. */
    if (r == 0)
        r = board_collect(&c->board, "rows", c->options->timeout_ms + CHECK_GRACE_MS, posts, err);
    if (r < 0)
        return r;
    check_note_silent(c, posts, "during the operations");
    for (int i = 0; i < c->board.size; i++)
        if (posts[i])
            merge(c, i, posts[i]);
        else
            c->report->n_rows = 0;
    board_texts_free(&c->board, posts);
    return 0;
}

static int check_ops(struct check_run *c, struct cc_err *err)
{
    struct lines  l = { .r = 0 };
    struct cc_err why = { 0 };
    struct means  means = { .backend = "" };
    char          failure[WHY_MAX] = "";
    int           r = measure_group(c, &l, &means, &why);

    if (r < 0)
        check_put_failure(&why, failure, sizeof failure);
    r = l.r == 0 ? cc_buf_add(&l.text, failure, strlen(failure) + 1) : l.r;
    if (r < 0)
        (void) cc_fail(err, r, "no memory for results");
    else
        r = board_post(&c->board, "rows", (const char *) cc_buf_data(&l.text), err);
    cc_buf_free(&l.text);
    if (r < 0 || !c->report)
        return r;
    memcpy(c->report->backend, means.backend, sizeof means.backend);
    memcpy(c->report->where, means.where, sizeof means.where);
    return collect_rows(c, err);
}

/* ---- the whole */

static bool is_any_wanted(const struct check_options *o)
{
    for (int op = 0; op < CHECK_N_OPS; op++)
        if (o->is_wanted[op])
            return true;
    return false;
}

/* After the pairs: with a node that cannot be reached no operation of all would end. */
static int may_go_on(struct check_run *c, struct cc_err *err)
{
    CC_AUTO_FREE char *text = NULL;
    int                r;

    if (c->report) {
        bool is_whole = true;

        for (size_t i = 0; i < (size_t) c->n_nodes * (size_t) c->n_nodes; i++)
            is_whole = is_whole && c->report->cells[i] != CHECK_BROKEN;
        r = board_announce(&c->board, "ops", is_whole ? "go" : "stop", err);
        return r < 0 ? r : is_whole ? 0 : 1;
    }
    r = board_hear(&c->board, "ops", 2 * c->options->timeout_ms + CHECK_GRACE_MS, &text, err);
    return r < 0 ? r : strcmp(text, "go") == 0 ? 0 : 1;
}

int check_run(struct check_run *c, struct cc_err *err)
{
    size_t size = (size_t) c->board.size;
    int    r;

    c->place = calloc(size, sizeof *c->place);
    c->local = calloc(size, sizeof *c->local);
    if (!c->place || !c->local)
        return cc_fail(err, -ENOMEM, "no memory for %zu ranks", size);
    r = check_meet(c, err);
    if (r == 0)
        r = check_clocks(c, err);
    if (r == 0 && strcmp(c->options->backend, "mpi") == 0) {
        struct ccrun_pg *world;

        r = check_open_all(c, &world, err);
        c->world = r == 0 ? world : NULL;
    }
    if (r == 0 && c->options->has_pairs && c->n_nodes > 1 && !(c->options->is_preflight && c->is_by_rank)) {
        r = check_pairs(c, err);
        if (r == 0)
            r = may_go_on(c, err);
    }
    if (r == 0 && is_any_wanted(c->options))
        r = check_ops(c, err);
    return r < 0 ? r : 0;
}

void check_run_clear(struct check_run *c)
{
    (void) ccrun_destroy_process_group(c->world);
    c->world = NULL;
    free(c->place);
    free(c->local);
    c->place = c->local = NULL;
}
