/* check_main.c - ccrun-check: is this set of nodes fit for an expensive job?  A program that ccrun starts on each of them. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <unistd.h>

#include "agent/atomicfile.h"
#include "agent/core/exitstatus.h"
#include "launcher/check_json.h"
#include "launcher/check_run.h"
#include "launcher/check_table.h"
#include "launcher/check_words.h"
#include "launcher/stdstreams.h"
#include "store/base/cleanup.h"
#include "store/base/clock.h"
#include "store/base/fdwrite.h"

enum { STATUS_BAD = 1, FAREWELL_MS = 5000, LINE_SIZE = CHECK_TEXT_MAX + 128 };

static int complain(const struct board *b, const char *sentence, int status)
{
    if (b && b->size > 1)
        (void) fprintf(stderr, "ccrun-check: rank %d: %s\n", b->rank, sentence);
    else
        (void) fprintf(stderr, "ccrun-check: %s\n", sentence);
    return status;
}

/* ---- what rank 0 says */

static bool says_utf8(void)
{
    static const char *const names[] = { "LC_ALL", "LC_CTYPE", "LANG" };

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *v = getenv(names[i]);

        if (v && *v)
            return strcasestr(v, "utf-8") || strcasestr(v, "utf8");
    }
    return false;
}

static int print_table(const struct check_report *r)
{
    const char              *term = getenv("TERM");
    const struct check_style style = {
        .is_utf8 = says_utf8(),
        .is_colour = isatty(STDOUT_FILENO) && !getenv("NO_COLOR") && term && strcmp(term, "dumb") != 0,
    };
    struct cc_buf text = { .p = NULL };
    int           x = check_table(r, &style, &text);

    if (x == 0 && fwrite(cc_buf_data(&text), 1, cc_buf_len(&text), stdout) != cc_buf_len(&text))
        x = -errno;
    cc_buf_free(&text);
    return x == 0 && fflush(stdout) == 0 ? 0 : complain(NULL, "the table cannot be written", AGENT_EXIT_INTERNAL);
}

static int write_json(const struct check_report *r, const char *path, int status)
{
    CC_AUTO_FREE char *text = check_json(r, status, cc_realtime_ms());
    struct cc_err      err = { 0 };

    if (!text)
        return complain(NULL, "no memory for JSON", AGENT_EXIT_INTERNAL);
    if (strcmp(path, "-") == 0)
        return fputs(text, stdout) >= 0 && fflush(stdout) == 0
                   ? 0
                   : complain(NULL, "JSON cannot be written to standard output", AGENT_EXIT_INTERNAL);
    return atomicfile_write(path, text, strlen(text), &err) < 0 ? complain(NULL, err.msg, AGENT_EXIT_INTERNAL) : 0;
}

/* Found out before hours of measuring. */
static int check_json_path(const char *path, struct cc_err *err)
{
    const char *slash = path ? strrchr(path, '/') : NULL;
    char        dir[PATH_MAX] = ".";

    if (!path || strcmp(path, "-") == 0 || access(path, W_OK) == 0)
        return 0;
    if (slash)
        (void) snprintf(dir, sizeof dir, "%.*s", (int) (slash - path + 1), path);
    if (errno == ENOENT && access(dir, W_OK) == 0)
        return 0;
    return cc_fail(err, -errno, "--json: '%.256s' cannot be written: %s", path, strerror(errno));
}

static int tell_people(const struct check_report *r, int status)
{
    const char *json = r->options->json;
    int         x = 0;

    if (r->options->agent_fd < 0 && (!json || strcmp(json, "-") != 0))
        x = print_table(r);
    if (json && write_json(r, json, status) != 0)
        x = AGENT_EXIT_INTERNAL;
    for (unsigned i = 0; r->options->agent_fd >= 0 && i < r->n_warnings; i++)
        (void) fprintf(stderr, "ccrun: warning: preflight: %s\n", r->warnings[i]);
    return x;
}

/* ---- the verdict, which all ranks get */

static void draw_verdict(const struct check_report *r, struct check_verdict *v, bool *is_out)
{
    bool is_explained = false;

    *v = (struct check_verdict) { .n_left = r->n_nodes, .is_curable = !r->is_by_rank };
    (void) snprintf(v->id, sizeof v->id, "%s", r->id);
    for (unsigned i = 0; i < r->n_faults; i++) {
        const struct check_fault *f = &r->faults[i];

        v->status = r->is_usage ? AGENT_EXIT_USAGE : STATUS_BAD;
        if (f->kind == CHECK_FAULT_FAILED && is_explained)
            continue; /* by who does not answer */
        is_explained = is_explained || (f->kind == CHECK_FAULT_SILENT && f->node >= 0);
        if (f->node < 0 || r->nodes[f->node].is_needed)
            v->is_curable = false;
        else if (!is_out[f->node])
            v->n_left--;
        if (f->node >= 0)
            is_out[f->node] = true;
    }
    if (r->n_faults > 1)
        (void) snprintf(v->text, sizeof v->text, "%.*s; and %u more", CHECK_TEXT_MAX - 24, r->faults[0].text, r->n_faults - 1);
    else if (r->n_faults == 1)
        (void) snprintf(v->text, sizeof v->text, "%s", r->faults[0].text);
}

