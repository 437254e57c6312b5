/* cvd.h - CUDA_VISIBLE_DEVICES by the rules that CUDA and PyTorch apply to it.
 *
 * Pure.  The first item decides what the list holds: "GPU-..." or "MIG-..." identifiers (any unambiguous
 * beginning of one), or else indices, of which only the leading number counts ("1gpu" is 1).  The list ends
 * before the first item that names nothing; a device that is named twice makes the whole list empty; an empty
 * list hides every GPU.
 */
#ifndef LAUNCHER_CVD_H
#define LAUNCHER_CVD_H

#include <stdbool.h>
#include <stddef.h>

enum { CVD_MAX_ITEMS = 1024 }; /* what follows is not read */

enum cvd_end {
    CVD_WHOLE,     /* every item counted */
    CVD_BAD_ITEM,  /* ended before the item at `bad`: invalid, out of range, unknown or ambiguous */
    CVD_DUPLICATE, /* the item at `bad` was there before: nothing is visible */
};

/* What the machine has.  An unknown list makes every well-formed item of its kind valid. */
struct cvd_known {
    bool               is_gpus, is_mig; /* are the two lists known? */
    unsigned           n_gpus, n_mig;
    const char *const *gpu_uuids; /* n_gpus, or NULL: the number is known, the names are not */
    const char *const *mig_uuids; /* n_mig */
};

struct cvd_item {
    size_t at, len; /* in the text, without blanks around */
    bool   is_mig;
    int    index; /* into the list of its kind; -1: that list is unknown */
};

struct cvd {
    unsigned        n;
    struct cvd_item item[CVD_MAX_ITEMS];
    enum cvd_end    end;
    size_t          bad, bad_len;
};

void cvd_parse(const char *text, const struct cvd_known *known, struct cvd *ret);

#endif
