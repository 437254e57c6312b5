#include "backends/reduce.h"

#include <assert.h>
#include <string.h>

#include "store/base/macros.h"

enum { N_TYPES = CCRUN_F64 + 1, N_OPS = CCRUN_AVG + 1 };

size_t type_size(enum ccrun_type type)
{
    static const size_t sizes[] = {
        [CCRUN_I8] = 1,  [CCRUN_U8] = 1,   [CCRUN_I32] = 4, [CCRUN_I64] = 8,
        [CCRUN_F16] = 2, [CCRUN_BF16] = 2, [CCRUN_F32] = 4, [CCRUN_F64] = 8,
    };

    return (unsigned) type < N_TYPES ? sizes[type] : 0;
}

const char *type_name(enum ccrun_type type)
{
    static const char *const names[] = {
        [CCRUN_I8] = "i8",   [CCRUN_U8] = "u8",     [CCRUN_I32] = "i32", [CCRUN_I64] = "i64",
        [CCRUN_F16] = "f16", [CCRUN_BF16] = "bf16", [CCRUN_F32] = "f32", [CCRUN_F64] = "f64",
    };

    return (unsigned) type < N_TYPES ? names[type] : NULL;
}

const char *op_name(enum ccrun_op op)
{
    static const char *const names[] = {
        [CCRUN_SUM] = "sum", [CCRUN_PROD] = "prod", [CCRUN_MIN] = "min",
        [CCRUN_MAX] = "max", [CCRUN_AVG] = "avg",
    };

    return (unsigned) op < N_OPS ? names[op] : NULL;
}

/* ---- halves */

static uint32_t bits_of(float f)
{
    uint32_t u;

    memcpy(&u, &f, sizeof u);
    return u;
}

static float float_of(uint32_t u)
{
    float f;

    memcpy(&f, &u, sizeof f);
    return f;
}

float bfloat_to_float(uint16_t h)
{
    return float_of((uint32_t) h << 16);
}

