/* all_reduce_url.c RANK SIZE URL - the same without a launcher: rank and size beside a URL that all are given.
 *   for r in 0 1 2; do ./all_reduce_url $r 3 tcp://localhost:29500 & done; wait
 *   for r in 0 1 2; do ./all_reduce_url $r 3 file:///tmp/meet-$$ & done; wait
 */
#include <ccrun.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    struct ccrun_init init = { .backend = "gloo", .timeout_ms = 60000 };
    struct ccrun_pg  *pg;
    double            sum;

    if (argc != 4)
        return 2;
    init.rank = (int) strtol(argv[1], NULL, 10);
    init.world_size = (int) strtol(argv[2], NULL, 10);
    init.init_method = argv[3];
    sum = init.rank;
    if (ccrun_init_process_group(&pg, &init) < 0 ||
        ccrun_all_reduce(pg, &sum, &sum, 1, CCRUN_F64, CCRUN_SUM) < 0) {
        fprintf(stderr, "%s\n", ccrun_error());
        return 1;
    }
    printf("rank %d of %d: the sum is %g\n", ccrun_rank(pg), ccrun_size(pg), sum);
    return ccrun_destroy_process_group(pg) < 0;
}
