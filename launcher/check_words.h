/* check_words.h - what the ranks of a check tell each other through the store, read with limits.  Pure.
 *
 * The words are those of programs of the same build; but a store has many clients, and a number that is none of a node would
 * be an index beyond a table.
 */
#ifndef LAUNCHER_CHECK_WORDS_H
#define LAUNCHER_CHECK_WORDS_H

#include <stdbool.h>
#include <stdint.h>

#include "launcher/check.h"
#include "store/base/err.h"

/* A number from 0 to max without a sign, at *at, which is then behind it.  False: there is none, and *at stays. */
bool check_words_number(const char **at, uint64_t max, uint64_t *ret);

/* "go NODES BY_RANK NODE.LOCAL ..." with an item for each of `size` ranks; place and local have room for them. -EPROTO. */
struct check_plan {
    int  n_nodes;
    bool is_by_rank;
    int *place, *local;
};
int check_words_plan(const char *text, int size, struct check_plan *ret, struct cc_err *err);

/* "STATUS ID LEFT CURABLE OUT,OUT,; sentence" of a check with `size` ranks. -EPROTO. */
struct check_verdict {
    int  status;
    char id[CHECK_ID_MAX];
    int  n_left;       /* nodes, without those that are to blame */
    bool is_curable;   /* by leaving these out */
    bool is_our_fault; /* this node is one of them */
    char text[CHECK_TEXT_MAX];
};
/* place: our node; -1: it is not known. */
int check_words_verdict(const char *text, int size, int place, struct check_verdict *ret, struct cc_err *err);

/* After a round of pairs: "go" or "stop", and the nodes that are out, of which *at is the first.  -1: neither; 1: stop. */
int check_words_next(const char **at);

/* "ROUND.NODE ", a pair of n nodes that is measured again; *at is then behind it. */
bool check_words_pair(const char **at, unsigned n, unsigned *ret_round, unsigned *ret_node);

/* "NS WRONG", then the end of the line. */
bool check_words_measured(const char *post, uint64_t *ret_ns, uint64_t *ret_n_wrong);

/* -EPROTO: `what` cannot be read; the sentence has its beginning, as plain text. */
int check_words_refuse(const char *what, const char *text, struct cc_err *err);

#endif
