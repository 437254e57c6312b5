/* plan.h - from options to values that the agent can work with, and every sentence that says why not.
 *
 * Pure: no clock, no name is looked up, nothing is opened.  The order of the checks and their texts are
 * torchrun's; what it resolves in silence is resolved the same way and is a warning in o->warnings.  Strings
 * are borrowed from the options.
 *
 * A job is alone when no other node can come: --standalone, or one node and no spares.  Then its store listens where the
 * options say, else on the loopback address.  Otherwise the nodes meet at an endpoint that all of them are told.
 */
#ifndef LAUNCHER_PLAN_H
#define LAUNCHER_PLAN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/party.h"
#include "launcher/endpoint.h"
#include "launcher/options.h"
#include "launcher/rdzvconf.h"
#include "launcher/stopsignals.h"
#include "store/base/err.h"

enum { PLAN_PASS_MAX = 64, PLAN_PASS_LAST = 65535 }; /* how many descriptors, and the highest */
enum { PLAN_STDIN_NONE = -1, PLAN_STDIN_ALL = -2, PLAN_NO_RANK = -1 };

struct plan_timings { /* of the rendezvous, ms; see rdzv.h and member.h */
    uint64_t heartbeat, dead_after, lost_after;
    uint64_t join, last_call;
    uint64_t replace; /* 0: nobody takes the place of a lost node */
    uint64_t settle;
};

struct plan_values {
    unsigned    min_nodes, max_nodes, n_spares;
    int         node_rank; /* PLAN_NO_RANK: whichever is free */
    const char *backend;   /* what it came down to: "static", "c10d", "etcd" or "etcd-v2" */
    /* Alone: the name of the job.  Else "" when nobody gave one: a node without takes the name that the host of the endpoint
     * has, because a name made up here would be another on each node. */
    const char *run_id;
    enum party_hosting hosting;
    struct directory_cfg directory; /* hosting is PARTY_HOST_ELECTED; its texts are the options' */

    /* Where the nodes meet; alone, where the store listens: an address, or a name that the caller resolves.  Port 0 (alone):
     * any free one. */
    char     bind_host[ENDPOINT_HOST_MAX];
    char     master_addr[ENDPOINT_HOST_MAX]; /* alone: MASTER_ADDR of the workers */
    char     local_addr[ENDPOINT_HOST_MAX];  /* not alone: what --local-addr says, without brackets; "" */
    uint16_t port;
    bool     is_port_named; /* by the user: workers may have it from elsewhere, so no other will do */
    struct plan_timings timings;

    unsigned max_restarts;
    uint64_t restart_window;                /* ms, 0: the whole job */
    uint64_t backoff_min, backoff_max;      /* ms */
    unsigned max_rejoins;                   /* UINT_MAX: any number */
    bool     no_restart_codes[RESTARTS_CODES];
    uint64_t shutdown_timeout;              /* ms */
    uint64_t finish_timeout;                /* ms, 0: any time */
    int      preempt_signal;                /* 0: none */
    int      stop_signals[STOPSIGNALS_MAX]; /* 0 ends them */
    int      pass_fds[PLAN_PASS_MAX];       /* n_pass_fds of them, ascending */
    unsigned n_pass_fds;
    mode_t   umask;                         /* only if --umask was given */
    int      stdin_rank;                    /* a local rank, PLAN_STDIN_NONE or PLAN_STDIN_ALL */
    bool     is_events_console;
    int      verbosity; /* -1 quiet, 0, 1, 2 ... */

    struct rdzvconf conf;
};

/* MAX of the --nnodes N or MIN:MAX; 0: plan_resolve() will say what is wrong with it. */
unsigned plan_max_nodes(const char *text);

/* random_id names the job when nobody else did; it is borrowed.  -EINVAL: one sentence for the user. */
int plan_resolve(struct plan_values *ret, struct options *o, const char *random_id, struct cc_err *err);

/* What the options say about each worker, once it is known how many there are. */
struct plan_streams {
    uint8_t *redirects, *tee; /* masks, one for each worker */
    bool    *is_on_console;
};

int  plan_streams_init(struct plan_streams *ret, const struct options *o, unsigned nproc, struct cc_err *err);
void plan_streams_free(struct plan_streams *s);

/* Local ranks of --redirects, --tee and --local-ranks-filter that no worker has are warnings in o->warnings: whose output is to
 * be seen is not seen. */
void plan_warn_local_ranks(struct options *o, unsigned nproc);

/* Do the values fit that many workers? */
int plan_check_nproc(const struct plan_values *p, unsigned nproc, struct cc_err *err);

#endif
