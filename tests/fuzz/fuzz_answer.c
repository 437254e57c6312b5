/* fuzz_answer.c - any bytes as what a store answers: in one piece, and one by one.
 *
 * The first byte is what was asked, the second how many keys of a list.  Both ways give the same answers and
 * the same end, and no answer points anywhere but into the bytes that came.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "store/core/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct reply {
    ssize_t            n;
    struct wire_answer a;
};

static void check_inside(const uint8_t *p, size_t n, struct cc_bytes s)
{
    assert(s.n == 0 || (s.p >= p && s.n <= n && s.p + s.n <= p + n));
}

/* What is in an answer, of those fields that its kind has. */
static void check_answer(enum wire_op op, const uint8_t *p, const struct reply *r)
{
    struct wire_list l = r->a.list;

    if (op == WIRE_GET || op == WIRE_COMPARE_SET || (op == WIRE_QUEUE_POP && r->a.number > 0))
        check_inside(p, (size_t) r->n, r->a.value);
    while ((op == WIRE_MULTI_GET || op == WIRE_LIST_KEYS) && l.n > 0)
        check_inside(p, (size_t) r->n, wire_next(&l));
}

/* The bytes come `piece` at a time, each time in memory that ends with them. */
static struct reply ask(enum wire_op op, uint64_t n_values, const uint8_t *p, size_t n, size_t piece)
{
    struct wire_in w = { 0 };
    struct reply   r = { 0 };
    size_t         have = 0;

    while (r.n == 0 && have < n) {
        struct cc_err err = { 0 };
        uint8_t      *there;

        have += piece < n - have ? piece : n - have;
        there = malloc(have);
        if (!there)
            abort();
        memcpy(there, p, have);
        r.n = wire_answer(&w, op, n_values, there, have, &r.a, &err);
        assert(r.n >= 0 ? !err.msg[0] && (size_t) r.n <= have : err.msg[0] != '\0');
        if (r.n > 0)
            check_answer(op, there, &r);
        free(there);
    }
    return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum wire_op op = size > 1 ? (enum wire_op)(data[0] % WIRE_N_OPS) : WIRE_GET;
    size_t       n_values = size > 1 ? data[1] : 0, n = size > 1 ? size - 2 : 0;
    struct reply whole, single;

    if (!wire_has_answer(op, n_values) || n > 4096)
        return 0;
    whole = ask(op, n_values, data + 2, n, SIZE_MAX);
    single = ask(op, n_values, data + 2, n, 1);
    assert(whole.n == single.n || (whole.n < 0 && single.n < 0));
    return 0;
}
