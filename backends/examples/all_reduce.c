/* all_reduce.c - the sum of all ranks, with init_method env://, the default.
 *
 *   cc all_reduce.c $(pkg-config --cflags --libs ccrun) -o all_reduce
 *   ccrun --no-python --nproc-per-node 4 ./all_reduce
 */
#include <ccrun.h>
#include <stdio.h>

int main(void)
{
    struct ccrun_init init = { .backend = "gloo", .timeout_ms = 60000 };
    struct ccrun_pg  *pg;
    double            sum;

    if (ccrun_init_process_group(&pg, &init) < 0) {
        fprintf(stderr, "%s\n", ccrun_error());
        return 1;
    }
    sum = ccrun_rank(pg);
    if (ccrun_all_reduce(pg, &sum, &sum, 1, CCRUN_F64, CCRUN_SUM) < 0) {
        fprintf(stderr, "%s\n", ccrun_error());
        return 1;
    }
    printf("rank %d of %d: the sum is %g\n", ccrun_rank(pg), ccrun_size(pg), sum);
    return ccrun_destroy_process_group(pg) < 0;
}
