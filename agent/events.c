#include "agent/events.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/wait.h>

#include "agent/core/jsonspace.h"
#include "agent/errfile.h"
#include "store/base/cleanup.h"
#include "store/base/macros.h"

static const char *const state_names[] = {
    [EVENTS_RENDEZVOUS] = "RENDEZVOUS", [EVENTS_ASSIGN_WORKER_RANKS] = "ASSIGN_WORKER_RANKS",
    [EVENTS_START] = "START",           [EVENTS_SUCCEEDED] = "SUCCEEDED",
    [EVENTS_FAILED] = "FAILED",         [EVENTS_TERMINATED] = "TERMINATED",
};

bool events_are_silenced(const char *loglevel)
{
    static const char *const quieter[] = { "WARNING", "WARN", "ERROR", "CRITICAL", "FATAL" };

    for (size_t i = 0; loglevel && i < CC_COUNT(quieter); i++)
        if (strcasecmp(loglevel, quieter[i]) == 0)
            return true;
    return false;
}

static void json_freep(cJSON **p)
{
    cJSON_Delete(*p);
}

#define AUTO_JSON CC_AUTO(json_freep)

static bool add_text(cJSON *to, const char *name, const char *text)
{
    return text ? cJSON_AddStringToObject(to, name, text) : cJSON_AddNullToObject(to, name);
}

static bool add_number(cJSON *to, const char *name, bool is_known, double v)
{
    return is_known ? cJSON_AddNumberToObject(to, name, v) : cJSON_AddNullToObject(to, name);
}

/* The worker's numbers are lists of one element: Python wrote tuples. */
static bool add_list(cJSON *to, const char *name, bool is_known, double v)
{
    cJSON *array = cJSON_AddArrayToObject(to, name);

    return cJSON_AddItemToArray(array, is_known ? cJSON_CreateNumber(v) : cJSON_CreateNull());
}

/* One line with a newline at its end; NULL: memory is short. */
static char *spaced(const cJSON *doc)
{
    CC_AUTO_FREE char *text = cJSON_PrintUnformatted(doc);

    return text ? jsonspace(text, 0) : NULL;
}

/* The same to be put into a string. */
static char *spaced_inner(const cJSON *doc)
{
    char *text = spaced(doc);

    if (text)
        text[strlen(text) - 1] = '\0';
    return text;
}

static int exit_code(int status)
{
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

/* The field "metadata" of the metadata: a JSON text in a string. */
static char *inner_metadata(const struct events *e, const struct events_worker *w, bool is_failed)
{
    AUTO_JSON cJSON *md = cJSON_CreateObject();
    const char      *slash = strrchr(e->entry_point, '/');
    bool             is_good;

    is_good = add_number(md, "group_world_size", e->is_formed, e->group_world_size) &&
              add_text(md, "entry_point", slash ? slash + 1 : e->entry_point);
    if (is_good && w)
        is_good = add_list(md, "local_rank", true, w->local_rank) &&
                  add_list(md, "role_rank", true, w->role_rank) &&
                  add_list(md, "role_world_size", true, w->role_world_size) &&
                  add_list(md, "exit_code", is_failed, exit_code(w->status)) &&
                  add_list(md, "worker_pid", is_failed, w->pid);
    return is_good ? spaced_inner(md) : NULL;
}

/* What the worker left in its error file, or torchrun's stand-in. */
static char *raw_error_of(const struct events_worker *w)
{
    AUTO_JSON cJSON *doc = w->error_file ? errfile_load(w->error_file) : NULL;

    if (doc)
        return spaced_inner(doc);
    if (WIFSIGNALED(w->status))
        return strdup("{\"message\": \"<NONE>\"}");
    return strdup("{\"message\": \"<NONE>\", \"errorTraits\": {\"category\": \"system_terminated_error\", "
                  "\"retryability\": \"False\"}}");
}

struct event {
    const char                 *state, *raw_error;
    const struct events_worker *worker;
    bool                        is_failed, has_duration;
    double                      duration_ms;
};

static bool fill(cJSON *doc, const struct events *e, const struct event *v)
{
    const struct events_worker *w = v->worker;
    CC_AUTO_FREE char          *inner = inner_metadata(e, w, v->is_failed);
    char                        name[64], pid[16];
    cJSON                      *md;

    (void) snprintf(name, sizeof name, "torchelastic.worker.status.%s", v->state);
    (void) snprintf(pid, sizeof pid, "%d", w ? (int) w->pid : 0);
    if (!inner || !add_text(doc, "name", name) || !add_text(doc, "source", w ? "WORKER" : "AGENT") ||
        !add_number(doc, "timestamp", true, 0) || !(md = cJSON_AddObjectToObject(doc, "metadata")))
        return false;
    return add_text(md, "run_id", e->run_id) && add_number(md, "global_rank", w, w ? w->rank : 0) &&
           add_number(md, "group_rank", e->is_formed, e->group_rank) &&
           add_text(md, "worker_id", w ? pid : NULL) && add_text(md, "role", e->role) &&
           add_text(md, "hostname", e->host) && add_text(md, "state", v->state) &&
           add_number(md, "total_run_time", true, e->run_time_s) &&
           add_text(md, "rdzv_backend", e->backend) && add_text(md, "raw_error", v->raw_error) &&
           add_text(md, "metadata", inner) && add_number(md, "agent_restarts", true, e->n_restarts) &&
           add_number(md, "duration_ms", v->has_duration, v->duration_ms);
}

static int put(const struct events *e, const struct event *v)
{
    AUTO_JSON cJSON   *doc = cJSON_CreateObject();
    CC_AUTO_FREE char *line = fill(doc, e, v) ? spaced(doc) : NULL;

    if (!line)
        return -ENOMEM;
    e->write(e->ctx, line, strlen(line));
    return 0;
}

int events_agent(const struct events *e, enum events_state state, double duration_ms, const char *raw_error)
{
    struct event v = { .state = state_names[state],
                       .raw_error = raw_error,
                       .has_duration = duration_ms >= 0,
                       .duration_ms = duration_ms };

    return put(e, &v);
}

int events_worker(const struct events *e, enum events_state state, const struct events_worker *w)
{
    struct event       v = { .state = state_names[state], .worker = w, .is_failed = state == EVENTS_FAILED };
    CC_AUTO_FREE char *raw = v.is_failed ? raw_error_of(w) : NULL;

    if (v.is_failed && !raw)
        return -ENOMEM;
    v.raw_error = raw;
    return put(e, &v);
}
