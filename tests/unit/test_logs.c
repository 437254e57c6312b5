#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "agent/logs.h"

enum { MAX_WORKERS = 40, LIMIT_MS = 20000 };

/* A node whose workers are written by the test itself or by forked children; both console streams are pipes.
 */
struct node {
    uv_loop_t       loop;
    struct logs    *l;
    struct logs_cfg cfg;
    char            dir[64], *out[3];
    size_t          n_out[3];
    int             console[3], worker[MAX_WORKERS][3]; /* our read ends; the workers' write ends */
    unsigned        n_drained, n_lost, n_notices;
    char            notice[1024];
    uint8_t         redirects[MAX_WORKERS], tee[MAX_WORKERS];
    bool            is_on_console[MAX_WORKERS], is_deaf, is_repeating;
};

static void on_drained(void *ctx, unsigned rank)
{
    (void) rank;
    ((struct node *) ctx)->n_drained++;
}

static void on_lost(void *ctx)
{
    ((struct node *) ctx)->n_lost++;
}

static void on_notice(void *ctx, const char *sentence)
{
    struct node *n = ctx;

    n->n_notices++;
    (void) snprintf(n->notice, sizeof n->notice, "%s", sentence);
    if (n->is_repeating)
        logs_say(n->l, "as the agent does\n");
}

static const struct logs_cbs cbs = { .on_drained = on_drained,
                                     .on_console_lost = on_lost,
                                     .on_notice = on_notice };

static void node_init(struct node *n, unsigned nproc)
{
    struct sigaction ignore = { .sa_handler = SIG_IGN };

    memset(n, 0, sizeof *n);
    (void) alarm(2 * LIMIT_MS / 1000); /* whatever blocks, ends */
    (void) sigaction(SIGPIPE, &ignore, NULL);
    cr_assert_eq(uv_loop_init(&n->loop), 0);
    (void) snprintf(n->dir, sizeof n->dir, "/tmp/test-logs-XXXXXX");
    cr_assert_not_null(mkdtemp(n->dir));
    cr_assert_eq(setenv("TMPDIR", n->dir, 1), 0);
    n->cfg = (struct logs_cfg){ .nproc = nproc, .run_id = "none", .role = "default", .drain_ms = 2000 };
    for (int i = 1; i <= 2; i++) {
        int p[2];

        cr_assert_eq(pipe2(p, O_CLOEXEC), 0);
        cr_assert_eq(fcntl(p[0], F_SETFL, O_NONBLOCK), 0);
        n->console[i] = p[0];
        n->cfg.console_fd[i] = p[1];
    }
    for (unsigned i = 0; i < MAX_WORKERS; i++)
        n->worker[i][1] = n->worker[i][2] = -1;
}

static void node_new(struct node *n)
{
    struct cc_err err = { 0 };

    cr_assert_eq(logs_new(&n->l, &n->loop, &n->cfg, &cbs, n, &err), 0, "%s", err.msg);
}

static void start(struct node *n, unsigned rank, unsigned attempt)
{
    struct cc_err     err = { 0 };
    struct logs_stdio io;

    cr_assert_eq(logs_open(n->l, rank, attempt, &io, &err), 0, "%s", err.msg);
    n->worker[rank][1] = fcntl(io.out, F_DUPFD_CLOEXEC, 3);
    n->worker[rank][2] = fcntl(io.err, F_DUPFD_CLOEXEC, 3);
    logs_started(n->l, rank);
}

static void node_start(struct node *n)
{
    node_new(n);
    for (unsigned i = 0; i < n->cfg.nproc; i++)
        start(n, i, 0);
}

static void say(struct node *n, unsigned rank, int which, const char *text)
{
    cr_assert_eq(write(n->worker[rank][which], text, strlen(text)), (ssize_t) strlen(text));
}

