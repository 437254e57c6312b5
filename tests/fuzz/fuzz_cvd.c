/* fuzz_cvd.c - CUDA_VISIBLE_DEVICES comes from anywhere: whatever it holds, the result stays within the
 * machine.
 *
 * The first byte of an input says what the machine knows (bits 0 and 1) and how many GPUs it has; the rest is
 * the list.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/cvd.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const char *text, const struct cvd_known *known, const struct cvd *c)
{
    size_t len = strlen(text);

    assert(c->n <= CVD_MAX_ITEMS && c->bad + c->bad_len <= len);
    assert(c->end != CVD_DUPLICATE || c->n == 0);
    for (unsigned i = 0; i < c->n; i++) {
        const struct cvd_item *a = &c->item[i];

        assert(a->at + a->len <= len && a->len > 0 && !memchr(text + a->at, ',', a->len));
        if (a->is_mig)
            assert(known->is_mig == (a->index >= 0) && a->index < (int) known->n_mig);
        else if (known->is_gpus)
            assert(a->index < (int) known->n_gpus && (a->index >= 0 || !known->gpu_uuids));
        for (unsigned k = 0; k < i && i < 64; k++)
            assert(a->index < 0 || c->item[k].index != a->index);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const gpus[] = { "GPU-aa11-1", "GPU-aa22-2", "GPU-bb33-3", "GPU-cc44-4" };
    static const char *const migs[] = { "MIG-11", "MIG-12", "MIG-2" };
    static struct cvd        c;
    struct cvd_known         known = { 0 };
    char                    *text;

    if (size == 0 || !(text = malloc(size)))
        return 0;
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    known.is_gpus = data[0] & 1;
    known.is_mig = data[0] & 2;
    known.n_gpus = known.is_gpus ? (data[0] >> 3) % 5 : 0;
    known.n_mig = known.is_mig ? 3 : 0;
    known.gpu_uuids = data[0] & 4 ? gpus : NULL;
    known.mig_uuids = migs;
    cvd_parse(text, &known, &c);
    check(text, &known, &c);
    free(text);
    return 0;
}
