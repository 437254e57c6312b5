#include "agent/report_json.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "agent/core/jsonspace.h"
#include "agent/core/plaintext.h"
#include "store/base/cleanup.h"
#include "store/base/signame.h"

/* Every add returns NULL or false when memory is short; the document is then given up as a whole. */
struct doc {
    bool is_short;
};

static cJSON *check(struct doc *d, cJSON *item)
{
    if (!item)
        d->is_short = true;
    return item;
}

static void add_number(struct doc *d, cJSON *to, const char *name, double v)
{
    (void) check(d, cJSON_AddNumberToObject(to, name, v));
}

/* Newlines and tabs stay (JSON escapes them); invalid bytes become \xNN, so that any reader accepts the
 * document. */
static void add_text(struct doc *d, cJSON *to, const char *name, const char *text)
{
    size_t             len = text ? strlen(text) : 0, at = 0;
    CC_AUTO_FREE char *clean = NULL;

    if (!text) {
        (void) check(d, cJSON_AddNullToObject(to, name));
        return;
    }
    clean = malloc(4 * len + 1);
    for (size_t i = 0; clean && i < len;) {
        size_t n = plaintext_utf8(text + i, len - i);

        if (n == 0)
            at += (size_t) snprintf(clean + at, 5, "\\x%02x", (unsigned char) text[i]);
        else
            memcpy(clean + at, text + i, n);
        at += n;
        i += n ? n : 1;
    }
    if (!clean) {
        d->is_short = true;
        return;
    }
    clean[at] = '\0';
    (void) check(d, cJSON_AddStringToObject(to, name, clean));
}

static void add_time(struct doc *d, cJSON *to, const char *name, uint64_t ms)
{
    time_t    s = (time_t) (ms / 1000);
    struct tm tm;
    char      day[32] = "", text[48];

    if (gmtime_r(&s, &tm))
        (void) strftime(day, sizeof day, "%Y-%m-%dT%H:%M:%S", &tm);
    (void) snprintf(text, sizeof text, "%s.%03uZ", day, (unsigned) (ms % 1000));
    add_text(d, to, name, text);
}

static const char *kind_name(enum evidence_kind kind)
{
    switch (kind) {
    case EVIDENCE_NONE: return "none";
    case EVIDENCE_OOM: return "out_of_memory";
    case EVIDENCE_CCRUN: return "ccrun";
    case EVIDENCE_SENDER: return "unknown_sender";
    case EVIDENCE_CORE: return "crash";
    case EVIDENCE_HINT: return "hint";
    }
    return "none";
}

static void add_evidence(struct doc *d, cJSON *to, const struct evidence *e)
{
    cJSON *o;

    if (e->kind == EVIDENCE_NONE) {
        (void) check(d, cJSON_AddNullToObject(to, "evidence"));
        return;
    }
    o = check(d, cJSON_AddObjectToObject(to, "evidence"));
    add_text(d, o, "kind", kind_name(e->kind));
    add_text(d, o, "text", e->text);
    if (e->limit)
        add_number(d, o, "limit_bytes", (double) e->limit);
    if (e->peak)
        add_number(d, o, "peak_bytes", (double) e->peak);
}

static void add_status(struct doc *d, cJSON *to, const struct failure *x)
{
    char name[CC_SIGNAME_MAX];
    bool is_signal = WIFSIGNALED(x->f.status);

    add_number(d, to, "exitcode", failure_exitcode(x));
    add_text(d, to, "signal", is_signal ? cc_signal_name(WTERMSIG(x->f.status), name) : NULL);
    (void) check(d, cJSON_AddBoolToObject(to, "core_dumped", is_signal && WCOREDUMP(x->f.status)));
    add_text(d, to, "ended_by",
             x->f.is_after_grace    ? "ccrun_after_grace"
             : x->f.is_killed_by_us ? "ccrun"
                                    : "itself");
}

