/* job.h - options and facts put together: everything that agent_run() needs, checked before anything starts. */
#ifndef LAUNCHER_JOB_H
#define LAUNCHER_JOB_H

#include <limits.h>
#include <sched.h>

#include "agent/agent.h"
#include "launcher/allocation.h"
#include "launcher/cpus.h"
#include "launcher/environment.h"
#include "launcher/gpus.h"
#include "launcher/machine.h"
#include "launcher/mpilib.h"
#include "launcher/nproc.h"
#include "launcher/numa.h"
#include "launcher/options.h"
#include "launcher/plan.h"
#include "launcher/program.h"

enum { JOB_HOST_MAX = 256, JOB_ID_MAX = 37, JOB_ADDR_MAX = 64 };

#define JOB_GRACE_AS_PID_1 "8" /* seconds, of the ten between SIGTERM and SIGKILL: the rest is for the end itself */

struct job {
    struct options     *options; /* borrowed */
    struct machine      machine;
    struct allocation   allocation; /* the nodes that a scheduler gave us */
    struct plan_values  plan;
    bool                is_planned; /* all but the program is there, whatever job_make() returned */
    struct cpus         cpus;
    struct gpus         gpus;
    struct nproc        nproc;
    struct program      program;
    struct plan_streams streams;
    enum mpi_kind       mpi;      /* what the workers' MPI library is served by, and why */
    char                mpi_why[MPILIB_WHY_MAX];
    char                mpi_helper[PATH_MAX]; /* ccrun-pmix */
    char                preflight_program[PATH_MAX]; /* ccrun-check */
    char              **preflight_args;
    cpu_set_t          *masks;    /* CPUs of each worker, NULL: as inherited */
    char              **devices;  /* CUDA_VISIBLE_DEVICES of each worker, NULL: as inherited */
    struct environment  env;      /* what the workers inherit */
    char               *env_file, **env_file_list; /* what it borrows: the file's bytes, and the entries in them */
    char               *env_iface[2];
    uint8_t            *token;    /* that all nodes of the job know, or NULL */
    size_t              n_token;
    struct agent_worker *workers;
    char host[JOB_HOST_MAX];      /* our name, never looked up */
    char random_id[JOB_ID_MAX];
    char bind_addr[JOB_ADDR_MAX]; /* alone: numeric; else "" */
    struct agent_cfg cfg;         /* points into the above */
};

/* 0, or the exit status of ccrun and one sentence.  Release with job_clear() in any case. */
int  job_make(struct job *j, struct options *o, char *const *env, struct cc_err *err);
void job_clear(struct job *j);

/* Parts of job_make() (job_env.c): the workers' environment, and the secret of the job. */
int  job_make_env(struct job *j, char *const *env, struct cc_err *err);
int  job_clean_mpi(struct job *j, struct cc_err *err); /* later: of what is inherited, not of what was given */
int  job_read_token(struct job *j, struct cc_err *err);
void job_clear_env(struct job *j);

/* Into cfg, when that is filled (job_preflight.c). */
int job_make_preflight(struct job *j, struct cc_err *err);

/* The part of the job that is the same on all nodes, and where they meet (job_party.c). */
void job_fill_party(const struct job *j, struct party_cfg *p);

/* --dry-run and --print-env (job_show.c). */
void job_show(FILE *to, const struct job *j);
int  job_show_env(FILE *to, const struct job *j, struct cc_err *err);

#endif
