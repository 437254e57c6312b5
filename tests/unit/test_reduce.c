#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "backends/calltext.h"
#include "backends/reduce.h"
#include "store/base/macros.h"

Test(reduce, every_half_comes_back_from_a_float)
{
    for (unsigned h = 0; h <= UINT16_MAX; h++) {
        float f = half_to_float((uint16_t) h);

        if ((h & 0x7fff) > 0x7c00)
            cr_assert(isnan(f) && isnan(half_to_float(half_from_float(f))), "%04x", h);
        else
            cr_assert_eq(half_from_float(f), h, "%04x is %g", h, (double) f);
        f = bfloat_to_float((uint16_t) h);
        if ((h & 0x7fff) > 0x7f80)
            cr_assert(isnan(f) && isnan(bfloat_to_float(bfloat_from_float(f))), "%04x", h);
        else
            cr_assert_eq(bfloat_from_float(f), h, "%04x is %g", h, (double) f);
    }
}

/* Between two halves: to the nearer one, in the middle to the even one. */
Test(reduce, what_no_half_is_goes_to_the_nearest)
{
    for (unsigned h = 0; h < 0x7bff; h++) {
        float low = half_to_float((uint16_t) h), high = half_to_float((uint16_t) (h + 1)),
              middle = (low + high) / 2;

        cr_assert_eq(half_from_float(nextafterf(middle, low)), h, "%04x", h);
        cr_assert_eq(half_from_float(nextafterf(middle, high)), h + 1, "%04x", h);
        cr_assert_eq(half_from_float(middle), h + (h & 1), "%04x", h);
        cr_assert_eq(half_from_float(-middle), 0x8000 | (h + (h & 1)), "%04x", h);
    }
    cr_assert_eq(half_from_float(65519.996f), 0x7bff);
    cr_assert_eq(half_from_float(65520.0f), 0x7c00);
    cr_assert_eq(half_from_float(1e30f), 0x7c00);
    cr_assert_eq(half_from_float(1e-30f), 0);
    cr_assert_eq(bfloat_from_float(1.00390625f), 0x3f80,
                 "the middle between 1 and the next goes to the even one");
    cr_assert_eq(bfloat_from_float(1.01171875f), 0x3f82);
    cr_assert_eq(bfloat_from_float(3.4e38f), 0x7f80);
}

Test(reduce, integers_wrap_and_are_ordered_with_their_sign)
{
    int8_t  a[] = { 100, -128, -1 }, b[] = { 100, -1, 1 }, c[3];
    uint8_t x[] = { 200, 255 }, y[] = { 100, 1 }, z[2];
    int64_t big = INT64_MAX, one = 1, sum;

    reduce_of(CCRUN_SUM, CCRUN_I8)(c, a, b, 3);
    cr_assert(c[0] == -56 && c[1] == 127 && c[2] == 0);
    reduce_of(CCRUN_MAX, CCRUN_I8)(c, a, b, 3);
    cr_assert(c[0] == 100 && c[1] == -1 && c[2] == 1);
    reduce_of(CCRUN_MIN, CCRUN_U8)(z, x, y, 2);
    cr_assert(z[0] == 100 && z[1] == 1);
    reduce_of(CCRUN_PROD, CCRUN_U8)(z, x, y, 2);
    cr_assert(z[0] == (uint8_t) 20000 && z[1] == 255);
    reduce_of(CCRUN_SUM, CCRUN_I64)(&sum, &big, &one, 1);
    cr_assert_eq(sum, INT64_MIN);
}

Test(reduce, a_nan_is_not_lost)
{
    float a[] = { NAN, 1, 2 }, b[] = { 1, NAN, 3 }, c[3];

    reduce_of(CCRUN_MIN, CCRUN_F32)(c, a, b, 3);
    cr_assert(isnan(c[0]) && isnan(c[1]) && c[2] == 2);
    reduce_of(CCRUN_MAX, CCRUN_F32)(c, a, b, 3);
    cr_assert(isnan(c[0]) && isnan(c[1]) && c[2] == 3);
}

