#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/core/pmi1.h"
#include "store/base/buf.h"

enum { RANKS = 3 };

struct log {
    struct pmi1 *p;
    char   said[RANKS][4096]; /* to each rank, one line behind the other */
    char   put[8192];
    size_t n_put;
    int    n_fences, n_begun, aborted_rank, abort_code;
    bool   is_alone; /* no other node has anything to add */
};

static void on_send(void *ctx, unsigned rank, const char *line, size_t n)
{
    struct log *l = ctx;

    cr_assert_lt(strlen(l->said[rank]) + n, sizeof l->said[rank]);
    cr_assert_eq(line[n - 1], '\n');
    strncat(l->said[rank], line, n);
}

static void on_fence(void *ctx, struct cc_bytes put)
{
    struct log *l = ctx;

    l->n_fences++;
    l->n_put = put.n;
    if (put.n > 0)
        memcpy(l->put, put.p, put.n);
    l->put[put.n] = '\0';
    if (l->is_alone)
        pmi1_release(l->p);
}

static void on_aborted(void *ctx, unsigned rank, int code)
{
    struct log *l = ctx;

    l->aborted_rank = (int) rank;
    l->abort_code = code;
}

static void on_begun(void *ctx, unsigned rank)
{
    struct log *l = ctx;

    l->n_begun++;
    cr_assert(pmi1_is_inside(l->p, rank));
}

static const struct pmi1_ops ops = { on_send, on_fence, on_aborted, on_begun };

static struct pmi1 *make(struct log *l, unsigned n)
{
    const struct pmi1_cfg cfg = { .n_local = n, .world = n, .kvsname = "job-a0", .mapping = "(vector,(0,1,3))" };

    *l = (struct log) { .is_alone = true, .aborted_rank = -1 };
    l->p = pmi1_new(&cfg, &ops, l);
    cr_assert_not_null(l->p);
    return l->p;
}

static int feed(struct log *l, unsigned rank, const char *text)
{
    struct cc_err err = { 0 };

    l->said[rank][0] = '\0';
    return pmi1_feed(l->p, rank, text, strlen(text), &err);
}

#define SAYS(l, rank, line, wanted) \
    do { \
        cr_assert_eq(feed(l, rank, line "\n"), 0); \
        cr_assert_str_eq((l)->said[rank], wanted "\n"); \
    } while (0)

/* As MPICH 4.0.2 says it, two ranks of one node. */
Test(pmi1, answers_what_mpich_says)
{
    struct log l;

    (void) make(&l, 2);
    SAYS(&l, 0, "cmd=init pmi_version=1 pmi_subversion=1", "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0");
    cr_assert_eq(l.n_begun, 1);
    SAYS(&l, 0, "cmd=get_maxes", "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024 rc=0");
    SAYS(&l, 0, "cmd=get_appnum", "cmd=appnum appnum=0 rc=0");
    SAYS(&l, 0, "cmd=get_my_kvsname", "cmd=my_kvsname kvsname=job-a0 rc=0");
    SAYS(&l, 0, "cmd=get kvsname=job-a0 key=PMI_process_mapping", "cmd=get_result rc=0 msg=success value=(vector,(0,1,3))");
    SAYS(&l, 0, "cmd=put kvsname=job-a0 key=bc-0 value=mpi#00A0=x$ y", "cmd=put_result rc=0 msg=success");
    SAYS(&l, 0, "cmd=get_universe_size", "cmd=universe_size size=2 rc=0");
    SAYS(&l, 1, "cmd=get kvsname=job-a0 key=bc-0", "cmd=get_result rc=0 msg=success value=mpi#00A0=x$ y");
    cr_assert_eq(feed(&l, 0, "cmd=barrier_in\n"), 0);
    cr_assert_str_eq(l.said[0], "");
    SAYS(&l, 1, "cmd=barrier_in", "cmd=barrier_out rc=0");
    cr_assert_str_eq(l.said[0], "cmd=barrier_out rc=0\n");
    cr_assert_str_eq(l.put, "bc-0=mpi#00A0=x$ y\n");
    cr_assert(pmi1_is_inside(l.p, 0));
    SAYS(&l, 0, "cmd=finalize", "cmd=finalize_ack rc=0");
    cr_assert_not(pmi1_is_inside(l.p, 0));
    pmi1_free(l.p);
}

