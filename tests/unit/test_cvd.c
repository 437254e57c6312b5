#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/cvd.h"

static const char *const gpus[] = { "GPU-aa11-1", "GPU-aa22-2", "GPU-bb33-3", "GPU-cc44-4" };
static const char *const migs[] = { "MIG-11", "MIG-12", "MIG-2" };

static const struct cvd_known known = {
    .is_gpus = true, .is_mig = true, .n_gpus = 4, .n_mig = 3, .gpu_uuids = gpus, .mig_uuids = migs
};
static const struct cvd_known unknown;

/* The indices as a string: "0 3", MIG devices with an m. */
static const char *parse(const char *text, const struct cvd_known *k)
{
    static char       out[8192];
    static struct cvd c;
    size_t            n = 0;

    cvd_parse(text, k, &c);
    out[0] = '\0';
    for (unsigned i = 0; i < c.n; i++)
        n += (size_t) snprintf(out + n, sizeof out - n, "%s%s%d", i ? " " : "", c.item[i].is_mig ? "m" : "",
                               c.item[i].index);
    return out;
}

static void expect(const char *text, const char *wanted)
{
    cr_assert_str_eq(parse(text, &known), wanted, "'%s' gives '%s', not '%s'", text, parse(text, &known),
                     wanted);
}

Test(cvd, indices_in_their_order)
{
    expect("2,0,1", "2 0 1");
    expect(" 1 , 3", "1 3");
    expect("+1,02", "1 2");
    expect("1gpu2,2ampere", "1 2");
}

Test(cvd, the_list_ends_before_the_first_item_that_names_nothing)
{
    expect("0,1,-1,2", "0 1");
    expect("0,4,1", "0");
    expect("0,,1", "0");
    expect("0,x,1", "0");
    expect("0,GPU-aa11,1", "0");
    expect("0,99999999999999999999,1", "0");
    expect("1,+", "1");
}

Test(cvd, empty_and_minus_one_hide_everything)
{
    expect("", "");
    expect("-1", "");
    expect("-1,0", "");
    expect("NoDevFiles", "");
    expect(",0", "");
}

Test(cvd, a_duplicate_hides_everything_even_behind_the_range)
{
    expect("0,1,0", "");
    expect("0,9,0", "");
    expect("0,00", "");
    expect("0,-1,0", "0");
    expect("GPU-aa11,GPU-aa11-1", "");
    expect("GPU-aa11,GPU-zz,GPU-aa11", "");
}

Test(cvd, identifiers_may_be_cut_short_while_they_are_clear)
{
    expect("GPU-bb33-3,GPU-aa1", "2 0");
    expect("GPU-b,GPU-c", "2 3");
    expect("GPU-bb,GPU-aa,GPU-cc", "2"); /* aa is ambiguous */
    expect("GPU-", "");
    expect("GPU-bb,GPU-zz,GPU-cc", "2");
    expect("GPU-bb,1", "2");
    expect("GPU-bb, GPU-cc", "2");
    expect("gpu-bb", "");
    expect("GPU-bb33-3-too-long", "");
}

Test(cvd, mig_devices_have_a_list_of_their_own)
{
    expect("MIG-12,MIG-2", "m1 m2");
    expect("MIG-1", "");
    expect("MIG-2,GPU-bb", "m2");
}

Test(cvd, what_is_unknown_is_believed)
{
    static const struct cvd_known no_names = { .is_gpus = true, .n_gpus = 2 };

    cr_assert_str_eq(parse("2,4,7", &unknown), "2 4 7");
    cr_assert_str_eq(parse("GPU-x,GPU-y", &unknown), "-1 -1");
    cr_assert_str_eq(parse("GPU-x,GPU-x", &unknown), "");
    cr_assert_str_eq(parse("MIG-x,MIG-y", &no_names), "m-1 m-1");
    cr_assert_str_eq(parse("GPU-x", &no_names), "-1");
    cr_assert_str_eq(parse("1,2", &no_names), "1");
}

Test(cvd, says_where_the_list_ended)
{
    struct cvd *c = malloc(sizeof *c);

    cr_assert_not_null(c);
    cvd_parse("0, 7 ,1", &known, c);
    cr_assert_eq(c->end, CVD_BAD_ITEM);
    cr_assert_eq(c->bad, 3);
    cr_assert_eq(c->bad_len, 1);
    cvd_parse("1,1", &known, c);
    cr_assert_eq(c->end, CVD_DUPLICATE);
    cr_assert_eq(c->bad, 2);
    cvd_parse("1,2", &known, c);
    cr_assert_eq(c->end, CVD_WHOLE);
    free(c);
}

Test(cvd, a_list_without_end_is_cut)
{
    size_t      size = 1 << 20, n = 0;
    char       *text = malloc(size + 16);
    struct cvd *c = malloc(sizeof *c);

    cr_assert(text && c);
    for (unsigned i = 0; n < size; i++)
        n += (size_t) sprintf(text + n, "%u,", i);
    cvd_parse(text, &unknown, c);
    cr_assert_eq(c->n, CVD_MAX_ITEMS);
    cr_assert_eq(c->end, CVD_BAD_ITEM);
    free(text);
    free(c);
}
