#include "launcher/nproc.h"

#include <errno.h>
#include <string.h>

#include "launcher/cpus.h"
#include "launcher/scheduler.h"
#include "store/base/pyvalue.h"

static int from_number(const char *text, int64_t v, struct nproc *ret, struct cc_err *err)
{
    if (v < 1)
        return cc_fail(err, -EINVAL, "--nproc-per-node %.40s: a node needs at least 1 worker", text);
    if (v > NPROC_MAX)
        return cc_fail(err, -EINVAL, "--nproc-per-node %.40s: more than %d workers on one node are refused",
                       text, NPROC_MAX);
    ret->n = (unsigned) v;
    (void) snprintf(ret->why, sizeof ret->why, "--nproc-per-node %u", ret->n);
    return 0;
}

static int from_cpus(const struct machine *m, const char *prefix, struct nproc *ret, struct cc_err *err)
{
    struct cpus c;
    int         r = cpus_count(m, &c, err);

    if (r < 0)
        return r;
    ret->n = c.n;
    (void) snprintf(ret->why, sizeof ret->why, "%s: %s", prefix, c.why);
    return 0;
}

/* How many workers the GPUs are good for; the caller has set `g`. */
static unsigned gpu_workers(const struct nproc_req *req, const struct gpus *g)
{
    return req->is_masked ? g->n : g->n_cuda;
}

static int from_gpus(const struct machine *m, const struct nproc_req *req, const struct gpus *g,
                     struct nproc *ret, struct cc_err *err)
{
    bool is_auto = strcmp(req->text, "auto") == 0;

    ret->n = gpu_workers(req, g);
    /* Without any driver a list of GPUs in the environment is a leftover, unless the user speaks of GPUs
     * himself. */
    if (is_auto && (ret->n == 0 || (g->source == GPUS_NONE && !req->is_chosen)))
        return from_cpus(m, "auto, no usable GPU", ret, err);
    if (ret->n == 0)
        return cc_fail(err, -EINVAL, "Cuda is not available. (--nproc-per-node gpu: %s)", g->why);
    (void) snprintf(ret->why, sizeof ret->why, "%s: %s%s", req->text, g->why,
                    ret->n < g->n ? "; CUDA shows a process one MIG device, --mask-gpus gives each its own"
                                  : "");
    return 0;
}

static int from_text(const struct machine *m, const struct nproc_req *req, struct nproc *ret,
                     struct cc_err *err)
{
    struct gpus counted = { .n = 0 };
    int64_t     v = 0;
    int         r = pyvalue_int(req->text, &v);

    if (r == -ERANGE) /* more or less than anybody may ask for */
        v = strchr(req->text, '-') ? INT64_MIN : INT64_MAX;
    if (r == 0 || r == -ERANGE)
        return from_number(req->text, v, ret, err);
    if (strcmp(req->text, "cpu") == 0)
        return from_cpus(m, "cpu", ret, err);
    if (strcmp(req->text, "xpu") == 0)
        return cc_fail(err, -EINVAL,
                       "Xpu is not available. (Intel GPUs are not counted: give their "
                       "number)");
    if (strcmp(req->text, "gpu") != 0 && strcmp(req->text, "auto") != 0)
        return cc_fail(err, -EINVAL,
                       "Unsupported nproc_per_node value: %.100s (a number, auto, cpu or gpu "
                       "is wanted)",
                       req->text);
    if (req->gpus)
        return from_gpus(m, req, req->gpus, ret, err);
    r = gpus_count(m, false, &counted, err);
    if (r == 0)
        r = from_gpus(m, req, &counted, ret, err);
    gpus_clear(&counted);
    return r;
}

/* A count of GPUs is a promise about the node; what the user hid of it since then is not to be used. */
static void from_scheduler(const struct nproc_req *req, const struct scheduler *s, const struct gpus *g,
                           struct nproc *ret)
{
    unsigned visible = gpu_workers(req, g);

    ret->n = s->nproc;
    ret->from = s->nproc_from;
    if (s->is_gpu_count && (g->is_limited || req->is_chosen) && visible > 0 && visible < ret->n) {
        ret->n = visible;
        (void) snprintf(ret->why, sizeof ret->why, "%s, %s=%u, but %s", s->name, s->nproc_from, s->nproc,
                        g->why);
    } else {
        (void) snprintf(ret->why, sizeof ret->why, "%s, %s=%u", s->name, s->nproc_from, s->nproc);
    }
}

static int from_nothing(const struct machine *m, const struct nproc_req *req, struct nproc *ret,
                        struct cc_err *err)
{
    struct scheduler   s;
    struct gpus        counted = { .n = 0 };
    const struct gpus *g = req->gpus;

    scheduler_detect(m, req->host ? req->host : "", &s);
    if (!g) {
        int r = gpus_count(m, true, &counted, err);

        if (r < 0)
            return r;
        g = &counted;
    }
    if (s.nproc > 0) {
        from_scheduler(req, &s, g, ret);
    } else {
        ret->n = 1;
        (void) snprintf(ret->why, sizeof ret->why, "the default");
        if (gpu_workers(req, g) > 1 && g->source != GPUS_NONE)
            (void) snprintf(ret->hint, sizeof ret->hint,
                            "%u GPUs are visible; --nproc-per-node auto would start %u workers", g->n,
                            gpu_workers(req, g));
    }
    gpus_clear(&counted);
    return 0;
}

int nproc_resolve(const struct machine *m, const struct nproc_req *req, struct nproc *ret, struct cc_err *err)
{
    struct nproc_req given = *req;
    struct nproc     n = { 0 };
    int              r;

    if (!given.text)
        given.text = machine_env(m, "PET_N_PROC_PER_NODE"); /* as old training operators spell it */
    r = given.text ? from_text(m, &given, &n, err) : from_nothing(m, &given, &n, err);
    if (r < 0)
        return r;
    if (given.text != req->text)
        n.from = "PET_N_PROC_PER_NODE";
    *ret = n;
    return 0;
}
