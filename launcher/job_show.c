#include "launcher/job.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/core/workerenv.h"
#include "launcher/cpulist.h"
#include "launcher/facts.h"
#include "store/base/macros.h"

/* A word as a shell would need it. */
static void print_word(FILE *to, const char *s)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./,:@%";

    if (*s && strspn(s, plain) == strlen(s)) {
        (void) fputs(s, to);
        return;
    }
    (void) fputc('\'', to);
    for (; *s; s++)
        if (*s == '\'')
            (void) fputs("'\\''", to);
        else
            (void) fputc(*s, to);
    (void) fputc('\'', to);
}

static void print_command(FILE *to, const struct job *j)
{
    char *const *a;

    print_word(to, j->program.path);
    for (a = j->program.argv + 1; *a; a++) {
        (void) fputc(' ', to);
        print_word(to, *a);
    }
    (void) fputc('\n', to);
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

static bool is_inherited(const struct job *j, const char *entry)
{
    char *const *e;

    for (e = j->env; *e; e++)
        if (*e == entry)
            return true;
    return false;
}

static void print_variable(FILE *to, const char *entry)
{
    size_t n = strcspn(entry, "=");

    (void) fprintf(to, "%.*s=", (int) n, entry);
    print_word(to, entry[n] ? entry + n + 1 : "");
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
    char *const                *v = workerenv_new(&e, j->env, &job, NULL) < 0 ? NULL : workerenv_for(e, &rank);

    (void) fputs("environment\n", to);
    for (; add && *add; add++) {
        (void) fputs("  ", to);
        print_variable(to, *add);
    }
    for (; v && *v; v++) {
        if (is_inherited(j, *v) || is_per_rank(*v))
            continue;
        (void) fputs("  ", to);
        if (j->plan.port == 0 && strncmp(*v, "MASTER_PORT=", 12) == 0)
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
        (void) fprintf(to, "  RANK=%u LOCAL_RANK=%u ROLE_RANK=%u", i, j->cfg.is_virtual_local_rank ? 0 : i, i);
        if (j->devices)
            (void) fprintf(to, " CUDA_VISIBLE_DEVICES=%s", j->devices[i]);
        if (j->masks)
            (void) fprintf(to, "  cpus %s", cpulist_format(&j->masks[i], cpus, sizeof cpus));
        (void) fputc('\n', to);
    }
}

void job_show(FILE *to, const struct job *j)
{
    struct facts facts;
    char         text[FACTS_TEXT_MAX];

    facts_read(&j->machine, &facts);
    (void) fprintf(to, "job       %s\n", j->plan.run_id);
    (void) fprintf(to, "node      %s: rank 0 of 1, %u worker%s (%s)\n", j->host, j->nproc.n, j->nproc.n == 1 ? "" : "s",
                   j->nproc.why);
    (void) fputs(facts_text(&facts, text, sizeof text), to);
    if (j->gpus.why[0])
        (void) fprintf(to, "gpus      %s\n", j->gpus.why);
    (void) fprintf(to, "store     %s port ", j->bind_addr);
    if (j->plan.port)
        (void) fprintf(to, "%u%s", j->plan.port, j->plan.is_port_named ? "" : ", or any free one if that is taken");
    else
        (void) fputs("any free one", to);
    (void) fprintf(to, "\nrestarts  %u\ncommand   ", j->plan.max_restarts);
    print_command(to, j);
    print_environment(to, j);
    print_ranks(to, j);
}

/* What is chosen when the job starts is a comment here, not a value that would be wrong. */
static void print_variable_now(FILE *to, const struct job *j, const char *entry)
{
    if (strcmp(entry, "TORCHELASTIC_ERROR_FILE=") == 0)
        (void) fputs("# TORCHELASTIC_ERROR_FILE is chosen at the start\n", to);
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
    int               r = workerenv_new(&e, j->env, &job, err);

    for (i = 0; r == 0 && i < j->nproc.n; i++) {
        const struct workerenv_rank rank = {
            .local_rank = i,
            .error_file = "",
            .visible_devices = j->devices ? j->devices[i] : NULL,
        };
        char *const *v = workerenv_for(e, &rank);

        if (!v)
            r = cc_fail(err, -ENOMEM, "no memory for the environment");
        (void) fprintf(to, "# rank %u\n", i);
        for (; v && *v; v++)
            print_variable_now(to, j, *v);
    }
    e = workerenv_free(e);
    return r;
}