static void collect(struct node *n)
{
    static char buf[1 << 16];

    for (int i = 1; i <= 2 && !n->is_deaf; i++) {
        ssize_t got;

        while (n->console[i] >= 0 && (got = read(n->console[i], buf, sizeof buf)) > 0) {
            n->out[i] = realloc(n->out[i], n->n_out[i] + (size_t) got + 1);
            memcpy(n->out[i] + n->n_out[i], buf, (size_t) got);
            n->n_out[i] += (size_t) got;
            n->out[i][n->n_out[i]] = '\0';
        }
    }
}

static void on_wakeup(uv_timer_t *t)
{
    (void) t;
}

/* Runs the loop, and reads the consoles, until the condition holds. */
#define RUN_UNTIL(n, condition)                                                                              \
    do {                                                                                                     \
        uv_timer_t wakeup;                                                                                   \
        uint64_t   end = uv_hrtime() / 1000000 + LIMIT_MS;                                                   \
        (void) uv_timer_init(&(n)->loop, &wakeup);                                                           \
        (void) uv_timer_start(&wakeup, on_wakeup, 1, 1);                                                     \
        while (collect(n), !(condition)) {                                                                   \
            cr_assert(uv_hrtime() / 1000000 < end, "never: " #condition);                                    \
            (void) uv_run(&(n)->loop, UV_RUN_ONCE);                                                          \
        }                                                                                                    \
        uv_close((uv_handle_t *) &wakeup, NULL);                                                             \
        (void) uv_run(&(n)->loop, UV_RUN_NOWAIT);                                                            \
    } while (0)

static void stop_writing(struct node *n, unsigned rank)
{
    for (int i = 1; i <= 2; i++)
        if (n->worker[rank][i] >= 0)
            (void) close(n->worker[rank][i]);
    n->worker[rank][1] = n->worker[rank][2] = -1;
}

static void finish(struct node *n, unsigned rank)
{
    unsigned before = n->n_drained;

    stop_writing(n, rank);
    logs_exited(n->l, rank);
    cr_assert_eq(n->n_drained, before, "never from inside logs_exited()");
    RUN_UNTIL(n, n->n_drained == before + 1);
}

static void run(const char *command)
{
    FILE *f = popen(command, "r");

    cr_assert_eq(pclose(f), 0, "%s", command);
}

static void node_free(struct node *n)
{
    char command[128];

    logs_close(n->l);
    (void) uv_run(&n->loop, UV_RUN_DEFAULT);
    (void) logs_free(n->l);
    cr_assert_eq(uv_loop_close(&n->loop), 0);
    for (int i = 1; i <= 2; i++) {
        free(n->out[i]);
        (void) close(n->console[i]);
        (void) close(n->cfg.console_fd[i]);
    }
    (void) snprintf(command, sizeof command, "rm -rf '%s'", n->dir);
    run(command);
}

/* How the run's directory is called, and what a file below it holds. */
static void run_dir(const struct node *n, char *path, size_t size)
{
    char  command[256];
    FILE *f;

    (void) snprintf(command, sizeof command, "find %s -mindepth 1 -name 'attempt_*' -printf '%%h\n'", n->dir);
    f = popen(command, "r");
    cr_assert_not_null(fgets(path, (int) size, f));
    path[strcspn(path, "\n")] = '\0';
    (void) pclose(f);
}

static char *slurp(const struct node *n, const char *name)
{
    static char buf[1 << 20];
    char        path[512];
    FILE       *f;

    run_dir(n, path, sizeof path);
    (void) strcat(path, name);
    f = fopen(path, "r");
    if (!f)
        return NULL;
    buf[fread(buf, 1, sizeof buf - 1, f)] = '\0';
    (void) fclose(f);
    return buf;
}

static unsigned count_entries(const char *dir)
{
    DIR     *d = opendir(dir);
    unsigned n = 0;

    while (readdir(d))
        n++;
    (void) closedir(d);
    return n - 2;
}

Test(logs, lines_of_all_workers_come_whole_and_unlabelled)
{
    struct node n;

    node_init(&n, 2);
    node_start(&n);
    say(&n, 0, 1, "half ");
    RUN_UNTIL(&n, true);
    say(&n, 1, 1, "other\nlast");
    RUN_UNTIL(&n, n.n_out[1] > 0);
    cr_assert_str_eq(n.out[1], "other\n");
    say(&n, 0, 1, "line\n");
    say(&n, 0, 2, "to stderr\n");
    RUN_UNTIL(&n, n.n_out[1] == 16 && n.n_out[2] == 10);
    finish(&n, 1);
    RUN_UNTIL(&n, n.n_out[1] == 21);
    cr_assert_str_eq(n.out[1], "other\nhalf line\nlast\n");
    cr_assert_str_eq(n.out[2], "to stderr\n");
    finish(&n, 0);
    cr_assert_eq(count_entries(n.dir), 0, "no file is left unless asked for");
    node_free(&n);
}

Test(logs, a_label_names_the_rank_on_both_streams)
{
    struct node n;

    node_init(&n, 2);
    n.cfg.is_label = true;
    node_new(&n);
    logs_set_base_rank(n.l, 8);
    start(&n, 0, 0);
    start(&n, 1, 0);
    say(&n, 1, 1, "a\nb\n");
    say(&n, 0, 2, "c");
    finish(&n, 0);
    finish(&n, 1);
    RUN_UNTIL(&n, n.n_out[1] == 12 && n.n_out[2] == 6);
    cr_assert_str_eq(n.out[1], "[9] a\n[9] b\n");
    cr_assert_str_eq(n.out[2], "[8] c\n");
    node_free(&n);
}

Test(logs, merged_streams_keep_their_order_and_go_where_stdout_goes)
{
    struct node n;

    node_init(&n, 2);
    n.cfg.is_merged = n.cfg.is_label = true;
    n.redirects[1] = 1;
    n.cfg.redirects = n.redirects;
    node_start(&n);
    for (unsigned i = 0; i < 2; i++) {
        say(&n, i, 1, "one\n");
        say(&n, i, 2, "two\n");
        say(&n, i, 1, "three\n");
        finish(&n, i);
    }
    RUN_UNTIL(&n, n.n_out[1] == 3 * 4 + 14);
    cr_assert_str_eq(n.out[1], "[0] one\n[0] two\n[0] three\n");
    cr_assert_eq(n.n_out[2], 0);
    cr_assert_str_eq(slurp(&n, "/attempt_0/1/stdout.log"), "one\ntwo\nthree\n");
    cr_assert_null(slurp(&n, "/attempt_0/1/stderr.log"));
    cr_assert_str_eq(logs_stderr_tail(n.l, 1), "one\ntwo\nthree\n", "the cause may be anywhere");
    node_free(&n);
}

Test(logs, routes_are_those_of_torchrun)
{
    struct node n;
    char        name[] = "/attempt_0/0/stdout.log";

    node_init(&n, 4);
    n.redirects[0] = 3;
    n.tee[1] = 1;
    n.redirects[1] = 2;
    n.tee[2] = 3;
    for (unsigned i = 0; i < 4; i++)
        n.is_on_console[i] = i < 2;
    n.cfg.redirects = n.redirects;
    n.cfg.tee = n.tee;
    n.cfg.is_on_console = n.is_on_console;
    node_start(&n);
    for (unsigned i = 0; i < 4; i++) {
        say(&n, i, 1, "out\n");
        say(&n, i, 2, "err\n");
        finish(&n, i);
    }
    RUN_UNTIL(&n, n.n_out[1] == 15);
    cr_assert_str_eq(n.out[1], "[default1]:out\n");
    cr_assert_eq(n.n_out[2], 0);
    for (unsigned i = 0; i < 4; i++) {
        name[11] = (char) ('0' + i);
        (void) memcpy(name + 13, "stdout.log", 10);
        cr_assert_eq(slurp(&n, name) != NULL, i < 3);
        cr_assert(i == 3 || !strcmp(slurp(&n, name), "out\n"));
        (void) memcpy(name + 13, "stderr.log", 10);
        cr_assert(i == 3 || !strcmp(slurp(&n, name), "err\n"));
    }
    cr_assert_str_eq(logs_stderr_tail(n.l, 0), "err\n", "of a worker that writes to a file only");
    cr_assert_str_eq(logs_stderr_tail(n.l, 3), "err\n", "of a worker that is not shown");
    node_free(&n);
}

Test(logs, without_files_redirects_and_filters_have_no_effect)
{
    struct node n;

    node_init(&n, 2);
    memset(n.redirects, 3, sizeof n.redirects);
    n.cfg.redirects = n.redirects;
    n.cfg.is_on_console = n.is_on_console;
    n.cfg.log_dir = "/dev/null";
    node_start(&n);
    say(&n, 1, 1, "out\n");
    cr_assert_str_eq(logs_error_file(n.l, 1), "");
    cr_assert_null(logs_attempt_dir(n.l));
    finish(&n, 0);
    finish(&n, 1);
    RUN_UNTIL(&n, n.n_out[1] == 4);
    cr_assert_str_eq(n.out[1], "out\n");
    node_free(&n);
}

Test(logs, filtered_files_hold_the_lines_with_a_needle)
{
    static const char *const needles[] = { "loss", "error", NULL }, *const all[] = { "", NULL };
    struct node n;

    node_init(&n, 2);
    memset(n.tee, 1, sizeof n.tee);
    n.cfg.tee = n.tee;
    n.cfg.log_dir = n.dir;
    n.cfg.dup_out = needles;
    n.cfg.dup_err = all;
    n.cfg.prefix_template = "<${rank}> ";
    node_start(&n);
    say(&n, 0, 1, "loss 1\nnothing\nan error\nother\nlast loss");
    say(&n, 0, 2, "not teed\n");
    finish(&n, 0);
    finish(&n, 1);
    cr_assert_str_eq(slurp(&n, "/attempt_0/filtered_stdout.log"),
                     "<0> loss 1\n<0> an error\n<0> last loss\n");
    cr_assert_str_eq(slurp(&n, "/attempt_0/filtered_stderr.log"), "");
    node_free(&n);
}

Test(logs, each_attempt_has_a_directory_and_one_started_again_goes_on_in_its_files)
{
    struct node n;

    node_init(&n, 1);
    n.redirects[0] = 1;
    n.cfg.redirects = n.redirects;
    n.cfg.log_dir = n.dir;
    n.cfg.run_id = "a/b";
    node_new(&n);
    for (unsigned i = 0; i < 3; i++) {
        start(&n, 0, i / 2);
        say(&n, 0, 1, "x\n");
        finish(&n, 0);
    }
    cr_assert_str_eq(slurp(&n, "/attempt_0/0/stdout.log"), "x\nx\n");
    cr_assert_str_eq(slurp(&n, "/attempt_1/0/stdout.log"), "x\n");
    cr_assert_not_null(strstr(logs_attempt_dir(n.l), "/a_b_"));
    cr_assert_not_null(strstr(logs_error_file(n.l, 0), "/attempt_1/0/error.json"));
    node_free(&n);
}

Test(logs, an_error_file_lies_in_a_private_directory_that_goes)
{
    struct node n;
    struct stat st;
    const char *path;
    char       *dir;
    FILE       *f;

    node_init(&n, 1);
    node_start(&n);
    path = logs_error_file(n.l, 0);
    f = fopen(path, "w");
    cr_assert_not_null(f, "%s", path);
    (void) fclose(f);
    dir = strndup(path, (size_t) (strrchr(path, '/') - path));
    cr_assert_eq(stat(dir, &st), 0);
    cr_assert_eq(st.st_mode & 0777, 0700);
    free(dir);
    finish(&n, 0);
    logs_close(n.l);
    (void) uv_run(&n.loop, UV_RUN_DEFAULT);
    n.l = logs_free(n.l);
    cr_assert_eq(count_entries(n.dir), 0);
    node_new(&n);
    node_free(&n);
}

Test(logs, a_log_directory_that_is_a_file_is_refused_or_said_once)
{
    struct node   n;
    struct cc_err err = { 0 };

    node_init(&n, 1);
    n.redirects[0] = 3;
    n.cfg.redirects = n.redirects;
    n.cfg.log_dir = "/proc/self/maps";
    n.cfg.is_strict = true;
    cr_assert_eq(logs_new(&n.l, &n.loop, &n.cfg, &cbs, &n, &err), -ENOTDIR);
    cr_assert_not_null(strstr(err.msg, "'/proc/self/maps' is a file"));
    n.cfg.is_strict = false;
    node_start(&n);
    say(&n, 0, 1, "still here\n");
    finish(&n, 0);
    RUN_UNTIL(&n, n.n_out[1] == 11);
    cr_assert_eq(n.n_notices, 1);
    node_free(&n);
}

Test(logs, a_process_that_outlives_the_worker_holds_its_pipe_for_a_bounded_time)
{
    struct node n;
    int         grandchild;

    node_init(&n, 1);
    n.cfg.drain_ms = 50;
    node_start(&n);
    grandchild = fcntl(n.worker[0][1], F_DUPFD_CLOEXEC, 3);
    say(&n, 0, 1, "last words");
    finish(&n, 0);
    RUN_UNTIL(&n, n.n_out[1] > 0);
    cr_assert_str_eq(n.out[1], "last words\n");
    (void) close(grandchild);
    node_free(&n);
}

Test(logs, a_worker_without_pipes_is_drained_too)
{
    struct node n;

    node_init(&n, 1);
    n.cfg.is_on_console = n.is_on_console;
    node_start(&n);
    finish(&n, 0);
    node_free(&n);
}

Test(logs, a_console_that_goes_away_is_said_once_and_the_files_go_on)
{
    struct node n;

    node_init(&n, 1);
    n.tee[0] = 3;
    n.cfg.tee = n.tee;
    node_start(&n);
    (void) close(n.console[1]);
    n.console[1] = -1;
    for (unsigned i = 0; i < 100; i++) {
        say(&n, 0, 1, "line\n");
        RUN_UNTIL(&n, true);
    }
    finish(&n, 0);
    cr_assert_eq(n.n_lost, 1);
    cr_assert_eq(strlen(slurp(&n, "/attempt_0/0/stdout.log")), 500);
    node_free(&n);
}

Test(logs, full_consoles_are_said_once_although_that_sentence_finds_no_room_either)
{
    struct node n;

    node_init(&n, 1);
    for (int i = 1; i <= 2; i++) {
        (void) close(n.cfg.console_fd[i]);
        n.cfg.console_fd[i] = open("/dev/full", O_WRONLY | O_CLOEXEC);
    }
    n.is_repeating = true;
    node_start(&n);
    say(&n, 0, 1, "line\n");
    say(&n, 0, 2, "line\n");
    finish(&n, 0);
    cr_assert_eq(n.n_notices, 1);
    cr_assert_eq(n.n_lost, 0, "the job goes on");
    node_free(&n);
}

Test(logs, a_console_that_cannot_be_written_is_no_console_that_nobody_reads)
{
    struct node n;

    node_init(&n, 1);
    (void) close(n.cfg.console_fd[1]);
    n.cfg.console_fd[1] = open("/proc/self/mem", O_RDONLY | O_CLOEXEC); /* opens for writing, and then: EIO */
    node_start(&n);
    say(&n, 0, 1, "line\n");
    finish(&n, 0);
    cr_assert_eq(n.n_notices, 1);
    cr_assert_eq(n.n_lost, 0);
    node_free(&n);
}

Test(logs, a_console_that_is_not_read_stops_the_worker_and_loses_nothing)
{
    enum { N = 100000 };
    struct node n;
    pid_t       pid;
    int         status;
    char       *p;

    node_init(&n, 1);
    n.cfg.is_label = true;
    node_start(&n);
    n.is_deaf = true;
    pid = fork();
    if (pid == 0) {
        FILE *f = fdopen(n.worker[0][1], "w");

        for (unsigned i = 0; i < N; i++)
            (void) fprintf(f, "%079u\n", i);
        (void) fclose(f);
        _exit(0);
    }
    stop_writing(&n, 0);
    /* 8 MB do not fit into the pipes and the queue: it blocks once it has written what does. */
    for (unsigned i = 0; i < 200; i++)
        RUN_UNTIL(&n, true);
    cr_assert_eq(waitpid(pid, &status, WNOHANG), 0);
    n.is_deaf = false;
    RUN_UNTIL(&n, n.n_out[1] == (size_t) N * 84);
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    finish(&n, 0);
    p = n.out[1];
    for (unsigned i = 0; i < N; i++, p += 84) {
        char want[85];

        (void) snprintf(want, sizeof want, "[0] %079u\n", i);
        cr_assert_eq(memcmp(p, want, 84), 0);
    }
    node_free(&n);
}

static _Noreturn void write_in_pieces(int fd, unsigned id, unsigned n_lines)
{
    char line[220];

    for (unsigned i = 0; i < n_lines; i++) {
        (void) snprintf(line, sizeof line, "writer %2u line %4u %179s\n", id, i, "end");
        for (unsigned j = 0; j < 3; j++)
            if (write(fd, line + j * 67, j == 2 ? 66 : 67) < 0)
                _exit(1);
    }
    _exit(0);
}

/* T1 of torchrun's own tests, with every line in three pieces. */
Test(logs, no_line_of_32_writers_is_torn_lost_or_doubled)
{
    enum { WRITERS = 32, LINES = 1000 };
    struct node n;
    unsigned    next[WRITERS] = { 0 };
    pid_t       pid[WRITERS];

    node_init(&n, WRITERS);
    memset(n.tee, 1, sizeof n.tee);
    n.cfg.tee = n.tee;
    n.cfg.role = "writer";
    node_start(&n);
    for (unsigned i = 0; i < WRITERS; i++) {
        pid[i] = fork();
        if (pid[i] == 0)
            write_in_pieces(n.worker[i][1], i, LINES);
        stop_writing(&n, i);
    }
    for (unsigned i = 0; i < WRITERS; i++)
        logs_exited(n.l, i);
    RUN_UNTIL(&n, n.n_drained == WRITERS);
    RUN_UNTIL(&n, n.n_out[1] == WRITERS * LINES * 210 + 22 * LINES);
    for (char *p = n.out[1]; *p; p = strchr(p, '\n') + 1) {
        unsigned id, i;
        char     name[32];

        cr_assert_eq(sscanf(p, "%31[^:]:writer %u line %u end\n", name, &id, &i), 3, "%.230s", p);
        cr_assert_eq(i, next[id]++);
        cr_assert_eq(strtoul(name + 7, NULL, 10), id);
    }
    for (unsigned i = 0; i < WRITERS; i++) {
        cr_assert_eq(next[i], LINES);
        cr_assert_eq(waitpid(pid[i], NULL, 0), pid[i]);
    }
    node_free(&n);
}

static size_t count(const char *text, char c)
{
    size_t n = 0;

    for (; *text; text++)
        n += *text == c;
    return n;
}

/* C39: a worker that is killed after it wrote much without a newline. */
Test(logs, nothing_is_lost_of_a_megabyte_without_newline_when_its_worker_is_killed)
{
    enum { SIZE = 1 << 20 };
    struct node n;
    pid_t       pid;

    node_init(&n, 2);
    memset(n.tee, 3, sizeof n.tee);
    n.cfg.tee = n.tee;
    node_start(&n);
    pid = fork();
    if (pid == 0) {
        static char buf[SIZE];

        memset(buf, 'x', sizeof buf);
        if (write(n.worker[0][1], buf, sizeof buf) == SIZE)
            (void) kill(getpid(), SIGKILL);
        _exit(1);
    }
    say(&n, 1, 1, "hello\n");
    stop_writing(&n, 0);
    RUN_UNTIL(&n, waitpid(pid, NULL, WNOHANG) == pid);
    finish(&n, 0);
    finish(&n, 1);
    RUN_UNTIL(&n, n.n_out[1] > SIZE && n.out[1][n.n_out[1] - 1] == '\n' && count(n.out[1], 'x') == SIZE);
    cr_assert(strstr(n.out[1], "\n[default1]:hello\n") || !strncmp(n.out[1], "[default1]:hello\n", 17));
    node_free(&n);
}

/* The stand-in for a full disk is a file size limit; the console is not a file and goes on. */
Test(logs, a_full_disk_does_not_stop_the_worker_and_the_loss_is_counted)
{
    struct node      n;
    struct rlimit    lim, old;
    struct sigaction ignore = { .sa_handler = SIG_IGN };

    node_init(&n, 1);
    (void) sigaction(SIGXFSZ, &ignore, NULL);
    n.tee[0] = 1;
    n.cfg.tee = n.tee;
    node_start(&n);
    cr_assert_eq(getrlimit(RLIMIT_FSIZE, &old), 0);
    lim = old;
    lim.rlim_cur = 100;
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &lim), 0);
    for (unsigned i = 1; i <= 20; i++) {
        say(&n, 0, 1, "0123456789\n");
        RUN_UNTIL(&n, n.n_out[1] == i * 22);
    }
    cr_assert_eq(n.n_notices, 1);
    cr_assert_not_null(strstr(n.notice, "/attempt_0/0/stdout.log': File too large"));
    finish(&n, 0);
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &old), 0);
    cr_assert_eq(n.n_notices, 2);
    cr_assert_eq(strncmp(n.notice, "120 bytes of the log files", 26), 0, "%s", n.notice);
    cr_assert_eq(strlen(slurp(&n, "/attempt_0/0/stdout.log")), 100);
    node_free(&n);
}

