/* rdzv_msg.h - what a node and the coordinator of its job say to each other.
 *
 * Two messages do the work: hello (node to coordinator) and view (coordinator to one node).  Both carry a whole state and
 * never a change, so one that is lost, doubled, late or overtaken costs a heartbeat and nothing else.  There are O(1) bytes
 * in each, however many nodes there are.  Times are ms; who speaks says by which clock.
 */
#ifndef AGENT_CORE_RDZV_MSG_H
#define AGENT_CORE_RDZV_MSG_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/core/exitstatus.h"

enum { /* room for texts, with their NUL; longer ones are cut by who fills them */
    RDZV_HOST_MAX = 64,
    RDZV_ADDR_MAX = 256, /* a name that the user typed, too */
    RDZV_ROLE_MAX = 64,
    RDZV_VERSION_MAX = 24,
    RDZV_PROGRAM_MAX = 128,
    RDZV_HAVE_MAX = 128,
    RDZV_MISSING_MAX = 128,
    RDZV_TEXT_MAX = 160,
};

enum { RDZV_NODES_MAX = 65536 }; /* of a job at one time, spares included */

#define RDZV_NO_RANK UINT32_MAX

/* The upper bits of a view's seq count the coordinators of the job, one after the other: each has its own clock. */
#define RDZV_TERM_SHIFT 40

enum { /* exit status of a job whose end no worker's status tells */
    RDZV_EXIT_AGAIN = AGENT_EXIT_TEMPORARY, /* its host is gone, or too few nodes are there: start it again */
    RDZV_EXIT_UNFINISHED = AGENT_EXIT_UNFINISHED,
};

enum rdzv_node_phase {
    RDZV_NODE_READY,   /* no worker lives; the node waits for `round` */
    RDZV_NODE_RUNNING, /* workers of `round` live */
    RDZV_NODE_FAILED,  /* one of them failed; the others are being stopped */
    RDZV_NODE_DONE,    /* all workers of `round` ended well */
    RDZV_NODE_LEAVING, /* somebody stopped this node; its workers have their grace time */
    RDZV_NODE_STUCK,   /* something of `round` outlived SIGKILL: no further round here */
    RDZV_NODE_GONE,    /* the last word; with a cause as the first, too: it cannot take part */
    RDZV_NODE_N_PHASES
};

enum rdzv_phase { /* of the job; within a round it only rises */
    RDZV_GATHER,  /* stop what runs; say READY for this round */
    RDZV_SWITCH,  /* the members are chosen; the worker store changes to an empty key space */
    RDZV_ACTIVE,  /* start */
    RDZV_ENDED,   /* well or not: see cause.  For ever */
    RDZV_N_PHASES
};

enum rdzv_cause_kind {
    RDZV_CAUSE_NONE,    /* all workers ended well */
    RDZV_CAUSE_WORKER,  /* a worker failed and there was no restart */
    RDZV_CAUSE_SAME,    /* it failed again and again in the same way: another restart could not help */
    RDZV_CAUSE_LOST,    /* a node was lost, and too few are left */
    RDZV_CAUSE_TIMEOUT, /* too few nodes came in time */
    RDZV_CAUSE_STOPPED, /* somebody stopped the job or all of its nodes */
    RDZV_CAUSE_UNFINISHED, /* workers went on for too long after the first was done */
    RDZV_CAUSE_N_KINDS
};

struct rdzv_cause {
    enum rdzv_cause_kind kind;
    uint32_t round;     /* in which it happened */
    uint64_t at;        /* by the coordinator's clock, as far as the node can tell */
    uint32_t rank;      /* of the worker in the whole job; RDZV_NO_RANK */
    uint32_t code;      /* exit status for ccrun: of the worker, or 128 + signal */
    uint64_t progress;  /* fingerprint of the progress file; 0: there is none */
    bool     is_final;  /* a restart cannot help */
    char     host[RDZV_HOST_MAX];
    char     text[RDZV_TEXT_MAX]; /* "exit code 1", "SIGSEGV", or a sentence */
};

