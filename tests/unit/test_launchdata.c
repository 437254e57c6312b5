#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/launchdata.h"

static void make(struct cc_buf *b)
{
    static char *const argv[] = { "ccrun", "--hosts", "a,b", "train.py", "", NULL };
    static char *const env[] = { "A=1\n2", "HOME=/head", "SLURM_NODEID=0", "EMPTY=", "\377=\200", "CUDA=0", "ROCR=1", NULL };
    static char *const prefer[] = { "CUDA", "ROCR", NULL };
    static char *const own[] = { "HOME", "SLURM_*", NULL };
    struct cc_err      err;

    cr_assert_eq(launchdata_begin(b), 0);
    cr_assert_eq(launchdata_texts(b, LAUNCHDATA_ARG, argv), 0);
    cr_assert_eq(launchdata_texts(b, LAUNCHDATA_ENV, env), 0);
    cr_assert_eq(launchdata_texts(b, LAUNCHDATA_OWN, own), 0);
    cr_assert_eq(launchdata_texts(b, LAUNCHDATA_PREFER, prefer), 0);
    cr_assert_eq(launchdata_text(b, LAUNCHDATA_DIR, "/data"), 0);
    cr_assert_eq(launchdata_text(b, LAUNCHDATA_WHO, "--hosts"), 0);
    cr_assert_eq(launchdata_text(b, LAUNCHDATA_MARK, "mark"), 0);
    cr_assert_eq(launchdata_text(b, LAUNCHDATA_SET, "nnodes=2"), 0);
    cr_assert_eq(launchdata_text(b, LAUNCHDATA_TASKS, "2(x1),1(x1)"), 0);
    cr_assert_eq(launchdata_add(b, LAUNCHDATA_SECRET, "k\0y", 3), 0);
    cr_assert_eq(launchdata_finish(b, &err), 0);
}

Test(launchdata, arrives_byte_for_byte)
{
    struct cc_buf     b = { 0 };
    struct launchdata d;
    struct cc_err     err;
    uint8_t          *p;

    make(&b);
    p = b.p + b.off;
    cr_assert_eq(launchdata_length(p, &err), (int64_t) (cc_buf_len(&b) - LAUNCHDATA_HEAD));
    cr_assert_eq(launchdata_read(&d, p + LAUNCHDATA_HEAD, cc_buf_len(&b) - LAUNCHDATA_HEAD, &err), 0);
    cr_assert_str_eq(d.argv[3], "train.py");
    cr_assert_str_eq(d.argv[4], "");
    cr_assert_null(d.argv[5]);
    cr_assert_str_eq(d.env[0], "A=1\n2");
    cr_assert_str_eq(d.env[4], "\377=\200");
    cr_assert_null(d.env[7]);
    cr_assert_str_eq(d.dir, "/data");
    cr_assert_eq(d.n_set, 1);
    cr_assert_str_eq(d.set[0], "nnodes=2");
    cr_assert_str_eq(d.tasks, "2(x1),1(x1)");
    cr_assert_eq(d.n_secret, 3);
    cr_assert_eq(memcmp(d.secret, "k\0y", 3), 0);
    launchdata_clear(&d);
    cc_buf_free(&b);
}

Test(launchdata, leaves_a_node_the_variables_that_are_its_own)
{
    static char *const here[] = { "HOME=/node", "SLURM_NODEID=1", "A=other", "HOMER=x", "CUDA=7", NULL };
    struct cc_buf      b = { 0 };
    struct launchdata  d;
    struct cc_err      err;
    char             **env;

    make(&b);
    cr_assert_eq(launchdata_read(&d, b.p + b.off + LAUNCHDATA_HEAD, cc_buf_len(&b) - LAUNCHDATA_HEAD, &err), 0);
    env = launchdata_environ(&d, here);
    cr_assert_str_eq(env[0], "A=1\n2");
    cr_assert_str_eq(env[1], "EMPTY=");
    cr_assert_str_eq(env[2], "\377=\200");
    cr_assert_str_eq(env[3], "ROCR=1");
    cr_assert_str_eq(env[4], "HOME=/node");
    cr_assert_str_eq(env[5], "SLURM_NODEID=1");
    cr_assert_str_eq(env[6], "CUDA=7");
    cr_assert_null(env[7]);
    free(env);
    launchdata_clear(&d);
    cc_buf_free(&b);
}

Test(launchdata, refuses_a_block_that_is_cut_anywhere)
{
    struct cc_buf     b = { 0 };
    struct launchdata d;
    struct cc_err     err;
    size_t            n, whole, n_ok = 0;

    make(&b);
    whole = cc_buf_len(&b) - LAUNCHDATA_HEAD;
    for (n = 0; n < whole; n++) {
        uint8_t *copy = malloc(n + 1);

        memcpy(copy, b.p + b.off + LAUNCHDATA_HEAD, n);
        if (launchdata_read(&d, copy, n, &err) == 0) {
            n_ok++; /* between two records, when what is needed is there */
            launchdata_clear(&d);
        } else {
            cr_assert_eq(err.code, -EPROTO);
        }
        free(copy);
    }
    cr_assert_eq(n_ok, 3);
    cc_buf_free(&b);
}

Test(launchdata, refuses_what_is_no_block)
{
    uint8_t       head[LAUNCHDATA_HEAD] = "hello, world";
    struct cc_buf b = { 0 };
    struct cc_err err;

    cr_assert_eq(launchdata_length(head, &err), -EPROTO);
    make(&b);
    memcpy(head, b.p + b.off, sizeof head);
    memset(head + 8, 0xff, 4);
    cr_assert_eq(launchdata_length(head, &err), -EPROTO);
    cc_buf_free(&b);
}
