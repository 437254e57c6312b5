#include "launcher/hetgroups.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "launcher/oneline.h"
#include "store/base/cleanup.h"

enum { NAME_MAX_LEN = 80 };

#define LIST "SLURM_JOB_NODELIST"

int hetgroups_count(const struct machine *m, struct cc_err *err)
{
    const char   *text = machine_env(m, "SLURM_HET_SIZE");
    char         *end;
    unsigned long n;

    if (!text || !*text)
        return 0;
    n = strtoul(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || n > HETGROUPS_MAX)
        return oneline_err(err, cc_fail(err, -EINVAL, "SLURM_HET_SIZE='%.60s' is not a number up to %d", text, HETGROUPS_MAX));
    return (int) n;
}

const char *hetgroups_env(const struct machine *m, const char *name, unsigned group)
{
    char own[NAME_MAX_LEN];

    (void) snprintf(own, sizeof own, "%.60s_HET_GROUP_%u", name, group);
    return machine_env(m, own);
}

static int by_name(const void *a, const void *b)
{
    const char *const *x = a, *const *y = b;

    return strcasecmp(*x, *y);
}

static int refuse_doubles(const struct hostlist *l, struct cc_err *err)
{
    CC_AUTO_FREE const char **name = calloc(l->n + 1, sizeof *name);

    if (!name)
        return cc_fail(err, -ENOMEM, "no memory for %zu nodes", l->n);
    for (size_t i = 0; i < l->n; i++)
        name[i] = l->host[i].name;
    qsort(name, l->n, sizeof *name, by_name);
    for (size_t i = 1; i < l->n; i++)
        if (strcasecmp(name[i - 1], name[i]) == 0)
            return cc_fail(err, -EINVAL,
                           "node '%.100s' is in two parts of this heterogeneous Slurm job (" LIST "_HET_GROUP_*), and two agents "
                           "would take the same CPUs and GPUs there: start ccrun on one part, as 'srun --het-group=0 "
                           "--ntasks-per-node=1 ccrun ...', or say --standalone for this node alone",
                           name[i]);
    return 0;
}

int hetgroups_hosts(const struct machine *m, unsigned n, struct hostlist *ret, size_t *ret_n, struct cc_err *err)
{
    for (unsigned i = 0; i < n; i++) {
        const char *text = hetgroups_env(m, LIST, i);
        char        name[NAME_MAX_LEN];
        size_t      before = ret->n;
        int         r;

        (void) snprintf(name, sizeof name, LIST "_HET_GROUP_%u", i);
        if (!text || !*text)
            return cc_fail(err, -EINVAL, "SLURM_HET_SIZE=%u, and %s is not set: which nodes are the job's?", n, name);
        r = hostlist_nodes(ret, name, text, err);
        if (r < 0)
            return r;
        ret_n[i] = ret->n - before;
    }
    return refuse_doubles(ret, err);
}
