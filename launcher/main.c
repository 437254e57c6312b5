/* main.c - ccrun: the command line becomes a checked job, a keeper and an agent. The only place that prints and exits. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef CCRUN_STATIC
#include <nss.h>
#endif

#include "agent/agent.h"
#include "agent/decline.h"
#include "agent/keeper.h"
#include "launcher/about.h"
#include "launcher/hostlist.h"
#include "launcher/fanout.h"
#include "launcher/fanout_tree.h"
#include "launcher/farend.h"
#include "launcher/job.h"
#include "launcher/options.h"
#include "launcher/probe.h"
#include "launcher/shmsize.h"
#include "launcher/stdstreams.h"

extern char **environ;

static const char *get_env(const char *name)
{
    return getenv(name);
}

static int complain(const struct cc_err *err, int status)
{
    (void) fprintf(stderr, "ccrun: error: %s\n", err->msg);
    return status;
}

static void print_version(void)
{
    (void) printf("ccrun %s%s%s%s\n", CCRUN_VERSION, CCRUN_COMMIT[0] ? " (" : "", CCRUN_COMMIT, CCRUN_COMMIT[0] ? ")" : "");
    about_print(stdout);
}

/* A disk that is full, a pipe that nobody reads: what was asked for is not there. */
static int printed(void)
{
    struct cc_err err = { 0 };

    if (fflush(stdout) == 0)
        return 0;
    (void) cc_fail(&err, -errno, "cannot write to standard output: %s", strerror(errno));
    return complain(&err, AGENT_EXIT_INTERNAL);
}

static int print_hosts(const char *list)
{
    struct hostlist l = { 0 };
    struct cc_err   err = { 0 };
    int             status = 0;

    if (hostlist_nodes(&l, "--expand-hosts", list, &err) < 0)
        status = complain(&err, AGENT_EXIT_USAGE);
    for (size_t i = 0; status == 0 && i < l.n; i++) {
        (void) fputs_unlocked(l.host[i].name, stdout);
        (void) fputc_unlocked('\n', stdout);
    }
    hostlist_clear(&l);
    return status ? status : printed();
}

static int print_probe(const char *what)
{
    struct cc_err err = { 0 };
    int           r = probe(stdout, what, &err), status = printed();

    if (r < 0)
        return complain(&err, AGENT_EXIT_USAGE);
    return status ? status : r;
}

/* Everything that only prints. -1: there is a job to run. */
static int only_prints(const struct options *o)
{
    if (o->help)
        options_help(stdout);
    else if (o->version)
        print_version();
    else if (o->dump)
        (void) options_dump(stdout, o->dump);
    else if (o->expand_hosts)
        return print_hosts(o->expand_hosts);
    else if (o->probe)
        return print_probe(o->probe);
    else
        return -1;
    return printed();
}

static void print_warnings(const struct options *o)
{
    unsigned i;

    for (i = 0; !o->quiet && i < o->warnings.n; i++)
        (void) fprintf(stderr, "ccrun: warning: %s\n", o->warnings.text[i]);
    if (!o->quiet && o->warnings.n_dropped > 0)
        (void) fprintf(stderr, "ccrun: warning: and %u more\n", o->warnings.n_dropped);
}

/* Once for all nodes, unless -v was given. */
static void print_allocation(const struct job *j)
{
    const struct options *o = j->options;
    char                  text[ALLOCATION_TEXT_MAX];
    bool is_used = o->source[OPTION_nnodes] == OPTION_OTHER && o->source[OPTION_rdzv_endpoint] == OPTION_OTHER;

    if (is_used && j->plan.verbosity >= (j->allocation.node_rank == 0 ? 0 : 1))
        (void) fprintf(stderr, "ccrun: %s\n", allocation_text(&j->allocation, text, sizeof text));
}

static void print_hints(const struct job *j)
{
    if (j->allocation.role == ALLOCATION_MEMBER)
        print_allocation(j);
    if (j->plan.verbosity >= 0 && j->nproc.hint[0])
        (void) fprintf(stderr, "ccrun: %s\n", j->nproc.hint);
    if (j->plan.verbosity < 1)
        return;
    (void) fprintf(stderr, "ccrun: %u worker%s of %s (%s); %s\n", j->nproc.n, j->nproc.n == 1 ? "" : "s", j->program.path,
                   j->nproc.why, j->cpus.why);
    if (j->mpi_why[0])
        (void) fprintf(stderr, "ccrun: MPI: %s (%s)\n", mpilib_name(j->mpi), j->mpi_why);
    if (j->cfg.omp_threads > 0 && !getenv("OMP_NUM_THREADS"))
        (void) fprintf(stderr, "ccrun: OMP_NUM_THREADS=%u for each worker\n", j->cfg.omp_threads);
}

