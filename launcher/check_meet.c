/* check_meet.c - who takes part in a check, and what their nodes are like. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launcher/check_run.h"
#include "launcher/check_words.h"
#include "store/base/cleanup.h"
#include "store/base/macros.h"

/* Facts that say who somebody is, not what the node is like. */
static const char host_key[] = ".host", node_key[] = ".node", needed_key[] = ".needed", passed_key[] = ".passed";

enum { NUMBER_MAX = 24 };

/* Of what is going to be measured; with auto, of what may be. */
static void add_libraries(struct nodefacts *f, const char *backend)
{
    static const char *const names[] = { "nccl", "gloo", "mpi" };
    bool                     is_auto = strcmp(backend, "auto") == 0;
    char                     text[FACT_VALUE_MAX];

    for (size_t i = 0; i < CC_COUNT(names); i++) {
        if (strcmp(backend, names[i]) != 0 && (!is_auto || strcmp(names[i], "mpi") == 0))
            continue;
        if (ccrun_backend_version(names[i], text, sizeof text) == 0)
            nodefacts_set(f, names[i], text);
    }
}

static int say_hello(struct check_run *c, struct cc_err *err)
{
    const struct machine m = { .root = "" };
    const char          *node = getenv("GROUP_RANK");
    struct nodefacts     f = { .n = 0 }, own;
    struct cc_buf        text = { .p = NULL };
    char                 host[CHECK_HOST_MAX] = "";
    int                  r;

    if (gethostname(host, sizeof host - 1) < 0 || !host[0])
        (void) snprintf(host, sizeof host, "localhost");
    nodefacts_set(&f, host_key, host);
    nodefacts_set(&f, node_key, node ? node : host);
    nodefacts_set(&f, passed_key, c->options->passed);
    if (c->options->is_needed)
        nodefacts_set(&f, needed_key, "1");
    nodefacts_read(&own, &m);
    add_libraries(&own, c->options->backend);
    r = nodefacts_write(&f, &text);
    if (r == 0)
        r = nodefacts_write(&own, &text);
    if (r == 0)
        r = cc_buf_add(&text, "", 1);
    r = r < 0 ? cc_fail(err, r, "no memory for what this node is like")
              : board_post(&c->board, "hello", (const char *) cc_buf_data(&text), err);
    cc_buf_free(&text);
    return r;
}

/* ---- rank 0 finds out who is where */

static const char *value_of(const struct nodefacts *f, const char *key)
{
    const char *v = nodefacts_get(f, key);

    return v ? v : "";
}

/* The facts as the others shall see them. */
static void drop_keys(struct nodefacts *f)
{
    unsigned n = 0;

    for (unsigned i = 0; i < f->n; i++)
        if (f->list[i].name[0] != '.')
            f->list[n++] = f->list[i];
    f->n = n;
}

/* Ranks with one name of a node are on one; `names` are those of the nodes so far. */
static int place_of(struct check_report *r, const char **names, const char *name)
{
    int i = r->n_nodes;

    while (i > 0 && strcmp(names[i - 1], name) != 0) /* ranks of a node mostly follow each other */
        i--;
    if (i > 0)
        return i - 1;
    names[r->n_nodes] = name;
    return r->n_nodes++;
}

/* Where a rank is that has said nothing, if ours are the numbers of all nodes; else NULL. */
static const char *likely_node(const struct check_run *c, int rank, char buf[NUMBER_MAX])
{
    const char *nodes = getenv("GROUP_WORLD_SIZE"), *ranks = getenv("LOCAL_WORLD_SIZE");
    long        n_nodes = nodes ? strtol(nodes, NULL, 10) : 0, n_local = ranks ? strtol(ranks, NULL, 10) : 0;

    if (n_nodes <= 0 || n_local <= 0 || n_nodes > c->board.size || n_local > c->board.size || n_nodes * n_local != c->board.size)
        return NULL;
    (void) snprintf(buf, NUMBER_MAX, "%ld", rank / n_local);
    return buf;
}

