/* agent.h - run one node's part of a job: start the workers, watch them, restart them, and say how it ended.
 *
 * The launcher fills struct agent_cfg and calls agent_run() once; everything in it is borrowed until it returns.
 * agent_run() owns the event loop, the store that the workers meet on, the workers and their output.  It returns
 * the exit status of ccrun (table in ccrun.1) and never exits itself.
 */
#ifndef AGENT_H
#define AGENT_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/core/exitstatus.h"
#include "agent/core/verdict.h"
#include "agent/core/workerenv.h"
#include "agent/logs.h"
#include "agent/mpijob.h"
#include "agent/party.h"
#include "store/base/err.h"

struct agent_worker { /* what differs between the workers of one node */
    const cpu_set_t *mask;            /* CPUs, or NULL: inherit */
    const char      *visible_devices; /* CUDA_VISIBLE_DEVICES, or NULL: inherit */
};

struct agent_preflight { /* see preflight.h */
    const char         *program; /* path of ccrun-check; NULL: nothing is checked before the workers */
    char *const        *args;    /* more of its arguments, NULL-terminated; or NULL */
    enum verdict_policy policy;
    uint64_t            timeout; /* ms, of any one answer of a rank */
};

struct agent_cfg {
    const char  *program; /* path to execve, already looked up and checked */
    const char  *entry;   /* what reports call it: the script or module as typed */
    char *const *argv;    /* of a worker, NULL-terminated */
    const char  *python;  /* the interpreter that the workers are, or NULL */
    const char  *python_why; /* what chose it, or NULL: the user named it */
    bool         is_macros; /* --macros: ${local_rank} and friends in argv are replaced, per worker */
    char *const *env;     /* what workers inherit, NULL-terminated; the variables of the contract come on top */

    unsigned                   nproc;
    const struct agent_worker *workers; /* nproc of them, or NULL */
    bool                       is_virtual_local_rank;
    unsigned                   omp_threads; /* OMP_NUM_THREADS when unset; 0: leave it unset */
    int                        stdin_rank;  /* local rank that gets our stdin; -1 none, -2 all */
    bool                       is_terminal_wanted; /* that worker gets the terminal too, if stdin is one */
    const int                 *pass_fds;    /* descriptors that workers get with these numbers; see spawn.h */
    unsigned                   n_pass_fds;
    const mode_t              *umask;       /* of the workers; NULL: ours */
    bool                       is_cgroup;   /* --cgroup auto: use a cgroup of our own where one may be made */

    enum mpi_kind mpi;        /* what the workers' MPI library is served by */
    const char   *mpi_helper; /* PMIx: path of ccrun-pmix */

    struct agent_preflight preflight;

    const char *run_id, *role;
    struct party_cfg party;
    const char *backend;     /* name of the rendezvous, for the event lines */
    const char *host;        /* our name for reports; never looked up */

    unsigned    max_restarts;
    uint64_t    shutdown_timeout;   /* ms from SIGTERM to SIGKILL; party.node has it too */
    uint64_t    unkillable_timeout; /* ms from SIGKILL to giving up on a worker in D state; also there */
    const int  *stop_signals;     /* signals that stop the job, 0-terminated */
    const bool *no_restart_codes; /* [256]: a worker's exit status (128 + signal) after which no restart helps */
    const char *progress_file;    /* a failure at another state of it is another failure; NULL */
    int         preempt_signal;   /* announces a pre-emption; 0: none does */
    uint64_t    preempt_deadline; /* ms from that signal to the end */
    unsigned    preempt_exit_code; /* ccrun's exit status when the workers ended well after it */
    const char *signals_to_handle; /* the same as typed: exported to the workers */

    struct logs_cfg logs;
    const char     *report_file;  /* --report FILE, or NULL */
    bool            is_events_console; /* --event-log-handler console */
    int             verbosity;    /* -1 quiet, 0, 1, 2 */
    bool            is_led; /* another ccrun started us, and suspends itself: on SIGTSTP we stop our workers and stay awake,
                             * or the other nodes would take us for lost */
};

/* The variables of the workers' environment in a round, for --print-env as for the real thing.  Strings are borrowed from
 * both. */
struct workerenv_job agent_env_of(const struct agent_cfg *cfg, const struct rdzv_view *round);

/* keeper_fd: end of file on it means that the keeper is gone and the tree must go too; -1: there is no keeper. */
int agent_run(const struct agent_cfg *cfg, int keeper_fd);

#endif
