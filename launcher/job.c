#include "launcher/job.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/base/macros.h"

/* A UUID of version 4, as torchrun names a job that has no name. */
static void make_random_id(char id[JOB_ID_MAX])
{
    unsigned char b[16];

    if (getrandom(b, sizeof b, GRND_NONBLOCK) != (ssize_t) sizeof b)
        memset(b, 0, sizeof b); /* early boot: the name is for people, nothing depends on it */
    b[6] = (unsigned char) ((b[6] & 0x0f) | 0x40);
    b[8] = (unsigned char) ((b[8] & 0x3f) | 0x80);
    (void) snprintf(id, JOB_ID_MAX, "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0], b[1],
                    b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
}

/* The endpoint's host as a number. Only a name that the user gave is ever looked up. */
static int resolve_host(const char *host, char addr[JOB_ADDR_MAX], struct cc_err *err)
{
    struct addrinfo  hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG };
    struct addrinfo *list = NULL;
    unsigned char    number[16];
    int              r;

    if (inet_pton(AF_INET, host, number) == 1 || inet_pton(AF_INET6, host, number) == 1) {
        memcpy(addr, host, strlen(host) + 1); /* a number is shorter than that */
        return 0;
    }
    r = getaddrinfo(host, NULL, &hints, &list);
    if (r != 0)
        return cc_fail(err, -EHOSTUNREACH, "the host '%s' of the endpoint cannot be resolved: %s", host,
                       r == EAI_SYSTEM ? strerror(errno) : gai_strerror(r));
    r = getnameinfo(list->ai_addr, list->ai_addrlen, addr, JOB_ADDR_MAX, NULL, 0, NI_NUMERICHOST);
    freeaddrinfo(list);
    return r == 0 ? 0 : cc_fail(err, -EINVAL, "the address of '%s' has no text form", host);
}

static bool needs_gpus(const struct options *o)
{
    return o->gpus || o->mask_gpus || o->numa_binding;
}

static int choose_devices(struct job *j, struct cc_err *err)
{
    const struct options *o = j->options;
    unsigned              n = j->nproc.n;

    if (o->virtual_local_rank && !o->gpus)
        return gpus_virtual(machine_env(&j->machine, "CUDA_VISIBLE_DEVICES"), n, &j->devices, err);
    if (o->mask_gpus || o->virtual_local_rank)
        return gpus_mask(&j->gpus, n, &j->devices, err);
    if (o->gpus)
        return gpus_share(&j->gpus, n, &j->devices, err);
    return 0;
}

static int bind_workers(struct job *j, struct cc_err *err)
{
    enum numa_mode mode;
    int            r = numa_parse(j->options->numa_binding, &mode, err);

    if (r < 0)
        return r;
    j->masks = calloc(j->nproc.n, sizeof *j->masks);
    if (!j->masks)
        return cc_fail(err, -ENOMEM, "no memory for %u workers", j->nproc.n);
    return numa_bind(&j->machine, mode, &j->gpus, j->nproc.n, j->masks, err);
}

/* --show-config tells what will happen, not what happens without a scheduler. */
static int suggest_nproc(struct job *j, struct cc_err *err)
{
    char text[16];

    (void) snprintf(text, sizeof text, "%u", j->nproc.n);
    return options_suggest(j->options, OPTION_nproc_per_node, text, j->nproc.from, err);
}

/* How many workers, and on what. */
static int look_at_machine(struct job *j, struct cc_err *err)
{
    struct options  *o = j->options;
    bool             has_gpus = needs_gpus(o);
    struct nproc_req req = {
        .text = options_is_given(o, OPTION_nproc_per_node) ? o->nproc_per_node : NULL,
        .gpus = has_gpus ? &j->gpus : NULL,
        .is_chosen = o->gpus,
        .is_masked = o->mask_gpus || o->virtual_local_rank,
        .host = j->host,
    };
    int r = cpus_count(&j->machine, &j->cpus, err);

    if (r == 0 && has_gpus)
        r = gpus_count(&j->machine, false, &j->gpus, err);
    if (r == 0 && o->gpus)
        r = gpus_select(&j->gpus, o->gpus, err);
    if (r == 0)
        r = nproc_resolve(&j->machine, &req, &j->nproc, err);
    if (r == 0 && j->nproc.from)
        r = suggest_nproc(j, err);
    if (r == 0)
        r = plan_check_nproc(&j->plan, j->nproc.n, err);
    if (r == 0)
        r = choose_devices(j, err);
    if (r == 0 && o->numa_binding)
        r = bind_workers(j, err);
    return r;
}