/* hello[rank] is parsed already; NULL of who was silent. */
static int make_nodes(struct check_run *c, struct nodefacts **hello, struct cc_err *err)
{
    struct check_report      *r = c->report;
    size_t                    size = (size_t) c->board.size;
    CC_AUTO_FREE const char **names = calloc(size, sizeof *names);
    CC_AUTO_FREE char       (*numbers)[NUMBER_MAX] = calloc(size, sizeof *numbers);

    r->nodes = calloc(size, sizeof *r->nodes);
    r->node_of = calloc(size, sizeof *r->node_of);
    if (!names || !numbers || !r->nodes || !r->node_of)
        return cc_fail(err, -ENOMEM, "no memory for %zu ranks", size);
    for (int i = 0; i < c->board.size; i++) {
        const char *name = hello[i] ? value_of(hello[i], node_key) : likely_node(c, i, numbers[i]);

        r->node_of[i] = name ? place_of(r, names, name) : -1;
        c->is_by_rank = c->is_by_rank && r->node_of[i] <= 0;
    }
    r->is_by_rank = c->is_by_rank;
    if (c->is_by_rank)
        r->n_nodes = c->board.size;
    for (int i = 0; i < c->board.size; i++) {
        int                at = c->is_by_rank ? i : r->node_of[i];
        struct check_node *n = at >= 0 ? &r->nodes[at] : NULL;

        c->place[i] = at;
        c->local[i] = n ? n->n_local++ : 0;
        if (!n || c->local[i] > 0)
            continue;
        n->leader = i;
        n->out = n->in = CHECK_UNTRIED;
        (void) snprintf(n->host, sizeof n->host, "?");
        if (!hello[i])
            continue;
        n->is_known = true;
        n->is_needed = nodefacts_get(hello[i], needed_key) != NULL;
        (void) snprintf(n->host, sizeof n->host, "%s", value_of(hello[i], host_key));
        n->facts = *hello[i];
        drop_keys(&n->facts);
    }
    return 0;
}

/* Whoever has passed one and the same check needs no other, though some that passed it may be gone. */
static bool have_all_passed(const struct check_run *c, struct nodefacts *const *hello)
{
    for (int i = 0; i < c->board.size; i++)
        if (!hello[i] || !value_of(hello[i], passed_key)[0] ||
            strcmp(value_of(hello[i], passed_key), value_of(hello[0], passed_key)) != 0)
            return false;
    return true;
}

static int read_hellos(struct check_run *c, struct nodefacts **hello, struct cc_err *err)
{
    CC_AUTO_FREE char **posts = calloc((size_t) c->board.size, sizeof *posts);
    int                 r;

    if (!posts)
        return cc_fail(err, -ENOMEM, "no memory for %d ranks", c->board.size);
    r = board_collect(&c->board, "hello", c->options->timeout_ms, posts, err);
    for (int i = 0; r == 0 && i < c->board.size; i++) {
        if (!posts[i])
            continue;
        hello[i] = malloc(sizeof *hello[i]);
        if (!hello[i])
            r = cc_fail(err, -ENOMEM, "no memory for %d ranks", c->board.size);
        else
            nodefacts_parse(hello[i], posts[i]);
    }
    if (r == 0) {
        r = make_nodes(c, hello, err);
        check_note_silent(c, posts, "at the start");
    }
    board_texts_free(&c->board, posts);
    return r;
}

/* "go" or "stop" or "passed", and where each rank is: see check_words.h. */
static int announce_plan(struct check_run *c, const char *word, struct cc_err *err)
{
    struct cc_buf text = { .p = NULL };
    char          item[64];
    int           n = snprintf(item, sizeof item, "%s %d %d", word, c->report->n_nodes, c->is_by_rank);
    int           r = cc_buf_add(&text, item, (size_t) n);

    for (int i = 0; r == 0 && i < c->board.size; i++) {
        n = snprintf(item, sizeof item, " %d.%d", c->place[i], c->local[i]);
        r = cc_buf_add(&text, item, (size_t) n);
    }
    if (r == 0)
        r = cc_buf_add(&text, "", 1);
    r = r < 0 ? cc_fail(err, r, "no memory for a plan of %d ranks", c->board.size)
              : board_announce(&c->board, "plan", (const char *) cc_buf_data(&text), err);
    cc_buf_free(&text);
    return r;
}