struct rdzv_plan { /* what all nodes of a job must agree on */
    uint32_t min_nodes, max_nodes;
    uint64_t arguments;                 /* fingerprint */
    char     program[RDZV_PROGRAM_MAX]; /* with its first arguments, for people */
    char     version[RDZV_VERSION_MAX]; /* of ccrun */
};

struct rdzv_about { /* what does not change while an agent lives */
    uint32_t nproc;
    int32_t  wish; /* explicit node rank, or -1 */
    uint64_t group; /* fingerprint of the name of those that it should be near; 0: none */
    uint32_t pid;  /* for whoever looks for it; 0: not known */
    uint16_t port; /* where it would host the store of the workers */
    char     host[RDZV_HOST_MAX], addr[RDZV_ADDR_MAX], role[RDZV_ROLE_MAX];
    struct rdzv_plan plan;
};

/* Node to coordinator: at every change, and every heartbeat. */
struct rdzv_hello {
    uint64_t incarnation;  /* of the agent, random */
    uint64_t seq;          /* rises with every hello */
    uint64_t sent_at;      /* the node's clock */
    uint32_t term;         /* of the newest view: cause.at is by the clock of that coordinator; see RDZV_TERM_SHIFT */
    uint32_t round;        /* READY: the one it is ready for; else that of its workers */
    enum rdzv_node_phase phase;
    uint32_t store_round;  /* the key space that it hosts, see rdzv_view.hosts_store; 0: none */
    uint32_t notice_ms;    /* a pre-emption is due in so long; 0: no notice came */
    uint64_t first_done;   /* when the first worker of `round` ended well, by the coordinator's clock; 0: none did */
    bool     has_about;    /* until the first view, and when a view asks for it */
    bool     has_cause;    /* a worker of the last round failed */
    struct rdzv_about about;
    struct rdzv_cause cause;
};

/* Coordinator to one node: in answer to every hello, and when something changes. */
struct rdzv_view {
    uint64_t incarnation; /* of the node it is meant for */
    uint64_t seq;         /* rises with every view, whoever gets it */
    uint64_t clock;       /* the coordinator's */
    uint64_t echo;        /* sent_at of the newest hello */
    uint32_t round;
    enum rdzv_phase phase;
    bool     is_unknown;  /* say who you are: has_about */
    bool     hosts_store; /* change the store of the workers to an empty key space for this round, then say so */
    uint32_t group_rank;  /* RDZV_NO_RANK: no member of this round; a spare, when ACTIVE */
    uint32_t group_world, base_rank, world, base_role_rank, role_world;
    uint32_t restarts;    /* of the whole job */
    uint32_t n_ready, n_wanted, n_min;
    uint32_t wait_ms;     /* until this phase ends by itself; UINT32_MAX: it does not */
    uint64_t notice_at;   /* a pre-emption is due then, by `clock`; 0: none */
    uint16_t port;        /* MASTER_PORT */
    bool     has_cause;   /* ENDED: why.  GATHER: why the last round ended, as far as known */
    char     master[RDZV_ADDR_MAX];     /* MASTER_ADDR */
    char     have[RDZV_HAVE_MAX];       /* GATHER: hosts that are ready: the first ones, and how many more */
    char     missing[RDZV_MISSING_MAX]; /* GATHER: which node ranks, and where they were */
    struct rdzv_cause cause;
};

enum rdzv_refusal { /* a node is not admitted: it should end */
    RDZV_REFUSED_PLAN,
    RDZV_REFUSED_RANK,  /* its node rank is taken, or there can be no such rank */
    RDZV_REFUSED_ENDED, /* the job has ended */
    RDZV_REFUSED_FULL,
    RDZV_REFUSED_ROLE,  /* too many different ones */
    RDZV_REFUSED_JOB,   /* another job lives here, or the secret is wrong */
    RDZV_REFUSED_N
};

struct rdzv_refused {
    enum rdzv_refusal why;
    uint64_t          incarnation;
    char              sentence[2 * RDZV_TEXT_MAX];
};

#endif
