/* collfault.c BACKEND HOW - a rank in a group that something happens to, and what it is told then.
 *
 *   die-N     the last rank ends before call N of ccrun_what, the others make it, then meet without it
 *   mid-N     the same, but it ends when about half of the call is over
 *   round-N   it is killed in the middle of the call; in the next round of the job all meet, and it works
 *   late      the last rank stays away from an all-reduce for longer than its deadline
 *   abort-N   rank 0 makes the call, nobody else does, and another thread of it aborts the group
 *   abort     the same with a message that nobody sends
 *   requests  the same with calls that were started, of every kind that is worked off in another way
 *   beside    nothing happens, but rank 0 starts an all-reduce, to which the others come after a message that
 *             it starts behind it
 *   differ-N  the last rank makes call N with one element less; of a message, it is the other end
 *   fork      each rank forks a child that uses the group and destroys it: that of the rank goes on
 *   fails     an all-reduce fails at every rank, for a reason that the backend has been given; then all meet
 *
 * Prints "told: " and the sentence of the failure ("left: " where another rank has aborted), then "well" when
 * all that is left to do has worked.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "backends/ccrun.h"

enum {
    INIT_MS = 20000,
    CALL_MS = 3000,
    LATE_MS = 300,
    SLACK_MS = 4000,
    N = 100000,
    LARGE = 1000000,
    MAX_SIZE = 4
};

static struct ccrun_pg *pg;
static int              rank, size;
static bool             is_left; /* another rank has aborted the group */
static int32_t          in[MAX_SIZE * LARGE], out[MAX_SIZE * LARGE];

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

static uint64_t now_ns(void)
{
    struct timespec t;

    (void) clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t) t.tv_sec * 1000000000 + (uint64_t) t.tv_nsec;
}

static uint64_t now_ms(void)
{
    return now_ns() / 1000000;
}

static struct ccrun_call describe(enum ccrun_what what, size_t count, uint64_t timeout_ms)
{
    struct ccrun_call c = {
        .what = what, .send = in, .recv = out, .count = count, .type = CCRUN_I32, .timeout_ms = timeout_ms
    };

    /* A root that only sends may be done before anybody is missed: so the one who ends is the root. */
    c.peer = what == CCRUN_BROADCAST || what == CCRUN_SCATTER ? size - 1 : 0;
    if (what == CCRUN_SEND || what == CCRUN_RECV)
        c.peer = size - 1;
    return c;
}

static int call(enum ccrun_what what, size_t count, uint64_t timeout_ms)
{
    struct ccrun_call c = describe(what, count, timeout_ms);

    return ccrun_run(pg, &c);
}

/* The failure comes in time, as one of those codes, and stays. */
static void told(int r, uint64_t since, uint64_t limit_ms)
{
    if (r >= 0)
        die("the call went well");
    printf("%s: %s\n", is_left ? "left" : "told", ccrun_error());
    if (r != -ECONNRESET && r != -ETIMEDOUT && r != -EPROTO)
        die("another code was expected");
    if (now_ms() - since > limit_ms + SLACK_MS)
        die("the deadline was long over");
    if (ccrun_barrier(pg) != -ESHUTDOWN || !strstr(ccrun_error(), "the group failed earlier"))
        die("the group went on");
}

static void meet_again(int n)
{
    struct ccrun_init init = {
        .backend = ccrun_backend(pg), .rank = rank, .world_size = n, .timeout_ms = INIT_MS, .group = "again"
    };
    int32_t one = 1, sum = 0;

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
    int      r;

    if (rank == size - 1)
        _exit(0);
    since = now_ms();
    /* What is sent to a rank that has ended may vanish in the network's buffers: somebody has to wait for it.
     */
    r = call(what, N, CALL_MS);
    if (r == 0 && (what == CCRUN_SEND || what == CCRUN_REDUCE || what == CCRUN_GATHER))
        r = call(CCRUN_BARRIER, 0, CALL_MS);
    told(r, since, 2 * CALL_MS);
    meet_again(size - 1);
}

static void fail_all(void)
{
    uint64_t since = now_ms();

    told(call(CCRUN_ALL_REDUCE, N, LATE_MS), since, LATE_MS);
    meet_again(size);
}

/* ---- in the middle */

/* All ranks in one large call; of a message, the last one is the other end. */
static int take_part(enum ccrun_what what, uint64_t timeout_ms)
{
    struct ccrun_call c = describe(what, LARGE, timeout_ms);
    int               r = 0;

    if (rank != size - 1 || (what != CCRUN_SEND && what != CCRUN_RECV))
        return ccrun_run(pg, &c);
    c.what = what == CCRUN_SEND ? CCRUN_RECV : CCRUN_SEND;
    for (c.peer = 0; r == 0 && c.peer < size - 1; c.peer++)
        r = ccrun_run(pg, &c);
    return r;
}

struct death {
    struct timespec in;
    bool            is_kill;
};

static void *end_me(void *arg)
{
    const struct death *d = arg;

    (void) nanosleep(&d->in, NULL);
    if (d->is_kill)
        (void) kill(getpid(), SIGKILL);
    _exit(0);
}

