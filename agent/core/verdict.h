/* verdict.h - what the check before the workers (--preflight) found out, and what follows from it for this node.
 *
 * Pure.  The processes of the check on this node write a line each, "WORD ID LEFT SENTENCE", before they end:
 *
 *     ok, passed   nothing is wrong; or nothing is new: these nodes have passed the check ID before
 *     out          this node is to blame, and LEFT nodes would be left without it and others like it
 *     others       other nodes are to blame
 *     bad          it would not help to leave nodes out
 *
 * All nodes hear the same, so they draw conclusions that fit together without another word: of a job of MIN:MAX nodes the bad
 * ones leave, which ends the round for the others before their workers start.
 */
#ifndef AGENT_CORE_VERDICT_H
#define AGENT_CORE_VERDICT_H

#include "agent/core/rdzv_msg.h"

enum verdict_policy {
    VERDICT_REFUSE,  /* the job */
    VERDICT_EXCLUDE, /* the nodes to blame, if enough are left */
    VERDICT_WARN,    /* and go on */
};

enum verdict_word { /* the worst counts */
    VERDICT_NONE,
    VERDICT_PASSED,
    VERDICT_OK,
    VERDICT_OTHERS,
    VERDICT_OUT,
    VERDICT_BAD,
};

enum { VERDICT_ID_MAX = 24, VERDICT_TEXT_MAX = 320 };

struct verdict {
    unsigned          n_lines;
    enum verdict_word word;
    char              id[VERDICT_ID_MAX];
    unsigned          n_left;
    char              text[VERDICT_TEXT_MAX];
};

void verdict_take(struct verdict *v, const char *line); /* without its newline; what is no such line is left out */

enum verdict_act {
    VERDICT_GO,    /* start the workers */
    VERDICT_WAIT,  /* for the next round: others leave */
    VERDICT_LEAVE, /* the job */
    VERDICT_STOP,  /* the job ends */
};

/* When all processes of the check have ended, n_expected of them.  Also sets text where there was none, and where the policy
 * cannot be followed says why. */
enum verdict_act verdict_act(struct verdict *v, enum verdict_policy policy, unsigned n_expected, unsigned min_nodes,
                             bool is_needed);

#endif
