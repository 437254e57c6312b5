#include "launcher/plan.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "launcher/logmask.h"
#include "launcher/near.h"
#include "launcher/oneline.h"
#include "launcher/pyvalue.h"
#include "store/base/macros.h"

enum {
    NODES_MAX = 65536,
    LOG_KEEP_MAX = 1000,
    LOG_SIZE_MIN = 4096,
    STORE_MEMORY_MIN = 1 << 20,
    C10D_PORT = 29400,
    STATIC_PORT = 29500,
    ETCD_PORT = 2379,
    QUOTED_MAX = 160,
};

/* ---- nodes */

static int parse_node_count(const char *text, size_t len, int64_t *ret, struct cc_err *err)
{
    char quoted[QUOTED_MAX], part[QUOTED_MAX];
    int  r;

    (void) snprintf(part, sizeof part, "%.*s", (int) len, text);
    r = pyvalue_int(part, ret);
    if (r == -EINVAL)
        return cc_fail(err, -EINVAL, "--nnodes: invalid literal for int() with base 10: %s",
                       pyvalue_repr(part, quoted, sizeof quoted));
    if (r < 0 || *ret > NODES_MAX || *ret < -NODES_MAX)
        return cc_fail(err, -EINVAL, "--nnodes: %s is out of range (1 to %d)", part, NODES_MAX);
    return 0;
}

static int parse_nnodes(const char *text, struct plan_values *ret, struct cc_err *err)
{
    size_t  len = strcspn(text, ":");
    int64_t min, max;
    int     r;

    if (text[len] && strchr(text + len + 1, ':'))
        return cc_fail(err, -EINVAL, "nnodes=%.200s is not in \"MIN:MAX\" format", text);
    r = parse_node_count(text, len, &min, err);
    max = min;
    if (r == 0 && text[len])
        r = parse_node_count(text + len + 1, strlen(text + len + 1), &max, err);
    if (r < 0)
        return r;
    if (min <= 0 || min > max)
        return cc_fail(err, -EINVAL,
                       "min_nodes must be > 0 and <= max_nodes, got min_nodes=%lld, max_nodes=%lld",
                       (long long) min, (long long) max);
    ret->min_nodes = (unsigned) min;
    ret->max_nodes = (unsigned) max;
    return 0;
}

/* One node is all that this version can do. */
static int check_one_node(const struct plan_values *p, struct options *o, struct cc_err *err)
{
    /* static waits for MAX nodes whatever MIN says, and needs none of them to be elastic. */
    unsigned needed = strcmp(p->backend, "static") == 0 ? p->max_nodes : p->min_nodes;

    if (needed > 1)
        return cc_fail(err, -EINVAL, "--nnodes %s needs %u nodes; this version of ccrun runs one", o->nnodes,
                       needed);
    if (p->max_nodes > 1)
        warnings_add(&o->warnings, "--nnodes %s: this version of ccrun runs one node and waits for no other",
                     o->nnodes);
    return 0;
}

/* ---- which rendezvous, and where */

static bool is_text(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

/* torchrun forgets these under --standalone, and says nothing. */
static void warn_standalone(struct options *o)
{
    const struct {
        const char    *name;
        enum option_id id;
        bool           is_other;
    } lost[] = {
        { "--rdzv-backend", OPTION_rdzv_backend, !is_text(o->rdzv_backend, "c10d") },
        { "--rdzv-endpoint", OPTION_rdzv_endpoint,
          *o->rdzv_endpoint && !is_text(o->rdzv_endpoint, "localhost:0") },
        { "--rdzv-id", OPTION_rdzv_id, true },
        { "--master-addr", OPTION_master_addr,
          !is_text(o->master_addr, "127.0.0.1") && !is_text(o->master_addr, "localhost") },
        { "--master-port", OPTION_master_port, true },
    };
    char   list[160] = "";
    size_t i, used = 0;

    for (i = 0; i < CC_COUNT(lost); i++)
        if (options_is_given(o, lost[i].id) && lost[i].is_other)
            used +=
                (size_t) snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "", lost[i].name);
    if (used)
        warnings_add(&o->warnings, "--standalone: %s %s ignored", list, strchr(list, ',') ? "are" : "is");
}

/* torchrun's two warnings about options of the static rendezvous, in its words; the first only where it is
 * true. */
static void warn_not_static(const struct plan_values *p, struct options *o)
{
    if (is_text(p->backend, "static"))
        return;
    if (!o->standalone && options_is_given(o, OPTION_master_addr))
        warnings_add(
            &o->warnings,
            "master_addr is only used for static rdzv_backend and when rdzv_endpoint is not specified.");
    if (o->node_rank != 0)
        warnings_add(
            &o->warnings,
            "node_rank is only used for static rdzv_backend. It will be ignored for rdzv_backend=%s.",
            p->backend);
}

