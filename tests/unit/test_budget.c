#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "agent/core/budget.h"

enum { SECOND = 1000 };

static struct budget *make(struct budget_cfg cfg)
{
    struct cc_err  err = { 0 };
    struct budget *b;

    cfg.quick = 10 * SECOND;
    b = budget_new(&cfg, &err);
    cr_assert(b, "%s", err.msg);
    return b;
}

static enum budget_answer fail(struct budget *b, uint64_t now, uint64_t ran, uint32_t rank, const char *text)
{
    struct rdzv_cause why = { .kind = RDZV_CAUSE_WORKER, .rank = rank, .code = 1 };
    uint64_t          wait;

    (void) strncpy(why.text, text, sizeof why.text - 1);
    return budget_ask(b, now, ran, &why, &wait);
}

Test(budget, is_spent_after_so_many_restarts)
{
    struct budget *b = make((struct budget_cfg) { .max_restarts = 2 });

    cr_expect_eq(fail(b, 1, 99999, 0, "a"), BUDGET_RESTART);
    cr_expect_eq(fail(b, 2, 99999, 0, "a"), BUDGET_RESTART);
    cr_expect_eq(fail(b, 3, 99999, 0, "a"), BUDGET_SPENT);
    cr_expect_eq(budget_used(b), 2);
    budget_free(b);
    b = make((struct budget_cfg) { .max_restarts = 0, .window = 10 });
    cr_expect_eq(fail(b, 1, 99999, 0, "a"), BUDGET_SPENT);
    budget_free(b);
}

Test(budget, within_a_window_old_restarts_do_not_count)
{
    struct budget *b = make((struct budget_cfg) { .max_restarts = 2, .window = 60 * SECOND });

    cr_expect_eq(fail(b, 0, 99999, 0, "a"), BUDGET_RESTART);
    cr_expect_eq(fail(b, 50 * SECOND, 99999, 0, "a"), BUDGET_RESTART);
    cr_expect_eq(fail(b, 59 * SECOND, 99999, 0, "a"), BUDGET_SPENT);
    cr_expect_eq(fail(b, 60 * SECOND, 99999, 0, "a"), BUDGET_RESTART);
    cr_expect_eq(fail(b, 70 * SECOND, 99999, 0, "a"), BUDGET_SPENT);
    cr_expect_eq(fail(b, 110 * SECOND, 99999, 0, "a"), BUDGET_RESTART);
    cr_expect_eq(budget_used(b), 4);
    budget_free(b);
}

Test(budget, a_window_counts_a_bounded_number)
{
    struct budget_cfg cfg = { .max_restarts = 1025, .window = 1 };
    struct cc_err     err;

    cr_expect_null(budget_new(&cfg, &err));
    cr_expect_eq(err.code, -EINVAL);
    cr_expect_str_eq(err.msg, "1025 restarts within a time: at most 1024 can be counted");
}

Test(budget, ends_when_a_worker_fails_in_the_same_way_three_times)
{
    struct budget *b = make((struct budget_cfg) { .max_restarts = 10, .same_max = 3 });

    cr_expect_eq(fail(b, 1, 100, 3, "exit code 1"), BUDGET_RESTART);
    cr_expect_eq(fail(b, 2, 100, 3, "exit code 1"), BUDGET_RESTART);
    cr_expect_eq(fail(b, 3, 100, 4, "exit code 1"), BUDGET_RESTART); /* another worker */
    cr_expect_eq(fail(b, 4, 100, 4, "SIGSEGV"), BUDGET_RESTART);     /* another way */
    cr_expect_eq(fail(b, 5, 100, 4, "SIGSEGV"), BUDGET_RESTART);
    cr_expect_eq(fail(b, 6, 20 * SECOND, 4, "SIGSEGV"), BUDGET_RESTART); /* not soon */
    cr_expect_eq(fail(b, 7, 100, 4, "SIGSEGV"), BUDGET_RESTART);
    cr_expect_eq(fail(b, 8, 100, 4, "SIGSEGV"), BUDGET_RESTART);
    cr_expect_eq(fail(b, 9, 100, 4, "SIGSEGV"), BUDGET_SAME);
    budget_free(b);
}

Test(budget, a_failure_that_got_further_is_another_one)
{
    struct budget    *b = make((struct budget_cfg) { .max_restarts = 10, .same_max = 2 });
    struct rdzv_cause why = { .kind = RDZV_CAUSE_WORKER };
    uint64_t          wait;

    for (why.progress = 1; why.progress < 6; why.progress++)
        cr_expect_eq(budget_ask(b, 1, 1, &why, &wait), BUDGET_RESTART);
    why.progress--;
    cr_expect_eq(budget_ask(b, 1, 1, &why, &wait), BUDGET_SAME);
    budget_free(b);
}

Test(budget, with_a_progress_file_an_attempt_that_came_no_further_counts_whoever_failed_and_when)
{
    struct budget    *b = make((struct budget_cfg) { .max_restarts = 10, .same_max = 3 });
    struct rdzv_cause why = { .kind = RDZV_CAUSE_WORKER, .progress = 5 };
    uint64_t          wait;

    for (why.rank = 0; why.rank < 2; why.rank++)
        cr_expect_eq(budget_ask(b, 1, 3600 * SECOND, &why, &wait), BUDGET_RESTART);
    cr_expect_eq(budget_ask(b, 1, 3600 * SECOND, &why, &wait), BUDGET_SAME);
    budget_free(b);
}

Test(budget, what_a_restart_cannot_help_is_the_end)
{
    struct budget    *b = make((struct budget_cfg) { .max_restarts = 10 });
    struct rdzv_cause why = { .kind = RDZV_CAUSE_WORKER, .code = 127, .is_final = true };
    uint64_t          wait;

    cr_expect_eq(budget_ask(b, 1, 1, &why, &wait), BUDGET_FINAL);
    cr_expect_eq(budget_used(b), 0);
    budget_free(b);
}

Test(budget, the_wait_doubles_with_each_quick_failure)
{
    struct budget    *b = make((struct budget_cfg) { .max_restarts = 100, .backoff_min = 100, .backoff_max = 450 });
    struct rdzv_cause why = { .kind = RDZV_CAUSE_WORKER };
    static const uint64_t ran[] = { 1, 1, 1, 1, 20000, 1 }, want[] = { 100, 200, 400, 450, 0, 100 };
    uint64_t          wait;

    for (unsigned i = 0; i < 6; i++) {
        cr_expect_eq(budget_ask(b, 1, ran[i], &why, &wait), BUDGET_RESTART);
        cr_expect_eq(wait, want[i], "%u: %llu", i, (unsigned long long) wait);
    }
    budget_free(b);
}
