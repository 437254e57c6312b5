#include "store/base/signame.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/base/macros.h"

static const struct {
    int         number;
    const char *name;
} table[] = {
    { SIGHUP, "SIGHUP" },       { SIGINT, "SIGINT" },       { SIGQUIT, "SIGQUIT" },   { SIGILL, "SIGILL" },
    { SIGTRAP, "SIGTRAP" },     { SIGABRT, "SIGABRT" },     { SIGBUS, "SIGBUS" },     { SIGFPE, "SIGFPE" },
    { SIGKILL, "SIGKILL" },     { SIGUSR1, "SIGUSR1" },     { SIGSEGV, "SIGSEGV" },   { SIGUSR2, "SIGUSR2" },
    { SIGPIPE, "SIGPIPE" },     { SIGALRM, "SIGALRM" },     { SIGTERM, "SIGTERM" },   { SIGSTKFLT, "SIGSTKFLT" },
    { SIGCHLD, "SIGCHLD" },     { SIGCONT, "SIGCONT" },     { SIGSTOP, "SIGSTOP" },   { SIGTSTP, "SIGTSTP" },
    { SIGTTIN, "SIGTTIN" },     { SIGTTOU, "SIGTTOU" },     { SIGURG, "SIGURG" },     { SIGXCPU, "SIGXCPU" },
    { SIGXFSZ, "SIGXFSZ" },     { SIGVTALRM, "SIGVTALRM" }, { SIGPROF, "SIGPROF" },   { SIGWINCH, "SIGWINCH" },
    { SIGIO, "SIGIO" },         { SIGPWR, "SIGPWR" },       { SIGSYS, "SIGSYS" },     { SIGIOT, "SIGIOT" },
    { SIGPOLL, "SIGPOLL" },     { SIGCHLD, "SIGCLD" },
};

const char *cc_signal_name(int signum, char buf[CC_SIGNAME_MAX])
{
    size_t i;

    for (i = 0; i < CC_COUNT(table); i++)
        if (table[i].number == signum)
            return table[i].name;
    if (signum == SIGRTMIN)
        return "SIGRTMIN";
    if (signum > SIGRTMIN && signum <= SIGRTMAX)
        (void) snprintf(buf, CC_SIGNAME_MAX, "SIGRTMIN+%d", signum - SIGRTMIN);
    else
        (void) snprintf(buf, CC_SIGNAME_MAX, "signal %d", signum);
    return buf;
}

/* What stands behind SIGRTMIN or SIGRTMAX: nothing, or a sign and a number. -1: neither. */
static long offset(const char *s, char sign)
{
    char *end;
    long  n;

    if (*s == '\0')
        return 0;
    if (*s != sign || s[1] < '0' || s[1] > '9')
        return -1;
    n = strtol(s + 1, &end, 10);
    return *end || n > SIGRTMAX - SIGRTMIN ? -1 : n;
}

int cc_signal_number(const char *name)
{
    long   n = -1;
    size_t i;

    for (i = 0; i < CC_COUNT(table); i++)
        if (strcmp(table[i].name, name) == 0)
            return table[i].number;
    if (strncmp(name, "SIGRTMIN", 8) == 0 && (n = offset(name + 8, '+')) >= 0)
        return SIGRTMIN + (int) n;
    if (strncmp(name, "SIGRTMAX", 8) == 0 && (n = offset(name + 8, '-')) >= 0)
        return SIGRTMAX - (int) n;
    return 0;
}
