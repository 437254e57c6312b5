#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>

#include "store/base/macros.h"
#include "store/core/kv.h"
#include "store/core/siphash.h"

struct waiter {
    struct kv_wait wait;
    unsigned       n_woken;
};

static struct kv_budget budget;
static struct kv       *kv;
static struct waiter    w1, w2;

static void on_wake(struct kv_wait *w)
{
    CC_CONTAINER_OF(w, struct waiter, wait)->n_woken++;
}

static void setup(void)
{
    const uint64_t seed[2] = { 1, 2 };

    budget = (struct kv_budget){ .max = 1 << 20 };
    kv = kv_new(seed, &budget, on_wake);
    w1 = w2 = (struct waiter){ 0 };
}

static void teardown(void)
{
    kv_wait_cancel(kv, &w1.wait);
    kv_wait_cancel(kv, &w2.wait);
    kv_free(kv);
    cr_assert_eq(budget.used, 0, "%llu bytes were charged and not given back",
                 (unsigned long long) budget.used);
}

TestSuite(kv, .init = setup, .fini = teardown);

static struct cc_bytes b(const char *s)
{
    return cc_bytes_of(s);
}

static bool is(const char *key, const char *value)
{
    struct cc_bytes v;

    return kv_get(kv, b(key), &v) && v.n == strlen(value) && memcmp(v.p, value, v.n) == 0;
}

static void wait_for(struct waiter *w, const char *const *keys, unsigned n)
{
    cr_assert_eq(kv_wait_begin(kv, &w->wait, n), 0);
    for (unsigned i = 0; i < n; i++)
        cr_assert_eq(kv_wait_for(kv, &w->wait, b(keys[i])), 0);
}

Test(kv, a_value_is_replaced_whatever_its_length)
{
    char  *big = calloc(1, 100001);
    size_t sizes[] = { 0, 1, 23, 24, 25, 512, 513, 4096, 100000, 10, 30000, 8000, 7000, 0 };

    memset(big, 'x', 100000);
    for (unsigned i = 0; i < CC_COUNT(sizes); i++) {
        struct cc_bytes v = { (uint8_t *) big, sizes[i] };

        cr_assert_eq(kv_set(kv, b("k"), v), 0);
        cr_assert(kv_get(kv, b("k"), &v));
        cr_assert_eq(v.n, sizes[i]);
        cr_assert_eq(memcmp(v.p, big, v.n), 0);
        cr_assert_leq(budget.used, 4 * sizes[i] + 8192);
    }
    cr_assert_eq(kv_count(kv), 1);
    free(big);
}

Test(kv, ten_thousand_keys_are_found_listed_and_deleted)
{
    char                   name[32];
    const struct kv_entry *e = NULL;
    struct cc_bytes        key;
    unsigned               n = 0;

    for (unsigned i = 0; i < 10000; i++) {
        snprintf(name, sizeof name, "key/%u", i);
        if (kv_set(kv, b(name), b(name)) < 0)
            break;
        n++;
    }
    cr_assert_eq(kv_count(kv), n);
    cr_assert_gt(n, 5000);
    for (unsigned i = 0; i < n; i++) {
        snprintf(name, sizeof name, "key/%u", i);
        cr_assert(is(name, name));
    }
    n = 0;
    while ((e = kv_next(kv, e, &key)) != NULL)
        n++;
    cr_assert_eq(n, kv_count(kv));
    for (unsigned i = 0; i < 10000; i++) {
        snprintf(name, sizeof name, "key/%u", i);
        cr_assert_eq(kv_delete(kv, b(name)), i < n);
    }
    cr_assert_eq(kv_keys_size(kv), 0);
    cr_assert_eq(budget.used, 0);
}

Test(kv, add_reads_as_strtoll_does_and_wraps)
{
    static const struct {
        const char *text;
        int64_t     delta, sum;
        const char *stored;
    } good[] = {
        { " \t\n+12abc", 1, 13, "13" },
        { "-5", 5, 0, "0" },
        { "0x10", 1, 1, "1" },
        { "9223372036854775807", 1, INT64_MIN, "-9223372036854775808" },
        { "-9223372036854775808", -1, INT64_MAX, "9223372036854775807" },
        { "-9223372036854775808", 0, INT64_MIN, "-9223372036854775808" },
        { "000000000000000000000000000000007", 0, 7, "7" },
    };
    static const char *const bad[] = {
        "", "-", "abc", " + 1", "9223372036854775808", "-9223372036854775809", "99999999999999999999"
    };
    int64_t sum;

    for (unsigned i = 0; i < CC_COUNT(good); i++) {
        cr_assert_eq(kv_set(kv, b("n"), b(good[i].text)), 0);
        cr_assert_eq(kv_add(kv, b("n"), good[i].delta, &sum), 0, "%s", good[i].text);
        cr_assert_eq(sum, good[i].sum, "%s", good[i].text);
        cr_assert(is("n", good[i].stored), "%s", good[i].text);
    }
    for (unsigned i = 0; i < CC_COUNT(bad); i++) {
        cr_assert_eq(kv_set(kv, b("n"), b(bad[i])), 0);
        cr_assert_eq(kv_add(kv, b("n"), 1, &sum), -EINVAL, "'%s'", bad[i]);
        cr_assert(is("n", bad[i]));
    }
    cr_assert_eq(kv_add(kv, b("new"), -2, &sum), 0);
    cr_assert(is("new", "-2"));
}