Test(pmi1, takes_lines_cut_anywhere)
{
    static const char text[] = "cmd=put kvsname=job-a0 key=k value=v\ncmd=get kvsname=job-a0 key=k\n";
    static const char wanted[] = "cmd=put_result rc=0 msg=success\ncmd=get_result rc=0 msg=success value=v\n";
    struct cc_err     err = { 0 };
    struct log        l;

    for (size_t cut = 0; cut < sizeof text; cut++) {
        (void) make(&l, 1);
        cr_assert_eq(pmi1_feed(l.p, 0, text, cut, &err), 0);
        cr_assert_eq(pmi1_feed(l.p, 0, text + cut, sizeof text - 1 - cut, &err), 0);
        cr_assert_str_eq(l.said[0], wanted, "cut at %zu", cut);
        pmi1_free(l.p);
    }
}

Test(pmi1, exchanges_what_was_put_since_the_last_barrier)
{
    struct cc_err err = { 0 };
    struct log    l;

    (void) make(&l, 1);
    l.is_alone = false;
    cr_assert_eq(feed(&l, 0, "cmd=put kvsname=job-a0 key=mine value=1\ncmd=barrier_in\n"), 0);
    cr_assert_str_eq(l.put, "mine=1\n");
    cr_assert_eq(pmi1_merge(l.p, cc_bytes_of("theirs=2\nmore=3=4\n"), &err), 0);
    l.said[0][0] = '\0';
    pmi1_release(l.p);
    cr_assert_str_eq(l.said[0], "cmd=barrier_out rc=0\n");
    SAYS(&l, 0, "cmd=get key=more", "cmd=get_result rc=0 msg=success value=3=4");
    cr_assert_eq(feed(&l, 0, "cmd=barrier_in\n"), 0);
    cr_assert_eq(l.n_put, 0);
    cr_assert_eq(l.n_fences, 2);
    pmi1_free(l.p);
}

Test(pmi1, refuses_what_another_node_cannot_have_put)
{
    static const char *const bad[] = { "x", "=1\n", "nothing\n", "a=1\nb", "\n" };
    struct cc_err            err = { 0 };
    struct log               l;

    (void) make(&l, 1);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        cr_assert_eq(pmi1_merge(l.p, cc_bytes_of(bad[i]), &err), -EPROTO, "%s", bad[i]);
    pmi1_free(l.p);
}

Test(pmi1, refuses_to_spawn_with_one_answer)
{
    struct log l;

    (void) make(&l, 1);
    cr_assert_eq(feed(&l, 0, "mcmd=spawn\nnprocs=2\nexecname=a cmd=abort\ntotspawns=2\nspawnssofar=1\nendcmd\n"), 0);
    cr_assert_str_eq(l.said[0], "");
    SAYS(&l, 0, "mcmd=spawn\nnprocs=1\nexecname=b\ntotspawns=2\nspawnssofar=2\nendcmd",
         "cmd=spawn_result rc=-1 msg=not_supported");
    SAYS(&l, 0, "cmd=publish_name service=s port=p", "cmd=publish_result rc=-1 msg=not_supported");
    SAYS(&l, 0, "cmd=lookup_name service=s", "cmd=lookup_result rc=-1 msg=not_supported port=");
    cr_assert_eq(l.aborted_rank, -1);
    pmi1_free(l.p);
}

Test(pmi1, tells_of_an_abort_and_its_code)
{
    struct log l;

    (void) make(&l, 2);
    cr_assert_eq(feed(&l, 1, "cmd=abort exitcode=42\n"), 0);
    cr_assert_eq(l.aborted_rank, 1);
    cr_assert_eq(l.abort_code, 42);
    pmi1_free(l.p);
}

