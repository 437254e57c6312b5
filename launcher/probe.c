#include "launcher/probe.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/control.h"
#include "store/base/macros.h"

enum { PATIENCE_MS = 3000 };

struct wish {
    char  question[8];
    pid_t pid; /* 0: the one there is */
};

static int parse(const char *text, struct wish *ret, struct cc_err *err)
{
    static const char *const questions[] = { "live", "ready" };
    const char              *colon = strchr(text, ':');
    size_t                   n = colon ? (size_t) (colon - text) : strlen(text);
    char                    *end = NULL;
    long                     pid = colon ? strtol(colon + 1, &end, 10) : 0;

    *ret = (struct wish) { .pid = (pid_t) pid };
    if (colon && (end == colon + 1 || *end || pid < 1 || pid > INT32_MAX))
        return cc_fail(err, -EINVAL, "--probe: '%.100s' is no process id; wanted is live:PID or ready:PID", colon + 1);
    for (size_t i = 0; i < CC_COUNT(questions); i++)
        if (strlen(questions[i]) == n && memcmp(questions[i], text, n) == 0) {
            memcpy(ret->question, text, n);
            return 0;
        }
    return cc_fail(err, -EINVAL, "--probe: '%.100s' is none of: live, ready, live:PID, ready:PID", text);
}

/* In a container that is process 1, whoever else runs beside it. */
static int choose(struct wish *w, struct cc_err *err)
{
    pid_t    pids[CONTROL_AGENTS_MAX];
    unsigned n = control_agents(pids);

    if (w->pid)
        return 0;
    for (unsigned i = 0; i < n; i++)
        if (pids[i] == 1)
            n = 0;
    if (n > 1)
        return cc_fail(err, -EINVAL, "--probe: %u ccruns run here, among them process %d and process %d: say which, as in %s:%d",
                       n, (int) pids[0], (int) pids[1], w->question, (int) pids[0]);
    w->pid = n == 1 ? pids[0] : 1;
    return 0;
}

int probe(FILE *to, const char *what, struct cc_err *err)
{
    char        text[CONTROL_TEXT_MAX];
    struct wish w;
    int         r = parse(what, &w, err);

    if (r == 0)
        r = choose(&w, err);
    if (r < 0)
        return r;
    r = control_ask(w.pid, w.question, PATIENCE_MS, text, err);
    (void) fprintf(to, "%s%s: %s\n", r == 1 ? "" : "not ", w.question, r < 0 ? err->msg : text);
    return r == 1 ? 0 : 1;
}
