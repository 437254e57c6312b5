#include "agent/failure.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "agent/core/plaintext.h"
#include "agent/errfile.h"
#include "store/base/cleanup.h"
#include "store/base/signame.h"

enum { MESSAGE_MAX = 16 << 10, CALLSTACK_MAX = 64 << 10, TAIL_MAX = 32 << 10 };

/* 256 workers may fail with 1 MB of message each. */
static void cut(char *s, size_t max)
{
    if (s && strlen(s) > max)
        s[max] = '\0';
}

static int read_error_file(struct failure *x, const char *path)
{
    struct errfile e = { 0 };
    struct cc_err  err = { 0 };
    int            r = errfile_read(path, &e, &err);

    if (r < 0)
        return (x->note = strdup(err.msg)) ? 0 : -1;
    if (r == 0)
        return 0;
    x->message = CC_STEAL(e.message);
    x->callstack = CC_STEAL(e.callstack);
    x->file_s = e.timestamp;
    x->file_ms = e.mtime_ms;
    cut(x->message, MESSAGE_MAX);
    cut(x->callstack, CALLSTACK_MAX);
    errfile_done(&e);
    return 0;
}

static int copy_text(const char **text)
{
    return *text && !(*text = strdup(*text)) ? -1 : 0;
}

static int copy_tail(const char **tail)
{
    unsigned n;

    if (!*tail)
        return 0;
    if (strlen(*tail) > TAIL_MAX)
        *tail += strlen(*tail) - TAIL_MAX;
    *tail = plaintext_tail(*tail, FAILURE_TAIL_LINES, &n);
    return copy_text(tail);
}

struct failure *failure_new(const struct report_failure *f, struct evidence_watch *w, uint64_t grace_ms)
{
    struct failure     *x = calloc(1, sizeof *x);
    struct evidence_ask ask = { f->status, f->pid, f->is_killed_by_us, f->is_after_grace, grace_ms };
    bool                is_bad;

    if (!x)
        return NULL;
    x->f = *f;
    is_bad = copy_text(&x->f.error_file) < 0;
    is_bad |= copy_text(&x->f.log_dir) < 0;
    is_bad |= copy_tail(&x->f.stderr_tail) < 0;
    evidence_collect(w, &ask, &x->evidence);
    if (is_bad || (f->error_file && read_error_file(x, f->error_file) < 0))
        return failure_free(x);
    return x;
}

static void free_text(const char **text)
{
    char *p;

    memcpy(&p, text, sizeof p); /* ours since failure_new(): the const is the caller's view */
    free(p);
}

struct failure *failure_free(struct failure *x)
{
    if (!x)
        return NULL;
    free_text(&x->f.error_file);
    free_text(&x->f.log_dir);
    free_text(&x->f.stderr_tail);
    free(x->message);
    free(x->callstack);
    free(x->note);
    free(x);
    return NULL;
}

struct cause_failure failure_cause(const struct failure *x)
{
    return (struct cause_failure){
        .started_ms = x->f.realtime_ms > x->f.ran_ms ? x->f.realtime_ms - x->f.ran_ms : 0,
        .detected_ms = x->f.realtime_ms,
        .file_s = x->file_s,
        .file_ms = x->file_ms,
        .is_ours = x->f.is_killed_by_us || x->f.is_after_grace,
    };
}

uint64_t failure_time(const struct failure *x)
{
    struct cause_failure c = failure_cause(x);
    bool                 is_exact;

    return cause_time(&c, &is_exact);
}

int failure_exitcode(const struct failure *x)
{
    return WIFSIGNALED(x->f.status) ? -WTERMSIG(x->f.status) : WEXITSTATUS(x->f.status);
}

const char *failure_error_file(const struct failure *x)
{
    const char *dir = x->f.log_dir, *file = x->f.error_file;

    return x->message && dir && file && strncmp(file, dir, strlen(dir)) == 0 ? file : NULL;
}

void failure_why(const struct failure *x, char *buf, size_t size)
{
    char name[CC_SIGNAME_MAX];

    if (x->message)
        (void) plaintext_line(buf, size, x->message, strlen(x->message));
    else if (WIFSIGNALED(x->f.status))
        (void) snprintf(buf, size, "Signal %d (%s) received by PID %d", WTERMSIG(x->f.status),
                        cc_signal_name(WTERMSIG(x->f.status), name), (int) x->f.pid);
    else
        (void) snprintf(buf, size, "To enable traceback see: %s", FAILURE_RECORD_URL);
}

/* The last line of the form `  File "PATH", line N, in NAME`: Python prints the innermost frame last. */
void failure_where(const struct failure *x, char *buf, size_t size)
{
    const char *at = NULL, *path_end, *name;
    char        raw[512];
    unsigned    line;

    buf[0] = '\0';
    for (const char *p = x->callstack; p && (p = strstr(p, "File \"")); p++)
        at = p + strlen("File \"");
    path_end = at ? strchr(at, '"') : NULL;
    if (!path_end || sscanf(path_end, "\", line %u", &line) != 1)
        return;
    for (const char *slash; (slash = memchr(at, '/', (size_t) (path_end - at)));)
        at = slash + 1;
    name = strstr(path_end, ", in ");
    name = name ? name + strlen(", in ") : "";
    (void) snprintf(raw, sizeof raw, "%.*s:%u%s%.*s", (int) (path_end - at), at, line, *name ? " in " : "",
                    (int) strcspn(name, "\n"), name);
    (void) plaintext_line(buf, size, raw, strlen(raw));
}