static cJSON *failure_object(struct doc *d, const struct report_cfg *cfg, const struct failure *x)
{
    cJSON *o = check(d, cJSON_CreateObject());

    add_number(d, o, "rank", x->f.rank);
    add_number(d, o, "local_rank", x->f.local_rank);
    add_number(d, o, "attempt", x->f.attempt);
    add_text(d, o, "host", cfg->host);
    add_number(d, o, "pid", x->f.pid);
    add_status(d, o, x);
    add_time(d, o, "time", failure_time(x));
    add_time(d, o, "seen", x->f.realtime_ms);
    add_number(d, o, "ran_s", (double) x->f.ran_ms / 1000);
    add_text(d, o, "message", x->message);
    add_text(d, o, "traceback", x->callstack);
    add_text(d, o, "error_file", failure_error_file(x));
    add_text(d, o, "note", x->note);
    add_evidence(d, o, &x->evidence);
    add_text(d, o, "stderr_tail", x->f.stderr_tail);
    add_text(d, o, "log_dir", x->f.log_dir);
    return o;
}

static void add_item(struct doc *d, cJSON *array, cJSON *item)
{
    if (item && !cJSON_AddItemToArray(array, item)) {
        cJSON_Delete(item);
        d->is_short = true;
    }
}

static void add_first(struct doc *d, cJSON *to, const struct report_cfg *cfg, const struct failure *x)
{
    cJSON *o = x ? failure_object(d, cfg, x) : check(d, cJSON_CreateNull());

    if (o && !cJSON_AddItemToObject(to, "first_failure", o)) {
        cJSON_Delete(o);
        d->is_short = true;
    }
}

static void add_attempts(struct doc *d, cJSON *to, const struct report_json *j)
{
    cJSON *array = check(d, cJSON_AddArrayToObject(to, "attempts"));

    for (size_t i = 0; i < j->n_attempts; i++) {
        const struct report_json_attempt *a = &j->attempts[i];
        cJSON                            *o = check(d, cJSON_CreateObject());

        add_number(d, o, "attempt", a->attempt);
        add_time(d, o, "ended", a->ended_ms);
        add_number(d, o, "failures", (double) a->n_failures);
        add_first(d, o, j->cfg, a->first);
        add_item(d, array, o);
    }
    add_number(d, to, "attempts_omitted", (double) j->n_attempts_omitted);
}

static void add_job(struct doc *d, cJSON *to, const struct report_json *j)
{
    const struct report_cfg *cfg = j->cfg;

    add_number(d, to, "version", 1);
    add_text(d, to, "ccrun", CCRUN_VERSION);
    add_text(d, to, "outcome", j->outcome);
    add_number(d, to, "exit_status", j->exit_status);
    add_text(d, to, "entry", cfg->entry);
    add_text(d, to, "run_id", cfg->run_id);
    add_text(d, to, "role", cfg->role);
    add_text(d, to, "host", cfg->host);
    add_number(d, to, "world_size", cfg->world_size);
    add_number(d, to, "nproc", cfg->nproc);
    add_number(d, to, "max_restarts", cfg->max_restarts);
    add_time(d, to, "started", j->started_ms);
    add_time(d, to, "ended", j->ended_ms);
    add_number(d, to, "duration_s", (double) (j->ended_ms - j->started_ms) / 1000);
    if (j->has_counts) {
        add_number(d, to, "n_ok", j->n_ok);
        add_number(d, to, "n_stopped", j->n_stopped);
    }
}

char *report_json_text(const struct report_json *j)
{
    CC_AUTO_FREE char *compact = NULL;
    struct doc         d = { false };
    cJSON             *root = check(&d, cJSON_CreateObject()), *array;

    add_job(&d, root, j);
    add_first(&d, root, j->cfg, j->n > 0 ? j->failures[j->first] : NULL);
    array = check(&d, cJSON_AddArrayToObject(root, "failures"));
    for (size_t i = 0; i < j->n; i++)
        add_item(&d, array, failure_object(&d, j->cfg, j->failures[i]));
    add_attempts(&d, root, j);
    if (!d.is_short)
        compact = cJSON_PrintUnformatted(root);
    cJSON_Delete(root);
    return compact ? jsonspace(compact, 2) : NULL;
}