Test(pmi1, holds_ranks_to_its_limits)
{
    char       line[PMI1_VALUE_MAX + 200];
    struct log l;

    (void) make(&l, 1);
    (void) snprintf(line, sizeof line, "cmd=put kvsname=job-a0 key=k value=%0*d\n", PMI1_VALUE_MAX + 1, 7);
    cr_assert_eq(feed(&l, 0, line), 0);
    cr_assert_str_eq(l.said[0], "cmd=put_result rc=-1 msg=too_long\n");
    SAYS(&l, 0, "cmd=put kvsname=other key=k value=1", "cmd=put_result rc=-1 msg=kvs_not_found");
    SAYS(&l, 0, "cmd=get kvsname=job-a0 key=k", "cmd=get_result rc=-1 msg=key_not_found value=unknown");
    cr_assert_eq(feed(&l, 0, "cmd=put key=k\n"), -EPROTO);
    pmi1_free(l.p);
}

Test(pmi1, keeps_no_more_than_it_may)
{
    const struct pmi1_cfg cfg = { .n_local = 1, .world = 1, .kvsname = "k", .max_bytes = 10 };
    struct cc_err         err = { 0 };
    struct log            l = { .is_alone = true };

    l.p = pmi1_new(&cfg, &ops, &l);
    cr_assert_eq(feed(&l, 0, "cmd=put key=a value=1234\n"), 0);
    cr_assert_eq(feed(&l, 0, "cmd=put key=a value=12345678\n"), 0, "in place of the old one");
    cr_assert_eq(pmi1_feed(l.p, 0, "cmd=put key=a value=1\ncmd=put key=a value=2\n", 44, &err), -ENOBUFS);
    cr_assert_eq(pmi1_merge(l.p, cc_bytes_of("b=12345\n"), &err), -ENOBUFS);
    pmi1_free(l.p);
}

Test(pmi1, finds_each_of_many_keys)
{
    char       line[100], wanted[100];
    struct log l;

    (void) make(&l, 1);
    for (int i = 0; i < 1000; i++) {
        (void) snprintf(line, sizeof line, "cmd=put key=key-%d value=%d\n", i, i * i);
        cr_assert_eq(feed(&l, 0, line), 0);
    }
    for (int i = 0; i < 1000; i++) {
        (void) snprintf(line, sizeof line, "cmd=get key=key-%d\n", i);
        (void) snprintf(wanted, sizeof wanted, "cmd=get_result rc=0 msg=success value=%d\n", i * i);
        cr_assert_eq(feed(&l, 0, line), 0);
        cr_assert_str_eq(l.said[0], wanted);
    }
    pmi1_free(l.p);
}

Test(pmi1, quotes_what_is_no_request_as_plain_text)
{
    struct cc_err err = { 0 };
    struct log    l;

    (void) make(&l, 1);
    cr_assert_eq(pmi1_feed(l.p, 0, "\x1b[31mcmd\0\xff\r\n", 12, &err), -EPROTO);
    cr_assert_str_eq(err.msg, "PMI: '\\x1b[31mcmd\\x00\\xff\\r' is no request of PMI-1");
    pmi1_free(l.p);
    (void) make(&l, 1);
    cr_assert_eq(pmi1_feed(l.p, 0, "cmd=0123456789012345678901234567890123456789012345678901234567890123456789\n", 75, &err),
                 -EPROTO);
    cr_assert_str_eq(err.msg, "PMI: 'cmd=01234567890123456789012345678901234567890123456789012...' is no request of PMI-1");
    pmi1_free(l.p);
}

Test(pmi1, is_left_by_a_rank_that_speaks_something_else)
{
    static const char *const bad[] = {
        "GET / HTTP/1.1\n", "\n", "cmd=\n", "cmd=frob\n", "cmd=barrier_in\ncmd=barrier_in\n", "cmd=put key==1 value=2\n",
    };
    struct log l;

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        (void) make(&l, 2);
        cr_assert_eq(feed(&l, 0, bad[i]), -EPROTO, "%s", bad[i]);
        pmi1_free(l.p);
    }
}
