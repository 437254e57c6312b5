#include <criterion/criterion.h>
#include <string.h>

#include "agent/core/workerenv.h"

static const struct workerenv_job job = {
    .base_rank = 4, .world_size = 8, .local_world_size = 4, .group_rank = 1, .group_world_size = 2,
    .base_role_rank = 2, .role_world_size = 6, .role = "trainer", .run_id = "job7", .master_addr = "10.0.0.1",
    .master_port = 29400, .restart_count = 1, .max_restarts = 3, .omp_threads = 2,
    .signals_to_handle = "SIGTERM,SIGINT",
};

static const char *get(char *const *env, const char *name)
{
    const char *found = NULL;
    size_t      n = strlen(name);

    for (; *env; env++)
        if (strncmp(*env, name, n) == 0 && (*env)[n] == '=') {
            cr_assert_null(found, "%s twice", name);
            found = *env + n + 1;
        }
    return found ? found : "(unset)";
}

static struct workerenv *make(char *const *base, const struct workerenv_job *j)
{
    struct workerenv *e = NULL;

    cr_assert_eq(workerenv_new(&e, base, j, NULL), 0);
    return e;
}

Test(workerenv, has_every_variable_of_torchrun)
{
    static const char *const want[][2] = {
        { "RANK", "6" }, { "LOCAL_RANK", "2" }, { "ROLE_RANK", "4" }, { "WORLD_SIZE", "8" },
        { "LOCAL_WORLD_SIZE", "4" }, { "GROUP_RANK", "1" }, { "GROUP_WORLD_SIZE", "2" },
        { "ROLE_WORLD_SIZE", "6" }, { "ROLE_NAME", "trainer" }, { "MASTER_ADDR", "10.0.0.1" },
        { "MASTER_PORT", "29400" }, { "TORCHELASTIC_RESTART_COUNT", "1" },
        { "TORCHELASTIC_MAX_RESTARTS", "3" }, { "TORCHELASTIC_RUN_ID", "job7" },
        { "TORCHELASTIC_USE_AGENT_STORE", "True" }, { "TORCH_NCCL_ASYNC_ERROR_HANDLING", "1" },
        { "TORCHELASTIC_ERROR_FILE", "/e/2/error.json" }, { "OMP_NUM_THREADS", "2" },
        { "TORCHELASTIC_SIGNALS_TO_HANDLE", "SIGTERM,SIGINT" }, { "CUDA_VISIBLE_DEVICES", "(unset)" },
        { "HOME", "/root" },
    };
    char *base[] = { (char *) "HOME=/root", NULL };
    struct workerenv *e = make(base, &job);
    char *const *env = workerenv_for(e, &(struct workerenv_rank) { .local_rank = 2, .error_file = "/e/2/error.json" });
    size_t i;

    for (i = 0; i < sizeof want / sizeof want[0]; i++)
        cr_assert_str_eq(get(env, want[i][0]), want[i][1], "%s is %s", want[i][0], get(env, want[i][0]));
    workerenv_free(e);
}

Test(workerenv, overrides_what_is_inherited_and_keeps_the_users_choices)
{
    char *base[] = { (char *) "RANK=99", (char *) "OMP_NUM_THREADS=", (char *) "RANKING=x",
                     (char *) "TORCH_NCCL_ASYNC_ERROR_HANDLING=0", (char *) "CUDA_VISIBLE_DEVICES=4, 5",
                     (char *) "TORCHELASTIC_TIMER_FILE=/t", NULL };
    struct workerenv *e = make(base, &job);
    char *const *env = workerenv_for(e, &(struct workerenv_rank) { .local_rank = 0, .error_file = "" });

    cr_assert_str_eq(get(env, "RANK"), "4");
    cr_assert_str_eq(get(env, "RANKING"), "x");
    cr_assert_str_eq(get(env, "OMP_NUM_THREADS"), "");
    cr_assert_str_eq(get(env, "TORCH_NCCL_ASYNC_ERROR_HANDLING"), "0");
    cr_assert_str_eq(get(env, "CUDA_VISIBLE_DEVICES"), "4, 5");
    cr_assert_str_eq(get(env, "TORCHELASTIC_TIMER_FILE"), "/t");
    cr_assert_str_eq(get(env, "TORCHELASTIC_ERROR_FILE"), "");
    workerenv_free(e);
}

Test(workerenv, serves_one_worker_after_the_other)
{
    char *base[] = { (char *) "CUDA_VISIBLE_DEVICES=0,1", NULL };
    struct workerenv *e = make(base, &job);
    char *const *env = workerenv_for(e, &(struct workerenv_rank) { .local_rank = 0, .error_file = "", .visible_devices = "0" });

    cr_assert_str_eq(get(env, "CUDA_VISIBLE_DEVICES"), "0");
    env = workerenv_for(e, &(struct workerenv_rank) { .local_rank = 1, .error_file = "/a/very/long/path/error.json" });
    cr_assert_str_eq(get(env, "CUDA_VISIBLE_DEVICES"), "0,1");
    cr_assert_str_eq(get(env, "LOCAL_RANK"), "1");
    cr_assert_str_eq(get(env, "TORCHELASTIC_ERROR_FILE"), "/a/very/long/path/error.json");
    workerenv_free(e);
}

Test(workerenv, virtual_local_rank_is_0_for_all_and_global_ranks_differ)
{
    struct workerenv_job j = job;
    char *base[] = { NULL };
    struct workerenv *e;
    char *const *env;

    j.is_virtual_local_rank = true;
    j.omp_threads = 0;
    e = make(base, &j);
    env = workerenv_for(e, &(struct workerenv_rank) { .local_rank = 3, .error_file = "", .visible_devices = "3" });
    cr_assert_str_eq(get(env, "LOCAL_RANK"), "0");
    cr_assert_str_eq(get(env, "RANK"), "7");
    cr_assert_str_eq(get(env, "OMP_NUM_THREADS"), "(unset)");
    workerenv_free(e);
}
