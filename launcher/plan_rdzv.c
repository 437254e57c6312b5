#include "launcher/plan_rdzv.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "launcher/near.h"
#include "store/base/macros.h"

enum {
    C10D_PORT = 29400,
    STATIC_PORT = 29500,
    ETCD_PORT = 2379,
    STATIC_JOIN_S = 900, /* torchrun's "timeout" */
    SECONDS_MAX = 1000 * 1000 * 1000,
    INTERVAL_MAX_S = 3600,
    ATTEMPTS_MAX = 1000,
    SETTLE_EXTRA_MS = 1500,
    LOST_MIN_MS = 6000,
};

#define FOR_EVER_MS (UINT64_C(1) << 40) /* 34 years: may be added to any time */

static bool is_text(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

static bool is_static(const struct plan_values *p)
{
    return is_text(p->backend, "static");
}

/* A scheduler that names the first node does not mean the static rendezvous by it. */
static bool is_typed(const struct options *o, enum option_id id)
{
    return o->source[id] == OPTION_ARGV || o->source[id] == OPTION_ENV;
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

/* ---- what both have in common */

/* static: HOST:PORT of the endpoint, else of --master-addr and --master-port. */
static int resolve_static(struct endpoint *at, const struct options *o, int default_port, struct cc_err *err)
{
    char      text[ENDPOINT_HOST_MAX + 32];
    long long port = options_is_given(o, OPTION_master_port) ? (long long) o->master_port : default_port;
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
    return endpoint_parse(at, text, default_port, err);
}

static int check_node_rank(struct plan_values *ret, const struct options *o, struct cc_err *err)
{
    unsigned n = ret->max_nodes + ret->n_spares;

    ret->node_rank = PLAN_NO_RANK;
    if (!options_is_given(o, OPTION_node_rank))
        return 0;
    if (o->node_rank < 0 || o->node_rank >= n)
        return cc_fail(err, -EINVAL, "--node-rank %lld is out of range: the ranks of %u node%s are 0 to %u%s",
                       (long long) o->node_rank, n, n == 1 ? "" : "s", n - 1,
                       n > 1 || options_is_given(o, OPTION_nnodes) ? "" : "; give all nodes --nnodes N if there are more");
    ret->node_rank = (int) o->node_rank;
    return 0;
}

/* The text of --local-addr without brackets; "" when there is none. */
static int parse_local_addr(char ret[ENDPOINT_HOST_MAX], const char *text, struct cc_err *err)
{
    struct endpoint at;
    char            whole[ENDPOINT_HOST_MAX];
    int             r;

    ret[0] = '\0';
    if (!text || !*text)
        return 0;
    /* In brackets nothing is taken for a port. */
    if (snprintf(whole, sizeof whole, text[0] == '[' ? "%s" : "[%s]", text) >= (int) sizeof whole)
        return cc_fail(err, -EINVAL, "--local-addr is %zu bytes long; the limit is %d", strlen(text),
                       ENDPOINT_HOST_MAX - 3);
    r = endpoint_parse(&at, whole, 0, NULL);
    if (r < 0)
        return cc_fail(err, -EINVAL, "--local-addr '%.200s' is neither a host name nor an address", text);
    if (endpoint_is_nobody(at.host))
        return cc_fail(err, -EINVAL, "--local-addr '%.60s' is no machine's address: give the one by which the other nodes reach "
                                     "this one, or leave the option out", text);
    memcpy(ret, at.host, sizeof at.host);
    return 0;
}

/* ---- alone: no other node can come */

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
        { "--spares", OPTION_spares, o->spares != 0 },
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
    if (is_static(p))
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

/* Is the job alone on a free port, as torchrun makes it when nobody says where the others are to be found? */
static bool is_private(const struct options *o)
{
    if (o->standalone)
        return true;
    if (*o->rdzv_endpoint)
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

/* On one node the store listens where the workers look for it, and nowhere else. */
static int set_addresses(struct plan_values *ret, const struct options *o, const struct endpoint *at,
                         struct cc_err *err)
{
    char local[ENDPOINT_HOST_MAX] = "";
    int  r = is_static(ret) ? 0 : parse_local_addr(local, o->local_addr, err);

    if (r < 0)
        return r;
    (void) snprintf(ret->master_addr, sizeof ret->master_addr, "%s", local[0] ? local : at->host);
    (void) snprintf(ret->bind_host, sizeof ret->bind_host, "%s",
                    is_text(ret->master_addr, "localhost") ? "127.0.0.1" : ret->master_addr);
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
    if (r == 0 && is_static(p))
        return resolve_static(at, o, STATIC_PORT, err);
    if (r == 0 && is_text(p->backend, "c10d") && !is_file && !is_private(o))
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

/* Member and coordinator are one process: neither is lost without the other. */
static const struct plan_timings alone_timings = {
    .heartbeat = 24 * 3600 * 1000,
    .dead_after = FOR_EVER_MS,
    .lost_after = FOR_EVER_MS,
    .join = FOR_EVER_MS,
    .settle = FOR_EVER_MS,
};

static int plan_alone(struct plan_values *ret, struct options *o, const char *random_id, struct cc_err *err)
{
    struct endpoint at;
    bool            is_auto = is_private(o) && is_text(o->rdzv_backend, "static");
    int             r;

    ret->hosting = PARTY_ALONE;
    ret->timings = alone_timings;
    ret->backend = o->standalone || is_auto ? "c10d" : o->rdzv_backend;
    if (o->standalone)
        warn_standalone(o);
    choose_run_id(ret, o, is_auto, random_id);
    warn_not_static(ret, o);
    r = resolve_endpoint(&at, ret, o, err);
    if (r == 0 && is_static(ret))
        r = check_node_rank(ret, o, err);
    if (r == 0)
        r = set_addresses(ret, o, &at, err);
    ret->node_rank = PLAN_NO_RANK; /* it is 0 */
    return r < 0 ? r : suggest(ret, o, err);
}

/* ---- several nodes */

/* A static job has a fixed set of nodes: all of them, and no one else. */
static void choose_backend(struct plan_values *ret, struct options *o)
{
    bool is_like_static =
        is_typed(o, OPTION_master_addr) || is_typed(o, OPTION_master_port) || is_typed(o, OPTION_node_rank);

    ret->backend = options_is_given(o, OPTION_rdzv_backend) ? o->rdzv_backend : is_like_static ? "static" : "c10d";
    if (!is_static(ret))
        return;
    if (ret->min_nodes != ret->max_nodes)
        warnings_add(&o->warnings, "--nnodes %s: the static rendezvous waits for all %u nodes", o->nnodes,
                     ret->max_nodes);
    ret->min_nodes = ret->max_nodes;
}

static const char *first_of(const struct rdzvconf *c, const char *key, const char *other)
{
    const char *v = rdzvconf_get(c, key);

    return v ? v : rdzvconf_get(c, other);
}

/* etcd: its members.  Two names for the same, as torchrun has them: of etcd-v2 and of the older etcd. */
static int set_etcd(struct plan_values *ret, const struct options *o, struct cc_err *err)
{
    const struct rdzvconf *c = &ret->conf;

    if (!*o->rdzv_endpoint)
        return cc_fail(err, -EINVAL, "--rdzv-backend %s needs --rdzv-endpoint HOST[:PORT][,...]: the members of the etcd cluster",
                       ret->backend);
    ret->directory = (struct directory_cfg) {
        .endpoints = o->rdzv_endpoint,
        .protocol = rdzvconf_get(c, "protocol"),
        .ca_file = first_of(c, "ca_cert", "cacert"),
        .cert_file = first_of(c, "ssl_cert", "cert"),
        .key_file = first_of(c, "ssl_cert_key", "key"),
        .prefix = rdzvconf_get(c, "etcd_prefix"),
        .user = rdzvconf_get(c, "user"),
        .password = rdzvconf_get(c, "password"),
    };
    (void) snprintf(ret->bind_host, sizeof ret->bind_host, "etcd at %.200s", o->rdzv_endpoint);
    return 0;
}

static bool is_file_meant(const struct plan_values *p, const struct options *o)
{
    const char *store = rdzvconf_get(&p->conf, "store_type");

    return strncmp(o->rdzv_endpoint, "file:", 5) == 0 || (is_text(p->backend, "c10d") && store && strcasecmp(store, "file") == 0);
}

/* file:///path, or with store_type=file the path alone. */
static int set_file(struct plan_values *ret, const struct options *o, struct cc_err *err)
{
    const char *path = o->rdzv_endpoint;

    if (strncmp(path, "file://", 7) == 0)
        path += 7;
    else if (strncmp(path, "file:", 5) == 0)
        path += 5;
    if (*path != '/' || path[strlen(path) - 1] == '/')
        return cc_fail(err, -EINVAL, "--rdzv-endpoint '%.200s': a file as the rendezvous is file:///PATH, which all nodes see",
                       o->rdzv_endpoint);
    ret->directory = (struct directory_cfg) { .path = path };
    (void) snprintf(ret->bind_host, sizeof ret->bind_host, "%.240s", path);
    return 0;
}

static bool is_elected(const struct plan_values *p, const struct options *o)
{
    return strncmp(p->backend, "etcd", 4) == 0 || is_file_meant(p, o);
}

static int set_directory(struct plan_values *ret, const struct options *o, struct cc_err *err)
{
    ret->hosting = PARTY_HOST_ELECTED;
    return is_file_meant(ret, o) ? set_file(ret, o, err) : set_etcd(ret, o, err);
}

/* Nobody waits ten minutes to learn that an option was forgotten. */
static int find_endpoint(struct endpoint *at, const struct plan_values *p, const struct options *o, struct cc_err *err)
{
    int r;

    if (!*o->rdzv_endpoint && !options_is_given(o, OPTION_master_addr)) {
        if (is_static(p))
            return cc_fail(err, -EINVAL,
                           "--nnodes %s needs --master-addr ADDR (or CCRUN_MASTER_ADDR or PET_MASTER_ADDR): the "
                           "address of node rank 0, the same on all nodes",
                           o->nnodes);
        return cc_fail(err, -EINVAL,
                       "--nnodes %s needs --rdzv-endpoint HOST[:PORT] (or CCRUN_RDZV_ENDPOINT or PET_RDZV_ENDPOINT): "
                       "where the nodes meet, an address of one of them, the same on all",
                       o->nnodes);
    }
    if (is_static(p))
        r = resolve_static(at, o, STATIC_PORT, err);
    else if (*o->rdzv_endpoint)
        r = endpoint_parse(at, o->rdzv_endpoint, C10D_PORT, err);
    else
        r = resolve_static(at, o, C10D_PORT, err);
    if (r == 0 && at->port == 0)
        return cc_fail(err, -EINVAL, "port 0 of '%.200s' is any free one, which the other nodes cannot know: name one",
                       *o->rdzv_endpoint ? o->rdzv_endpoint : o->master_addr);
    return r;
}

static int choose_host(struct plan_values *ret, struct cc_err *err)
{
    bool is_host;
    int  r = rdzvconf_bool(&ret->conf, "is_host", true, &is_host, err);

    if (r < 0)
        return r;
    ret->hosting = !rdzvconf_get(&ret->conf, "is_host") ? PARTY_HOST_AUTO : is_host ? PARTY_HOST_YES : PARTY_HOST_NO;
    return 0;
}

static int conf_seconds(const struct rdzvconf *c, const char *key, int64_t dflt, uint64_t *ret_ms, struct cc_err *err)
{
    int64_t n;
    int     r = rdzvconf_int(c, key, dflt, &n, err);

    if (r < 0)
        return r;
    if (n <= 0 || n > SECONDS_MAX)
        return cc_fail(err, -EINVAL, "--rdzv-conf %s=%s: not 1 to %d seconds", key, rdzvconf_get(c, key), SECONDS_MAX);
    *ret_ms = (uint64_t) n * 1000;
    return 0;
}

/* A heartbeat is sent so often that as many as keep_alive_max_attempt may be missed before the node counts as lost. */
static int set_liveness(struct plan_timings *t, const struct rdzvconf *c, struct cc_err *err)
{
    int64_t interval = 0, attempts = 0;
    int     r = rdzvconf_int(c, "keep_alive_interval", 1, &interval, err);

    if (r == 0)
        r = rdzvconf_int(c, "keep_alive_max_attempt", 3, &attempts, err);
    if (r < 0)
        return r;
    if (interval < 1 || interval > INTERVAL_MAX_S)
        return cc_fail(err, -EINVAL, "--rdzv-conf keep_alive_interval=%lld: not 1 to %d seconds", (long long) interval,
                       INTERVAL_MAX_S);
    if (attempts < 1 || attempts > ATTEMPTS_MAX)
        return cc_fail(err, -EINVAL, "--rdzv-conf keep_alive_max_attempt=%lld: not 1 to %d", (long long) attempts,
                       ATTEMPTS_MAX);
    t->dead_after = (uint64_t) (interval * attempts) * 1000;
    t->heartbeat = t->dead_after / (uint64_t) (attempts + 1);
    t->lost_after = 2 * t->dead_after > LOST_MIN_MS ? 2 * t->dead_after : LOST_MIN_MS;
    t->settle = t->dead_after + SETTLE_EXTRA_MS;
    return 0;
}

static int set_timings(struct plan_values *ret, struct cc_err *err)
{
    struct plan_timings   *t = &ret->timings;
    const struct rdzvconf *c = &ret->conf;
    int                    r = set_liveness(t, c, err);

    if (r == 0 && is_static(ret) && !rdzvconf_get(c, "join_timeout"))
        r = conf_seconds(c, "timeout", STATIC_JOIN_S, &t->join, err);
    else if (r == 0)
        r = conf_seconds(c, "join_timeout", 600, &t->join, err);
    if (r == 0)
        r = conf_seconds(c, "last_call_timeout", 30, &t->last_call, err);
    t->replace = is_static(ret) ? 0 : t->join;
    return r;
}

static int plan_several(struct plan_values *ret, struct options *o, struct cc_err *err)
{
    struct endpoint at = { "", ENDPOINT_NO_PORT };
    int             r;

    choose_backend(ret, o);
    ret->run_id = options_is_given(o, OPTION_rdzv_id) ? o->rdzv_id : "";
    r = is_elected(ret, o) ? set_directory(ret, o, err) : find_endpoint(&at, ret, o, err);
    if (r == 0)
        r = check_node_rank(ret, o, err);
    if (r == 0 && ret->hosting != PARTY_HOST_ELECTED)
        r = choose_host(ret, err);
    if (r == 0)
        r = parse_local_addr(ret->local_addr, o->local_addr, err);
    if (r == 0)
        r = set_timings(ret, err);
    if (r < 0)
        return r;
    if (ret->hosting == PARTY_HOST_ELECTED)
        return options_suggest(o, OPTION_rdzv_backend, ret->backend, "several nodes", err);
    memcpy(ret->bind_host, at.host, sizeof ret->bind_host);
    memcpy(ret->master_addr, at.host, sizeof ret->master_addr);
    ret->port = (uint16_t) at.port;
    ret->is_port_named = true;
    return options_suggest(o, OPTION_rdzv_backend, ret->backend, "several nodes", err);
}

/* ---- which of the two */

static int check_standalone(struct plan_values *ret, struct options *o, struct cc_err *err)
{
    if (!o->standalone)
        return 0;
    if (ret->min_nodes > 1)
        return cc_fail(err, -EINVAL, "--nnodes %s needs %u nodes, and --standalone is for one", o->nnodes, ret->min_nodes);
    if (ret->max_nodes > 1)
        warnings_add(&o->warnings, "--standalone: --nnodes %s is one node, which waits for no other", o->nnodes);
    ret->max_nodes = 1;
    ret->n_spares = 0;
    return 0;
}

int plan_rendezvous(struct plan_values *ret, struct options *o, const char *random_id, struct cc_err *err)
{
    int r = check_standalone(ret, o, err);

    if (r == 0 && !o->standalone)
        r = check_backend(o, err);
    if (r < 0)
        return r;
    return ret->max_nodes + ret->n_spares == 1 ? plan_alone(ret, o, random_id, err) : plan_several(ret, o, err);
}
