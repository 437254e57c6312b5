#include "launcher/cvd.h"

#include <limits.h>
#include <string.h>

/* The item that begins at `at`: up to the next comma. */
static struct cvd_item next_item(const char *text, size_t at)
{
    return (struct cvd_item){ .at = at, .len = strcspn(text + at, ","), .index = -1 };
}

static void trim(const char *text, struct cvd_item *i)
{
    static const char blanks[] = " \t\n\v\f\r";

    while (i->len > 0 && strchr(blanks, text[i->at])) {
        i->at++;
        i->len--;
    }
    while (i->len > 0 && strchr(blanks, text[i->at + i->len - 1]))
        i->len--;
}

/* The number that an item begins with, or -1.  What is too large for any machine stays too large. */
static int leading_number(const char *s, size_t len)
{
    size_t i = len > 0 && (s[0] == '+' || s[0] == '-'), first = i;
    int    n = 0;

    for (; i < len && s[i] >= '0' && s[i] <= '9'; i++)
        n = n > (INT_MAX - 9) / 10 ? INT_MAX : n * 10 + (s[i] - '0');
    return i == first || (s[0] == '-' && n > 0) ? -1 : n;
}

/* The only identifier that begins so, -1 when there is none or more than one. */
static int match_uuid(const char *s, size_t len, const char *const *uuids, unsigned n)
{
    int found = -1;

    for (unsigned i = 0; i < n; i++) {
        if (strncmp(uuids[i], s, len) != 0)
            continue;
        if (found >= 0)
            return -1;
        found = (int) i;
    }
    return found;
}

static bool is_same(const char *text, const struct cvd_item *a, const struct cvd_item *b)
{
    if (a->index >= 0 && b->index >= 0)
        return a->index == b->index;
    return a->len == b->len && memcmp(text + a->at, text + b->at, a->len) == 0;
}

static void end_at(struct cvd *c, enum cvd_end end, const struct cvd_item *i)
{
    c->end = end;
    c->bad = i->at;
    c->bad_len = i->len;
    if (end == CVD_DUPLICATE)
        c->n = 0;
}

/* Is the device of `item` among the first n? */
static bool is_listed(const char *text, const struct cvd *c, unsigned n, const struct cvd_item *item)
{
    for (unsigned i = 0; i < n; i++)
        if (is_same(text, &c->item[i], item))
            return true;
    return false;
}

static bool accept(const char *text, struct cvd_item *i, const char *prefix)
{
    if (*prefix) {
        i->is_mig = *prefix == 'M';
        return strncmp(text + i->at, prefix, 4) == 0; /* a blank before it is no part of an identifier */
    }
    trim(text, i);
    i->index = leading_number(text + i->at, i->len);
    return i->index >= 0;
}

/* The items that are well formed, up to the first that is not. */
static void read_items(const char *text, const char *prefix, struct cvd *ret)
{
    for (size_t at = 0;; at++) {
        struct cvd_item i = next_item(text, at);

        at += i.len;
        if (ret->n == CVD_MAX_ITEMS || !accept(text, &i, prefix)) {
            end_at(ret, CVD_BAD_ITEM, &i);
            return;
        }
        if (is_listed(text, ret, ret->n, &i)) {
            end_at(ret, CVD_DUPLICATE, &i);
            return;
        }
        ret->item[ret->n++] = i;
        if (text[at] == '\0')
            return;
    }
}

/* Sets the index; false when the machine has no such device. */
static bool find_device(const char *text, const struct cvd_known *known, struct cvd_item *i)
{
    if (i->index >= 0)
        return !known->is_gpus || (unsigned) i->index < known->n_gpus;
    if (i->is_mig ? !known->is_mig : !known->is_gpus || !known->gpu_uuids)
        return true;
    i->index = match_uuid(text + i->at, i->len, i->is_mig ? known->mig_uuids : known->gpu_uuids,
                          i->is_mig ? known->n_mig : known->n_gpus);
    return i->index >= 0;
}

/* In this order, as upstream: "0,9,0" is empty on any machine, although 9 ends the list on most. */
void cvd_parse(const char *text, const struct cvd_known *known, struct cvd *ret)
{
    const char *prefix = strncmp(text, "GPU-", 4) == 0 ? "GPU-" : strncmp(text, "MIG-", 4) == 0 ? "MIG-" : "";

    ret->n = 0;
    ret->end = CVD_WHOLE;
    ret->bad = ret->bad_len = 0;
    read_items(text, prefix, ret);
    for (unsigned i = 0; i < ret->n; i++) {
        struct cvd_item *item = &ret->item[i];

        if (!find_device(text, known, item)) {
            end_at(ret, CVD_BAD_ITEM, item);
            ret->n = i;
        } else if (is_listed(text, ret, i, item)) {
            end_at(ret, CVD_DUPLICATE, item);
        }
    }
}
