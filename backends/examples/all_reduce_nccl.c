/* all_reduce_nccl.c - the sum of all ranks over NCCL, one GPU each.  The buffers are on the host here, which is for small
 * things; fill_and_check.cu has them on the GPU.
 *
 *   cc all_reduce_nccl.c $(pkg-config --cflags --libs ccrun) -o all_reduce_nccl
 *   ccrun --no-python --nproc-per-node gpu ./all_reduce_nccl
 */
#include <ccrun.h>
#include <stdio.h>

int main(void)
{
    struct ccrun_init init = { .backend = "nccl", .timeout_ms = 60000 };
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