static int make_workers(struct job *j, struct cc_err *err)
{
    unsigned i;

    if (!j->devices && !j->masks)
        return 0;
    j->workers = calloc(j->nproc.n, sizeof *j->workers);
    if (!j->workers)
        return cc_fail(err, -ENOMEM, "no memory for %u workers", j->nproc.n);
    for (i = 0; i < j->nproc.n; i++) {
        j->workers[i].visible_devices = j->devices ? j->devices[i] : NULL;
        j->workers[i].mask = j->masks ? &j->masks[i] : NULL;
    }
    return 0;
}

/* Who speaks of MPI does not speak of Python. */
static bool is_mpi_program(const struct options *o)
{
    return options_is_given(o, OPTION_mpi) && strcmp(o->mpi, "none") != 0 && !o->module && !o->run_path && o->worker_argv[0] &&
           program_is_compiled(o->worker_argv[0]);
}

static int find_program(struct job *j, struct cc_err *err)
{
    const struct options    *o = j->options;
    const struct program_req req = {
        .script = o->worker_argv[0],
        .args = o->worker_argv + 1,
        .is_module = o->module,
        .is_no_python = o->no_python || is_mpi_program(o),
        .is_run_path = o->run_path,
    };

    struct machine worker = j->machine;

    if (!o->worker_argv[0])
        return 0; /* --show-config alone */
    worker.env = j->env.list; /* --env PATH=... counts */
    return program_resolve(&worker, &req, &j->program, err);
}

/* As told; but a library that asks by the other protocol finds nobody, and makes a world of one of each worker. */
static void take_mpi(struct job *j, const struct mpilib_req *req, enum mpi_kind kind)
{
    char          why[MPILIB_WHY_MAX];
    enum mpi_kind seen = kind == MPI_NONE ? MPI_NONE : mpilib_find(req, why);

    j->mpi = kind;
    if (seen != MPI_NONE && seen != kind)
        warnings_add(&j->options->warnings, "--mpi %s, but %s wants --mpi %s: each worker would be a world of its own (%s)",
                     mpilib_name(kind), req->script ? req->script : req->program, mpilib_name(seen), why);
}

static int choose_mpi(struct job *j, struct cc_err *err)
{
    static const struct {
        const char   *name;
        enum mpi_kind kind;
    } kinds[] = { { "none", MPI_NONE }, { "pmi1", MPI_PMI1 }, { "pmix", MPI_PMIX } };
    const struct options   *o = j->options;
    const struct machine    worker = { .root = "", .env = j->env.list };
    const struct mpilib_req req = {
        .machine = &worker,
        .program = j->program.path,
        .script = j->program.python ? o->worker_argv[0] : NULL,
        .is_module = o->module && !o->run_path,
    };
    size_t i;

    if (!o->worker_argv[0])
        return 0;
    for (i = 0; i < CC_COUNT(kinds) && strcmp(kinds[i].name, o->mpi) != 0; i++)
        ;
    if (i == CC_COUNT(kinds))
        j->mpi = mpilib_find(&req, j->mpi_why);
    else
        take_mpi(j, &req, kinds[i].kind);
    if (j->mpi == MPI_PMI1 && j->plan.n_pass_fds > 0 && j->plan.pass_fds[0] == MPIJOB_FD)
        return cc_fail(err, -EINVAL, "--pass-fds: descriptor %d is that of MPI (--mpi none goes without)", MPIJOB_FD);
    if (j->mpi == MPI_PMIX && program_beside_us("ccrun-pmix", j->mpi_helper) < 0) {
        (void) cc_fail(err, -ENOENT, "--mpi pmix needs '%.300s', which is built where libpmix (libpmix-dev) is", j->mpi_helper);
        if (i < CC_COUNT(kinds))
            return err->code;
        warnings_add(&j->options->warnings, "%s, which is not served: %s", j->mpi_why, err->msg);
        j->mpi = MPI_NONE;
    }
    return j->mpi == MPI_NONE ? 0 : job_clean_mpi(j, err);
}

