#include "backends/choose.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/base/cleanup.h"

enum { KEY_MAX = 48 };

typedef char place_text[BACKEND_PLACE_MAX]; /* "": this rank cannot */

/* What rank i has said. */
static int read_place(const struct backend_cfg *cfg, int i, place_text ret, struct cc_err *err)
{
    struct cc_buf v = { 0 };
    char          key[KEY_MAX];
    int           r;

    (void) snprintf(key, sizeof key, "auto/%d", i);
    r = keystore_get(cfg->store, key, cfg->timeout_ms, &v, err);
    (void) snprintf(ret, sizeof(place_text), "%.*s", (int) cc_buf_len(&v), (const char *) cc_buf_data(&v));
    cc_buf_free(&v);
    return r;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* Two ranks on one GPU are more than NCCL takes. */
static bool has_twice(place_text *places, int n)
{
    qsort(places, (size_t) n, sizeof *places, by_text);
    for (int i = 1; i < n; i++)
        if (strcmp(places[i - 1], places[i]) == 0)
            return true;
    return false;
}

int choose_backend(const struct backend **ret, const struct backend_cfg *cfg, struct cc_err *err)
{
    CC_AUTO_FREE place_text *places = calloc((size_t) cfg->size, sizeof *places);
    place_text               own = "";
    struct cc_err            why;
    char                     key[KEY_MAX];
    bool                     can;
    int                      r;

    if (!places)
        return cc_fail(err, -ENOMEM, "no memory for what %d ranks have", cfg->size);
    can = backend_nccl.probe(cfg->device, own, &why) == 0;
    (void) snprintf(key, sizeof key, "auto/%d", cfg->rank);
    r = keystore_set(cfg->store, key, cc_bytes_of(can ? own : ""), err);
    for (int i = 0; r == 0 && can && i < cfg->size; i++) {
        r = read_place(cfg, i, places[i], err);
        can = places[i][0] != '\0';
    }
    *ret = can && !has_twice(places, cfg->size) ? &backend_nccl : &backend_gloo;
    return r;
}
