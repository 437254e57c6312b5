#include "backends/reduce.h"

#include <assert.h>
#include <stdbool.h>
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

/* Without branches, so that the compiler can take many at once: a choice is between two numbers that are both
 * there. */
static uint32_t either(bool is_first, uint32_t first, uint32_t second)
{
    uint32_t mask = 0 - (uint32_t) is_first;

    return (first & mask) | (second & ~mask);
}

/* The bits in the place of a float's, and then the difference of the exponents: right for subnormals, too. */
float half_to_float(uint16_t h)
{
    uint32_t sign = (uint32_t) (h & 0x8000) << 16, rest = (uint32_t) (h & 0x7fff) << 13;
    uint32_t finite = bits_of(float_of(rest) * 0x1p112f);

    return float_of(sign | either(rest >= 0x0f800000, rest | 0x7f800000, finite)); /* infinity and NaN */
}

uint16_t half_from_float(float f)
{
    uint32_t u = bits_of(f), sign = u >> 16 & 0x8000, rest = u & 0x7fffffff;
    /* a subnormal: adding 0.5 leaves units of 2^-24 in the last bits, rounded by the FPU */
    uint32_t tiny = bits_of(float_of(rest) + 0.5f) - bits_of(0.5f);
    uint32_t usual =
        (rest + 0xfff + (rest >> 13 & 1) - ((127 - 15) << 23)) >> 13; /* may carry into infinity */
    uint32_t large = either(rest > 0x7f800000, 0x7e00 | (rest >> 13 & 0x3ff), 0x7c00); /* from 65536 on */

    return (uint16_t) (sign | either(rest >= 0x47800000, large, either(rest < 0x38800000, tiny, usual)));
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
#define REDUCE(target, name, narrow, wide, load, store, OP)                                                  \
    target static void name(void *out, const void *a, const void *b, size_t n)                               \
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

#define REDUCE_ALL(target, suffix, narrow, wide, load, store, ordered)                                       \
    REDUCE(target, sum_##suffix, narrow, wide, load, store, SUM)                                             \
    REDUCE(target, prod_##suffix, narrow, wide, load, store, PROD)                                           \
    REDUCE(target, min_##suffix, narrow, ordered, load, store, MIN)                                          \
    REDUCE(target, max_##suffix, narrow, ordered, load, store, MAX)

REDUCE_ALL(, i8, int8_t, uint8_t, AS_IS, AS_IS, int8_t)
REDUCE_ALL(, u8, uint8_t, uint8_t, AS_IS, AS_IS, uint8_t)
REDUCE_ALL(, i32, int32_t, uint32_t, AS_IS, AS_IS, int32_t)
REDUCE_ALL(, i64, int64_t, uint64_t, AS_IS, AS_IS, int64_t)
REDUCE_ALL(, f32, float, float, AS_IS, AS_IS, float)
REDUCE_ALL(, f64, double, double, AS_IS, AS_IS, double)

/* Halves are converted, both ways, with the widest instructions that this processor has: the rest is as fast
 * as memory with any. */
#define HALVES(target, suffix)                                                                               \
    REDUCE_ALL(target, f16##suffix, uint16_t, float, half_to_float, half_from_float, float)                  \
    REDUCE_ALL(target, bf16##suffix, uint16_t, float, bfloat_to_float, bfloat_from_float, float)

HALVES(, )
#ifdef __x86_64__
HALVES(__attribute__((target("avx2"))), _avx2)
HALVES(__attribute__((target("avx512f,avx512bw"))), _avx512)
#endif

#define ROW(op)                                                                                              \
    {                                                                                                        \
        [CCRUN_I8] = op##_i8, [CCRUN_U8] = op##_u8, [CCRUN_I32] = op##_i32, [CCRUN_I64] = op##_i64,          \
        [CCRUN_F16] = op##_f16, [CCRUN_BF16] = op##_bf16, [CCRUN_F32] = op##_f32, [CCRUN_F64] = op##_f64,    \
    }
#define HALF_ROW(op, suffix)                                                                                 \
    {                                                                                                        \
        [CCRUN_F16] = op##_f16##suffix, [CCRUN_BF16] = op##_bf16##suffix                                     \
    }
#define HALF_TABLE(suffix)                                                                                   \
    {                                                                                                        \
        [CCRUN_SUM] = HALF_ROW(sum, suffix), [CCRUN_PROD] = HALF_ROW(prod, suffix),                          \
        [CCRUN_MIN] = HALF_ROW(min, suffix), [CCRUN_MAX] = HALF_ROW(max, suffix),                            \
        [CCRUN_AVG] = HALF_ROW(sum, suffix),                                                                 \
    }

/* NULL: as for every processor. */
static reduce_fn *of_this_processor(enum ccrun_op op, enum ccrun_type type)
{
#ifdef __x86_64__
    static reduce_fn *const avx2[N_OPS][CCRUN_BF16 + 1] = HALF_TABLE(_avx2);
    static reduce_fn *const avx512[N_OPS][CCRUN_BF16 + 1] = HALF_TABLE(_avx512);

    if (type != CCRUN_F16 && type != CCRUN_BF16)
        return NULL;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw"))
        return avx512[op][type];
    return __builtin_cpu_supports("avx2") ? avx2[op][type] : NULL;
#else
    (void) op, (void) type;
    return NULL;
#endif
}

reduce_fn *reduce_of(enum ccrun_op op, enum ccrun_type type)
{
    static reduce_fn *const table[N_OPS][N_TYPES] = {
        [CCRUN_SUM] = ROW(sum), [CCRUN_PROD] = ROW(prod), [CCRUN_MIN] = ROW(min),
        [CCRUN_MAX] = ROW(max), [CCRUN_AVG] = ROW(sum),
    };

    reduce_fn *f;

    assert((unsigned) op < N_OPS && (unsigned) type < N_TYPES);
    f = of_this_processor(op, type);
    return f ? f : table[op][type];
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
