#include "agent/report_text.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "agent/core/plaintext.h"
#include "agent/core/ranklist.h"
#include "store/base/cleanup.h"
#include "store/base/signame.h"

enum {
    GROUPS_MAX = 3,  /* lines for the other failures */
    WHY_MAX = 400,   /* bytes of a message on its line */
    LINE_MAX_ = 512, /* bytes of a line of the stderr tail */
    ENTRY_MAX = 120,
    COUNTED_MIN = 16, /* so many ranks in a line are counted */
};

static void put_plain(FILE *to, const char *text, size_t max)
{
    char buf[1024];

    (void) plaintext_line(buf, max < sizeof buf ? max : sizeof buf, text, strlen(text));
    (void) fputs(buf, to);
}

enum { DATE_LEN = sizeof "2026-01-31_" - 1 };

static void local_time(uint64_t ms, char buf[32])
{
    time_t    s = (time_t) (ms / 1000);
    struct tm tm;

    if (!localtime_r(&s, &tm) || strftime(buf, 32, "%Y-%m-%d_%H:%M:%S", &tm) <= DATE_LEN)
        (void) snprintf(buf, 32, "0000-00-00_00:00:00");
}

static void put_head(const struct report_text *t, FILE *to)
{
    const struct failure *x = t->failures[t->first];
    char                  how[96], at[32];

    report_describe_status(x->f.status, how, sizeof how);
    local_time(failure_time(x), at);
    (void) fputs("ccrun: ChildFailedError: ", to);
    put_plain(to, t->cfg->entry, ENTRY_MAX);
    (void) fprintf(to, " FAILED: rank %u (local_rank: %u, pid: %d) on %s %s", x->f.rank, x->f.local_rank,
                   (int) x->f.pid, t->cfg->host, how);
    (void) fprintf(to, " at %s after %.1f s, attempt %u of %u\n", at + DATE_LEN, (double) x->f.ran_ms / 1000,
                   x->f.attempt + 1, t->cfg->max_restarts + 1);
}

/* The lines of stderr that stand for an exception that is not known, or NULL. Where it is known, the message says it,
 * and the tail is on the console already. */
static const char *tail_of(const struct failure *x, unsigned *n)
{
    const char *p;

    *n = 0;
    if (x->message || !x->f.stderr_tail)
        return NULL;
    p = plaintext_tail(x->f.stderr_tail, FAILURE_TAIL_LINES, n);
    return *n > 0 ? p : NULL;
}

/* Behind a program of another kind, as a script for the shell, there may be Python all the same. */
static bool is_python(const struct report_text *t, const char *tail)
{
    return t->cfg->python || (tail && strstr(tail, "Traceback (most recent call last)"));
}

static void describe_traceback(const struct report_text *t, char *buf, size_t size)
{
    const struct failure *x = t->failures[t->first];
    unsigned              n;
    const char           *tail = tail_of(x, &n);

    if (x->message || WIFSIGNALED(x->f.status) || (!tail && t->cfg->python))
        failure_why(x, buf, size);
    else if (is_python(t, tail))
        (void) snprintf(buf, size, "see stderr below (@record brings it here: %s)", FAILURE_RECORD_URL);
    else
        (void) snprintf(buf, size, "%s", tail ? "see stderr below" : "<N/A>");
}

/* Usually it is there, and another interpreter has it. */
static bool lacks_module(const struct failure *x)
{
    const char *text = x->message ? x->message : x->f.stderr_tail;

    return text && (strstr(text, "ModuleNotFoundError: ") || strstr(text, "ImportError: "));
}

static void put_python(const struct report_text *t, FILE *to)
{
    (void) fputs("  python    : ", to);
    put_plain(to, t->cfg->python, WHY_MAX);
    (void) fprintf(to, ", %s; PYTHON_EXEC=PATH chooses another\n", t->cfg->python_why);
}

/* CPython ends the threads that still want it when it finalizes, and C++ does not allow that in a destructor: so dies a script
 * of PyTorch that ends right after a collective, now and then. */