/* The keeper lives as long as the job, and needs no secret. */
static void forget_token(void *ctx)
{
    struct job *j = ctx;

    if (j->token)
        explicit_bzero(j->token, j->n_token);
}

/* Returns in the agent, and in the process that could not start one; `far` is NULL, or who started us. */
static int run(struct job *j, struct farend *far)
{
    struct keeper_leash leash = far ? farend_leash(far)
                                    : (struct keeper_leash) { .fd = -1, .began = forget_token, .ctx = j };
    struct cc_err       err = { 0 };
    char                small[SHMSIZE_TEXT_MAX];
    int                 fd;

    if (j->plan.verbosity >= 0 && shmsize_is_small(&j->machine, j->nproc.n, small)) /* of this node: each has its own */
        (void) fprintf(stderr, "ccrun: warning: %s\n", small);
    if (keeper_start(j->cfg.stop_signals, &leash, &fd, &err) < 0)
        return complain(&err, AGENT_EXIT_INTERNAL);
    if (far)
        far->fd = -1; /* the keeper's now */
    return agent_run(&j->cfg, fd);
}

static int show_or_run(struct job *j)
{
    struct cc_err   err = { 0 };
    struct options *o = j->options;

    if (o->show_config)
        options_show_config(stdout, o);
    if (o->dry_run)
        job_show(stdout, j);
    if (o->print_env && job_show_env(stdout, j, &err) < 0)
        return complain(&err, AGENT_EXIT_INTERNAL);
    if (o->show_config || o->dry_run || o->print_env)
        return printed();
    print_hints(j);
    return run(j, NULL);
}

static int check_warnings(struct options *o, struct cc_err *err)
{
    options_check_environ(o, environ);
    return o->strict && warnings_as_error(&o->warnings, err) < 0 ? AGENT_EXIT_USAGE : 0;
}

static void say(const char *sentence)
{
    (void) fprintf(stderr, "ccrun: %s\n", sentence);
}

/* Other nodes would wait for this one, which lacks the program. */
static bool is_awaited(const struct job *j, int status)
{
    const struct options *o = j->options;

    if (status != AGENT_EXIT_NOT_FOUND && status != AGENT_EXIT_CANNOT_RUN)
        return false;
    return j->is_planned && j->plan.hosting != PARTY_ALONE && !o->show_config && !o->dry_run && !o->print_env;
}

static int decline(const struct job *j, int status, const char *why, const struct farend *far)
{
    struct party_cfg         party;
    const struct decline_cfg cfg = {
        .party = &party,
        .status = (unsigned) status,
        .why = why,
        .leash_fd = far ? far->fd : -1,
        .verbosity = j->plan.verbosity,
        .say = say,
    };

    job_fill_party(j, &party);
    if (far) {
        party.secret = far->data.secret;
        party.n_secret = far->data.n_secret;
    }
    return (int) decline_run(&cfg);
}

/* `far` is NULL, or how another ccrun started us: then it has warned already, and node 0 is enough for the rest.  `trouble`:
 * what is in the way already, if it has a code. */
static int launch(struct options *o, struct farend *far, const struct cc_err *trouble)
{
    struct cc_err err = { 0 };
    struct job    j;
    int           status = job_make(&j, o, environ, &err);

    if (far) {
        j.cfg.party.secret = far->data.secret;
        j.cfg.party.n_secret = far->data.n_secret;
    }
    if (trouble->code < 0) {
        err = *trouble;
        status = AGENT_EXIT_NOT_FOUND;
    }
    if (status == 0 && !far)
        status = check_warnings(o, &err);
    if (status != 0) {
        (void) complain(&err, status);
        if (is_awaited(&j, status))
            status = decline(&j, status, err.msg, far);
    } else if (!far) {
        print_warnings(o);
        status = show_or_run(&j);
    } else {
        j.cfg.is_led = true;
        if (far->node_rank == 0)
            print_hints(&j);
        status = run(&j, far);
    }
    job_clear(&j);
    return status;
}

