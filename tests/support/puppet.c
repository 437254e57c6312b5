/* puppet - a worker that says who it is and then does what files in its folder tell it.
 *
 *   puppet [--term MS] [--deaf]
 *
 * It meets the other workers of its round in the store, where it must find nothing of an earlier round, and prints one line,
 * `up node=0 nodes=2 rank=1 world=4 local=1 locals=2 count=0 role=default 1/4 at=127.0.0.1:1234 pid=77`,
 * and then, every few milliseconds, looks for
 *   go, go.RANK    ends well
 *   fail.RANK      is taken (it becomes failed.RANK.COUNT, so it works once) and holds how to fail: an exit code, or -SIGNAL
 * SIGUSR1 and SIGUSR2 are printed, `got USR1 rank=1`.  SIGTERM ends it; with --term after `saved rank=1` and so many
 * milliseconds, with code 0; with --deaf not at all.  A meeting that fails ends it with 97, one with strangers with 98.
 * Whatever goes wrong with the test, it ends by itself after LIFE_MS.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "store/client.h"

enum { LOOK_MS = 10, LIFE_MS = 240000, MEET_MS = 60000, CANNOT_MEET = 97, MET_STRANGERS = 98, LIFE_OVER = 99 };

static const char *var(const char *name)
{
    const char *value = getenv(name);

    return value ? value : "-";
}

/* The connection stays open for as long as we live, as PyTorch's does. */
static void meet(struct store_client **ret)
{
    const struct cc_bytes   met = cc_bytes_of("met"), all = cc_bytes_of("all");
    struct store_client_cfg cfg = {
        .host = var("MASTER_ADDR"), .port = (uint16_t) strtol(var("MASTER_PORT"), NULL, 10), .timeout_ms = MEET_MS,
    };
    long          world = strtol(var("WORLD_SIZE"), NULL, 10);
    int64_t       n = 0;
    struct cc_err err;

    if (store_client_connect(ret, &cfg, MEET_MS, &err) < 0 || store_client_add(*ret, met, 1, &n, &err) < 0 ||
        (n == world && store_client_set(*ret, all, cc_bytes_of("1"), &err) < 0) ||
        store_client_wait(*ret, &all, 1, MEET_MS, &err) < 0) {
        (void) fprintf(stderr, "puppet %s: cannot meet: %s\n", var("RANK"), err.msg);
        exit(CANNOT_MEET);
    }
    if (n > world) {
        (void) fprintf(stderr, "puppet %s: number %ld of %ld in the store\n", var("RANK"), (long) n, world);
        exit(MET_STRANGERS);
    }
}

static void pause_ms(long ms)
{
    struct timespec t = { ms / 1000, ms % 1000 * 1000000 };

    while (nanosleep(&t, &t) < 0 && errno == EINTR) {
    }
}

static void fail_if_told(const char *rank)
{
    char  told[64], taken[96], how[16] = "";
    FILE *f;
    long  code;

    (void) snprintf(told, sizeof told, "fail.%s", rank);
    (void) snprintf(taken, sizeof taken, "failed.%s.%s", rank, var("TORCHELASTIC_RESTART_COUNT"));
    if (rename(told, taken) < 0)
        return;
    f = fopen(taken, "re");
    if (!f || !fgets(how, sizeof how, f))
        exit(1);
    (void) fclose(f);
    code = strtol(how, NULL, 10);
    if (code >= 0)
        exit((int) code);
    (void) kill(getpid(), (int) -code);
    exit(1); /* it was one that kills nobody */
}

static void heed(int signum, long term_ms, int is_deaf)
{
    if (signum != SIGTERM) {
        (void) printf("got %s rank=%s\n", signum == SIGUSR1 ? "USR1" : "USR2", var("RANK"));
    } else if (term_ms >= 0) {
        pause_ms(term_ms);
        (void) printf("saved rank=%s\n", var("RANK"));
        exit(0);
    } else if (!is_deaf) {
        sigset_t none;

        (void) sigemptyset(&none);
        (void) raise(SIGTERM);
        (void) sigprocmask(SIG_SETMASK, &none, NULL);
    }
}

int main(int argc, char **argv)
{
    const struct timespec look = { 0, LOOK_MS * 1000000L };
    const char *rank = var("RANK");
    char        go[64];
    long        term_ms = -1;
    int         i, is_deaf = 0;
    sigset_t    set;
    struct store_client *store = NULL;

    for (i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--deaf") == 0)
            is_deaf = 1;
        else if (strcmp(argv[i], "--term") == 0 && i + 1 < argc)
            term_ms = strtol(argv[++i], NULL, 10);
        else
            return 2;
    }
    (void) sigemptyset(&set);
    (void) sigaddset(&set, SIGTERM);
    (void) sigaddset(&set, SIGUSR1);
    (void) sigaddset(&set, SIGUSR2);
    (void) setvbuf(stdout, NULL, _IOLBF, 0);
    if (is_deaf || term_ms >= 0)
        (void) sigprocmask(SIG_BLOCK, &set, NULL);
    meet(&store);
    (void) sigprocmask(SIG_BLOCK, &set, NULL);
    (void) printf("up node=%s nodes=%s rank=%s world=%s local=%s locals=%s count=%s role=%s %s/%s at=%s:%s pid=%d\n",
                  var("GROUP_RANK"), var("GROUP_WORLD_SIZE"), rank, var("WORLD_SIZE"), var("LOCAL_RANK"),
                  var("LOCAL_WORLD_SIZE"), var("TORCHELASTIC_RESTART_COUNT"), var("ROLE_NAME"), var("ROLE_RANK"),
                  var("ROLE_WORLD_SIZE"), var("MASTER_ADDR"), var("MASTER_PORT"), (int) getpid());
    (void) snprintf(go, sizeof go, "go.%s", rank);
    for (i = 0; i < LIFE_MS / LOOK_MS; i++) {
        int signum = sigtimedwait(&set, NULL, &look);

        if (signum > 0)
            heed(signum, term_ms, is_deaf);
        if (access("go", F_OK) == 0 || access(go, F_OK) == 0) {
            (void) store_client_free(store);
            return 0;
        }
        fail_if_told(rank);
    }
    return LIFE_OVER;
}