static bool is_ended_thread(const struct failure *x)
{
    return WIFSIGNALED(x->f.status) && WTERMSIG(x->f.status) == SIGABRT && x->f.stderr_tail &&
           strstr(x->f.stderr_tail, "terminate called without an active exception");
}

/* torchrun's names and columns: scripts look for them. */
static void put_block(const struct report_text *t, FILE *to)
{
    const struct failure *x = t->failures[t->first];
    const char           *file = failure_error_file(x);
    char                  at[32], why[WHY_MAX], where[160], name[CC_SIGNAME_MAX];

    local_time(failure_time(x), at);
    describe_traceback(t, why, sizeof why);
    failure_where(x, where, sizeof where);
    (void) fprintf(to, "Root Cause (first observed failure):\n  time      : %s\n  host      : %s\n", at,
                   t->cfg->host);
    (void) fprintf(to, "  rank      : %u (local_rank: %u)\n", x->f.rank, x->f.local_rank);
    (void) fprintf(to, "  exitcode  : %d (pid: %d)", failure_exitcode(x), (int) x->f.pid);
    if (WIFSIGNALED(x->f.status))
        (void) fprintf(to, " (%s)", cc_signal_name(WTERMSIG(x->f.status), name));
    (void) fprintf(to, "\n  error_file: %s", file ? file : "<N/A>");
    if (x->note) {
        (void) fputs(" (", to);
        put_plain(to, x->note, WHY_MAX);
        (void) fputs(")", to);
    }
    (void) fprintf(to, "\n  traceback : %s%s%s%s\n", why, where[0] ? " (" : "", where, where[0] ? ")" : "");
    if (x->evidence.text[0])
        (void) fprintf(to, "  evidence  : %s\n", x->evidence.text);
    else if (t->cfg->python_why && lacks_module(x))
        put_python(t, to);
    if (t->cfg->python && is_ended_thread(x))
        (void) fputs("  hint      : if the script had come to its end, let it call torch.distributed.destroy_process_group() "
                     "there: threads of PyTorch were still at work\n", to);
}

/* ---- the others: ranks that ended alike share a line */

struct other {
    unsigned rank;
    char     how[200];
};

/* What we had to do with that end: a worker that was told to end may still crash, or exit with a code of its own. */
static const char *our_part(const struct failure *x)
{
    int signum = WIFSIGNALED(x->f.status) ? WTERMSIG(x->f.status) : 0;

    if (x->f.is_after_grace && signum == SIGKILL)
        return " by ccrun after the grace time";
    if (!x->f.is_killed_by_us)
        return "";
    return signum == SIGTERM || signum == SIGKILL ? " by ccrun" : " after SIGTERM by ccrun";
}

static void describe_other(const struct failure *x, struct other *ret)
{
    char name[CC_SIGNAME_MAX], end[80], why[100];

    if (WIFSIGNALED(x->f.status))
        (void) snprintf(end, sizeof end, "%s%s%s", cc_signal_name(WTERMSIG(x->f.status), name),
                        WCOREDUMP(x->f.status) ? " (core dumped)" : "", our_part(x));
    else
        (void) snprintf(end, sizeof end, "exit code %d%s", WEXITSTATUS(x->f.status), our_part(x));
    why[0] = '\0';
    if (x->message)
        failure_why(x, why, sizeof why);
    ret->rank = x->f.rank;
    (void) snprintf(ret->how, sizeof ret->how, "%s%s%s", end, why[0] ? ": " : "", why);
}

static int by_how_and_rank(const void *a, const void *b)
{
    const struct other *x = a, *y = b;
    int                 c = strcmp(x->how, y->how);

    return c ? c : (x->rank > y->rank) - (x->rank < y->rank);
}

struct group { /* others[at .. at + n) */
    size_t at, n;
};

static int by_size(const void *a, const void *b)
{
    const struct group *x = a, *y = b;

    return x->n != y->n ? (x->n < y->n) - (x->n > y->n) : (x->at > y->at) - (x->at < y->at);
}

