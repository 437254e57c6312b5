/* check_run.h - the course of ccrun-check on every rank: who is there, what the nodes are like, pairs, operations.
 *
 * All ranks go through the same steps.  Rank 0 has the report; a step that shows that the next one cannot work is the last.
 */
#ifndef LAUNCHER_CHECK_RUN_H
#define LAUNCHER_CHECK_RUN_H

#include "launcher/check.h"
#include "launcher/check_board.h"

enum { CHECK_GRACE_MS = 5000 }; /* for who times out a little later than we */

struct check_run {
    const struct check_options *options;
    struct board                board;
    int                        *place; /* of each rank: its node (or itself), and */
    int                        *local; /* its number there */
    int                         n_nodes;
    bool                        is_by_rank;
    bool                        is_passed; /* nothing new: this very set of nodes was checked before */
    struct ccrun_pg            *world;     /* mpi, which knows one world: every group is made of it.  Else NULL */
    struct check_report        *report;    /* rank 0; else NULL */
};

/* 0, also where something is broken: that is in the report.  Else the check itself could not be made. */
int  check_run(struct check_run *c, struct cc_err *err);
void check_run_clear(struct check_run *c); /* not the board, not the report */

/* Steps of it, with the files they are in. */
int check_meet(struct check_run *c, struct cc_err *err);   /* check_meet.c; 1: the run is over */
int check_clocks(struct check_run *c, struct cc_err *err); /* check_meet.c */
int check_pairs(struct check_run *c, struct cc_err *err);  /* check_rounds.c; 1: the run is over */

/* A process group that has the store of the board: of all ranks, or of this one and another, of which the lower is 0. */
int  check_open_all(struct check_run *c, struct ccrun_pg **ret, struct cc_err *err);
int  check_open_pair(const struct check_run *c, int other, uint64_t timeout_ms, struct ccrun_pg **ret, struct cc_err *err);
void check_close_group(const struct check_run *c, struct ccrun_pg *pg);

/* A call that failed, as a post: "!CODE sentence"; and how it is read.  False: it is no such post. */
void check_put_failure(const struct cc_err *err, char *buf, size_t size);
bool check_get_failure(const char *post, int *ret_code, const char **ret_sentence);

/* Rank 0: what those that are silent are to blame for. */
void check_note_silent(struct check_run *c, char *const *posts, const char *during);

#endif