static int check_backend(struct options *o, struct cc_err *err)
{
    static const char *const known[] = { "static", "c10d", "etcd-v2", "etcd" };
    struct near              n;
    size_t                   i;

    if (!*o->rdzv_backend)
        return cc_fail(err, -EINVAL, "The rendezvous backend name must be a non-empty string.");
    near_start(&n, o->rdzv_backend);
    for (i = 0; i < CC_COUNT(known); i++) {
        if (is_text(known[i], o->rdzv_backend))
            return 0;
        near_try(&n, known[i]);
    }
    return cc_fail(
        err, -EINVAL,
        "The rendezvous backend '%.100s' is not registered: ccrun has static, c10d, etcd-v2 and etcd%s%s%s",
        o->rdzv_backend, n.best ? "; did you mean " : "", n.best ? n.best : "", n.best ? "?" : "");
}

/* Is the job alone on a free port, as torchrun makes it when nobody says where the others are to be found? */
static bool is_private(const struct plan_values *p, const struct options *o)
{
    if (o->standalone)
        return true;
    if (p->max_nodes > 1 || *o->rdzv_endpoint)
        return false;
    return !is_text(o->rdzv_backend, "static") || !options_is_given(o, OPTION_master_port);
}

static void choose_run_id(struct plan_values *ret, struct options *o, bool is_auto, const char *random_id)
{
    ret->run_id = o->rdzv_id;
    if (o->standalone || (is_auto && !options_is_given(o, OPTION_rdzv_id))) {
        ret->run_id = random_id;
    } else if (!*o->rdzv_id) {
        ret->run_id = random_id;
        warnings_add(&o->warnings, "config has no run_id, generated a random run_id: %s", random_id);
    }
}

/* static: HOST:PORT of the endpoint, else of --master-addr and --master-port. */
static int resolve_static(struct endpoint *at, const struct options *o, struct cc_err *err)
{
    char      text[ENDPOINT_HOST_MAX + 32];
    long long port = options_is_given(o, OPTION_master_port) ? (long long) o->master_port : STATIC_PORT;
    int       r;

    if (*o->rdzv_endpoint) {
        r = endpoint_parse(at, o->rdzv_endpoint, ENDPOINT_NO_PORT, err);
        if (r == 0 && at->port == ENDPOINT_NO_PORT)
            return cc_fail(err, -EINVAL, "port is missing in endpoint: %.200s. Try to specify --master-port",
                           o->rdzv_endpoint);
        return r;
    }
    if (snprintf(text, sizeof text, "%s:%lld", o->master_addr, port) >= (int) sizeof text)
        return cc_fail(err, -EINVAL, "--master-addr is %zu bytes long; the limit is %d",
                       strlen(o->master_addr), ENDPOINT_HOST_MAX - 1);
    return endpoint_parse(at, text, STATIC_PORT, err);
}

static int check_node_rank(struct plan_values *ret, const struct options *o, struct cc_err *err)
{
    if (!is_text(ret->backend, "static"))
        return 0;
    if (o->node_rank < 0 || o->node_rank >= ret->max_nodes)
        return cc_fail(err, -EINVAL, "--node-rank %lld is out of range: the ranks of %u node%s are 0 to %u",
                       (long long) o->node_rank, ret->max_nodes, ret->max_nodes == 1 ? "" : "s",
                       ret->max_nodes - 1);
    ret->node_rank = (unsigned) o->node_rank;
    return 0;
}

/* On one node the store listens where the workers look for it, and nowhere else. */
static int set_addresses(struct plan_values *ret, const struct options *o, const struct endpoint *at,
                         struct cc_err *err)
{
    struct endpoint local = *at;
    bool            is_static = is_text(ret->backend, "static");
    int             r = 0;

    if (o->local_addr && *o->local_addr && !is_static) {
        char text[ENDPOINT_HOST_MAX];

        /* In brackets nothing is taken for a port. */
        if (snprintf(text, sizeof text, o->local_addr[0] == '[' ? "%s" : "[%s]", o->local_addr) >=
            (int) sizeof text)
            return cc_fail(err, -EINVAL, "--local-addr is %zu bytes long; the limit is %d",
                           strlen(o->local_addr), ENDPOINT_HOST_MAX - 3);
        r = endpoint_parse(&local, text, 0, NULL);
    }
    if (r < 0)
        return cc_fail(err, -EINVAL, "--local-addr '%.200s' is neither a host name nor an address",
                       o->local_addr);
    (void) snprintf(ret->master_addr, sizeof ret->master_addr, "%s", local.host);
    (void) snprintf(ret->bind_host, sizeof ret->bind_host, "%s",
                    is_text(local.host, "localhost") ? "127.0.0.1" : local.host);
    ret->is_port_named = at->port > 0;
    ret->port = at->port == ENDPOINT_NO_PORT ? C10D_PORT : (uint16_t) at->port;
    return 0;
}

