/* storeuser.c URL - a C rank (RANK, WORLD_SIZE) beside Python ranks in one store: keys both ways, a counter,
 * barriers.
 *
 * Each rank R sets "from/R" to "hello R", reads all of them, adds R + 1 to "sum", and meets the others twice.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/ccrun.h"

static void must(int r, const char *what)
{
    if (r >= 0)
        return;
    (void) fprintf(stderr, "storeuser: %s: %s\n", what, ccrun_error());
    exit(1);
}

int main(int argc, char **argv)
{
    struct ccrun_init   init = { .timeout_ms = 30000 };
    struct ccrun_store *s;
    char                key[32], want[32];
    const char         *rank = getenv("RANK"), *world_size = getenv("WORLD_SIZE");
    int64_t             sum;
    void               *v;
    size_t              n;

    if (argc != 2 || !rank || !world_size)
        return 2;
    init.init_method = argv[1];
    if (strncmp(argv[1], "env:", 4) != 0) {
        init.rank = (int) strtol(rank, NULL, 10);
        init.world_size = (int) strtol(world_size, NULL, 10);
    }
    must(ccrun_store_open(&s, &init), "open");
    (void) snprintf(key, sizeof key, "from/%d", ccrun_store_rank(s));
    (void) snprintf(want, sizeof want, "hello %d", ccrun_store_rank(s));
    must(ccrun_store_set(s, key, want, strlen(want)), "set");
    for (int r = 0; r < ccrun_store_size(s); r++) {
        (void) snprintf(key, sizeof key, "from/%d", r);
        (void) snprintf(want, sizeof want, "hello %d", r);
        must(ccrun_store_get(s, key, 0, &v, &n), "get");
        if (n != strlen(want) || memcmp(v, want, n) != 0)
            return 1;
        free(v);
    }
    must(ccrun_store_add(s, "sum", ccrun_store_rank(s) + 1, &sum), "add");
    must(ccrun_store_barrier(s, "added", ccrun_store_size(s), 0), "barrier");
    must(ccrun_store_get(s, "sum", 0, &v, &n), "get the sum");
    if (strtol(v, NULL, 10) != (long) ccrun_store_size(s) * (ccrun_store_size(s) + 1) / 2)
        return 1;
    free(v);
    must(ccrun_store_barrier(s, "done", ccrun_store_size(s), 0), "the last barrier");
    if (ccrun_store_rank(s) == 0) { /* whoever serves the store leaves last */
        for (int r = 1; r < ccrun_store_size(s); r++) {
            (void) snprintf(key, sizeof key, "left/%d", r);
            must(ccrun_store_get(s, key, 0, &v, &n), "wait for the others");
            free(v);
        }
    } else {
        (void) snprintf(key, sizeof key, "left/%d", ccrun_store_rank(s));
        must(ccrun_store_set(s, key, "1", 1), "set");
    }
    (void) ccrun_store_close(s);
    printf("well\n");
    return 0;
}
