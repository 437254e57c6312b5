/* --gpus, --mask-gpus and --virtual-local-rank: which of the visible GPUs the workers get. */
#include "launcher/gpus.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "store/base/cleanup.h"

struct choice {
    const struct gpus *from;
    unsigned           picked[GPUS_MAX], n;
};

static int pick(struct choice *c, unsigned index, int len, const char *item, struct cc_err *err)
{
    if (index >= c->from->n && c->from->n == 0)
        return cc_fail(err, -EINVAL, "--gpus: no GPU is visible (%s)", c->from->why);
    if (index >= c->from->n)
        return cc_fail(err, -EINVAL, "--gpus: '%.*s' is not among the %u visible GPUs, 0 to %u", len, item,
                       c->from->n, c->from->n - 1);
    for (unsigned i = 0; i < c->n; i++)
        if (c->picked[i] == index)
            return cc_fail(err, -EINVAL, "--gpus: '%.*s' names GPU %u a second time", len, item, index);
    c->picked[c->n++] = index;
    return 0;
}

/* "3" or "0-3"; false when the item is no number. */
static bool parse_range(const char *item, int len, unsigned long *first, unsigned long *last)
{
    char *end;

    if (!isdigit((unsigned char) item[0]))
        return false;
    *first = *last = strtoul(item, &end, 10);
    if (end < item + len && *end == '-' && isdigit((unsigned char) end[1]))
        *last = strtoul(end + 1, &end, 10);
    return end == item + len;
}

static int pick_uuid(struct choice *c, const char *item, int len, struct cc_err *err)
{
    unsigned found = c->from->n, n = 0;

    for (unsigned i = 0; i < c->from->n; i++) {
        const struct gpu *g = &c->from->list[i];

        if (strncmp(g->uuid, item, (size_t) len) != 0 && strncmp(g->id, item, (size_t) len) != 0)
            continue;
        found = i;
        n++;
    }
    if (n > 1)
        return cc_fail(err, -EINVAL, "--gpus: '%.*s' fits %u of the visible GPUs: write more of it", len,
                       item, n);
    return pick(c, found, len, item, err);
}

static int pick_item(struct choice *c, const char *item, int len, struct cc_err *err)
{
    unsigned long first, last;
    int           r = 0;

    if (len > 4 && (strncmp(item, "GPU-", 4) == 0 || strncmp(item, "MIG-", 4) == 0))
        return pick_uuid(c, item, len, err);
    if (!parse_range(item, len, &first, &last) || first > last)
        return cc_fail(err, -EINVAL,
                       "--gpus: '%.*s' is no index, range FIRST-LAST, or GPU-... or MIG-... identifier", len,
                       item);
    for (unsigned long i = first; i <= last && r == 0; i++)
        r = pick(c, i > GPUS_MAX ? GPUS_MAX : (unsigned) i, len, item, err);
    return r;
}

int gpus_select(struct gpus *g, const char *list, struct cc_err *err)
{
    CC_AUTO_FREE struct choice *c = calloc(1, sizeof *c);
    CC_AUTO_FREE struct gpu    *kept = malloc(GPUS_MAX * sizeof *kept);
    const char                 *item = list;

    if (!c || !kept)
        return cc_fail(err, -ENOMEM, "no memory for --gpus");
    c->from = g;
    for (;;) {
        size_t len = strcspn(item, ","), before = strspn(item, " \t"), used;
        int    r;

        used = before < len ? len - before : 0;
        while (used > 0 && strchr(" \t", item[before + used - 1]))
            used--;
        r = pick_item(c, item + before, used > 100 ? 100 : (int) used, err);
        if (r < 0)
            return r;
        if (item[len] == '\0')
            break;
        item += len + 1;
    }
    for (unsigned i = 0; i < c->n; i++)
        kept[i] = g->list[c->picked[i]];
    free(g->list);
    g->list = CC_STEAL(kept);
    g->n = c->n;
    gpus_recount(g);
    (void) snprintf(g->why, sizeof g->why, "%u GPU%s by --gpus %.128s", g->n, g->n == 1 ? "" : "s", list);
    return 0;
}

/* ---- one string for each worker */

static int fill(unsigned nproc, char ***ret, const char *(*text)(void *ctx, unsigned k), void *ctx,
                struct cc_err *err)
{
    char **list = calloc(nproc + 1UL, sizeof *list);

    for (unsigned k = 0; list && k < nproc; k++) {
        list[k] = strdup(text(ctx, k));
        if (!list[k]) {
            gpus_strings_free(list);
            list = NULL;
        }
    }
    if (!list)
        return cc_fail(err, -ENOMEM, "no memory for the GPU lists of %u workers", nproc);
    *ret = list;
    return 0;
}

static const char *one_id(void *ctx, unsigned k)
{
    const struct gpus *g = ctx;

    return g->list[k].id;
}

int gpus_mask(const struct gpus *g, unsigned nproc, char ***ret, struct cc_err *err)
{
    struct gpus copy = *g;

    if (nproc > g->n)
        return cc_fail(err, -EINVAL,
                       "--mask-gpus gives each worker a GPU of its own, but there are %u workers and "
                       "only %u GPU%s (%s)",
                       nproc, g->n, g->n == 1 ? "" : "s", g->why);
    return fill(nproc, ret, one_id, &copy, err);
}

static const char *same_text(void *ctx, unsigned k)
{
    (void) k;
    return ctx;
}

int gpus_share(const struct gpus *g, unsigned nproc, char ***ret, struct cc_err *err)
{
    CC_AUTO_FREE char *joined = calloc(g->n + 1UL, GPU_ID_MAX + 1);
    size_t             n = 0;

    if (!joined)
        return cc_fail(err, -ENOMEM, "no memory for the list of GPUs");
    for (unsigned i = 0; i < g->n; i++)
        n += (size_t) snprintf(joined + n, GPU_ID_MAX + 1, "%s%s", i > 0 ? "," : "", g->list[i].id);
    return fill(nproc, ret, same_text, joined, err);
}

struct items {
    const char *next; /* NULL: no list, the rank itself */
    char        text[4096];
};

/* Items are asked for in order, so one walk is enough. */
static const char *next_text(void *ctx, unsigned k)
{
    static const char blanks[] = " \t\n\v\f\r";
    struct items     *i = ctx;
    size_t            len, used;

    if (!i->next) {
        (void) snprintf(i->text, sizeof i->text, "%u", k);
        return i->text;
    }
    len = strcspn(i->next, ",");
    (void) snprintf(i->text, sizeof i->text, "%.*s", len > 4095 ? 4095 : (int) len, i->next);
    i->next += len + (i->next[len] == ',');
    used = strlen(i->text);
    while (used > 0 && strchr(blanks, i->text[used - 1]))
        i->text[--used] = '\0';
    return i->text + strspn(i->text, blanks);
}

int gpus_virtual(const char *visible, unsigned nproc, char ***ret, struct cc_err *err)
{
    struct items i = { .next = visible };
    unsigned     n = 1;

    for (const char *p = visible; p && *p; p++)
        n += *p == ',';
    if (visible && n < nproc)
        return cc_fail(err, -EINVAL, "local_rank %u exceeds available GPUs in CUDA_VISIBLE_DEVICES=%.300s", n,
                       visible);
    return fill(nproc, ret, next_text, &i, err);
}

void gpus_strings_free(char **list)
{
    for (char **p = list; p && *p; p++)
        free(*p);
    free(list);
}
