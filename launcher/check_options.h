/* check_options.h - the command line of ccrun-check, parsed and checked.  Pure, but for getopt's own state: not from two
 * threads.  Strings are borrowed from argv. */
#ifndef LAUNCHER_CHECK_OPTIONS_H
#define LAUNCHER_CHECK_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "launcher/check_perf.h"
#include "launcher/check_sizes.h"
#include "store/base/err.h"

struct check_options {
    const char        *backend, *interface, *json; /* json: a file, "-" is stdout */
    struct check_sizes sizes;
    bool               is_wanted[CHECK_N_OPS];
    bool               has_pairs;
    uint64_t           pair_bytes;
    unsigned           pair_rounds; /* 0: until all have met */
    double             slow;        /* a node is slow below this part of what is usual */
    double             min_busbw;   /* GB/s at the largest size; 0: whatever it is */
    unsigned           iters, warmup;
    uint64_t           timeout_ms, max_skew_ms;
    bool               is_help, is_version;

    /* ccrun --preflight starts us with these, and with shorter defaults. */
    bool        is_preflight;
    int         agent_fd;  /* where the verdict goes, one line; -1: there is no agent */
    const char *passed;    /* the check that this node has passed before, or "" */
    bool        is_needed; /* the job cannot go on without this node */
};

/* -EINVAL and one sentence. */
int check_options_parse(struct check_options *ret, int argc, char **argv, struct cc_err *err);

extern const char check_options_help[];

#endif
