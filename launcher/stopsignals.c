#include "launcher/stopsignals.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "launcher/near.h"
#include "store/base/macros.h"
#include "store/base/signame.h"

/* The system gives nobody the first two; the others tell of a fault or of a child. */
static bool is_refused(int signum)
{
    static const int refused[] = { SIGKILL, SIGSTOP, SIGCHLD, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP };
    size_t           i;

    for (i = 0; i < CC_COUNT(refused); i++)
        if (refused[i] == signum)
            return true;
    return false;
}

static void warn_unknown(const char *name, struct warnings *w)
{
    static const char *const likely[] = { "SIGTERM", "SIGINT",  "SIGHUP", "SIGQUIT",
                                          "SIGUSR1", "SIGUSR2", "SIGALRM" };
    char                     with_sig[32];
    struct near              n;
    size_t                   i;

    (void) snprintf(with_sig, sizeof with_sig, "%s%s", strncmp(name, "SIG", 3) == 0 ? "" : "SIG", name);
    near_start(&n, with_sig);
    for (i = 0; i < CC_COUNT(likely); i++)
        near_try(&n, likely[i]);
    warnings_add(w, "Failed to register signal handler for %s%s%s%s", name, n.best ? "; did you mean " : "",
                 n.best ? n.best : "", n.best ? "?" : "");
}

static bool has(const int *list, size_t n, int signum)
{
    while (n > 0)
        if (list[--n] == signum)
            return true;
    return false;
}

int stopsignals_parse(const char *text, int ret[STOPSIGNALS_MAX], struct warnings *w, struct cc_err *err)
{
    size_t n = 0;

    for (;;) {
        char   name[CC_SIGNAME_MAX];
        size_t blanks = strspn(text, " \t"), len = strcspn(text, ","), end = len;
        int    signum;

        while (end > blanks && strchr(" \t", text[end - 1]))
            end--;
        if (end > blanks) {
            (void) snprintf(name, sizeof name, "%.*s", (int) (end - blanks), text + blanks);
            signum = cc_signal_number(name);
            if (signum == 0)
                warn_unknown(name, w);
            else if (is_refused(signum))
                return cc_fail(err, -EINVAL, "--signals-to-handle: %s cannot be handled", name);
            else if (n == STOPSIGNALS_MAX - 1)
                return cc_fail(err, -EINVAL, "--signals-to-handle names more than %d signals",
                               STOPSIGNALS_MAX - 1);
            else if (!has(ret, n, signum))
                ret[n++] = signum;
        }
        if (!text[len])
            break;
        text += len + 1;
    }
    ret[n] = 0;
    return 0;
}

int stopsignals_one(const char *name)
{
    char with_sig[CC_SIGNAME_MAX];
    int  signum = cc_signal_number(name);

    if (signum == 0) {
        (void) snprintf(with_sig, sizeof with_sig, "SIG%s", name);
        signum = cc_signal_number(with_sig);
    }
    return is_refused(signum) ? 0 : signum;
}