/* Many at once are what one is, whatever instructions take them. */
Test(reduce, halves_in_a_row_are_as_they_are_alone)
{
    static const float others[] = { 0, 1, -1.5f, 0x1p-24f, -0x1p-14f, 3e4f, 6e4f, 1e-30f, 3e38f, 1 / 0.0f, 0 / 0.0f };
    enum { N = 65536 };
    static uint16_t all[N], other[N], out[N];

    for (int bf = 0; bf < 2; bf++) {
        float (*to_float)(uint16_t) = bf ? bfloat_to_float : half_to_float;
        uint16_t (*from_float)(float) = bf ? bfloat_from_float : half_from_float;
        enum ccrun_type type = bf ? CCRUN_BF16 : CCRUN_F16;

        for (unsigned k = 0; k < sizeof others / sizeof *others; k++) {
            float y = to_float(from_float(others[k]));

            for (unsigned i = 0; i < N; i++) {
                all[i] = (uint16_t) i;
                other[i] = from_float(others[k]);
            }
            reduce_of(CCRUN_SUM, type)(out, all, other, N);
            for (unsigned i = 0; i < N; i++) {
                float got = to_float(out[i]), sum = to_float(from_float(to_float((uint16_t) i) + y));

                cr_assert(got == sum || (got != got && sum != sum), "%04x + %g is %g", i, (double) y, (double) got);
            }
            reduce_of(CCRUN_MAX, type)(out, all, other, N);
            for (unsigned i = 0; i < N; i++) {
                float x = to_float((uint16_t) i), got = to_float(out[i]);

                cr_assert(x != x || y != y ? got != got : got == (x > y ? x : y), "max of %04x and %g", i, (double) y);
            }
        }
    }
}

Test(reduce, the_average_is_the_sum_over_the_size)
{
    int32_t  i[] = { 7, -7 };
    uint16_t h = half_from_float(3);
    double   d = 1;

    reduce_finish(CCRUN_AVG, CCRUN_I32, i, 2, 2);
    cr_assert(i[0] == 3 && i[1] == -3);
    reduce_finish(CCRUN_AVG, CCRUN_F16, &h, 1, 4);
    cr_assert_eq(half_to_float(h), 0.75f);
    reduce_finish(CCRUN_AVG, CCRUN_F64, &d, 1, 3);
    cr_assert_float_eq(d, 1.0 / 3, 1e-15);
    reduce_finish(CCRUN_SUM, CCRUN_F64, &d, 1, 3);
    cr_assert_float_eq(d, 1.0 / 3, 1e-15);
}

Test(calltext, says_what_was_called)
{
    static const struct {
        struct ccrun_call call;
        const char       *says;
    } cases[] = {
        { { .what = CCRUN_ALL_REDUCE, .count = 1024, .type = CCRUN_F32 }, "all-reduce of 1024 f32 (sum)" },
        { { .what = CCRUN_REDUCE, .count = 1, .type = CCRUN_BF16, .op = CCRUN_AVG, .peer = 3 },
          "reduce of 1 bf16 (avg) to rank 3" },
        { { .what = CCRUN_BROADCAST, .count = 8, .type = CCRUN_U8, .peer = 2 },
          "broadcast of 8 u8 from rank 2" },
        { { .what = CCRUN_RECV, .count = 8, .type = CCRUN_I64, .peer = 2, .tag = 5 },
          "recv of 8 i64 from rank 2, tag 5" },
        { { .what = CCRUN_BARRIER }, "barrier" },
    };
    char buf[CALLTEXT_MAX];

    for (size_t i = 0; i < CC_COUNT(cases); i++)
        cr_expect_str_eq(calltext(&cases[i].call, buf), cases[i].says);
    cr_assert_null(calltext_name((enum ccrun_what) 99));
}