/* C40: 10 MB with a limit of 1 MB keep the last files, and what is kept goes on from file to file. */
Test(logs, rotated_files_are_bounded_and_hold_the_last_lines)
{
    enum { N = 131072, LIMIT = 1 << 20 };
    static const char *const names[] = { ".2", ".1", "" };
    struct node              n;
    pid_t                    pid;
    unsigned                 next = 0;

    node_init(&n, 1);
    n.redirects[0] = 1;
    n.cfg.redirects = n.redirects;
    n.cfg.max_size = LIMIT;
    n.cfg.keep = 2;
    node_start(&n);
    pid = fork();
    if (pid == 0) {
        FILE *f = fdopen(n.worker[0][1], "w");

        for (unsigned i = 0; i < N; i++)
            (void) fprintf(f, "%079u\n", i);
        _exit(fclose(f) != 0);
    }
    stop_writing(&n, 0);
    RUN_UNTIL(&n, waitpid(pid, NULL, WNOHANG) == pid);
    finish(&n, 0);
    for (unsigned i = 0; i < 3; i++) {
        char  name[64];
        char *text;

        (void) snprintf(name, sizeof name, "/attempt_0/0/stdout.log%s", names[i]);
        text = slurp(&n, name);
        cr_assert_leq(strlen(text), (size_t) LIMIT);
        for (; *text; text += 80) {
            unsigned long v = strtoul(text, NULL, 10);

            cr_assert(next == 0 || v == next, "%s: %lu after %u", name, v, next - 1);
            cr_assert_eq(text[79], '\n');
            next = (unsigned) v + 1;
        }
    }
    cr_assert_eq(next, N);
    cr_assert_null(slurp(&n, "/attempt_0/0/stdout.log.3"));
    node_free(&n);
}

