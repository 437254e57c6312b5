#include "store/base/ration.h"

bool cc_ration_take(struct cc_ration *r, uint64_t now, unsigned *ret_kept)
{
    *ret_kept = 0;
    if (r->n_said == 0 || now - r->since >= CC_RATION_WINDOW_MS) {
        *ret_kept = r->n_kept;
        *r = (struct cc_ration) { .since = now };
    }
    if (r->n_said == CC_RATION_MAX) {
        r->n_kept++;
        return false;
    }
    r->n_said++;
    return true;
}
