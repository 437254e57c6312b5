/* check_pairs.h - who meets whom in ccrun-check --pairs, and who is to blame for what the pairs measured. Pure.
 *
 * A unit is a node, or on one node a rank.  In each round of the tournament a unit has at most one partner, and after all
 * rounds it has met every other once.
 *
 * A pair that is slow has two ends.  The blame goes by what the others do with each of them: the best quarter of what a
 * unit reached with its partners says what it can do, so a slow partner, or a few, cannot make a good unit look bad.  What a
 * unit can do is held against the median of all units, and must be below `ratio` of it and, from 8 units on, outside of the
 * usual spread (median absolute deviation).  A pair that is slow between two good units is a slow way, with no end to blame;
 * that must be below half of `ratio` of what both can do, or, of two units, of the way back.
 */
#ifndef LAUNCHER_CHECK_PAIRS_H
#define LAUNCHER_CHECK_PAIRS_H

#include <stddef.h>

unsigned check_pairs_rounds(unsigned n);
int      check_pairs_partner(unsigned n, unsigned round, unsigned unit); /* -1: it rests in this round */

/* Cells of the n x n matrix of GB/s, from row to column; what is not one of these was measured. */
#define CHECK_UNTRIED (-1.0)
#define CHECK_BROKEN (0.0)

enum check_blame_kind {
    CHECK_BROKEN_UNIT, /* a: more than half of its pairs failed, count of tried */
    CHECK_BROKEN_WAY,  /* a and b cannot talk to each other */
    CHECK_SLOW_UNIT,   /* a: can do value; the others, limit is the median of all */
    CHECK_SLOW_WAY,    /* a to b: value; expected was limit */
};

struct check_blame {
    enum check_blame_kind kind;
    unsigned a, b;
    unsigned count, tried;
    double   value, reference;
    int      is_both; /* SLOW_WAY: b to a too */
};

/* What a unit can do as a sender and as a receiver; CHECK_UNTRIED: nothing was measured. `scratch` has room for n. */
void check_pairs_able(const double *cells, unsigned n, unsigned unit, double *scratch, double *ret_out, double *ret_in);

/* The worst first: broken units, broken ways, slow units, slow ways. Returns how many, at most max; -ENOMEM. */
int check_pairs_blame(const double *cells, unsigned n, double ratio, struct check_blame *ret, unsigned max);

#endif