/* Found out now, not when a day of work is to be reported. */
static int check_report_file(const char *path, struct cc_err *err)
{
    char        dir[PATH_MAX];
    struct stat st;
    const char *slash = path ? strrchr(path, '/') : NULL;
    int         n;

    if (path && stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return cc_fail(err, -EISDIR, "--report: '%s' is a directory; name a file", path);
    if (!path || access(path, W_OK) == 0)
        return 0;
    if (errno != ENOENT)
        return cc_fail(err, -errno, "--report: '%.256s' cannot be written: %s", path, strerror(errno));
    n = slash ? snprintf(dir, sizeof dir, "%.*s", (int) (slash - path + 1), path) : snprintf(dir, sizeof dir, ".");
    if (n < 0 || (size_t) n >= sizeof dir || access(dir, W_OK) < 0)
        return cc_fail(err, -errno, "--report: no file can be made in '%.256s': %s", dir, strerror(errno));
    return 0;
}

/* What torchrun calls a job of several nodes that has no name. */
static const char *job_name(const struct job *j)
{
    return j->plan.run_id[0] ? j->plan.run_id : "none";
}

static void fill_logs(struct job *j, struct logs_cfg *l)
{
    const struct options *o = j->options;

    *l = (struct logs_cfg) {
        .nproc = j->nproc.n,
        .redirects = j->streams.redirects,
        .tee = j->streams.tee,
        .is_on_console = j->streams.is_on_console,
        .log_dir = o->log_dir,
        .run_id = job_name(j),
        .role = o->role,
        .is_label = o->label,
        .is_merged = o->merge,
        .prefix_template = machine_env(&j->machine, "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE"),
        .dup_out = o->duplicate_stdout_filters,
        .dup_err = o->duplicate_stderr_filters,
        .cr = strcmp(o->cr, "keep") == 0 ? LOGS_CR_KEEP : LOGS_CR_AUTO,
        .is_dropping = strcmp(o->log_overflow, "drop") == 0,
        .max_size = o->log_max_size,
        .keep = (unsigned) o->log_keep,
        .is_strict = strcmp(o->log_errors, "refuse") == 0,
        .drain_ms = o->drain_timeout,
        .console_fd = { STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO },
    };
}

/* `--no-python python3 train.py` is Python, too. */
static const char *python_of(const struct program *p)
{
    const char *slash = p->path ? strrchr(p->path, '/') : NULL;

    if (p->python || !slash)
        return p->python;
    return strncmp(slash + 1, "python", 6) == 0 ? p->path : NULL;
}

static void fill_cfg(struct job *j)
{
    const struct options *o = j->options;

    j->cfg = (struct agent_cfg) {
        .program = j->program.path,
        .entry = j->program.entry,
        .argv = j->program.argv,
        .python = python_of(&j->program),
        .python_why = j->program.python_why,
        .is_macros = o->macros,
        .env = j->env.list,
        .nproc = j->nproc.n,
        .workers = j->workers,
        .is_virtual_local_rank = o->virtual_local_rank,
        .omp_threads = j->nproc.n > 1 ? cpus_omp_threads(&j->cpus, j->nproc.n) : 0,
        .stdin_rank = j->plan.stdin_rank,
        .is_terminal_wanted = j->plan.stdin_rank >= 0 && (j->nproc.n == 1 || options_is_given(o, OPTION_stdin_to)),
        .pass_fds = j->plan.pass_fds,
        .n_pass_fds = j->plan.n_pass_fds,
        .umask = o->umask ? &j->plan.umask : NULL,
        .is_cgroup = strcmp(o->cgroup, "auto") == 0,
        .mpi = j->mpi,
        .mpi_helper = j->mpi_helper,
        .run_id = job_name(j),
        .role = o->role,
        .backend = j->plan.backend,
        .host = j->host,
        .max_restarts = j->plan.max_restarts,
        .shutdown_timeout = j->plan.shutdown_timeout,
        .unkillable_timeout = o->unkillable_timeout,
        .stop_signals = j->plan.stop_signals,
        .signals_to_handle = o->signals_to_handle,
        .no_restart_codes = j->plan.no_restart_codes,
        .progress_file = o->progress_file,
        .preempt_signal = j->plan.preempt_signal,
        .preempt_deadline = o->preempt_deadline,
        .preempt_exit_code = (unsigned) o->preempt_exit_code,
        .report_file = o->report,
        .is_events_console = j->plan.is_events_console,
        .verbosity = j->plan.verbosity,
    };
    fill_logs(j, &j->cfg.logs);
    job_fill_party(j, &j->cfg.party);
}

/* Whoever starts agents tells them all of it, and so does a cautious user: then the scheduler need not be understood. */
static int find_place(struct job *j, struct cc_err *err)
{
    struct options *o = j->options;
    bool            is_told = options_is_given(o, OPTION_nnodes) && options_is_given(o, OPTION_node_rank) &&
                   (options_is_given(o, OPTION_rdzv_endpoint) || options_is_given(o, OPTION_master_addr));
    bool            is_alone = options_is_given(o, OPTION_nnodes) && o->spares == 0 &&
                    (strcmp(o->nnodes, "1") == 0 || strcmp(o->nnodes, "1:1") == 0);
    int             r;

    if (o->standalone || is_told || is_alone)
        return 0;
    r = allocation_read(&j->allocation, &j->machine, j->host, err);
    return r < 0 ? r : allocation_suggest(&j->allocation, o, err);
}

/* As process 1 we are a container, which is killed 10 s after it was told to stop (docker stop) unless somebody said more. */
static int suggest_grace(struct options *o, struct cc_err *err)
{
    return getpid() == 1 ? options_suggest(o, OPTION_shutdown_timeout, JOB_GRACE_AS_PID_1, "as process 1", err) : 0;
}

/* Before anything opens a file; and what we have opened all the same is closed on exec, as nothing is that we inherited. */
static int check_pass_fds(const struct plan_values *p, struct cc_err *err)
{
    unsigned i;
    int      flags;

    for (i = 0; i < p->n_pass_fds; i++) {
        flags = fcntl(p->pass_fds[i], F_GETFD);
        if (flags < 0 || flags & FD_CLOEXEC)
            return cc_fail(err, -EINVAL, "--pass-fds: ccrun was started without a descriptor %d", p->pass_fds[i]);
    }
    return 0;
}

int job_make(struct job *j, struct options *o, char *const *env, struct cc_err *err)
{
    int r;

    *j = (struct job) { .options = o, .machine = { .root = "" } };
    make_random_id(j->random_id);
    if (gethostname(j->host, sizeof j->host - 1) < 0 || j->host[0] == '\0')
        (void) snprintf(j->host, sizeof j->host, "localhost");
    r = find_place(j, err);
    if (r == 0)
        r = suggest_grace(o, err);
    if (r == 0)
        r = plan_resolve(&j->plan, o, j->random_id, err);
    if (r == 0)
        r = check_pass_fds(&j->plan, err);
    if (r == 0 && j->plan.hosting == PARTY_ALONE)
        r = resolve_host(j->plan.bind_host, j->bind_addr, err);
    if (r == 0)
        r = look_at_machine(j, err);
    if (r == 0)
        r = plan_streams_init(&j->streams, o, j->nproc.n, err);
    if (r == 0)
        plan_warn_local_ranks(o, j->nproc.n);
    if (r == 0)
        r = make_workers(j, err);
    if (r == 0)
        r = job_make_env(j, env, err);
    if (r == 0)
        r = job_read_token(j, err);
    if (r == 0)
        r = check_report_file(o->report, err);
    if (r < 0)
        return r == -ENOMEM ? AGENT_EXIT_INTERNAL : AGENT_EXIT_USAGE;
    j->is_planned = true;
    r = find_program(j, err);
    if (r == 0)
        r = choose_mpi(j, err);
    if (r < 0)
        return program_exit_status(r);
    fill_cfg(j);
    r = job_make_preflight(j, err);
    return r < 0 ? r == -ENOMEM ? AGENT_EXIT_INTERNAL : AGENT_EXIT_USAGE : 0;
}

void job_clear(struct job *j)
{
    allocation_clear(&j->allocation);
    program_clear(&j->program);
    gpus_clear(&j->gpus);
    gpus_strings_free(j->devices);
    plan_streams_free(&j->streams);
    free(j->preflight_args);
    free(j->masks);
    free(j->workers);
    job_clear_env(j);
}
