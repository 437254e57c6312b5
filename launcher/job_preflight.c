/* job_preflight.c - --preflight: the program that is run, its arguments, and whether they can be. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/check_options.h"
#include "launcher/job.h"
#include "store/base/macros.h"

enum { OWN_ARGS = 2 }; /* the name of the program, and that it is a preflight */

/* Words between blanks.  The list has room for our own in front, and is one block with the text. */
static int split(const char *text, char ***ret, int *ret_n, struct cc_err *err)
{
    size_t n = strlen(text), n_max = OWN_ARGS + n / 2 + 2;
    char **list = calloc(1, n_max * sizeof *list + n + 1), *at;
    int    k = OWN_ARGS;

    if (!list)
        return cc_fail(err, -ENOMEM, "no memory for --preflight-args");
    at = memcpy((char *) (list + n_max), text, n + 1);
    for (at += strspn(at, " \t\n"); *at; at += strspn(at, " \t\n")) {
        list[k++] = at;
        at += strcspn(at, " \t\n");
        if (*at)
            *at++ = '\0';
    }
    list[0] = (char *) (uintptr_t) "ccrun-check";
    list[1] = (char *) (uintptr_t) "--preflight";
    *ret = list;
    *ret_n = k;
    return 0;
}

/* What ccrun-check would say of them is said before anything starts. */
static int check_args(const struct job *j, int n, struct cc_err *err)
{
    struct check_options o;

    if (check_options_parse(&o, n, j->preflight_args, err) < 0)
        return cc_wrap(err, "--preflight-args");
    if (o.is_help || o.is_version || o.agent_fd >= 0)
        return cc_fail(err, -EINVAL, "--preflight-args: '%.80s' is not for a check before a job", j->options->preflight_args);
    return 0;
}

int job_make_preflight(struct job *j, struct cc_err *err)
{
    static const struct {
        const char         *name;
        enum verdict_policy policy;
    } policies[] = { { "refuse", VERDICT_REFUSE }, { "exclude", VERDICT_EXCLUDE }, { "warn", VERDICT_WARN } };
    const struct options *o = j->options;
    int                   n = 0, r;

    if (!o->preflight)
        return 0;
    for (size_t i = 0; i < CC_COUNT(policies); i++)
        if (strcmp(policies[i].name, o->preflight_policy) == 0)
            j->cfg.preflight.policy = policies[i].policy;
    if (j->cfg.preflight.policy == VERDICT_EXCLUDE && j->plan.min_nodes == j->plan.max_nodes)
        return cc_fail(err, -EINVAL, "--preflight-policy exclude: of a fixed number of nodes, %u, none can be left out; say "
                                     "--nnodes MIN:MAX", j->plan.max_nodes);
    r = split(o->preflight_args ? o->preflight_args : "", &j->preflight_args, &n, err);
    if (r == 0)
        r = check_args(j, n, err);
    if (r == 0 && o->preflight_timeout == 0)
        r = cc_fail(err, -EINVAL, "--preflight-timeout: no answer comes in no time; it is above 0");
    if (r == 0 && program_beside_us("ccrun-check", j->preflight_program) < 0)
        r = cc_fail(err, -EINVAL, "--preflight needs '%.300s', which is built and installed with ccrun", j->preflight_program);
    if (r < 0)
        return r;
    j->cfg.preflight.program = j->preflight_program;
    j->cfg.preflight.args = j->preflight_args + OWN_ARGS;
    j->cfg.preflight.timeout = o->preflight_timeout;
    return 0;
}