/* What several nodes would need and one does not: checked, and said. */
static int check_unused(const struct plan_values *p, struct options *o, bool is_file, struct cc_err *err)
{
    struct endpoint unused;
    bool            is_host;
    int             r = rdzvconf_bool(&p->conf, "is_host", true, &is_host, err);

    if (r == 0 && !is_host)
        warnings_add(&o->warnings, "--rdzv-conf is_host=%s: the only node hosts all the same",
                     rdzvconf_get(&p->conf, "is_host"));
    if (is_file)
        warnings_add(&o->warnings,
                     "--rdzv-conf store_type=file: one node needs no file, and ccrun makes none");
    if (strncmp(p->backend, "etcd", 4) != 0)
        return r;
    warnings_add(&o->warnings, "--rdzv-backend %s: one node needs no etcd, and ccrun asks none", p->backend);
    return r < 0 ? r : endpoint_parse(&unused, o->rdzv_endpoint, ETCD_PORT, err);
}

static int resolve_endpoint(struct endpoint *at, const struct plan_values *p, struct options *o,
                            struct cc_err *err)
{
    const char *store = rdzvconf_get(&p->conf, "store_type");
    bool        is_file = is_text(p->backend, "c10d") && store && strcasecmp(store, "file") == 0;
    int         r = check_unused(p, o, is_file, err);

    *at = (struct endpoint){ "127.0.0.1", 0 };
    if (r == 0 && is_text(p->backend, "static"))
        return resolve_static(at, o, err);
    if (r == 0 && is_text(p->backend, "c10d") && !is_file && !is_private(p, o))
        return endpoint_parse(at, o->rdzv_endpoint, ENDPOINT_NO_PORT, err);
    return r;
}

/* What the defaults came down to, for --show-config. */
static int suggest(const struct plan_values *p, struct options *o, struct cc_err *err)
{
    int r = 0;

    if (!is_text(p->backend, o->rdzv_backend))
        r = options_suggest(o, OPTION_rdzv_backend, p->backend, "one node", err);
    if (r == 0 && !is_text(p->run_id, o->rdzv_id))
        r = options_suggest(o, OPTION_rdzv_id, p->run_id, "made up", err);
    return r;
}

static int resolve_rendezvous(struct plan_values *ret, struct options *o, const char *random_id,
                              struct cc_err *err)
{
    struct endpoint at;
    bool            is_auto = is_private(ret, o) && is_text(o->rdzv_backend, "static");
    int             r = o->standalone ? 0 : check_backend(o, err);

    if (r < 0)
        return r;
    ret->backend = o->standalone || is_auto ? "c10d" : o->rdzv_backend;
    if (o->standalone)
        warn_standalone(o);
    choose_run_id(ret, o, is_auto, random_id);
    warn_not_static(ret, o);
    r = check_one_node(ret, o, err);
    if (r == 0)
        r = resolve_endpoint(&at, ret, o, err);
    if (r == 0)
        r = check_node_rank(ret, o, err);
    if (r == 0)
        r = set_addresses(ret, o, &at, err);
    return r < 0 ? r : suggest(ret, o, err);
}

/* ---- the rest */

static int parse_stdin(const char *text, int *ret, struct cc_err *err)
{
    int64_t n;

    if (is_text(text, "none"))
        *ret = PLAN_STDIN_NONE;
    else if (is_text(text, "all"))
        *ret = PLAN_STDIN_ALL;
    else if (pyvalue_int(text, &n) == 0 && n >= 0 && n <= INT_MAX)
        *ret = (int) n;
    else
        return cc_fail(err, -EINVAL, "--stdin: '%.100s' is neither a local rank nor all nor none", text);
    return 0;
}

static int parse_event_log(const char *text, bool *ret, struct cc_err *err)
{
    *ret = is_text(text, "console");
    if (*ret || is_text(text, "null") || is_text(text, "dynamic_rendezvous"))
        return 0;
    return cc_fail(err, -EINVAL, "--event-log-handler: '%.100s' is neither null nor console", text);
}

static int check_limits(const struct options *o, struct cc_err *err)
{
    if (!(o->monitor_interval > 0))
        return cc_fail(err, -EINVAL, "--monitor-interval %s must be > 0", o->text[OPTION_monitor_interval]);
    if (o->log_keep < 0 || o->log_keep > LOG_KEEP_MAX)
        return cc_fail(err, -EINVAL, "--log-keep %lld is out of range (0 to %d)", (long long) o->log_keep,
                       LOG_KEEP_MAX);
    if (o->log_max_size > 0 && o->log_max_size < LOG_SIZE_MIN)
        return cc_fail(err, -EINVAL, "--log-max-size %s is too small: at least 4K, or 0 for no limit",
                       o->text[OPTION_log_max_size]);
    if (o->store_max_memory < STORE_MEMORY_MIN)
        return cc_fail(err, -EINVAL, "--store-max-memory %s is too small: at least 1M",
                       o->text[OPTION_store_max_memory]);
    return 0;
}

