/* near.h - which known name did somebody mean who wrote another?  By edit distance; pure.
 *
 *     near_start(&n, "join_timout"); near_try(&n, "join_timeout"); ...; n.best is the nearest, or NULL
 */
#ifndef LAUNCHER_NEAR_H
#define LAUNCHER_NEAR_H

struct near {
    const char *word, *best;
    unsigned    distance; /* of best; at the start the largest that still counts as near */
};

void near_start(struct near *n, const char *word);
void near_try(struct near *n,
              const char  *candidate); /* the first of equals wins; case and - or _ do not matter */

#endif
