#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cuda.h"
#include "backends/nccl_lib.h"
#include "backends/nccl_work.h"

Test(nccl, tells_versions_of_both_ways_to_count)
{
    char text[NCCL_VERSION_TEXT_MAX];

    cr_assert_str_eq(nccl_version_text(23203, text), "2.32.3");
    cr_assert_str_eq(nccl_version_text(21400, text), "2.14.0");
    cr_assert_str_eq(nccl_version_text(2804, text), "2.8.4");
    cr_assert_str_eq(nccl_version_text(2304, text), "2.3.4");
}

Test(nccl, orders_versions_of_both_ways_to_count)
{
    static const int rising[] = { 2304, 2604, 2804, 20906, 21003, NCCL_OLDEST, 21403, 23203 };

    for (size_t i = 1; i < sizeof rising / sizeof *rising; i++)
        cr_assert_lt(nccl_version_order(rising[i - 1]), nccl_version_order(rising[i]));
}

Test(nccl, has_a_type_for_every_type_and_an_op_for_every_op)
{
    static const nccl_type types[] = { 0, 1, 2, 4, 6, 9, 7, 8 };
    static const nccl_op   ops[] = { 0, 1, 3, 2, 4 };

    for (int i = CCRUN_I8; i <= CCRUN_F64; i++)
        cr_assert_eq(nccl_type_of((enum ccrun_type) i), types[i]);
    for (int i = CCRUN_SUM; i <= CCRUN_AVG; i++)
        cr_assert_eq(nccl_op_of((enum ccrun_op) i), ops[i]);
}

Test(nccl, reads_the_name_of_a_device_and_refuses_others)
{
    static const char *const bad[] = { "",
                                       "cuda",
                                       "cuda:",
                                       "cuda:-1",
                                       "cuda:1x",
                                       "cuda: 1",
                                       "cuda:+1",
                                       "cuda:4096",
                                       "gpu:0",
                                       "0",
                                       "CUDA:0",
                                       "cuda:0 ",
                                       "cuda:99999999999999999999" };
    struct cc_err            err;
    int                      n = -1;

    cr_assert_eq(cuda_parse("cuda:0", &n, &err), 0);
    cr_assert_eq(n, 0);
    cr_assert_eq(cuda_parse("cuda:17", &n, &err), 0);
    cr_assert_eq(n, 17);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        cr_assert_eq(cuda_parse(bad[i], &n, &err), -EINVAL, "%s", bad[i]);
        cr_assert(strstr(err.msg, "is not cuda:N"));
    }
    cr_assert_eq(n, 17);
}

/* ---- with the double of the driver that stands beside the unit tests' programs */

static void use_fake(void)
{
    const char *bin = getenv("CCRUN_BIN");
    char        file[4096];

    cr_assert(bin);
    (void) snprintf(file, sizeof file, "%s/tests/fake/libnccl.so.2", bin);
    cr_assert_eq(setenv("CCRUN_NCCL", file, 1), 0);
}

Test(nccl, loads_a_library_with_every_function)
{
    struct nccl_api api = { 0 };
    struct cc_err   err;
    int             version = 0;

    use_fake();
    cr_assert_eq(nccl_load(&api, &err), 0);
    cr_assert_eq(api.ncclGetVersion(&version), NCCL_OK);
    cr_assert_geq(nccl_version_order(version), NCCL_OLDEST);
}

Test(nccl, tells_which_library_is_too_old)
{
    struct nccl_api api = { 0 };
    struct cc_err   err;

    use_fake();
    cr_assert_eq(setenv("FAKE_NCCL_VERSION", "2.13.4", 1), 0);
    cr_assert_eq(nccl_load(&api, &err), -ENOENT);
    cr_assert(strstr(err.msg, "libnccl.so.2 is of version 2.13.4, and 2.14.0 or newer is needed"), "%s",
              err.msg);
}

Test(nccl, tells_what_nccl_says_of_a_failure)
{
    struct nccl_api api = { 0 };
    struct cc_err   err;
    nccl_id         id;

    use_fake();
    cr_assert_eq(nccl_load(&api, &err), 0);
    cr_assert_eq(setenv("FAKE_NCCL_FAULT", "id", 1), 0);
    cr_assert_eq(api.ncclGetUniqueId(&id), NCCL_SYSTEM_ERROR);
    cr_assert_eq(nccl_fail(&api, NCCL_SYSTEM_ERROR, NULL, &err), -ECONNRESET);
    cr_assert_str_eq(err.msg, "unhandled system error (Bootstrap : no socket interface found)");
}