/* The call once, to know how long it takes; then once more, of which the last rank makes the first half only.
 */
static void die_within(enum ccrun_what what, bool is_kill)
{
    uint64_t since, took;
    int      r;

    must(take_part(what, INIT_MS), "the first call");
    must(call(CCRUN_BARRIER, 0, INIT_MS), "a barrier");
    since = now_ns();
    must(take_part(what, INIT_MS), "the second call");
    took = now_ns() - since;
    must(call(CCRUN_BARRIER, 0, INIT_MS), "a barrier");
    since = now_ns() / 1000000;
    if (rank == size - 1) {
        struct death d = { { (time_t) (took / 2 / 1000000000), (long) (took / 2 % 1000000000) }, is_kill };
        pthread_t    thread;

        if (pthread_create(&thread, NULL, end_me, &d) != 0)
            die("no thread");
        (void) take_part(what, INIT_MS);
        (void) pthread_join(thread, NULL);
    }
    r = take_part(what, CALL_MS);
    if (r == 0) /* it was over before, or had its part of it done */
        r = call(CCRUN_BARRIER, 0, CALL_MS);
    told(r, since, 2 * CALL_MS);
}

static void mid(enum ccrun_what what)
{
    die_within(what, false);
    meet_again(size - 1);
}

/* ccrun stops the others when one is killed; they want to know first what the library says. */
static void round_after(enum ccrun_what what)
{
    struct sigaction ignore = { .sa_handler = SIG_IGN };
    const char      *attempt = getenv("TORCHELASTIC_RESTART_COUNT");

    if (attempt && strcmp(attempt, "0") != 0) {
        must(take_part(what, INIT_MS), "the call, in the next round");
        must(ccrun_barrier(pg), "a barrier in the next round");
        return;
    }
    (void) sigaction(SIGTERM, &ignore, NULL);
    die_within(what, true);
    must(ccrun_abort(pg), "abort");
    must(ccrun_destroy_process_group(pg), "destroy");
    exit(1);
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
    told(call(CCRUN_ALL_REDUCE, N, LATE_MS), since, LATE_MS);
    must(ccrun_store_set(s, key, "1", 1), "set");
}

/* ---- aborted from another thread */

static const char *const aborted_key = "fault/aborted";

static void *abort_it(void *arg)
{
    struct timespec t = { .tv_nsec =
                              50000000 }; /* the other thread may be before or in its call: both have to do */

    (void) nanosleep(&t, NULL);
    (void) ccrun_abort(arg);
    return NULL;
}

static void canceled(int r)
{
    if (r != -ECANCELED || ccrun_barrier(pg) != -ECANCELED)
        die("it was not canceled");
}

/* The store of an aborted group is of no use any more, either. */
static void tell_the_others(void)
{
    struct ccrun_init   init = { .timeout_ms = INIT_MS };
    struct ccrun_store *s;

    must(ccrun_destroy_process_group(pg), "destroy");
    pg = NULL;
    must(ccrun_store_open(&s, &init), "open the store");
    must(ccrun_store_set(s, aborted_key, "1", 1), "set");
    (void) ccrun_store_close(s);
}

/* The others come when it is too late, and are told so: over a connection at once. */
static void be_left(void)
{
    uint64_t since;
    int      r;

    must(ccrun_store_wait(ccrun_pg_store(pg), &aborted_key, 1, INIT_MS), "wait");
    since = now_ms();
    is_left = true;
    r = call(CCRUN_BARRIER, 0, LATE_MS);
    told(r, since, LATE_MS);
}

/* What is sent may be gone before it is aborted: of that the next call knows. */
static void abort_one(enum ccrun_what what)
{
    pthread_t thread;
    int       r;

    if (rank != 0) {
        be_left();
        return;
    }
    if (pthread_create(&thread, NULL, abort_it, pg) != 0)
        die("no thread");
    r = call(what, N, INIT_MS);
    if (r == 0)
        r = call(CCRUN_BARRIER, 0, INIT_MS);
    printf("told: %s\n", ccrun_error());
    (void) pthread_join(thread, NULL);
    canceled(r);
    tell_the_others();
}

static void abort_requests(void)
{
    enum { COUNT = 4 };
    static const enum ccrun_what whats[COUNT] = { CCRUN_RECV, CCRUN_ALL_REDUCE, CCRUN_RECV, CCRUN_BARRIER };
    struct ccrun_request        *q[COUNT];
    pthread_t                    thread;

    if (rank != 0) {
        be_left();
        return;
    }
    for (int i = 0; i < COUNT; i++) {
        struct ccrun_call c = describe(whats[i], N, INIT_MS);

        c.tag = i;
        c.recv = out + (size_t) i * N; /* each has a buffer of its own until it is over */
        must(ccrun_start(&q[i], pg, &c), "start");
    }
    if (ccrun_test(q[0]) != 0 || ccrun_test(q[1]) != 0)
        die("a request is done to which nobody came");
    if (pthread_create(&thread, NULL, abort_it, pg) != 0)
        die("no thread");
    for (int i = 0; i < COUNT; i++)
        canceled(ccrun_wait(q[i]));
    printf("told: %s\n", ccrun_error());
    (void) pthread_join(thread, NULL);
    tell_the_others();
}

