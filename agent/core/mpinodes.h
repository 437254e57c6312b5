/* mpinodes.h - which ranks of a round live on which node, as the MPI libraries want to be told.
 *
 * Pure.  Each node says its own line; put together in the order of the nodes they are the whole.
 */
#ifndef AGENT_CORE_MPINODES_H
#define AGENT_CORE_MPINODES_H

#include <stdint.h>

#include "store/base/buf.h"
#include "store/base/err.h"

enum { MPINODES_LINE_MAX = 128, MPINODES_HOST_MAX = 64 };

struct mpinodes {
    uint32_t  n, world;
    uint32_t *base;  /* [n + 1]: the first rank of each node; the last is the world */
    char    (*host)[MPINODES_HOST_MAX];
};

/* Our line, for the others.  `host` becomes a name that is no other node's: its number is put behind it. */
void mpinodes_say(char line[MPINODES_LINE_MAX], const char *host, uint32_t node, uint32_t nproc);

/* -EPROTO and a sentence: a line cannot be read, or they are not `world` ranks; -ENOMEM.  Release with mpinodes_clear(). */
int  mpinodes_make(struct mpinodes *ret, const struct cc_bytes *lines, uint32_t n, uint32_t world, struct cc_err *err);
void mpinodes_clear(struct mpinodes *m);

uint32_t mpinodes_of(const struct mpinodes *m, uint32_t rank); /* the node; rank < world */

/* Texts, appended with their NUL. 0 or -ENOMEM. */
int mpinodes_vector(const struct mpinodes *m, struct cc_buf *ret); /* "(vector,(0,2,4),(2,1,3))": PMI_process_mapping */
int mpinodes_hosts(const struct mpinodes *m, struct cc_buf *ret);  /* "a-0,b-1" */
int mpinodes_ranks(const struct mpinodes *m, struct cc_buf *ret);  /* "0,1,2,3;4,5,6,7": PMIx_generate_ppn() */

#endif
