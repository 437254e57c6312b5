/* collfault.c BACKEND HOW - a rank in a group that something happens to, and what it is told then.
 *
 *   die-N    the last rank ends before call N of ccrun_what, the others make it; then they meet again without it
 *   late     the last rank stays away from an all-reduce for longer than its deadline
 *   abort    rank 0 waits for a message that nobody sends, and another thread of it aborts the group
 *   fails    an all-reduce fails at every rank, for a reason that the backend has been given; then all meet again
 *
 * Prints "told: " and the sentence of the failure, then "well" when all that is left to do has worked.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "backends/ccrun.h"

enum { INIT_MS = 20000, CALL_MS = 3000, LATE_MS = 300, SLACK_MS = 4000, N = 100000, MAX_SIZE = 64 };

static struct ccrun_pg *pg;
static int              rank, size;

static void must(int r, const char *what)
{
    if (r >= 0)
        return;
    (void) fprintf(stderr, "collfault: rank %d: %s: %s\n", rank, what, ccrun_error());
    exit(1);
}

static void die(const char *what)
{
    (void) fprintf(stderr, "collfault: rank %d: %s\n", rank, what);
    exit(1);
}

static uint64_t now_ms(void)
{
    struct timespec t;

    (void) clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t) t.tv_sec * 1000 + (uint64_t) t.tv_nsec / 1000000;
}

static int call(enum ccrun_what what, uint64_t timeout_ms)
{
    static int32_t    in[MAX_SIZE * N], out[MAX_SIZE * N];
    struct ccrun_call c = {
        .what = what, .send = in, .recv = out, .count = N, .type = CCRUN_I32, .timeout_ms = timeout_ms
    };

    /* A root that only sends may be done before anybody is missed: so the one who ends is the root. */
    c.peer = what == CCRUN_BROADCAST || what == CCRUN_SCATTER ? size - 1 : 0;
    if (what == CCRUN_SEND || what == CCRUN_RECV)
        c.peer = size - 1;
    return ccrun_run(pg, &c);
}

/* The failure comes in time, as one of those codes, and stays. */
static void told(int r, uint64_t since, uint64_t limit_ms)
{
    if (r >= 0)
        die("the call went well");
    printf("told: %s\n", ccrun_error());
    if (r != -ECONNRESET && r != -ETIMEDOUT)
        die("another code was expected");
    if (now_ms() - since > limit_ms + SLACK_MS)
        die("the deadline was long over");
    if (ccrun_barrier(pg) != -ESHUTDOWN || !strstr(ccrun_error(), "the group failed earlier"))
        die("the group went on");
}

static void meet_again(int n)
{
    struct ccrun_init init = { .backend = ccrun_backend(pg),
                               .rank = rank,
                               .world_size = n,
                               .timeout_ms = INIT_MS,
                               .group = "again" };
    int32_t           one = 1, sum = 0;

    must(ccrun_abort(pg), "abort");
    must(ccrun_destroy_process_group(pg), "destroy");
    must(ccrun_init_process_group(&pg, &init), "init again");
    must(ccrun_all_reduce(pg, &one, &sum, 1, CCRUN_I32, CCRUN_SUM), "all-reduce again");
    if (sum != n)
        die("the sum is wrong");
    must(ccrun_barrier(pg), "barrier again");
}

static void die_before(enum ccrun_what what)
{
    uint64_t since;
    int      r, is_root_only = what == CCRUN_SEND;

    if (rank == size - 1)
        _exit(0);
    since = now_ms();
    /* What is sent to a rank that has ended may vanish in the network's buffers: somebody has to wait for it.
     */
    r = call(what, CALL_MS);
    if (r == 0 && (is_root_only || what == CCRUN_REDUCE || what == CCRUN_GATHER))
        r = call(CCRUN_BARRIER, CALL_MS);
    told(r, since, 2 * CALL_MS);
    meet_again(size - 1);
}

static void fail_all(void)
{
    uint64_t since = now_ms();

    told(call(CCRUN_ALL_REDUCE, LATE_MS), since, LATE_MS);
    meet_again(size);
}

static void stay_away(void)
{
    struct ccrun_store *s = ccrun_pg_store(pg);
    const char         *key = "fault/told";
    uint64_t            since = now_ms();

    if (rank == size - 1) {
        must(ccrun_store_wait(s, &key, 1, INIT_MS), "wait");
        return;
    }
    told(call(CCRUN_ALL_REDUCE, LATE_MS), since, LATE_MS);
    must(ccrun_store_set(s, key, "1", 1), "set");
}

static void *abort_it(void *arg)
{
    struct timespec t = { .tv_nsec =
                              50000000 }; /* the other thread may be before or in its call: both have to do */

    (void) nanosleep(&t, NULL);
    (void) ccrun_abort(arg);
    return NULL;
}

static void abort_one(void)
{
    pthread_t thread;
    int       r;

    if (rank == 0) {
        if (pthread_create(&thread, NULL, abort_it, pg) != 0)
            die("no thread");
        r = call(CCRUN_RECV, INIT_MS);
        printf("told: %s\n", ccrun_error());
        (void) pthread_join(thread, NULL);
        if (r != -ECANCELED || ccrun_barrier(pg) != -ECANCELED)
            die("it was not canceled");
    } else {
        (void) call(CCRUN_BARRIER, CALL_MS); /* fails, as rank 0 never comes */
    }
}

int main(int argc, char **argv)
{
    struct ccrun_init init = { .timeout_ms = INIT_MS };

    if (argc != 3)
        return 2;
    init.backend = argv[1];
    must(ccrun_init_process_group(&pg, &init), "init");
    rank = ccrun_rank(pg);
    size = ccrun_size(pg);
    must(ccrun_barrier(pg), "barrier");
    if (strncmp(argv[2], "die-", 4) == 0)
        die_before((enum ccrun_what) strtol(argv[2] + 4, NULL, 10));
    else if (strcmp(argv[2], "late") == 0)
        stay_away();
    else if (strcmp(argv[2], "fails") == 0)
        fail_all();
    else
        abort_one();
    must(ccrun_destroy_process_group(pg), "destroy");
    printf("well\n");
    return 0;
}