Test(logs, of_two_progress_bars_each_second_has_one_line_and_they_are_not_glued)
{
    struct node n;

    node_init(&n, 2);
    n.cfg.is_label = true;
    node_start(&n);
    for (unsigned i = 0; i < 70; i++) {
        char state[32];

        (void) snprintf(state, sizeof state, "\r%u%%|####", i);
        say(&n, 0, 2, state);
        say(&n, 1, 2, state);
        RUN_UNTIL(&n, true);
    }
    RUN_UNTIL(&n, n.n_out[2] == 26);
    cr_assert_str_eq(n.out[2] + 13, n.out[2][1] == '0' ? "[1] 68%|####\n" : "[0] 68%|####\n");
    say(&n, 0, 2, "\r100%|####\n");
    finish(&n, 0);
    finish(&n, 1);
    cr_assert_eq(logs_flush(n.l, UINT64_MAX, NULL), 0);
    collect(&n);
    cr_assert_str_eq(n.out[2] + 26, "[0] 100%|####\n[1] 69%|####\n");
    node_free(&n);
}

Test(logs, stderr_that_came_with_stdout_goes_first)
{
    struct node n;
    int         fds[2];

    node_init(&n, 1);
    cr_assert_eq(pipe2(fds, O_CLOEXEC | O_NONBLOCK), 0);
    (void) close(n.console[1]);
    (void) close(n.cfg.console_fd[1]);
    n.console[1] = fds[0];
    n.cfg.console_fd[1] = fds[1];
    (void) close(n.cfg.console_fd[2]);
    n.cfg.console_fd[2] = fcntl(fds[1], F_DUPFD_CLOEXEC, 3); /* 2>&1 */
    node_start(&n);
    say(&n, 0, 1, "out\n");
    say(&n, 0, 2, "err\n");
    RUN_UNTIL(&n, n.n_out[1] == 8);
    cr_assert_str_eq(n.out[1], "err\nout\n");
    finish(&n, 0);
    node_free(&n);
}

