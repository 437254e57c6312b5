/* check.h - what ccrun-check has found out, on rank 0, which tells it: as a table (check_table.h), as JSON (check_json.h) and
 * as an exit status. */
#ifndef LAUNCHER_CHECK_H
#define LAUNCHER_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "launcher/check_facts.h"
#include "launcher/check_options.h"
#include "launcher/check_pairs.h"
#include "store/base/err.h"

enum { CHECK_TEXT_MAX = 320, CHECK_HOST_MAX = 64, CHECK_FAULTS_MAX = 64, CHECK_WARNINGS_MAX = 32, CHECK_ID_MAX = 24 };

enum check_fault_kind {
    CHECK_FAULT_SILENT,      /* a rank does not answer */
    CHECK_FAULT_FAILED,      /* a call failed */
    CHECK_FAULT_WRONG,       /* what arrived was not what was sent */
    CHECK_FAULT_BROKEN_NODE,
    CHECK_FAULT_BROKEN_LINK,
    CHECK_FAULT_SLOW_NODE,
    CHECK_FAULT_SLOW_LINK,
    CHECK_FAULT_THRESHOLD,
};

struct check_fault {
    enum check_fault_kind kind;
    int                   node; /* that is to blame; -1: none, or it is not known */
    char                  text[CHECK_TEXT_MAX];
};

struct check_row {
    enum check_op op;
    uint64_t      bytes, ns; /* the slowest rank's median */
    uint64_t      n_wrong;   /* elements, of all calls of all ranks */
    bool          is_missed; /* below --min-busbw */
};

struct check_node {
    char         host[CHECK_HOST_MAX];
    int          leader, n_local; /* its lowest rank */
    bool         is_known;        /* it has said hello */
    bool         is_needed;       /* see check_options.h */
    struct nodefacts facts;
    bool         has_skew;
    double       skew_ms, skew_error_ms; /* ahead of node 0's clock */
    double       out, in;                /* GB/s in pairs; CHECK_UNTRIED */
};

struct check_report {
    const struct check_options *options;
    char                        backend[16], id[CHECK_ID_MAX];
    char                        where[CHECK_TEXT_MAX]; /* see measure_where() */
    int                         n_ranks, n_nodes;
    struct check_node          *nodes;
    int                        *node_of; /* of each rank; -1: it has not said hello */
    bool                        is_usage;   /* libccrun refused an argument: what was typed is to blame */
    bool                        is_by_rank; /* there is one machine only: a "node" is a rank */
    struct check_row           *rows;
    unsigned                    n_rows, max_rows;
    double                     *cells; /* n_nodes x n_nodes, or NULL: no pairs */
    unsigned                    n_rounds; /* of pairs, that were made */
    struct check_fault          faults[CHECK_FAULTS_MAX];
    unsigned                    n_faults;
    char                        warnings[CHECK_WARNINGS_MAX][CHECK_TEXT_MAX];
    unsigned                    n_warnings, n_more_warnings;
};

void check_fault(struct check_report *r, enum check_fault_kind kind, int node, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
void check_warn(struct check_report *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

const char *check_fault_name(enum check_fault_kind kind);

/* "node 2 (h3)", or "rank 2" where these are compared. */
const char *check_node_name(const struct check_report *r, int node, char buf[CHECK_HOST_MAX + 32]);

/* Conclusions from what was measured: faults of the pairs, of thresholds and of results, and warnings about differences. */
int check_judge(struct check_report *r, struct cc_err *err);

void check_report_clear(struct check_report *r);

#endif
