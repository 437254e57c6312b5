/* allocation.h - the nodes that a scheduler gave the job, and which of them we are; each value with the variable that says so.
 *
 * Reads the environment and the files that it names, and nothing else: a fake machine gives the same answer.  What a system
 * does not say is left out and is no error; what cannot be understood is one, because a wrong node rank is worse than none.
 * How many workers a node should have is scheduler.h's business.
 */
#ifndef LAUNCHER_ALLOCATION_H
#define LAUNCHER_ALLOCATION_H

#include <stdbool.h>

#include "launcher/hostlist.h"
#include "launcher/machine.h"
#include "launcher/options.h"
#include "launcher/scheduler.h"
#include "store/base/err.h"

enum { ALLOCATION_HOST_MAX = 256, ALLOCATION_ID_MAX = 128, ALLOCATION_TEXT_MAX = 512, ALLOCATION_NO_RANK = -1 };

enum allocation_role {
    ALLOCATION_NONE,   /* nothing is known of other nodes */
    ALLOCATION_MEMBER, /* a ccrun is started on each node, and we are one of them */
    ALLOCATION_HEAD,   /* a batch script or its shell: nobody but us starts anything on the other nodes */
    ALLOCATION_EITHER, /* the system does not let us tell */
};

struct allocation {
    enum allocation_role role;
    const char *system; /* "Slurm"; NULL: none */

    unsigned    nodes; /* 0: not said */
    const char *nodes_from;
    int         node_rank; /* ALLOCATION_NO_RANK: not said */
    const char *node_rank_from;
    char        group[ALLOCATION_TEXT_MAX]; /* the nodes that are near each other have the same; "" */
    const char *group_from;
    char        head[ALLOCATION_HOST_MAX]; /* where the nodes can meet: a name or an address without brackets; "" */
    const char *head_from;
    unsigned    port; /* there; 0: not said */
    const char *port_from;
    char        job_id[ALLOCATION_ID_MAX]; /* the same on all nodes, and of no other job; "" */
    const char *job_id_from;
    const char *iface, *iface_from; /* that the nodes reach each other by; NULL */

    /* How many of us were started on this node, or on the fullest, when that is more than one: each would start workers for
     * all of it. */
    unsigned    crowd; /* 0: one, or not said */
    const char *crowd_from;
    bool        is_crowd_elsewhere; /* that many on another node, and one on this */
    unsigned    n_tasks;   /* of us on all nodes */
    int         task_rank; /* which of them we are */
    const char *task_rank_from;

    struct hostlist hosts; /* in the order of the node ranks; empty when the system has no list */
};

/* `host` is our own name.  Strings that are not in the struct belong to the environment.  -EINVAL and one sentence that
 * names the variable.  Release with allocation_clear() in any case. */
int  allocation_read(struct allocation *ret, const struct machine *m, const char *host, struct cc_err *err);
void allocation_clear(struct allocation *a);

/* Gives the options that nobody set what the allocation says: --nnodes, --node-rank, --rdzv-endpoint, --rdzv-id, --iface.
 * The number of nodes only for a MEMBER; the rest only when there are to be several.  -EINVAL: several of us on one node
 * (and nobody said --nnodes). */
int allocation_suggest(const struct allocation *a, struct options *o, struct cc_err *err);

/* The switches in Slurm's SLURM_TOPOLOGY_ADDR: "s0.leaf2" of "s0.leaf2.n17" with "switch.switch.node" for
 * SLURM_TOPOLOGY_ADDR_PATTERN; "" when there are none; all of it without a pattern.  Either may be NULL.  Returns buf. */
const char *allocation_switches(const char *address, const char *pattern, char *buf, size_t size);

/* Where a job meets when nobody says: one of JOB_PORTS ports, the same for the same name.  They lie below those that the
 * kernel gives to whoever connects: one of these may be taken when the job begins. */
enum { JOB_PORT_FIRST = 20001, JOB_PORTS = 12000 };
unsigned allocation_job_port(const char *job_id);

/* "Slurm 14.0: 4 nodes, this is node 2, they meet at n17:29541"; returns buf. */
const char *allocation_text(const struct allocation *a, char *buf, size_t size);

#endif