Test(logs, our_own_lines_stand_between_those_of_the_workers)
{
    struct node n;

    node_init(&n, 1);
    n.cfg.is_label = true;
    node_start(&n);
    say(&n, 0, 2, "one\n");
    RUN_UNTIL(&n, n.n_out[2] == 8);
    say(&n, 0, 2, "half");
    RUN_UNTIL(&n, true);
    logs_say(n.l, "ccrun: hello");
    finish(&n, 0);
    RUN_UNTIL(&n, n.n_out[2] == 30);
    cr_assert_str_eq(n.out[2], "[0] one\nccrun: hello\n[0] half\n");
    node_free(&n);
}

/* Both console streams become one terminal; what it shows is collected as n->out[1]. */
static void use_terminal(struct node *n)
{
    int            master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK), slave;
    struct termios t;

    cr_assert(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
    slave = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
    cr_assert(slave >= 0 && tcgetattr(slave, &t) == 0);
    cfmakeraw(&t);
    cr_assert_eq(tcsetattr(slave, TCSANOW, &t), 0);
    for (int i = 1; i <= 2; i++) {
        (void) close(n->console[i]);
        (void) close(n->cfg.console_fd[i]);
    }
    n->console[1] = master;
    n->console[2] = -1;
    n->cfg.console_fd[1] = slave;
    n->cfg.console_fd[2] = fcntl(slave, F_DUPFD_CLOEXEC, 3);
}

Test(logs, a_prompt_of_the_only_worker_on_a_terminal_shows_without_its_newline)
{
    struct node n;

    node_init(&n, 1);
    use_terminal(&n);
    n.cfg.is_label = true;
    node_start(&n);
    say(&n, 0, 1, "name? ");
    RUN_UNTIL(&n, n.n_out[1] == 10);
    say(&n, 0, 1, "thanks\n");
    RUN_UNTIL(&n, n.n_out[1] == 17);
    cr_assert_str_eq(n.out[1], "[0] name? thanks\n");
    finish(&n, 0);
    node_free(&n);
}

Test(logs, the_only_worker_on_a_terminal_has_it_to_itself)
{
    struct node       n;
    struct cc_err     err = { 0 };
    struct logs_stdio io;

    node_init(&n, 1);
    use_terminal(&n);
    node_new(&n);
    cr_assert_eq(logs_open(n.l, 0, 0, &io, &err), 0, "%s", err.msg);
    cr_assert_eq(io.out, n.cfg.console_fd[1]);
    cr_assert_eq(io.err, n.cfg.console_fd[2]);
    logs_started(n.l, 0);
    cr_assert_str_eq(logs_stderr_tail(n.l, 0), "");
    finish(&n, 0);
    node_free(&n);
}
