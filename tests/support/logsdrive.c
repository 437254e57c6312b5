/* logsdrive.c - `logsdrive [-l] [-d LOGDIR] [-t MASK] [-r MASK] [-k] [-s MAXSIZE] [-n NPROC] COMMAND...`: the
 * output part of the agent alone, with real children: what the benchmark of labelled output and the tests of
 * kills and full disks run. */
#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/logs.h"

extern char **environ;

enum { MAX_WORKERS = 256 };

struct drive {
    uv_loop_t    loop;
    uv_signal_t  chld;
    struct logs *l;
    unsigned     nproc, n_drained;
    pid_t        pid[MAX_WORKERS];
};

static void on_drained(void *ctx, unsigned rank)
{
    struct drive *d = ctx;

    (void) rank;
    if (++d->n_drained == d->nproc) {
        uv_close((uv_handle_t *) &d->chld, NULL);
        (void) logs_flush(d->l, UINT64_MAX, NULL);
        logs_close(d->l);
    }
}

static void on_lost(void *ctx)
{
    (void) ctx;
}

static void on_notice(void *ctx, const char *sentence)
{
    (void) ctx;
    (void) fprintf(stderr, "notice: %s\n", sentence);
}

static const struct logs_cbs cbs = { .on_drained = on_drained,
                                     .on_console_lost = on_lost,
                                     .on_notice = on_notice };

static void on_chld(uv_signal_t *s, int signum)
{
    struct drive *d = s->data;
    pid_t         pid;
    int           status;

    (void) signum;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        for (unsigned i = 0; i < d->nproc; i++)
            if (d->pid[i] == pid)
                logs_exited(d->l, i);
}

static void start(struct drive *d, unsigned rank, char **argv)
{
    struct logs_stdio          io;
    struct cc_err              err = { 0 };
    posix_spawn_file_actions_t fa;
    int                        r;

    if (logs_open(d->l, rank, 0, &io, &err) < 0) {
        (void) fprintf(stderr, "%s\n", err.msg);
        exit(1);
    }
    (void) posix_spawn_file_actions_init(&fa);
    (void) posix_spawn_file_actions_adddup2(&fa, io.out, 1);
    (void) posix_spawn_file_actions_adddup2(&fa, io.err, 2);
    r = posix_spawnp(&d->pid[rank], argv[0], &fa, NULL, argv, environ);
    (void) posix_spawn_file_actions_destroy(&fa);
    if (r != 0)
        exit(127);
    logs_started(d->l, rank);
}

int main(int argc, char **argv)
{
    struct sigaction ignore = { .sa_handler = SIG_IGN };
    struct drive     d = { .nproc = 2 };
    struct logs_cfg  cfg = {
         .run_id = "none", .role = "default", .drain_ms = 2000, .console_fd = { 0, 1, 2 }, .keep = 3
    };
    uint8_t       redirects[MAX_WORKERS] = { 0 }, tee[MAX_WORKERS] = { 0 };
    struct cc_err err = { 0 };
    int           c;

    (void) sigaction(SIGPIPE, &ignore, NULL);
    (void) sigaction(SIGXFSZ, &ignore, NULL);
    while ((c = getopt(argc, argv, "+ld:t:r:ks:n:")) != -1) {
        if (c == 'l')
            cfg.is_label = true;
        else if (c == 'd')
            cfg.log_dir = optarg;
        else if (c == 't')
            memset(tee, (int) strtol(optarg, NULL, 10), sizeof tee);
        else if (c == 'r')
            memset(redirects, (int) strtol(optarg, NULL, 10), sizeof redirects);
        else if (c == 'k')
            cfg.cr = LOGS_CR_KEEP;
        else if (c == 's')
            cfg.max_size = strtoull(optarg, NULL, 10);
        else if (c == 'n')
            d.nproc = (unsigned) strtoul(optarg, NULL, 10);
        else
            return 2;
    }
    if (optind == argc || d.nproc == 0 || d.nproc > MAX_WORKERS)
        return 2;
    cfg.nproc = d.nproc;
    cfg.redirects = redirects;
    cfg.tee = tee;
    if (uv_loop_init(&d.loop) < 0 || logs_new(&d.l, &d.loop, &cfg, &cbs, &d, &err) < 0) {
        (void) fprintf(stderr, "%s\n", err.msg);
        return 1;
    }
    (void) uv_signal_init(&d.loop, &d.chld);
    d.chld.data = &d;
    (void) uv_signal_start(&d.chld, on_chld, SIGCHLD);
    for (unsigned i = 0; i < d.nproc; i++)
        start(&d, i, argv + optind);
    (void) uv_run(&d.loop, UV_RUN_DEFAULT);
    (void) logs_free(d.l);
    return uv_loop_close(&d.loop) == 0 ? 0 : 1;
}