/* Texts that are only needed later, when it is known how many workers there are, are checked now. */
static int check_texts(const struct options *o, struct cc_err *err)
{
    int r = logmask_filter(o->local_ranks_filter, NULL, 0, err);

    if (r == 0 && o->logs_specs)
        return cc_fail(
            err, -EINVAL,
            "Could not find entrypoint under 'torchrun.logs_specs[%.100s]' key: ccrun loads no Python "
            "plug-ins",
            o->logs_specs);
    if (r == 0)
        r = logmask_parse("--redirects", o->redirects, NULL, 0, err);
    if (r == 0)
        r = logmask_parse("--tee", o->tee, NULL, 0, err);
    if (r == 0 && o->no_python && o->module && !o->run_path)
        return cc_fail(err, -EINVAL,
                       "Don't use both the '--no-python' flag and the '--module' flag at the same time.");
    return r;
}

static int resolve_failure(struct plan_values *ret, struct options *o, struct cc_err *err)
{
    if (o->shutdown_timeout < 0)
        return cc_fail(err, -EINVAL, "shutdown_timeout must be non-negative, got %lld",
                       (long long) o->shutdown_timeout);
    ret->shutdown_timeout = (uint64_t) o->shutdown_timeout * 1000;
    return stopsignals_parse(o->signals_to_handle, ret->stop_signals, &o->warnings, err);
}

static int resolve_verbosity(struct options *o)
{
    if (o->quiet && o->verbose > 0)
        warnings_add(&o->warnings, "--quiet and --verbose: --quiet wins");
    return o->quiet ? -1 : (int) o->verbose;
}

static int resolve(struct plan_values *ret, struct options *o, const char *random_id, struct cc_err *err)
{
    int r;

    memset(ret, 0, sizeof *ret);
    r = parse_nnodes(o->nnodes, ret, err);
    if (r == 0 && o->max_restarts < 0)
        return cc_fail(err, -EINVAL, "max_restarts must be >= 0, got %lld", (long long) o->max_restarts);
    ret->max_restarts = (unsigned) o->max_restarts;
    if (r == 0)
        r = rdzvconf_parse(&ret->conf, o->rdzv_conf, err);
    if (r == 0)
        r = rdzvconf_check(&ret->conf, &o->warnings, err);
    if (r == 0)
        r = check_texts(o, err);
    if (r == 0)
        r = resolve_failure(ret, o, err);
    if (r == 0)
        r = resolve_rendezvous(ret, o, random_id, err);
    if (r == 0)
        r = check_limits(o, err);
    if (r == 0)
        r = parse_event_log(o->event_log_handler, &ret->is_events_console, err);
    if (r == 0)
        r = parse_stdin(o->stdin_to, &ret->stdin_rank, err);
    ret->verbosity = resolve_verbosity(o);
    return r;
}

int plan_resolve(struct plan_values *ret, struct options *o, const char *random_id, struct cc_err *err)
{
    return oneline_err(err, resolve(ret, o, random_id, err));
}

int plan_streams_init(struct plan_streams *ret, const struct options *o, unsigned nproc, struct cc_err *err)
{
    struct plan_streams s = { calloc(nproc, 1), calloc(nproc, 1), calloc(nproc, sizeof(bool)) };
    int                 r = s.redirects && s.tee && s.is_on_console
                                ? 0
                                : cc_fail(err, -ENOMEM, "no memory for %u workers", nproc);

    if (r == 0)
        r = logmask_parse("--redirects", o->redirects, s.redirects, nproc, err);
    if (r == 0)
        r = logmask_parse("--tee", o->tee, s.tee, nproc, err);
    if (r == 0)
        r = logmask_filter(o->local_ranks_filter, s.is_on_console, nproc, err);
    if (r < 0)
        plan_streams_free(&s);
    else
        *ret = s;
    return r;
}

void plan_streams_free(struct plan_streams *s)
{
    free(s->redirects);
    free(s->tee);
    free(s->is_on_console);
    *s = (struct plan_streams){ 0 };
}

int plan_check_nproc(const struct plan_values *p, unsigned nproc, struct cc_err *err)
{
    if (p->stdin_rank >= 0 && (unsigned) p->stdin_rank >= nproc)
        return cc_fail(err, -EINVAL, "--stdin %d is out of range: the local ranks of %u worker%s are 0 to %u",
                       p->stdin_rank, nproc, nproc == 1 ? "" : "s", nproc - 1);
    return 0;
}
