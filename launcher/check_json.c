#include "launcher/check_json.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void add_time(cJSON *to, uint64_t now_ms)
{
    time_t    t = (time_t) (now_ms / 1000);
    struct tm tm;
    char      text[32];

    if (gmtime_r(&t, &tm) && strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &tm) > 0)
        (void) cJSON_AddStringToObject(to, "time", text);
}

/* Every other digit is noise. */
static void add_real(cJSON *to, const char *name, double x)
{
    char text[32];

    (void) snprintf(text, sizeof text, "%.6g", x);
    (void) cJSON_AddRawToObject(to, name, text);
}

static void add_rows(cJSON *to, const struct check_report *r)
{
    cJSON *list = cJSON_AddArrayToObject(to, "operations");

    for (unsigned i = 0; i < r->n_rows; i++) {
        const struct check_row *w = &r->rows[i];
        cJSON                  *o = cJSON_CreateObject();

        (void) cJSON_AddStringToObject(o, "operation", check_op_name(w->op));
        (void) cJSON_AddNumberToObject(o, "bytes", (double) w->bytes);
        add_real(o, "time_us", (double) w->ns / 1000);
        add_real(o, "algbw", check_algbw(w->bytes, w->ns));
        add_real(o, "busbw", check_busbw(w->op, (unsigned) r->n_ranks, w->bytes, w->ns));
        (void) cJSON_AddNumberToObject(o, "wrong", (double) w->n_wrong);
        (void) cJSON_AddItemToArray(list, o);
    }
}

static void add_able(cJSON *to, const char *name, double gbs)
{
    if (gbs > 0)
        add_real(to, name, gbs);
    else
        (void) cJSON_AddNullToObject(to, name);
}

static void add_nodes(cJSON *to, const struct check_report *r)
{
    cJSON *list = cJSON_AddArrayToObject(to, "nodes");

    for (int i = 0; i < r->n_nodes; i++) {
        const struct check_node *n = &r->nodes[i];
        cJSON                   *o = cJSON_CreateObject(), *facts;

        (void) cJSON_AddNumberToObject(o, r->is_by_rank ? "rank" : "node", i);
        (void) cJSON_AddStringToObject(o, "host", n->host);
        (void) cJSON_AddNumberToObject(o, "first_rank", n->leader);
        (void) cJSON_AddNumberToObject(o, "ranks", n->n_local);
        if (n->has_skew) {
            add_real(o, "clock_ahead_ms", n->skew_ms);
            add_real(o, "clock_error_ms", n->skew_error_ms);
        }
        if (r->n_rounds > 0) {
            add_able(o, "pairs_send", n->out);
            add_able(o, "pairs_receive", n->in);
        }
        facts = cJSON_AddObjectToObject(o, "facts");
        for (unsigned k = 0; k < n->facts.n; k++)
            (void) cJSON_AddStringToObject(facts, n->facts.list[k].name, n->facts.list[k].value);
        (void) cJSON_AddItemToArray(list, o);
    }
}

static void add_pairs(cJSON *to, const struct check_report *r)
{
    cJSON *list = cJSON_AddArrayToObject(to, "pairs");

    for (int a = 0; r->cells && a < r->n_nodes; a++)
        for (int b = 0; b < r->n_nodes; b++) {
            double gbs = r->cells[(size_t) a * (size_t) r->n_nodes + (size_t) b];
            cJSON *o = gbs == CHECK_UNTRIED ? NULL : cJSON_CreateObject();

            if (!o)
                continue;
            (void) cJSON_AddNumberToObject(o, "from", a);
            (void) cJSON_AddNumberToObject(o, "to", b);
            add_able(o, "gbs", gbs);
            (void) cJSON_AddItemToArray(list, o);
        }
}

static void add_conclusions(cJSON *to, const struct check_report *r)
{
    cJSON *list = cJSON_AddArrayToObject(to, "faults");

    for (unsigned i = 0; i < r->n_faults; i++) {
        const struct check_fault *f = &r->faults[i];
        cJSON                    *o = cJSON_CreateObject();

        (void) cJSON_AddStringToObject(o, "kind", check_fault_name(f->kind));
        if (f->node >= 0) {
            (void) cJSON_AddNumberToObject(o, r->is_by_rank ? "rank" : "node", f->node);
            (void) cJSON_AddStringToObject(o, "host", r->nodes[f->node].host);
        }
        (void) cJSON_AddStringToObject(o, "text", f->text);
        (void) cJSON_AddItemToArray(list, o);
    }
    list = cJSON_AddArrayToObject(to, "warnings");
    for (unsigned i = 0; i < r->n_warnings; i++)
        (void) cJSON_AddItemToArray(list, cJSON_CreateString(r->warnings[i]));
}

char *check_json(const struct check_report *r, int status, uint64_t now_ms)
{
    cJSON *o = cJSON_CreateObject();
    char  *text, *line = NULL;
    size_t n;

    (void) cJSON_AddStringToObject(o, "schema", "ccrun-check/1");
    (void) cJSON_AddStringToObject(o, "version", CCRUN_VERSION);
    add_time(o, now_ms);
    (void) cJSON_AddNumberToObject(o, "status", status);
    (void) cJSON_AddStringToObject(o, "backend", r->backend[0] ? r->backend : r->options->backend);
    (void) cJSON_AddNumberToObject(o, "ranks", r->n_ranks);
    (void) cJSON_AddNumberToObject(o, "iters", r->options->iters);
    (void) cJSON_AddNumberToObject(o, "warmup", r->options->warmup);
    if (r->where[0])
        (void) cJSON_AddStringToObject(o, "buffers", strcmp(r->where, "GPU") == 0 ? "GPU" : "host");
    if (r->options->min_busbw > 0)
        add_real(o, "min_busbw", r->options->min_busbw);
    if (r->cells)
        (void) cJSON_AddNumberToObject(o, "pair_bytes", (double) r->options->pair_bytes);
    add_rows(o, r);
    add_nodes(o, r);
    add_pairs(o, r);
    add_conclusions(o, r);
    text = cJSON_Print(o);
    cJSON_Delete(o);
    n = text ? strlen(text) : 0;
    line = text ? realloc(text, n + 2) : NULL;
    if (!line) {
        free(text);
        return NULL;
    }
    memcpy(line + n, "\n", 2);
    return line;
}