static size_t make_groups(const struct other *others, size_t n, struct group *groups)
{
    size_t n_groups = 0;

    for (size_t i = 0; i < n; i++) {
        if (i == 0 || strcmp(others[i].how, others[i - 1].how) != 0)
            groups[n_groups++] = (struct group){ i, 0 };
        groups[n_groups - 1].n++;
    }
    qsort(groups, n_groups, sizeof *groups, by_size);
    return n_groups;
}

static void put_group(const struct other *others, size_t n, unsigned *ranks, FILE *to)
{
    char list[160];

    for (size_t i = 0; i < n; i++)
        ranks[i] = others[i].rank;
    (void) ranklist_format(ranks, n, list, sizeof list);
    if (n > COUNTED_MIN)
        (void) fprintf(to, "  %zu ranks %s: %s\n", n, list, others[0].how);
    else
        (void) fprintf(to, "  rank%s %s: %s\n", n > 1 ? "s" : "", list, others[0].how);
}

/* One that was told to end is no failure of its own, however it took that. */
static void put_counts(const struct report_text *t, size_t n_left, FILE *to)
{
    unsigned n_failed = 0;

    for (size_t i = 0; i < t->n; i++)
        n_failed += i != t->first && !t->failures[i]->f.is_killed_by_us;
    if (t->n == 1 && t->n_ok + t->n_stopped == 0)
        return; /* there are no others */
    (void) fprintf(to, "Others: %u ended with 0, %u stopped by ccrun, %u failed too", t->n_ok, t->n_stopped, n_failed);
    if (n_left > 0)
        (void) fprintf(to, "; %zu of them not in these lines%s", n_left,
                       t->cfg->json_file ? "" : " (--report FILE tells them all)");
    (void) fputc('\n', to);
}

static int put_others(const struct report_text *t, FILE *to)
{
    CC_AUTO_FREE struct other *others = calloc(t->n, sizeof *others);
    CC_AUTO_FREE struct group *groups = calloc(t->n, sizeof *groups);
    CC_AUTO_FREE unsigned     *ranks = calloc(t->n, sizeof *ranks);
    size_t                     n = 0, n_groups, n_left = 0;

    if (!others || !groups || !ranks)
        return -ENOMEM;
    for (size_t i = 0; i < t->n; i++)
        if (i != t->first)
            describe_other(t->failures[i], &others[n++]);
    qsort(others, n, sizeof *others, by_how_and_rank);
    n_groups = make_groups(others, n, groups);
    for (size_t i = GROUPS_MAX; i < n_groups; i++)
        n_left += groups[i].n;
    put_counts(t, n_left, to);
    for (size_t i = 0; i < n_groups && i < GROUPS_MAX; i++)
        put_group(&others[groups[i].at], groups[i].n, ranks, to);
    return 0;
}

static void put_files(const struct report_text *t, FILE *to)
{
    const char *logs = t->failures[t->first]->f.log_dir, *json = t->cfg->json_file;

    if (logs)
        (void) fprintf(to, "Logs: %s\n", logs);
    if (json)
        (void) fprintf(to, "Report: %s\n", json);
}

static void put_tail(const struct report_text *t, FILE *to)
{
    const struct failure *x = t->failures[t->first];
    unsigned    n;
    const char *p = tail_of(x, &n);

    if (!p)
        return;
    (void) fprintf(to, "Last %u line%s of %s of rank %u:\n", n, n > 1 ? "s" : "", t->cfg->is_merged ? "the output" : "stderr",
                   x->f.rank);
    while (*p) {
        size_t      len = strcspn(p, "\n"), shown_len = len;
        const char *shown = plaintext_after_cr(p, &shown_len);
        char        line[LINE_MAX_];

        (void) plaintext_line(line, sizeof line, shown, shown_len);
        (void) fprintf(to, "  %s\n", line);
        p += len + (p[len] != '\0');
    }
}

int report_text_write(const struct report_text *t, FILE *to)
{
    int r;

    put_head(t, to);
    put_block(t, to);
    r = put_others(t, to);
    put_files(t, to);
    put_tail(t, to);
    return r;
}