static int make_plan(struct check_run *c, struct cc_err *err)
{
    struct nodefacts **hello = calloc((size_t) c->board.size, sizeof(struct nodefacts *));
    int                r;

    if (!hello)
        return cc_fail(err, -ENOMEM, "no memory for %d ranks", c->board.size);
    r = read_hellos(c, hello, err);
    if (r == 0) {
        c->n_nodes = c->report->n_nodes;
        c->is_passed = have_all_passed(c, hello);
        if (c->is_passed)
            (void) snprintf(c->report->id, sizeof c->report->id, "%s", c->options->passed);
        r = announce_plan(c, c->board.n_silent > 0 ? "stop" : c->is_passed ? "passed" : "go", err);
    }
    for (int i = 0; i < c->board.size; i++)
        free(hello[i]);
    free(hello);
    if (r == 0 && (c->board.n_silent > 0 || c->is_passed))
        return 1;
    return r;
}

static int hear_plan(struct check_run *c, struct cc_err *err)
{
    CC_AUTO_FREE char *text = NULL;
    struct check_plan  plan = { .place = c->place, .local = c->local };
    int                r = board_hear(&c->board, "plan", 2 * c->options->timeout_ms + CHECK_GRACE_MS, &text, err);

    if (r < 0)
        return r;
    c->is_passed = strncmp(text, "passed", 6) == 0;
    if (c->is_passed || strncmp(text, "stop", 4) == 0)
        return 1;
    r = check_words_plan(text, c->board.size, &plan, err);
    if (r < 0)
        return r;
    c->n_nodes = plan.n_nodes;
    c->is_by_rank = plan.is_by_rank;
    return 0;
}

int check_meet(struct check_run *c, struct cc_err *err)
{
    int r = say_hello(c, err);

    c->is_by_rank = true; /* until a second node is seen */
    if (r < 0)
        return r;
    return c->board.rank == 0 ? make_plan(c, err) : hear_plan(c, err);
}

/* ---- clocks: the leader of each node is asked, one after the other */

static int ask_clocks(struct check_run *c, struct cc_err *err)
{
    for (int i = 1; i < c->n_nodes; i++) {
        struct check_node *n = &c->report->nodes[i];
        struct board_skew  skew;
        int                r = board_ask_clock(&c->board, n->leader, &skew, err);

        if (r == -ETIMEDOUT) {
            check_fault(c->report, CHECK_FAULT_SILENT, i, "rank %d on %s did not answer within %.3g s (clocks)", n->leader,
                        n->host, (double) c->options->timeout_ms / 1000);
            break;
        }
        if (r < 0)
            return r;
        n->has_skew = true;
        n->skew_ms = (double) skew.ahead_us / 1000;
        n->skew_error_ms = (double) skew.error_us / 1000;
    }
    return board_announce(&c->board, "clocks", c->board.n_silent > 0 ? "stop" : "go", err);
}

int check_clocks(struct check_run *c, struct cc_err *err)
{
    CC_AUTO_FREE char *text = NULL;
    bool               is_leader = !c->is_by_rank && c->local[c->board.rank] == 0 && c->place[c->board.rank] > 0;
    int                r;

    if (c->is_by_rank)
        return 0; /* there is one clock */
    if (c->board.rank == 0) {
        r = ask_clocks(c, err);
        return r == 0 && c->board.n_silent > 0 ? 1 : r;
    }
    r = is_leader ? board_tell_clock(&c->board, err) : 0;
    if (r == 0)
        r = board_hear(&c->board, "clocks", 2 * c->options->timeout_ms + CHECK_GRACE_MS, &text, err);
    return r == 0 && strcmp(text, "stop") == 0 ? 1 : r;
}
