/* allocation_read.h - how one system's variables become an allocation; for allocation.c and its readers only. */
#ifndef LAUNCHER_ALLOCATION_READ_H
#define LAUNCHER_ALLOCATION_READ_H

#include "launcher/allocation.h"

struct reader {
    const struct machine *m;
    const char           *host;
    struct allocation    *a;
};

/* The value of a variable; NULL: unset or empty. */
const char *reader_text(const struct reader *r, const char *name);

/* A number of `name` up to `max`.  1: *ret is it; 0: unset; -EINVAL: it is none. */
int reader_number(const struct reader *r, const char *name, unsigned max, unsigned *ret, struct cc_err *err);

/* Each sets what the variable says, unless it is unset. */
int reader_nodes(const struct reader *r, const char *name, struct cc_err *err);
int reader_node_rank(const struct reader *r, const char *name, struct cc_err *err);
int reader_port(const struct reader *r, const char *name, struct cc_err *err);

void reader_job_id(const struct reader *r, const char *name); /* up to a '#', which has a number of the node */
void reader_head(const struct reader *r, const char *host, const char *from);
/* HOST or HOST:PORT */
int reader_endpoint(const struct reader *r, const char *name, const char *text, struct cc_err *err);
/* A port that is the same on all nodes and of few other jobs, for lack of a better one. */
void reader_port_of_job(const struct reader *r);

/* The list of hosts is complete: their number, the first of them, and where we stand among them.  What is known already
 * stays. */
void reader_listed(const struct reader *r, const char *from);
/* One host at the end; slots 0: not said. */
int reader_add_host(const struct reader *r, const char *from, const char *name, size_t n, unsigned slots,
                    struct cc_err *err);

/* One function for each system, after the name of the job is known.  0 or -EINVAL, -ENOMEM. */
typedef int reader_fn(const struct reader *r, struct cc_err *err);

reader_fn allocation_slurm, allocation_pbs, allocation_lsf, allocation_sge, allocation_oar, allocation_cobalt,
    allocation_flux, allocation_pals, allocation_mpi;                                      /* allocation_batch.c */
reader_fn allocation_sagemaker, allocation_azure, allocation_aws, allocation_vertex, allocation_skypilot,
    allocation_dlrover, allocation_pods, allocation_indexed_job, allocation_by_node_rank; /* allocation_cloud.c */

#endif