Test(kv, compare_set_wakes_only_when_it_stores)
{
    struct cc_bytes v;

    wait_for(&w1, (const char *[]){ "k" }, 1);
    cr_assert_eq(kv_compare_set(kv, b("k"), b("exp"), b("new"), &v), 0);
    cr_assert_eq(memcmp(v.p, "exp", 3), 0);
    cr_assert_eq(w1.n_woken, 0);
    cr_assert_not(kv_has(kv, b("k")));
    cr_assert_eq(kv_compare_set(kv, b("k"), b(""), b("one"), &v), 0);
    cr_assert_eq(w1.n_woken, 1);
    cr_assert_eq(kv_compare_set(kv, b("k"), b(""), b("two"), &v), 0);
    cr_assert(is("k", "one"));
    cr_assert_eq(memcmp(v.p, "one", 3), 0);
    cr_assert_eq(kv_compare_set(kv, b("k"), b("one"), b(""), &v), 0);
    cr_assert_eq(kv_compare_set(kv, b("k"), b(""), b("three"), &v), 0);
    cr_assert(is("k", "three"));
}

Test(kv, every_writer_wakes)
{
    int64_t         sum;
    struct cc_bytes v;

    for (unsigned i = 0; i < 5; i++) {
        wait_for(&w1, (const char *[]){ "k" }, 1);
        cr_assert_eq(i == 0   ? kv_set(kv, b("k"), b("1"))
                     : i == 1 ? kv_add(kv, b("k"), 1, &sum)
                     : i == 2 ? kv_append(kv, b("k"), b("1"))
                     : i == 3 ? kv_compare_set(kv, b("k"), b(""), b("1"), &v)
                              : kv_queue_push(kv, b("k"), b("1")),
                     0);
        cr_assert_eq(w1.n_woken, i + 1);
        cr_assert(i == 4 || kv_delete(kv, b("k")));
    }
}

Test(kv, a_wait_ends_with_its_last_key_even_if_one_is_named_twice)
{
    wait_for(&w1, (const char *[]){ "a", "b", "a", "a" }, 4);
    cr_assert_eq(kv_set(kv, b("a"), b("")), 0);
    cr_assert_eq(w1.n_woken, 0);
    cr_assert_eq(kv_set(kv, b("a"), b("again")), 0);
    cr_assert_eq(w1.n_woken, 0);
    cr_assert_eq(kv_set(kv, b("b"), b("")), 0);
    cr_assert_eq(w1.n_woken, 1);
}

Test(kv, a_new_wait_replaces_the_old_one)
{
    wait_for(&w1, (const char *[]){ "a", "b" }, 2);
    wait_for(&w1, (const char *[]){ "c" }, 1);
    cr_assert_eq(kv_set(kv, b("a"), b("")), 0);
    cr_assert_eq(kv_set(kv, b("b"), b("")), 0);
    cr_assert_eq(w1.n_woken, 0);
    cr_assert_eq(kv_set(kv, b("c"), b("")), 0);
    cr_assert_eq(w1.n_woken, 1);
}

Test(kv, a_cancelled_wait_leaves_nothing_behind)
{
    wait_for(&w1, (const char *[]){ "a", "b" }, 2);
    wait_for(&w2, (const char *[]){ "b" }, 1);
    kv_wait_cancel(kv, &w1.wait);
    cr_assert_eq(kv_set(kv, b("b"), b("")), 0);
    cr_assert_eq(w1.n_woken, 0);
    cr_assert_eq(w2.n_woken, 1);
    cr_assert(kv_delete(kv, b("b")));
    cr_assert_eq(budget.used, 0);
}

Test(kv, a_deletion_wakes_nobody_and_keeps_who_waits)
{
    cr_assert_eq(kv_barrier(kv, &w1.wait, b("bar"), 2), 0);
    cr_assert(kv_delete(kv, b("bar")));
    cr_assert_eq(w1.n_woken, 0);
    cr_assert_eq(kv_set(kv, b("bar"), b("x")), 0);
    cr_assert_eq(w1.n_woken, 1);
}

Test(kv, a_push_wakes_the_one_that_waits_longest)
{
    struct cc_bytes v;

    wait_for(&w1, (const char *[]){ "q" }, 1);
    wait_for(&w2, (const char *[]){ "q" }, 1);
    cr_assert_eq(kv_queue_push(kv, b("q"), b("1")), 0);
    cr_assert_eq(w1.n_woken, 1);
    cr_assert_eq(w2.n_woken, 0);
    cr_assert_eq(kv_queue_push(kv, b("q"), b("2")), 0);
    cr_assert_eq(w2.n_woken, 1);
    cr_assert_eq(kv_queue_len(kv, b("q")), 2);
    cr_assert(kv_queue_front(kv, b("q"), &v));
    cr_assert_eq(*v.p, '1');
    kv_queue_drop(kv, b("q"));
    kv_queue_drop(kv, b("q"));
    cr_assert_not(kv_has(kv, b("q")));
}

