#include "launcher/plan.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "agent/hosting.h"
#include "agent/logs.h"
#include "launcher/logmask.h"
#include "launcher/oneline.h"
#include "launcher/plan_rdzv.h"
#include "store/base/macros.h"
#include "store/base/pyvalue.h"

enum {
    LOG_KEEP_MAX = 1000,
    LOG_SIZE_MIN = 4096,
    STORE_MEMORY_MIN = 1 << 20,
    QUOTED_MAX = 160,
    IFACE_MAX = 16, /* IFNAMSIZ */
};

static bool is_text(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

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
    if (r < 0 || *ret > RDZV_NODES_MAX || *ret < -RDZV_NODES_MAX)
        return cc_fail(err, -EINVAL, "--nnodes: %s is out of range (1 to %d)", part, RDZV_NODES_MAX);
    return 0;
}

unsigned plan_max_nodes(const char *text)
{
    const char *colon = strchr(text, ':');
    int64_t     max;
    int         r = pyvalue_int(colon ? colon + 1 : text, &max);

    return r < 0 || max < 1 || max > RDZV_NODES_MAX ? 0 : (unsigned) max;
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

static int check_spares(struct plan_values *ret, const struct options *o, struct cc_err *err)
{
    if (o->spares < 0 || o->spares > RDZV_NODES_MAX - (int64_t) ret->max_nodes)
        return cc_fail(err, -EINVAL, "--spares %lld is out of range (0 to %u)", (long long) o->spares,
                       RDZV_NODES_MAX - ret->max_nodes);
    ret->n_spares = (unsigned) o->spares;
    return 0;
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

static int by_number(const void *a, const void *b)
{
    return *(const int *) a - *(const int *) b;
}

static int parse_pass_fds(const char *const *list, struct plan_values *ret, struct cc_err *err)
{
    int64_t fd;

    for (; list && *list; list++) {
        if (pyvalue_int(*list, &fd) < 0 || fd < 3 || fd > PLAN_PASS_LAST)
            return cc_fail(err, -EINVAL, "--pass-fds: '%.40s' is not a descriptor from 3 to %d", *list, PLAN_PASS_LAST);
        if (ret->n_pass_fds == PLAN_PASS_MAX)
            return cc_fail(err, -EINVAL, "--pass-fds: more than %d descriptors", PLAN_PASS_MAX);
        ret->pass_fds[ret->n_pass_fds++] = (int) fd;
    }
    qsort(ret->pass_fds, ret->n_pass_fds, sizeof ret->pass_fds[0], by_number);
    return 0;
}

static int parse_umask(const char *text, mode_t *ret, struct cc_err *err)
{
    unsigned long mode = text ? strtoul(text, NULL, 8) : 0;

    if (text && (text[0] == '\0' || text[strspn(text, "01234567")] != '\0' || mode > 0777))
        return cc_fail(err, -EINVAL, "--umask: '%.40s' is not an octal number from 0 to 777", text);
    *ret = (mode_t) mode;
    return 0;
}

static int parse_event_log(const char *text, bool *ret, struct cc_err *err)
{
    *ret = is_text(text, "console");
    if (*ret || is_text(text, "null") || is_text(text, "dynamic_rendezvous"))
        return 0;
    return cc_fail(err, -EINVAL, "--event-log-handler: '%.100s' is neither null nor console", text);
}

static int check_network(const struct options *o, struct cc_err *err)
{
    struct hostpick_net net;

    if (o->iface && (!*o->iface || strlen(o->iface) >= IFACE_MAX || strpbrk(o->iface, "/ \t\n")))
        return cc_fail(err, -EINVAL, "--iface: '%.40s' is no name of a network interface (1 to %d bytes)", o->iface,
                       IFACE_MAX - 1);
    return o->subnet ? hosting_parse_subnet(&net, o->subnet, err) : 0;
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

static int resolve_restarts(struct plan_values *ret, const struct options *o, struct cc_err *err)
{
    int r;

    if (o->max_restarts.n < 0)
        return cc_fail(err, -EINVAL, "max_restarts must be >= 0, got %lld", (long long) o->max_restarts.n);
    if (o->max_restarts.window > 0 && o->max_restarts.n > BUDGET_WINDOW_MAX)
        return cc_fail(err, -EINVAL, "--max-restarts %s: within a time at most %d restarts can be counted",
                       o->text[OPTION_max_restarts], BUDGET_WINDOW_MAX);
    if (o->max_rejoins < 0)
        return cc_fail(err, -EINVAL, "--max-rejoins must be >= 0, got %lld", (long long) o->max_rejoins);
    ret->max_restarts = (unsigned) o->max_restarts.n;
    ret->restart_window = o->max_restarts.window;
    ret->max_rejoins = options_is_given(o, OPTION_max_rejoins) ? (unsigned) o->max_rejoins : UINT_MAX;
    r = restarts_backoff(o->restart_backoff, &ret->backoff_min, &ret->backoff_max, err);
    if (r == 0 && *o->no_restart_codes)
        r = restarts_codes(o->no_restart_codes, ret->no_restart_codes, err);
    return r;
}

static int resolve_preemption(struct plan_values *ret, const struct options *o, struct cc_err *err)
{
    size_t i;

    if (o->preempt_exit_code < 0 || o->preempt_exit_code > 255)
        return cc_fail(err, -EINVAL, "--preempt-exit-code %lld is out of range (0 to 255)", (long long) o->preempt_exit_code);
    if (!o->preempt_signal)
        return 0;
    ret->preempt_signal = stopsignals_one(o->preempt_signal);
    if (ret->preempt_signal == 0)
        return cc_fail(err, -EINVAL, "--preempt-signal: '%.40s' is no signal that can be handled, such as SIGUSR1",
                       o->preempt_signal);
    for (i = 0; ret->stop_signals[i]; i++)
        if (ret->stop_signals[i] == ret->preempt_signal)
            return cc_fail(err, -EINVAL,
                           "--preempt-signal %.40s: --signals-to-handle has it too, and a signal either stops the job or "
                           "announces a pre-emption",
                           o->preempt_signal);
    if (o->preempt_deadline == 0)
        return cc_fail(err, -EINVAL, "--preempt-deadline 0: the workers need some time, at least 0.001 s");
    return 0;
}

static int resolve_failure(struct plan_values *ret, struct options *o, struct cc_err *err)
{
    int r;

    if (o->shutdown_timeout < 0)
        return cc_fail(err, -EINVAL, "shutdown_timeout must be non-negative, got %lld",
                       (long long) o->shutdown_timeout);
    ret->shutdown_timeout = (uint64_t) o->shutdown_timeout * 1000;
    ret->finish_timeout = options_is_given(o, OPTION_finish_timeout) && o->finish_timeout == 0 ? 1 : o->finish_timeout;
    r = stopsignals_parse(o->signals_to_handle, ret->stop_signals, &o->warnings, err);
    return r < 0 ? r : resolve_preemption(ret, o, err);
}

/* What was typed for something that is not asked for would do nothing, and say nothing. */
static void warn_idle(struct options *o)
{
    const bool has_hosts = o->hosts || o->hostfile || options_is_given(o, OPTION_agent_fd);
    const struct {
        enum option_id id;
        bool           is_used;
        const char    *why;
    } all[] = {
        /* DeepSpeed finds its host file unnamed. */
        { OPTION_include, has_hosts, "--include chooses among the hosts of --hosts or --hostfile, which are not given" },
        { OPTION_exclude, has_hosts, "--exclude chooses among the hosts of --hosts or --hostfile, which are not given" },
        { OPTION_ssh_args, has_hosts, "--ssh-args is for the hosts of --hosts or --hostfile, which are not given" },
        { OPTION_ssh_fanout, has_hosts, "--ssh-fanout is for the hosts of --hosts or --hostfile, which are not given" },
        { OPTION_preflight_policy, o->preflight, "--preflight-policy does nothing without --preflight" },
        { OPTION_preflight_args, o->preflight, "--preflight-args does nothing without --preflight" },
        { OPTION_preflight_timeout, o->preflight, "--preflight-timeout does nothing without --preflight" },
    };
    size_t i;

    for (i = 0; i < CC_COUNT(all); i++)
        if (!all[i].is_used && o->source[all[i].id] == OPTION_ARGV)
            warnings_add(&o->warnings, "%s", all[i].why);
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
    if (r == 0)
        r = check_spares(ret, o, err);
    if (r == 0)
        r = resolve_restarts(ret, o, err);
    if (r == 0)
        r = rdzvconf_parse(&ret->conf, o->rdzv_conf, err);
    if (r == 0)
        r = rdzvconf_check(&ret->conf, &o->warnings, err);
    if (r == 0)
        r = check_texts(o, err);
    if (r == 0)
        r = resolve_failure(ret, o, err);
    if (r == 0)
        r = plan_rendezvous(ret, o, random_id, err);
    if (r == 0)
        r = check_network(o, err);
    if (r == 0)
        r = check_limits(o, err);
    if (r == 0)
        r = parse_event_log(o->event_log_handler, &ret->is_events_console, err);
    if (r == 0)
        r = parse_stdin(o->stdin_to, &ret->stdin_rank, err);
    if (r == 0)
        r = parse_pass_fds(o->pass_fds, ret, err);
    if (r == 0)
        r = parse_umask(o->umask, &ret->umask, err);
    ret->verbosity = resolve_verbosity(o);
    warn_idle(o);
    return r;
}

int plan_resolve(struct plan_values *ret, struct options *o, const char *random_id, struct cc_err *err)
{
    return oneline_err(err, resolve(ret, o, random_id, err));
}

/* With one stream of each worker, what is asked of stderr alone would never come. */
static int check_merged(const struct options *o, const struct plan_streams *s, unsigned nproc, struct cc_err *err)
{
    unsigned i;

    for (i = 0; o->merge && i < nproc; i++)
        if (s->redirects[i] == LOGS_ERR || s->tee[i] == LOGS_ERR)
            return cc_fail(err, -EINVAL,
                           "--merge: local rank %u has no stderr of its own to %s; say 1 or 3 for its stdout, which has both", i,
                           s->tee[i] == LOGS_ERR ? "tee" : "redirect");
    if (o->merge && o->duplicate_stderr_filters)
        return cc_fail(err, -EINVAL, "--merge: there is no stderr to filter; --duplicate-stdout-filters looks at both");
    return 0;
}

int plan_streams_init(struct plan_streams *ret, const struct options *o, unsigned nproc, struct cc_err *err)
{
    struct plan_streams s = { calloc(nproc, 1), calloc(nproc, 1), calloc(nproc, sizeof(bool)) };
    int                 r = s.redirects && s.tee && s.is_on_console
                                ? 0
                                : cc_fail(err, -ENOMEM, "no memory for %u workers", nproc);

    assert(r < 0 || (s.redirects && s.tee));
    if (r == 0)
        r = logmask_parse("--redirects", o->redirects, s.redirects, nproc, err);
    if (r == 0)
        r = logmask_parse("--tee", o->tee, s.tee, nproc, err);
    if (r == 0)
        r = logmask_filter(o->local_ranks_filter, s.is_on_console, nproc, err);
    if (r == 0)
        r = check_merged(o, &s, nproc, err);
    if (r < 0)
        plan_streams_free(&s);
    else
        *ret = s;
    return r;
}

void plan_warn_local_ranks(struct options *o, unsigned nproc)
{
    const struct {
        const char *name, *text;
        bool        is_list; /* of ranks; else 0 to 3 alone is for all of them */
    } all[] = {
        { "--redirects", o->redirects, strchr(o->redirects, ':') },
        { "--tee", o->tee, strchr(o->tee, ':') },
        { "--local-ranks-filter", o->local_ranks_filter, true },
    };
    size_t i;

    for (i = 0; i < CC_COUNT(all); i++) {
        int         len;
        const char *item = all[i].is_list ? logmask_beyond(all[i].text, nproc, &len) : NULL;

        if (item)
            warnings_add(&o->warnings, "%s %.*s is out of range: the local ranks of %u worker%s are 0 to %u", all[i].name, len,
                         item, nproc, nproc == 1 ? "" : "s", nproc - 1);
    }
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
