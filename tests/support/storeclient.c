/* storeclient.c - the blocking client of the store against any server: TAP on stdout.
 *
 *   storeclient HOST PORT KIND      KIND: ccrun, libuv or legacy (PyTorch's server without queues)
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "store/client.h"

static const char   *host;
static uint16_t      port;
static unsigned      n_tests, n_bad;
static struct cc_err err;

static struct cc_bytes b(const char *s)
{
    return cc_bytes_of(s);
}

static void ok(bool is_true, const char *what)
{
    n_bad += !is_true;
    printf("%sok %u - %s%s%s\n", is_true ? "" : "not ", ++n_tests, what, is_true ? "" : " # ",
           is_true ? "" : err.msg);
}

static struct store_client *dial(const char *prefix)
{
    struct store_client_cfg cfg = { .host = host, .port = port, .prefix = prefix, .timeout_ms = 10000 };
    struct store_client    *c = NULL;

    if (store_client_connect(&c, &cfg, 10000, &err) < 0) {
        printf("Bail out! %s\n", err.msg);
        exit(1);
    }
    return c;
}

static uint64_t now_ms(void)
{
    struct timespec t;

    (void) clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t) t.tv_sec * 1000 + (uint64_t) t.tv_nsec / 1000000;
}

static bool is(struct cc_buf *buf, const char *want)
{
    bool same = cc_buf_len(buf) == strlen(want) &&
                memcmp(cc_buf_data(buf) ? (const char *) cc_buf_data(buf) : "", want, strlen(want)) == 0;

    cc_buf_free(buf);
    return same;
}

static void keys(struct store_client *c, struct store_client *other)
{
    struct cc_buf v = { 0 };
    int64_t       n = 0, before = 0;
    bool          flag = false;

    ok(store_client_set(c, b("s"), b("value"), &err) == 0 &&
           store_client_get(other, b("s"), 5000, &v, &err) == 0 && is(&v, "value"),
       "what one client sets another gets");
    ok(store_client_set(c, b("empty"), b(""), &err) == 0 &&
           store_client_get(other, b("empty"), 5000, &v, &err) == 0 && is(&v, ""),
       "an empty value");
    ok(store_client_add(c, b("n"), 5, &n, &err) == 0 && n == 5 &&
           store_client_add(other, b("n"), -7, &n, &err) == 0 && n == -2,
       "add");
    ok(store_client_compare_set(c, b("c"), b(""), b("one"), &v, &err) == 0 && is(&v, "one"),
       "compare_set of a new key");
    ok(store_client_compare_set(c, b("c"), b("x"), b("two"), &v, &err) == 0 && is(&v, "one"),
       "compare_set refused");
    ok(store_client_compare_set(c, b("c"), b("one"), b("two"), &v, &err) == 0 && is(&v, "two"),
       "compare_set done");
    ok(store_client_check(c, (struct cc_bytes[]){ b("s"), b("n") }, 2, &flag, &err) == 0 && flag,
       "check of two keys");
    ok(store_client_check(c, (struct cc_bytes[]){ b("s"), b("nix") }, 2, &flag, &err) == 0 && !flag,
       "check of a missing key");
    ok(store_client_append(c, b("a"), b("ab"), &err) == 0 &&
           store_client_append(c, b("a"), b("cd"), &err) == 0 &&
           store_client_get(c, b("a"), 5000, &v, &err) == 0 && is(&v, "abcd"),
       "append");
    ok(store_client_num_keys(c, &before, &err) == 0 && store_client_set(c, b("new"), b("1"), &err) == 0 &&
           store_client_num_keys(c, &n, &err) == 0 && n == before + 1,
       "num_keys");
    ok(store_client_delete(c, b("new"), &flag, &err) == 0 && flag &&
           store_client_delete(c, b("new"), &flag, &err) == 0 && !flag,
       "delete");
}

static void lists(struct store_client *c)
{
    struct cc_bytes pairs[] = { b("m1"), b("one"), b("m2"), b(""), b("m3"), b("three") };
    struct cc_bytes names[] = { b("m3"), b("m1"), b("m2") };
    struct cc_buf   v[3] = { 0 };
    char           *big = malloc(3 << 20);
    struct cc_buf   got = { 0 };

    ok(store_client_multi_set(c, pairs, 3, &err) == 0 &&
           store_client_multi_get(c, names, 3, 5000, v, &err) == 0 && is(&v[0], "three") &&
           is(&v[1], "one") && is(&v[2], ""),
       "multi_set and multi_get");
    ok(store_client_multi_set(c, NULL, 0, &err) == 0 &&
           store_client_multi_get(c, NULL, 0, 5000, v, &err) == 0,
       "multi_set and multi_get of nothing");
    for (unsigned i = 0; i < 3 << 20; i++)
        big[i] = (char) (i * 2654435761u >> 24);
    ok(store_client_set(c, b("big"), (struct cc_bytes){ (uint8_t *) big, 3 << 20 }, &err) == 0 &&
           store_client_get(c, b("big"), 5000, &got, &err) == 0 && cc_buf_len(&got) == 3 << 20 &&
           memcmp(cc_buf_data(&got), big, 3 << 20) == 0,
       "a value of 3 MiB");
    cc_buf_free(&got);
    free(big);
}

static void count_key(void *ctx, struct cc_bytes key)
{
    unsigned *seen = ctx;

    *seen += key.n == 2 && key.p[0] == 'm';
}

static void *set_late(void *arg)
{
    struct store_client *c = dial(NULL);
    struct timespec      t = { .tv_nsec = 100000000 };
    struct cc_err        e;

    (void) nanosleep(&t, NULL);
    (void) store_client_set(c, b(arg), b("late"), &e);
    (void) store_client_free(c);
    return NULL;
}

static void waits(struct store_client *c)
{
    static char   late[] = "late";
    struct cc_buf v = { 0 };
    uint64_t      t = now_ms();
    int64_t       n;
    pthread_t     other;

    ok(store_client_wait(c, (struct cc_bytes[]){ b("never"), b("s") }, 2, 200, &err) == -ETIMEDOUT &&
           now_ms() - t >= 200 && now_ms() - t < 5000 && strstr(err.msg, "never"),
       "a wait that times out names the key");
    ok(store_client_add(c, b("n"), 1, &n, &err) == 0 && n == -1, "... and leaves the connection good");
    ok(store_client_get(c, b("never"), 0, &v, &err) == -ETIMEDOUT, "a get with no time at all");
    ok(store_client_wait(c, (struct cc_bytes[]){ b("s") }, 1, 0, &err) == 0,
       "a wait with no time for a key that is there");
    (void) pthread_create(&other, NULL, set_late, late);
    ok(store_client_get(c, b("late"), 8000, &v, &err) == 0 && is(&v, "late"), "a get waits for the key");
    (void) pthread_join(other, NULL);
    for (unsigned i = 0; i < 50; i++)
        if (store_client_wait(c, (struct cc_bytes[]){ b("never") }, 1, 1, &err) != -ETIMEDOUT)
            break;
    ok(store_client_add(c, b("n"), 1, &n, &err) == 0 && n == 0, "fifty waits that time out in a row");
}

static void *join_barrier(void *arg)
{
    struct store_client *c = dial(NULL);
    struct cc_err        e;
    int                 *ret_status = arg;

    *ret_status = store_client_barrier(c, b("bar2"), 2, 8000, &e);
    (void) store_client_free(c);
    return NULL;
}

static void newer(struct store_client *c, bool has_queues)
{
    struct cc_buf v = { 0 };
    unsigned      seen = 0;
    int64_t       n = 0;
    int           other_status = -1;
    pthread_t     other;

    ok(store_client_list_keys(c, count_key, &seen, &err) == 0 && seen == 3, "list_keys, without the prefix");
    ok(store_client_barrier(c, b("bar1"), 2, 50, &err) == -ETIMEDOUT && strstr(err.msg, "bar1"),
       "a barrier that times out");
    (void) pthread_create(&other, NULL, join_barrier, &other_status);
    ok(store_client_barrier(c, b("bar2"), 2, 8000, &err) == 0, "a barrier of two");
    (void) pthread_join(other, NULL);
    ok(other_status == 0, "... lets both go");
    if (!has_queues)
        return;
    ok(store_client_queue_pop(c, b("q"), 0, &v, &err) == -EAGAIN, "pop of an empty queue");
    ok(store_client_queue_pop(c, b("q"), 50, &v, &err) == -ETIMEDOUT, "pop of an empty queue, with patience");
    ok(store_client_queue_push(c, b("q"), b("1"), &err) == 0 &&
           store_client_queue_push(c, b("q"), b("2"), &err) == 0 &&
           store_client_queue_len(c, b("q"), &n, &err) == 0 && n == 2,
       "push, push, queue_len");
    ok(store_client_queue_pop(c, b("q"), 5000, &v, &err) == 0 && is(&v, "1") &&
           store_client_queue_pop(c, b("q"), 0, &v, &err) == 0 && is(&v, "2"),
       "pop, pop");
}

static void *wait_for_ever(void *arg)
{
    struct cc_err e;

    return (void *) (intptr_t) store_client_wait(arg, (struct cc_bytes[]){ b("never") }, 1, UINT64_MAX, &e);
}

static void interrupted(void)
{
    struct store_client *c = dial(NULL);
    pthread_t            other;
    int64_t              n;
    void                *r;

    (void) pthread_create(&other, NULL, wait_for_ever, c);
    store_client_interrupt(c);
    (void) pthread_join(other, &r);
    ok((intptr_t) r == -ECANCELED, "a wait is ended from another thread");
    ok(store_client_num_keys(c, &n, &err) == -ECANCELED, "... and so is all that comes later");
    (void) store_client_free(c);
}

static void failures(void)
{
    struct store_client_cfg cfg = { .host = host, .port = 1 }; /* nobody listens there */
    struct store_client    *c = NULL;
    uint64_t                t = now_ms();
    int64_t                 n;

    ok(store_client_connect(&c, &cfg, 200, &err) == -ETIMEDOUT && now_ms() - t >= 200 && now_ms() - t < 3000,
       "a server that is not there is tried until the time is over");
    c = dial(NULL);
    ok(store_client_set(c, b("text"), b("no number"), &err) == 0 &&
           store_client_add(c, b("text"), 1, &n, &err) < 0,
       "a refusal is an error");
    ok(store_client_num_keys(c, &n, &err) == -ENOTCONN, "... and the connection is known to be gone");
    (void) store_client_free(c);
}

int main(int argc, char **argv)
{
    struct store_client *c, *other;

    if (argc != 4)
        return 2;
    host = argv[1];
    port = (uint16_t) strtoul(argv[2], NULL, 10);
    c = dial(NULL);
    other = dial("/"); /* the same, in words */
    keys(c, other);
    lists(c);
    waits(c);
    newer(c, strcmp(argv[3], "legacy") != 0);
    interrupted();
    failures();
    (void) store_client_free(c);
    (void) store_client_free(other);
    printf("1..%u\n", n_tests);
    return n_bad > 0;
}
