/* heed - a worker that waits for signals and prints each, one `got NAME` a line; "up PID RANK" comes first.
 *
 *   heed [NAME=CODE[@MS] | NAME=default]...
 *
 * CODE: exit with it when that signal comes, with @MS so many milliseconds later, after `saved`; default: leave the
 * signal alone.  Every other signal is only printed.  Whatever goes wrong with the test, it ends by itself after LIFE_S.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "store/base/signame.h"

enum { LIFE_S = 60, N_SIGNALS = 65 };

struct plan {
    sigset_t set; /* what we wait for */
    int      code[N_SIGNALS]; /* -1: print only */
    long     delay_ms[N_SIGNALS];
};

static int number(const char *text, size_t len)
{
    char name[CC_SIGNAME_MAX];

    (void) snprintf(name, sizeof name, "SIG%.*s", (int) len, text);
    return cc_signal_number(name);
}

static int note(struct plan *p, const char *rule)
{
    size_t len = strcspn(rule, "=");
    int    signum = number(rule, len);
    char  *rest;

    if (signum <= 0 || signum >= N_SIGNALS || rule[len] == '\0')
        return -1;
    if (strcmp(rule + len, "=default") == 0)
        return sigdelset(&p->set, signum);
    p->code[signum] = (int) strtol(rule + len + 1, &rest, 10);
    p->delay_ms[signum] = *rest == '@' ? strtol(rest + 1, NULL, 10) : 0;
    return 0;
}

static void save_and_exit(const struct plan *p, int signum)
{
    long            ms = p->delay_ms[signum];
    struct timespec delay = { ms / 1000, ms % 1000 * 1000000 };

    (void) nanosleep(&delay, NULL);
    if (ms > 0)
        (void) puts("saved");
    exit(p->code[signum]);
}

int main(int argc, char **argv)
{
    struct plan     p;
    struct timespec life = { LIFE_S, 0 };
    const char     *rank = getenv("RANK");
    int             i, signum;

    (void) sigfillset(&p.set);
    for (i = 0; i < N_SIGNALS; i++)
        p.code[i] = -1;
    for (i = 1; i < argc; i++) {
        if (note(&p, argv[i]) < 0) {
            (void) fprintf(stderr, "heed: what is '%s'?\n", argv[i]);
            return 2;
        }
    }
    (void) sigprocmask(SIG_SETMASK, &p.set, NULL);
    (void) setvbuf(stdout, NULL, _IOLBF, 0);
    (void) printf("up %d %s\n", (int) getpid(), rank ? rank : "-");
    while ((signum = sigtimedwait(&p.set, NULL, &life)) > 0 || errno == EINTR) {
        char name[CC_SIGNAME_MAX];

        if (signum <= 0)
            continue;
        (void) printf("got %s\n", cc_signal_name(signum, name));
        if (p.code[signum] >= 0)
            save_and_exit(&p, signum);
    }
    return 99;
}
