#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/workers.h"

struct seen {
    unsigned n_exits, n_stops, last;
    int      status;
};

static void on_exit_cb(void *ctx, unsigned local_rank, struct worker *w)
{
    struct seen *s = ctx;

    s->n_exits++;
    s->last = local_rank;
    s->status = w->status;
}

static void on_stopped_cb(void *ctx, unsigned local_rank, struct worker *w)
{
    struct seen *s = ctx;

    (void) local_rank, (void) w;
    s->n_stops++;
}

static const struct workers_cbs cbs = { on_exit_cb, on_stopped_cb, NULL };

static void start(struct workers *ws, unsigned local_rank, const char *script)
{
    const char *argv[] = { "sh", "-c", script, NULL };
    char       *env[] = { NULL };
    struct spawn_req req = { .path = "/bin/sh", .argv = (char *const *) argv, .env = env, .cgroup_fd = -1 };
    struct cc_err err = { 0 };
    int           null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);

    req.fd[0] = req.fd[1] = req.fd[2] = null_fd;
    cr_assert_eq(workers_start(ws, local_rank, &req, &err), 0, "%s", err.msg);
    cr_assert_eq(workers_await(ws, &(unsigned) { 0 }, &err), 0, "%s", err.msg);
    (void) close(null_fd);
}

/* Block until a child has something to tell, then let the table hear of it. */
static bool reap_next(struct workers *ws)
{
    siginfo_t info;

    (void) waitid(P_ALL, 0, &info, WEXITED | WSTOPPED | WCONTINUED | WNOWAIT);
    return workers_reap(ws);
}

Test(workers, tells_each_end_with_its_status, .timeout = 10)
{
    struct seen     s = { 0 };
    struct workers *ws = workers_new(2, &cbs, &s);

    start(ws, 1, "exit 3");
    while (!reap_next(ws))
        ;
    cr_assert_eq(s.n_exits, 1);
    cr_assert_eq(s.last, 1);
    cr_assert_eq(WEXITSTATUS(s.status), 3);
    cr_assert(!workers_get(ws, 0)->is_started);
    workers_free(ws);
}

Test(workers, signals_reach_the_whole_process_group, .timeout = 10)
{
    struct seen     s = { 0 };
    struct workers *ws = workers_new(1, &cbs, &s);

    start(ws, 0, "sleep 1000 & wait");
    workers_stop(ws, SIGTERM);
    while (!reap_next(ws))
        ;
    cr_assert_eq(s.n_exits, 1);
    cr_assert(WIFSIGNALED(s.status) && WTERMSIG(s.status) == SIGTERM);
    cr_assert(workers_get(ws, 0)->is_termed && !workers_get(ws, 0)->is_killed);
    workers_free(ws);
}

Test(workers, a_stopped_worker_is_woken_to_receive_its_stop_signal, .timeout = 10)
{
    struct seen     s = { 0 };
    struct workers *ws = workers_new(1, &cbs, &s);

    start(ws, 0, "kill -STOP $$; exit 0");
    while (s.n_stops == 0)
        (void) reap_next(ws);
    workers_stop(ws, SIGTERM);
    while (!reap_next(ws))
        ;
    cr_assert(WIFSIGNALED(s.status) && WTERMSIG(s.status) == SIGTERM);
    workers_free(ws);
}

Test(workers, other_signals_do_not_count_as_a_stop, .timeout = 10)
{
    struct seen     s = { 0 };
    struct workers *ws = workers_new(1, &cbs, &s);

    start(ws, 0, "kill -STOP $$; exit 0");
    while (s.n_stops == 0)
        (void) reap_next(ws);
    workers_signal(ws, SIGWINCH);
    cr_assert(!workers_get(ws, 0)->is_termed);
    workers_signal(ws, SIGCONT);
    while (!reap_next(ws))
        ;
    cr_assert_eq(s.status, 0);
    workers_free(ws);
}

Test(workers, a_program_that_is_not_there_is_an_error_with_its_rank, .timeout = 10)
{
    struct seen     s = { 0 };
    struct workers *ws = workers_new(3, &cbs, &s);
    char           *argv[] = { (char *) "x", NULL };
    struct spawn_req req = { .path = "/no/such/program", .argv = argv, .env = argv + 1, .cgroup_fd = -1, .fd = { 0, 1, 2 } };
    struct cc_err err = { 0 };
    unsigned      rank = 99;

    start(ws, 0, "exit 0");
    cr_assert_eq(workers_start(ws, 1, &req, &err), 0);
    (void) workers_start(ws, 2, &req, NULL); /* may know already that the first has failed */
    cr_assert_eq(workers_await(ws, &rank, &err), -ENOENT);
    cr_assert_eq(rank, 1);
    cr_assert_str_eq(err.msg, "start '/no/such/program': exec: No such file or directory");
    cr_assert(workers_get(ws, 1)->is_unborn && !workers_get(ws, 0)->is_unborn);
    while (!reap_next(ws))
        ;
    cr_assert_eq(WEXITSTATUS(workers_get(ws, 1)->status), 127);
    cr_assert_eq(workers_await(ws, &rank, NULL), 0);
    workers_free(ws);
}