Test(kv, a_push_is_not_used_up_by_one_that_waits_for_more)
{
    wait_for(&w1, (const char *[]){ "q", "k" }, 2);
    wait_for(&w2, (const char *[]){ "q" }, 1);
    cr_assert_eq(kv_queue_push(kv, b("q"), b("1")), 0);
    cr_assert_eq(w1.n_woken, 0);
    cr_assert_eq(w2.n_woken, 1);
    cr_assert_eq(kv_set(kv, b("k"), b("")), 0);
    cr_assert_eq(w1.n_woken, 1);
}

Test(kv, a_queue_is_no_key)
{
    struct cc_bytes v;

    cr_assert_eq(kv_queue_push(kv, b("q"), b("1")), 0);
    cr_assert(kv_has(kv, b("q")));
    cr_assert_eq(kv_count(kv), 0);
    cr_assert_null(kv_next(kv, NULL, &v));
    cr_assert_not(kv_get(kv, b("q"), &v));
    cr_assert_not(kv_delete(kv, b("q")));
    cr_assert_eq(kv_set(kv, b("q"), b("value")), 0);
    cr_assert_eq(kv_queue_len(kv, b("q")), 1);
}

Test(kv, a_barrier_lets_all_go_at_once)
{
    struct waiter w3 = { 0 };

    cr_assert_eq(kv_barrier(kv, &w1.wait, b("bar"), 3), 0);
    cr_assert_eq(kv_barrier(kv, &w2.wait, b("bar"), 3), 0);
    cr_assert_eq(w1.n_woken + w2.n_woken, 0);
    cr_assert_eq(kv_barrier(kv, &w3.wait, b("bar"), 3), 1);
    cr_assert_eq(w1.n_woken + w2.n_woken, 2);
    cr_assert_eq(w3.n_woken, 0); /* its answer is the return value */
    cr_assert(is("bar", "3"));
}

Test(kv, what_finds_no_room_changes_nothing)
{
    char           *big = malloc(2 << 20);
    struct cc_bytes v = { (uint8_t *) big, 2 << 20 };
    uint64_t        used;

    memset(big, 'x', v.n);
    cr_assert_eq(kv_set(kv, b("k"), b("old")), 0);
    used = budget.used;
    cr_assert_eq(kv_set(kv, b("k"), v), -ENOMEM);
    cr_assert_eq(kv_set(kv, b("other"), v), -ENOMEM);
    cr_assert_eq(kv_append(kv, b("k"), v), -ENOMEM);
    cr_assert_eq(kv_queue_push(kv, b("q"), v), -ENOMEM);
    cr_assert_eq(kv_wait_begin(kv, &w1.wait, 1 << 20), -ENOMEM);
    cr_assert(is("k", "old"));
    cr_assert_not(kv_has(kv, b("other")));
    cr_assert_eq(budget.used, used);
    free(big);
}

Test(kv, appending_a_byte_at_a_time_is_not_quadratic_and_stays_in_bounds)
{
    struct cc_bytes v;

    for (unsigned i = 0; i < 100000; i++)
        cr_assert_eq(kv_append(kv, b("k"), b("x")), 0);
    cr_assert(kv_get(kv, b("k"), &v));
    cr_assert_eq(v.n, 100000);
    cr_assert_leq(budget.used, 200000);
}

Test(kv, a_cleared_key_space_is_empty_and_works)
{
    char name[32];

    for (unsigned i = 0; i < 1000; i++) {
        snprintf(name, sizeof name, "%u", i);
        cr_assert_eq(kv_set(kv, b(name), b("v")), 0);
        cr_assert_eq(kv_queue_push(kv, b(name), b("v")), 0);
    }
    kv_clear(kv);
    cr_assert_eq(budget.used, 0);
    cr_assert_eq(kv_count(kv), 0);
    cr_assert_not(kv_has(kv, b("7")));
    cr_assert_eq(kv_set(kv, b("7"), b("new")), 0);
    cr_assert(is("7", "new"));
}

/* The values are those of CPython's hash() of the same bytes, which is SipHash-1-3 with a key of zeros under
 * PYTHONHASHSEED=0. */
Test(siphash, agrees_with_another_implementation)
{
    const uint64_t key[2] = { 0, 0 }, other[2] = { 1, 0 };

    cr_assert_eq(siphash13(key, b("a")), 0x407448d2b89b1813);
    cr_assert_eq(siphash13(key, b("abcdefg")), 0x6db12aae9070f506);
    cr_assert_eq(siphash13(key, b("abcdefgh")), 0x3f7b849c0b8e35ea);
    cr_assert_eq(siphash13(key, b("torch.rendezvous/0123456789")), 0x7f0405a1e5667b54);
    cr_assert_neq(siphash13(other, b("a")), siphash13(key, b("a")));
}