/* See check_words.h. */
static int announce(struct check_run *c, const struct check_verdict *v, const bool *is_out, struct cc_err *err)
{
    struct cc_buf line = { .p = NULL };
    char          item[LINE_SIZE];
    int           n = snprintf(item, sizeof item, "%d %s %d %d ", v->status, v->id, v->n_left, v->is_curable);
    int           x = cc_buf_add(&line, item, (size_t) n);

    for (int i = 0; x == 0 && i < c->report->n_nodes; i++) {
        n = is_out[i] ? snprintf(item, sizeof item, "%d,", i) : 0;
        x = cc_buf_add(&line, item, (size_t) n);
    }
    n = snprintf(item, sizeof item, "; %s", v->text);
    if (x == 0)
        x = cc_buf_add(&line, item, (size_t) n + 1);
    x = x < 0 ? cc_fail(err, x, "no memory for a verdict")
              : board_announce(&c->board, "verdict", (const char *) cc_buf_data(&line), err);
    cc_buf_free(&line);
    return x;
}

static int hear(struct check_run *c, struct check_verdict *v, struct cc_err *err)
{
    CC_AUTO_FREE char *text = NULL;
    int                x = board_hear(&c->board, "verdict", 3 * c->options->timeout_ms + 2 * CHECK_GRACE_MS, &text, err);

    return x < 0 ? x : check_words_verdict(text, c->board.size, c->place ? c->place[c->board.rank] : -1, v, err);
}

/* One line for the agent: "ok ID", "passed ID"; or what is wrong, and whether the job can do without those to blame. */
static void tell_agent(const struct check_options *o, const struct check_run *c, const struct check_verdict *v)
{
    char        line[LINE_SIZE];
    const char *word = v->status == 0 ? (c->is_passed ? "passed" : "ok")
                       : !v->is_curable ? "bad"
                       : v->is_our_fault ? "out"
                                         : "others";
    int n = snprintf(line, sizeof line, "%s %s %d %s\n", word, v->id[0] ? v->id : "-", v->n_left, v->text);

    if (o->agent_fd >= 0)
        (void) cc_write_all(o->agent_fd, line, (size_t) n, NULL);
}

/* Whoever serves the store stays until the others have read the verdict. */
static void part(struct check_run *c)
{
    CC_AUTO_FREE char **posts = c->report ? calloc((size_t) c->board.size, sizeof *posts) : NULL;
    struct cc_err       err;

    if (board_post(&c->board, "bye", "", &err) < 0 || !posts)
        return;
    if (board_collect(&c->board, "bye", FAREWELL_MS, posts, &err) == 0)
        board_texts_free(&c->board, posts);
}

/* ---- the whole */

static void name_check(char id[CHECK_ID_MAX])
{
    uint64_t n = 0;

    if (getrandom(&n, sizeof n, GRND_NONBLOCK) != (ssize_t) sizeof n)
        n = cc_realtime_ms();
    (void) snprintf(id, CHECK_ID_MAX, "%016" PRIx64, n);
}

static int conclude(struct check_run *c, struct check_verdict *v, struct cc_err *err)
{
    struct check_report *r = c->report;
    CC_AUTO_FREE bool   *is_out = NULL;
    bool                 is_told;
    int                  x;

    if (!r)
        return hear(c, v, err);
    is_out = calloc((size_t) r->n_nodes + 1, sizeof *is_out);
    if (!is_out)
        return cc_fail(err, -ENOMEM, "no memory for %d nodes", r->n_nodes);
    x = check_judge(r, err);
    if (x < 0)
        return x;
    draw_verdict(r, v, is_out);
    v->is_our_fault = is_out[0];
    /* Before the others know: when one of them ends with 1, the job is stopped, and this rank with it. */
    is_told = c->is_passed || tell_people(r, v->status) == 0;
    x = announce(c, v, is_out, err);
    if (!is_told)
        v->status = AGENT_EXIT_INTERNAL;
    return x;
}

static int run(const struct check_options *o, struct check_run *c, struct check_report *report)
{
    struct cc_err        err = { 0 };
    struct check_verdict v = { .status = 0 };
    int                  r = board_open(&c->board, o->timeout_ms, &err);

    if (r == 0 && o->min_busbw > 0 && c->board.size == 1)
        r = cc_fail(&err, -EINVAL, "--min-busbw needs at least 2 ranks, and this job has 1");
    if (r == 0 && c->board.rank == 0)
        r = check_json_path(o->json, &err) < 0 ? -EINVAL : 0;
    if (r == 0) {
        *report = (struct check_report) { .options = o, .n_ranks = c->board.size };
        name_check(report->id);
        c->report = c->board.rank == 0 ? report : NULL;
        (void) setenv("TORCHELASTIC_USE_AGENT_STORE", "True", 1); /* the board has it, whoever serves it */
        r = check_run(c, &err);
    }
    if (r == 0)
        r = conclude(c, &v, &err);
    if (r == 0) {
        part(c);
        tell_agent(o, c, &v);
        return v.status;
    }
    v = (struct check_verdict) { .status = STATUS_BAD };
    (void) snprintf(v.text, sizeof v.text, "rank %d: %.*s", c->board.rank, CHECK_TEXT_MAX - 32, err.msg);
    tell_agent(o, c, &v);
    return o->agent_fd >= 0 ? STATUS_BAD : complain(&c->board, err.msg, r == -EINVAL ? AGENT_EXIT_USAGE : STATUS_BAD);
}

int main(int argc, char **argv)
{
    static struct check_report report; /* too large for a stack */
    struct check_options       o;
    struct check_run           c = { .options = &o };
    struct cc_err              err = { 0 };
    int                        status;

    if (stdstreams_open() < 0)
        return AGENT_EXIT_INTERNAL;
    if (check_options_parse(&o, argc, argv, &err) < 0)
        return complain(NULL, err.msg, AGENT_EXIT_USAGE);
    if (o.is_help || o.is_version) {
        (void) fputs(o.is_help ? check_options_help : "ccrun-check " CCRUN_VERSION "\n", stdout);
        return fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
    }
    status = run(&o, &c, &report);
    check_run_clear(&c);
    board_close(&c.board);
    check_report_clear(&report);
    return status;
}
