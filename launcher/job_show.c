#include "launcher/job.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/core/workerenv.h"
#include "launcher/cpulist.h"
#include "launcher/facts.h"
#include "launcher/shellword.h"
#include "store/base/macros.h"

static void print_command(FILE *to, const struct job *j)
{
    shellword_put(to, j->program.path);
    (void) fputc(j->program.argv[1] ? ' ' : '\n', to);
    if (j->program.argv[1])
        shellword_line(to, j->program.argv + 1);
}

/* Those that differ from worker to worker stand with the rank. */
static bool is_per_rank(const char *entry)
{
    static const char *const names[] = { "RANK=", "LOCAL_RANK=", "ROLE_RANK=", "TORCHELASTIC_ERROR_FILE=",
                                         "CUDA_VISIBLE_DEVICES=" };
    size_t                   i;

    for (i = 0; i < CC_COUNT(names); i++)
        if (strncmp(entry, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

/* Those that are known only when the nodes have met. */
static bool is_of_round(const struct job *j, const char *entry)
{
    static const char *const names[] = { "RANK=",      "WORLD_SIZE=",      "GROUP_RANK=",  "GROUP_WORLD_SIZE=",
                                         "ROLE_RANK=", "ROLE_WORLD_SIZE=", "MASTER_ADDR=", "MASTER_PORT=" };
    size_t                   i;

    for (i = 0; j->plan.hosting != PARTY_ALONE && i < CC_COUNT(names); i++)
        if (strncmp(entry, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

static bool is_inherited(const struct job *j, const char *entry)
{
    char *const *e;

    for (e = j->env.list; *e; e++)
        if (*e == entry)
            return true;
    return false;
}

static void print_variable(FILE *to, const char *entry)
{
    size_t n = strcspn(entry, "=");

    (void) fprintf(to, "%.*s=", (int) n, entry);
    shellword_put(to, entry[n] ? entry + n + 1 : "");
    (void) fputc('\n', to);
}

/* As it will be when nobody else comes. */
static struct rdzv_view first_round(const struct job *j)
{
    struct rdzv_view v = { .group_world = 1, .world = j->nproc.n, .role_world = j->nproc.n, .port = j->plan.port };

    (void) snprintf(v.master, sizeof v.master, "%s", j->plan.master_addr);
    return v;
}

/* What ccrun adds to the inherited environment, --env included; --print-env shows all of it. */
static void print_environment(FILE *to, const struct job *j)
{
    const char *const          *add = j->options->add_env;
    const struct rdzv_view      round = first_round(j);
    const struct workerenv_job  job = agent_env_of(&j->cfg, &round);
    const struct workerenv_rank rank = { .error_file = "" };
    struct workerenv           *e = NULL;
    char *const                *v = workerenv_new(&e, j->env.list, &job, NULL) < 0 ? NULL : workerenv_for(e, &rank);

    (void) fputs("environment\n", to);
    for (; add && *add; add++) {
        (void) fputs("  ", to);
        print_variable(to, *add);
    }
    for (; v && *v; v++) {
        if (is_inherited(j, *v) || is_per_rank(*v))
            continue;
        (void) fputs("  ", to);
        if (is_of_round(j, *v))
            (void) fprintf(to, "%.*s=<known when the nodes have met>\n", (int) strcspn(*v, "="), *v);
        else if (j->plan.port == 0 && strncmp(*v, "MASTER_PORT=", 12) == 0)
            (void) fputs("MASTER_PORT=<any free one>\n", to);
        else
            print_variable(to, *v);
    }
    e = workerenv_free(e);
}

static void print_ranks(FILE *to, const struct job *j)
{
    unsigned i;
    char     cpus[256];

    (void) fputs("workers\n", to);
    for (i = 0; i < j->nproc.n; i++) {
        if (j->plan.hosting == PARTY_ALONE)
            (void) fprintf(to, "  RANK=%u LOCAL_RANK=%u ROLE_RANK=%u", i, j->cfg.is_virtual_local_rank ? 0 : i, i);
        else
            (void) fprintf(to, "  LOCAL_RANK=%u", j->cfg.is_virtual_local_rank ? 0 : i);
        if (j->devices)
            (void) fprintf(to, " CUDA_VISIBLE_DEVICES=%s", j->devices[i]);
        if (j->masks)
            (void) fprintf(to, "  cpus %s", cpulist_format(&j->masks[i], cpus, sizeof cpus));
        (void) fputc('\n', to);
    }
}

static void print_place(FILE *to, const struct job *j)
{
    const struct plan_values *p = &j->plan;
    char                      rank[32] = "any free rank";

    if (p->hosting == PARTY_ALONE) {
        (void) fprintf(to, "job       %s\nnode      %s: rank 0 of 1, ", p->run_id, j->host);
    } else {
        if (p->node_rank != PLAN_NO_RANK)
            (void) snprintf(rank, sizeof rank, "rank %d", p->node_rank);
        (void) fprintf(to, "job       %s\nnode      %s: %s of ", p->run_id[0] ? p->run_id : "named by its host", j->host, rank);
        (void) fprintf(to, p->min_nodes == p->max_nodes ? "%u" : "%u to %u", p->min_nodes, p->max_nodes);
        if (p->n_spares > 0)
            (void) fprintf(to, " and %u spare%s", p->n_spares, p->n_spares == 1 ? "" : "s");
        (void) fputs(", ", to);
    }
    (void) fprintf(to, "%u worker%s (%s)\n", j->nproc.n, j->nproc.n == 1 ? "" : "s", j->nproc.why);
}

static void print_meeting(FILE *to, const struct job *j)
{
    static const char *const who[] = {
        [PARTY_ALONE] = "",
        [PARTY_HOST_AUTO] = "whoever has that address",
        [PARTY_HOST_YES] = "this node (is_host)",
        [PARTY_HOST_NO] = "another node (is_host)",
        [PARTY_HOST_ELECTED] = "",
    };
    const struct plan_values *p = &j->plan;

    if (p->hosting == PARTY_HOST_ELECTED) {
        (void) fprintf(to, "meet      %s (%s), hosted by whoever is elected\n", p->bind_host, p->backend);
        return;
    }
    if (p->hosting != PARTY_ALONE) {
        (void) fprintf(to, strchr(p->bind_host, ':') ? "meet      [%s]:%u" : "meet      %s:%u", p->bind_host, p->port);
        (void) fprintf(to, " (%s), hosted by %s\n", p->backend, who[p->hosting]);
        return;
    }
    (void) fprintf(to, "store     %s port ", j->bind_addr);
    if (p->port)
        (void) fprintf(to, "%u%s\n", p->port, p->is_port_named ? "" : ", or any free one if that is taken");
    else
        (void) fputs("any free one\n", to);
}

void job_show(FILE *to, const struct job *j)
{
    struct facts facts;
    char         text[FACTS_TEXT_MAX];

    facts_read(&j->machine, &facts);
    print_place(to, j);
    (void) fputs(facts_text(&facts, text, sizeof text), to);
    if (j->allocation.role != ALLOCATION_NONE)
        (void) fprintf(to, "allocated %s\n", allocation_text(&j->allocation, text, sizeof text));
    if (j->gpus.why[0])
        (void) fprintf(to, "gpus      %s\n", j->gpus.why);
    print_meeting(to, j);
    (void) fprintf(to, "restarts  %u\ncommand   ", j->plan.max_restarts);
    print_command(to, j);
    print_environment(to, j);
    print_ranks(to, j);
}

/* What is chosen when the job starts is a comment here, not a value that would be wrong. */
static void print_variable_now(FILE *to, const struct job *j, const char *entry)
{
    if (strcmp(entry, "TORCHELASTIC_ERROR_FILE=") == 0)
        (void) fputs("# TORCHELASTIC_ERROR_FILE is chosen at the start\n", to);
    else if (is_of_round(j, entry))
        (void) fprintf(to, "# %.*s is known when the nodes have met\n", (int) strcspn(entry, "="), entry);
    else if (j->plan.port == 0 && strncmp(entry, "MASTER_PORT=", 12) == 0)
        (void) fputs("# MASTER_PORT is any free one\n", to);
    else
        print_variable(to, entry);
}

int job_show_env(FILE *to, const struct job *j, struct cc_err *err)
{
    const struct rdzv_view     round = first_round(j);
    const struct workerenv_job job = agent_env_of(&j->cfg, &round);
    struct workerenv *e = NULL;
    unsigned          i;
    int               r = workerenv_new(&e, j->env.list, &job, err);

    for (i = 0; r == 0 && i < j->nproc.n; i++) {
        const struct workerenv_rank rank = {
            .local_rank = i,
            .error_file = "",
            .visible_devices = j->devices ? j->devices[i] : NULL,
        };
        char *const *v = workerenv_for(e, &rank);

        if (!v)
            r = cc_fail(err, -ENOMEM, "no memory for the environment");
        (void) fprintf(to, j->plan.hosting == PARTY_ALONE ? "# rank %u\n" : "# local rank %u\n", i);
        for (; v && *v; v++)
            print_variable_now(to, j, *v);
    }
    e = workerenv_free(e);
    return r;
}