/* The environment is that of node 0, as if it were here. */
static int show_fan_out(struct options *o, const struct fanout *f)
{
    struct cc_err err = { 0 };
    struct job    j;
    int           status;

    if (o->show_config)
        options_show_config(stdout, o);
    if (o->dry_run)
        fanout_show(stdout, f);
    if (!o->print_env)
        return printed();
    if (options_suggest(o, OPTION_node_rank, "0", f->who, &err) < 0)
        return complain(&err, AGENT_EXIT_INTERNAL);
    status = job_make(&j, o, environ, &err);
    if (status == 0 && job_show_env(stdout, &j, &err) < 0)
        status = AGENT_EXIT_INTERNAL;
    job_clear(&j);
    return status == 0 ? printed() : complain(&err, status);
}

static int fan_out(struct options *o, char **argv)
{
    struct cc_err err = { 0 };
    struct fanout f;
    int           status = fanout_make(&f, o, argv, environ, &err);

    if (status == 0)
        status = check_warnings(o, &err);
    if (status != 0) {
        (void) complain(&err, status);
    } else if (o->show_config || o->dry_run || o->print_env) {
        status = show_fan_out(o, &f);
    } else {
        print_warnings(o);
        status = fanout_run(&f);
    }
    fanout_clear(&f);
    return status;
}

/* The command line, the environment and the directory are those of another ccrun. */
static int launch_far(struct options *o, struct farend *far)
{
    struct cc_err err = { 0 };

    if (options_parse(o, far->data.argv, get_env, &err) < 0 || farend_suggest(far, o, &err) < 0)
        return complain(&err, AGENT_EXIT_USAGE);
    if (chdir(far->data.dir) < 0)
        (void) cc_fail(&err, -errno, "the working directory '%.256s' is not on this node: %s", far->data.dir, strerror(errno));
    else
        (void) setenv("PWD", far->data.dir, 1);
    return launch(o, far, &err);
}

/* Others are to be started from here, and one here: see fanout_tree.h. */
static int relay(struct options *o, struct farend *far)
{
    struct cc_err err = { 0 };
    struct fanout f = { 0 };
    int           status = AGENT_EXIT_USAGE;

    if (options_parse(o, far->data.argv, get_env, &err) < 0 || fanout_tree_relay(&f, o, far, &err) < 0)
        (void) complain(&err, status);
    else
        status = fanout_run(&f);
    fanout_clear(&f);
    return status;
}

static int be_agent(int fd)
{
    struct cc_err  err = { 0 };
    struct options o;
    struct farend  far;
    char         **here = environ;
    int            status;

    if (farend_start(fd, environ, &far, &err) < 0) {
        status = complain(&err, AGENT_EXIT_INTERNAL);
    } else {
        environ = far.env;
        status = far.data.n_hosts > 0 ? relay(&o, &far) : launch_far(&o, &far);
        options_free(&o);
        environ = here;
        if (far.fd >= 0 && far.data.n_hosts == 0) /* there is no agent */
            farend_ended(&far, status);
    }
    farend_clear(&far);
    return status;
}

/* A static glibc has files and DNS in it; whatever else nsswitch.conf names it would load, from a machine whose C library may
 * be another one. */
static void look_up_without_modules(void)
{
#ifdef CCRUN_STATIC
    (void) __nss_configure_lookup("hosts", "files dns");
#endif
}

int main(int argc, char **argv)
{
    struct options o;
    struct cc_err  err = { 0 }, none = { 0 };
    int            status;

    (void) argc;
    look_up_without_modules();
    if (stdstreams_open() < 0) {
        (void) cc_fail(&err, -errno, "a standard stream is closed, and '/dev/null' cannot be opened: %s", strerror(errno));
        return complain(&err, AGENT_EXIT_INTERNAL);
    }
    if (options_parse(&o, argv, get_env, &err) < 0) {
        options_usage(stderr);
        status = complain(&err, AGENT_EXIT_USAGE);
    } else {
        status = only_prints(&o);
        if (status < 0)
            status = options_is_given(&o, OPTION_agent_fd)      ? be_agent((int) o.agent_fd)
                     : fanout_way(&o, environ) != FANOUT_NONE ? fan_out(&o, argv)
                                                              : launch(&o, NULL, &none);
    }
    options_free(&o);
    return status;
}
