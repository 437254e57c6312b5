#include "launcher/gpus.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/cvd.h"
#include "launcher/gpu_inventory.h"
#include "store/base/cleanup.h"

static const char *source_name(enum gpus_source source)
{
    switch (source) {
    case GPUS_NVML: return "NVML";
    case GPUS_PROC: return "/proc/driver/nvidia";
    case GPUS_DEV: return "/dev/nvidia*";
    case GPUS_PCI: return "the PCI bus";
    case GPUS_NONE: break;
    }
    return "no driver";
}

static struct gpu *append(struct gpus *g, const struct gpu *from)
{
    if (g->n == GPUS_MAX)
        return NULL;
    g->list[g->n] = *from;
    return &g->list[g->n++];
}

/* GPU `index`, or the MIG devices that it is cut into: then it cannot be used as a whole. */
static void append_gpu(struct gpus *g, const struct gpu_inventory *inv, unsigned index, const char *id,
                       size_t id_len)
{
    bool        is_cut = false;
    struct gpu *added;

    for (unsigned i = 0; i < inv->n_mig; i++) {
        if (inv->mig_parent[i] != index)
            continue;
        is_cut = true;
        (void) append(g, &inv->mig[i]);
    }
    if (is_cut || !(added = append(g, &inv->gpu[index])))
        return;
    if (id_len > 0)
        (void) snprintf(added->id, sizeof added->id, "%.*s", (int) id_len, id);
}

static void append_item(struct gpus *g, const struct gpu_inventory *inv, const char *text,
                        const struct cvd_item *item)
{
    struct gpu  unknown = { .numa_node = -1, .is_mig = item->is_mig };
    struct gpu *added = NULL;
    bool        is_index = text[item->at] != 'G' && !item->is_mig;

    if (is_index && inv->source != GPUS_NONE) {
        append_gpu(g, inv, (unsigned) item->index, NULL, 0);
    } else if (is_index) {
        (void) snprintf(unknown.id, sizeof unknown.id, "%d", item->index);
        (void) append(g, &unknown);
    } else if (item->index >= 0 && !item->is_mig) {
        append_gpu(g, inv, (unsigned) item->index, text + item->at, item->len);
    } else {
        added = append(g, item->index >= 0 ? &inv->mig[item->index] : &unknown);
        if (added)
            (void) snprintf(added->id, sizeof added->id, "%.*s", (int) item->len, text + item->at);
    }
}

/* The identifiers of a list of GPUs, or NULL: out of memory, which the caller treats as unknown. */
static const char **uuids_of(const struct gpu *list, unsigned n)
{
    const char **ret = calloc(n + 1, sizeof *ret);

    for (unsigned i = 0; ret && i < n; i++)
        ret[i] = list[i].uuid;
    return ret;
}

static void explain(struct gpus *g, const char *visible, const struct cvd *c)
{
    size_t n;

    if (!visible) {
        if (g->n == 0)
            (void) snprintf(g->why, sizeof g->why, "no NVIDIA GPU found");
        else
            (void) snprintf(g->why, sizeof g->why, "%u GPU%s (%s)", g->n, g->n == 1 ? "" : "s",
                            source_name(g->source));
        return;
    }
    if (g->source == GPUS_NONE)
        n = (size_t) snprintf(g->why, sizeof g->why, "%u GPU%s, unchecked", g->n, g->n == 1 ? "" : "s");
    else
        n = (size_t) snprintf(g->why, sizeof g->why, "%u of %u GPUs (%s)", g->n, g->n_total,
                              source_name(g->source));
    n += (size_t) snprintf(g->why + n, sizeof g->why - n, ": CUDA_VISIBLE_DEVICES=%.64s%s", visible,
                           strlen(visible) > 64 ? "..." : "");
    if (c->end == CVD_BAD_ITEM && c->bad_len > 0)
        (void) snprintf(g->why + n, sizeof g->why - n, ", which ends before '%.*s'",
                        c->bad_len > 48 ? 48 : (int) c->bad_len, visible + c->bad);
    else if (c->end == CVD_DUPLICATE)
        (void) snprintf(g->why + n, sizeof g->why - n, ", which is void: '%.*s' is there twice",
                        c->bad_len > 48 ? 48 : (int) c->bad_len, visible + c->bad);
}

static void choose_visible(struct gpus *g, const struct gpu_inventory *inv, const char *visible,
                           struct cvd *c)
{
    CC_AUTO_FREE const char **gpu_uuids = uuids_of(inv->gpu, inv->n_gpus);
    CC_AUTO_FREE const char **mig_uuids = uuids_of(inv->mig, inv->n_mig);
    struct cvd_known          known = { .is_gpus = inv->source != GPUS_NONE,
                                        .is_mig = inv->is_mig_known && mig_uuids,
                                        .n_gpus = inv->n_gpus,
                                        .n_mig = inv->n_mig,
                                        .gpu_uuids = inv->is_uuid_known ? gpu_uuids : NULL,
                                        .mig_uuids = mig_uuids };

    if (visible) {
        cvd_parse(visible, &known, c);
        for (unsigned i = 0; i < c->n; i++)
            append_item(g, inv, visible, &c->item[i]);
    } else {
        for (unsigned i = 0; i < inv->n_gpus; i++)
            append_gpu(g, inv, i, NULL, 0);
    }
}

void gpus_recount(struct gpus *g)
{
    g->n_cuda = g->n;
    for (unsigned i = 0; i < g->n; i++)
        if (g->list[i].is_mig)
            g->n_cuda = 1;
}

static unsigned count_total(const struct gpu_inventory *inv)
{
    unsigned n = inv->n_gpus + inv->n_mig;

    for (unsigned i = 0; i < inv->n_mig; i++)
        n -= i == 0 || inv->mig_parent[i] != inv->mig_parent[i - 1]; /* its whole counts no more */
    return n;
}

int gpus_count(const struct machine *m, bool is_quick, struct gpus *ret, struct cc_err *err)
{
    CC_AUTO_FREE struct gpu_inventory *inv = malloc(sizeof *inv);
    CC_AUTO_FREE struct cvd           *c = malloc(sizeof *c);
    CC_AUTO_FREE struct gpu           *list = malloc(GPUS_MAX * sizeof *list);
    const char                        *visible = machine_env(m, "CUDA_VISIBLE_DEVICES");
    struct gpus                        g = { .list = list, .is_limited = visible };

    if (!inv || !c || !list)
        return cc_fail(err, -ENOMEM, "no memory to list the GPUs");
    gpu_inventory_read(m, is_quick, inv);
    g.source = inv->source;
    g.n_total = count_total(inv);
    choose_visible(&g, inv, visible, c);
    gpus_recount(&g);
    explain(&g, visible, c);
    g.list = CC_STEAL(list);
    *ret = g;
    return 0;
}

void gpus_clear(struct gpus *g)
{
    free(g->list);
    *g = (struct gpus){ .n = 0 };
}