static void differ(enum ccrun_what what)
{
    struct ccrun_call c = describe(what, N - (rank == size - 1), LATE_MS);
    uint64_t          since = now_ms();
    int               r;

    if (rank == size - 1 && (what == CCRUN_SEND || what == CCRUN_RECV)) {
        c.what = what == CCRUN_SEND ? CCRUN_RECV : CCRUN_SEND;
        c.peer = 0;
    }
    r = ccrun_run(pg, &c);
    if (r == 0) /* a root that only sends */
        r = call(CCRUN_BARRIER, 0, LATE_MS);
    told(r, since, 2 * LATE_MS);
    meet_again(size);
}

/* What a child does with all that it has inherited; then it makes a group of its own. */
static int use_inherited(void)
{
    struct ccrun_init   init = { .backend = ccrun_backend(pg), .timeout_ms = INIT_MS, .group = "children" };
    struct ccrun_store *s = ccrun_pg_store(pg);
    struct ccrun_pg    *own = NULL;
    int                 first[] = { 0 };

    if (ccrun_barrier(pg) != -EINVAL || !strstr(ccrun_error(), "of which this one is a fork") ||
        ccrun_new_group(&own, pg, first, 1) != -EINVAL || ccrun_store_set(s, "fork", "1", 1) != -EINVAL)
        return 1;
    must(ccrun_abort(pg), "abort");
    must(ccrun_destroy_process_group(pg), "destroy");
    must(ccrun_init_process_group(&own, &init), "init in the child");
    must(ccrun_barrier(own), "a barrier of the children");
    return ccrun_destroy_process_group(own);
}

static void fork_it(void)
{
    int   status;
    pid_t child = fork();

    if (child == 0)
        exit(use_inherited());
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
        die("the child has failed");
    must(take_part(CCRUN_ALL_REDUCE, INIT_MS), "an all-reduce after the child");
    must(call(CCRUN_BARRIER, 0, INIT_MS), "a barrier after the child");
}

/* In some of the rounds the thread of the queue is in the all-reduce when the messages are started, in some
 * it is not yet. */
static void start_beside(void)
{
    enum { ROUNDS = 100, MESSAGE = 7 };

    for (int i = 0; i < ROUNDS; i++) {
        struct ccrun_call     c = describe(CCRUN_ALL_REDUCE, 1, INIT_MS);
        struct ccrun_request *q[MAX_SIZE];
        int32_t               one = 1, sum = 0, sent = MESSAGE;

        c.send = &one;
        c.recv = &sum;
        if (rank != 0)
            must(ccrun_recv(pg, &sent, 1, CCRUN_I32, 0, i), "receive");
        must(ccrun_start(&q[0], pg, &c), "start an all-reduce");
        c.what = CCRUN_SEND;
        c.send = &sent;
        c.tag = i;
        for (c.peer = 1; rank == 0 && c.peer < size; c.peer++)
            must(ccrun_start(&q[c.peer], pg, &c), "start a message");
        for (int j = 0; j < (rank == 0 ? size : 1); j++)
            must(ccrun_wait(q[j]), "wait");
        if (sum != size || sent != MESSAGE)
            die("a result is wrong");
    }
}

int main(int argc, char **argv)
{
    struct ccrun_init init = { .timeout_ms = INIT_MS };
    enum ccrun_what   what = CCRUN_RECV;

    if (argc != 3)
        return 2;
    init.backend = argv[1];
    must(ccrun_init_process_group(&pg, &init), "init");
    rank = ccrun_rank(pg);
    size = ccrun_size(pg);
    if (size > MAX_SIZE)
        die("too many ranks");
    must(ccrun_barrier(pg), "barrier");
    if (argv[2][strcspn(argv[2], "0123456789")])
        what = (enum ccrun_what) strtol(argv[2] + strcspn(argv[2], "0123456789"), NULL, 10);
    if (strncmp(argv[2], "die-", 4) == 0)
        die_before(what);
    else if (strncmp(argv[2], "mid-", 4) == 0)
        mid(what);
    else if (strncmp(argv[2], "round-", 6) == 0)
        round_after(what);
    else if (strcmp(argv[2], "late") == 0)
        stay_away();
    else if (strncmp(argv[2], "differ-", 7) == 0)
        differ(what);
    else if (strcmp(argv[2], "fork") == 0)
        fork_it();
    else if (strcmp(argv[2], "beside") == 0)
        start_beside();
    else if (strcmp(argv[2], "fails") == 0)
        fail_all();
    else if (strcmp(argv[2], "requests") == 0)
        abort_requests();
    else
        abort_one(what);
    must(ccrun_destroy_process_group(pg), "destroy");
    printf("well\n");
    return 0;
}