uint16_t bfloat_from_float(float f)
{
    uint32_t u = bits_of(f);

    if ((u & 0x7fffffff) > 0x7f800000)
        return (uint16_t) (u >> 16 | 0x40); /* a NaN stays one */
    return (uint16_t) ((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

float half_to_float(uint16_t h)
{
    uint32_t sign = (uint32_t) (h & 0x8000) << 16, rest = h & 0x7fff;

    if (rest >= 0x7c00) /* infinity and NaN */
        return float_of(sign | 0x7f800000 | (rest & 0x3ff) << 13);
    if (rest >= 0x400)
        return float_of(sign | ((rest << 13) + ((127 - 15) << 23)));
    /* A subnormal: that many times 2^-24, which a float has. */
    return float_of(sign | bits_of((float) rest * 0x1p-24f));
}

uint16_t half_from_float(float f)
{
    uint32_t u = bits_of(f), sign = u >> 16 & 0x8000, rest = u & 0x7fffffff;

    if (rest > 0x7f800000)
        return (uint16_t) (sign | 0x7e00 | (rest >> 13 & 0x3ff));
    if (rest >= 0x47800000) /* 65536 and more */
        return (uint16_t) (sign | 0x7c00);
    if (rest <
        0x38800000) /* a subnormal: adding 0.5 leaves units of 2^-24 in the last bits, rounded by the FPU */
        return (uint16_t) (sign | (bits_of(float_of(rest) + 0.5f) - bits_of(0.5f)));
    rest += 0xfff + (rest >> 13 & 1);
    return (uint16_t) (sign | (rest - ((127 - 15) << 23)) >> 13); /* 65520 and more carries into infinity */
}

/* ---- arithmetic: a function for each op and type */

#define SUM(x, y) ((x) + (y))
#define PROD(x, y) ((x) * (y))
#define MIN(x, y) ((y) < (x) || (y) != (y) ? (y) : (x))
#define MAX(x, y) ((y) > (x) || (y) != (y) ? (y) : (x))
#define AS_IS(x) (x)

/* out is a, or b, or neither of them: never an element apart.  Without this gcc compares the addresses, and
 * takes elements one by one where a sum is made in place. */
#ifdef __clang__
#pragma clang diagnostic ignored "-Wpass-failed" /* with a sanitizer it does take them one by one */
#define APART _Pragma("clang loop vectorize(assume_safety)")
#else
#define APART _Pragma("GCC ivdep")
#endif

/* Computes in `wide`: unsigned for integers that wrap, float for halves. */
#define REDUCE(name, narrow, wide, load, store, OP)                                                          \
    static void name(void *out, const void *a, const void *b, size_t n)                                      \
    {                                                                                                        \
        const narrow *x = a, *y = b;                                                                         \
        narrow       *z = out; /* NOLINT(bugprone-macro-parentheses): a type */                              \
                                                                                                             \
        APART                                                                                                \
        for (size_t i = 0; i < n; i++) {                                                                     \
            wide p = (wide) load(x[i]), q = (wide) load(y[i]);                                               \
                                                                                                             \
            z[i] = (narrow) store((wide) OP(p, q));                                                          \
        }                                                                                                    \
    }

#define REDUCE_ALL(suffix, narrow, wide, load, store, ordered)                                               \
    REDUCE(sum_##suffix, narrow, wide, load, store, SUM)                                                     \
    REDUCE(prod_##suffix, narrow, wide, load, store, PROD)                                                   \
    REDUCE(min_##suffix, narrow, ordered, load, store, MIN)                                                  \
    REDUCE(max_##suffix, narrow, ordered, load, store, MAX)

REDUCE_ALL(i8, int8_t, uint8_t, AS_IS, AS_IS, int8_t)
REDUCE_ALL(u8, uint8_t, uint8_t, AS_IS, AS_IS, uint8_t)
REDUCE_ALL(i32, int32_t, uint32_t, AS_IS, AS_IS, int32_t)
REDUCE_ALL(i64, int64_t, uint64_t, AS_IS, AS_IS, int64_t)
REDUCE_ALL(f16, uint16_t, float, half_to_float, half_from_float, float)
REDUCE_ALL(bf16, uint16_t, float, bfloat_to_float, bfloat_from_float, float)
REDUCE_ALL(f32, float, float, AS_IS, AS_IS, float)
REDUCE_ALL(f64, double, double, AS_IS, AS_IS, double)

#define ROW(op)                                                                                              \
    {                                                                                                        \
        [CCRUN_I8] = op##_i8, [CCRUN_U8] = op##_u8, [CCRUN_I32] = op##_i32, [CCRUN_I64] = op##_i64,          \
        [CCRUN_F16] = op##_f16, [CCRUN_BF16] = op##_bf16, [CCRUN_F32] = op##_f32, [CCRUN_F64] = op##_f64,    \
    }

reduce_fn *reduce_of(enum ccrun_op op, enum ccrun_type type)
{
    static reduce_fn *const table[N_OPS][N_TYPES] = {
        [CCRUN_SUM] = ROW(sum), [CCRUN_PROD] = ROW(prod), [CCRUN_MIN] = ROW(min),
        [CCRUN_MAX] = ROW(max), [CCRUN_AVG] = ROW(sum),
    };

    assert((unsigned) op < N_OPS && (unsigned) type < N_TYPES);
    return table[op][type];
}

#define DIVIDE(narrow, wide, load, store)                                                                    \
    do {                                                                                                     \
        narrow *x = buf; /* NOLINT(bugprone-macro-parentheses): a type */                                    \
                                                                                                             \
        for (size_t i = 0; i < n; i++)                                                                       \
            x[i] = (narrow) store((wide) load(x[i]) / (wide) size);                                          \
    } while (0)

void reduce_finish(enum ccrun_op op, enum ccrun_type type, void *buf, size_t n, int size)
{
    if (op != CCRUN_AVG)
        return;
    switch (type) {
    case CCRUN_I8: DIVIDE(int8_t, int, AS_IS, AS_IS); break;
    case CCRUN_U8: DIVIDE(uint8_t, int, AS_IS, AS_IS); break;
    case CCRUN_I32: DIVIDE(int32_t, int32_t, AS_IS, AS_IS); break;
    case CCRUN_I64: DIVIDE(int64_t, int64_t, AS_IS, AS_IS); break;
    case CCRUN_F16: DIVIDE(uint16_t, float, half_to_float, half_from_float); break;
    case CCRUN_BF16: DIVIDE(uint16_t, float, bfloat_to_float, bfloat_from_float); break;
    case CCRUN_F32: DIVIDE(float, float, AS_IS, AS_IS); break;
    case CCRUN_F64: DIVIDE(double, double, AS_IS, AS_IS); break;
    default: assert(0);
    }
}
