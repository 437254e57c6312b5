/* storeclientuv.c - the asynchronous client of the store against any server: TAP on stdout.
 *
 *   storeclientuv HOST PORT KIND      KIND: ccrun, libuv or legacy (PyTorch's server without queues)
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/client_uv.h"

enum { MANY = 1000 };

/* What one call came to. */
struct result {
    bool    is_done;
    int     status;
    int64_t number;
    char    text[64];
};

static uv_loop_t        loop;
static struct store_uv *client;
static unsigned         n_tests, n_bad, n_running;
static char             trouble[200];

static struct cc_bytes b(const char *s)
{
    return cc_bytes_of(s);
}

static void ok(bool is_true, const char *what)
{
    n_bad += !is_true;
    printf("%sok %u - %s%s%s\n", is_true ? "" : "not ", ++n_tests, what, is_true ? "" : " # ",
           is_true ? "" : trouble);
}

static void on_state(void *ctx, int status, const char *sentence)
{
    (void) ctx;
    if (status < 0)
        (void) snprintf(trouble, sizeof trouble, "%s", sentence);
}

static void on_answer(void *ctx, int status, const struct wire_answer *a)
{
    struct result *r = ctx;

    n_running--;
    r->is_done = true;
    r->status = status;
    if (!a)
        return;
    r->number = a->number;
    (void) snprintf(r->text, sizeof r->text, "%.*s", (int) a->value.n,
                    a->value.n > 0 ? (const char *) a->value.p : "");
    for (struct wire_list l = a->list; l.n > 0;) { /* the values one behind the other */
        struct cc_bytes v = wire_next(&l);
        size_t          n = strlen(r->text);

        (void) snprintf(r->text + n, sizeof r->text - n, "%.*s,", (int) v.n,
                        v.n > 0 ? (const char *) v.p : "");
    }
}

static void begun(struct result *r, int code)
{
    if (code == 0) {
        n_running++;
        return;
    }
    r->is_done = true;
    r->status = code;
}

static void ask(struct result *r, struct wire_req req, const struct cc_bytes *items, uint64_t n)
{
    bool has_answer = wire_has_answer(req.op, n);
    int  code = store_uv_ask(client, &req, items, n, has_answer ? on_answer : NULL, r);

    *r = (struct result){ .is_done = !has_answer, .status = code };
    if (has_answer)
        begun(r, code);
}

static void wait_for(struct result *r, struct wire_req req, const struct cc_bytes *items, uint64_t n,
                     uint64_t ms)
{
    *r = (struct result){ 0 };
    begun(r, store_uv_wait(client, &req, items, n, ms, on_answer, r));
}

static void get(struct result *r, const char *key, uint64_t ms)
{
    *r = (struct result){ 0 };
    begun(r, store_uv_get(client, b(key), ms, on_answer, r));
}

static void run(void)
{
    while (n_running > 0)
        (void) uv_run(&loop, UV_RUN_ONCE);
}

static bool is(const struct result *r, const char *text)
{
    return r->is_done && r->status == 0 && strcmp(r->text, text) == 0;
}

static void plain(void)
{
    static struct result many[MANY];
    struct result        set, r[8];
    bool                 is_right = true;

    for (unsigned i = 0; i < MANY; i++)
        ask(&many[i], (struct wire_req){ .op = WIRE_ADD, .key = b("n"), .number = 2 }, NULL, 0);
    run();
    for (unsigned i = 0; i < MANY; i++)
        is_right = is_right && many[i].status == 0 && many[i].number == 2 * (int64_t) (i + 1);
    ok(is_right, "a thousand requests under way are answered in order");
    ask(&set, (struct wire_req){ .op = WIRE_MULTI_SET },
        (struct cc_bytes[]){ b("m1"), b("one"), b("m2"), b(""), b("m3"), b("three") }, 6);
    ask(&set, (struct wire_req){ .op = WIRE_APPEND, .key = b("m1"), .value = b("!") }, NULL, 0);
    ask(&r[0], (struct wire_req){ .op = WIRE_MULTI_GET }, (struct cc_bytes[]){ b("m3"), b("m2"), b("m1") },
        3);
    ask(&r[1], (struct wire_req){ .op = WIRE_CHECK }, (struct cc_bytes[]){ b("m1"), b("nix") }, 2);
    ask(&r[2],
        (struct wire_req){ .op = WIRE_COMPARE_SET, .key = b("m2"), .value = b(""), .desired = b("two") },
        NULL, 0);
    ask(&r[3], (struct wire_req){ .op = WIRE_DELETE_KEY, .key = b("m3") }, NULL, 0);
    ask(&r[4], (struct wire_req){ .op = WIRE_GETNUMKEYS }, NULL, 0);
    run();
    ok(is(&r[0], "three,,one!,"), "multi_set, append, multi_get");
    ok(r[1].status == 0 && r[1].number == 1, "check");
    ok(is(&r[2], "two"), "compare_set");
    ok(r[3].number == 1 && r[4].number >= 3, "delete, num_keys");
}

static void waits(void)
{
    struct wire_req wait = { .op = WIRE_WAIT },
                    barrier = { .op = WIRE_BARRIER, .key = b("bar"), .number = 4 };
    struct result r[40], set, never;
    char          names[40][8];
    bool          is_right = true;

    get(&r[0], "late", 10000);
    wait_for(&never, wait, (struct cc_bytes[]){ b("never") }, 1, 100);
    ask(&r[1], (struct wire_req){ .op = WIRE_ADD, .key = b("n2"), .number = 5 }, NULL, 0);
    while (!r[1].is_done)
        (void) uv_run(&loop, UV_RUN_ONCE);
    ok(r[1].number == 5 && !r[0].is_done, "a get that waits holds nothing up");
    ask(&set, (struct wire_req){ .op = WIRE_SET, .key = b("late"), .value = b("here") }, NULL, 0);
    run();
    ok(is(&r[0], "here"), "... and is answered when its key comes");
    ok(never.status == -ETIMEDOUT, "a wait that times out");
    for (unsigned i = 0; i < 40; i++) {
        (void) snprintf(names[i], sizeof names[i], "w%u", i);
        wait_for(&r[i], wait, (struct cc_bytes[]){ b(names[i]) }, 1, 10000);
    }
    for (unsigned i = 0; i < 40; i++)
        ask(&set, (struct wire_req){ .op = WIRE_SET, .key = b(names[39 - i]) }, NULL, 0);
    run();
    for (unsigned i = 0; i < 40; i++)
        is_right = is_right && r[i].is_done && r[i].status == 0;
    ok(is_right, "forty waits at the same time");
    for (unsigned i = 0; i < 4; i++)
        wait_for(&r[i], barrier, NULL, 0, 10000);
    run();
    ok(r[0].status == 0 && r[1].status == 0 && r[2].status == 0 && r[3].status == 0, "a barrier of four");
}

static void queues(void)
{
    struct result push, r[3];

    ask(&push, (struct wire_req){ .op = WIRE_QUEUE_PUSH, .key = b("q"), .value = b("item") }, NULL, 0);
    ask(&r[0], (struct wire_req){ .op = WIRE_QUEUE_LEN, .key = b("q") }, NULL, 0);
    ask(&r[1], (struct wire_req){ .op = WIRE_QUEUE_POP, .key = b("q") }, NULL, 0);
    ask(&r[2], (struct wire_req){ .op = WIRE_QUEUE_POP, .key = b("q") }, NULL, 0);
    run();
    ok(r[0].number == 1 && r[1].number == 1 && is(&r[1], "item") && r[2].number == 0,
       "push, queue_len, pop, pop");
}

int main(int argc, char **argv)
{
    struct store_uv_cfg cfg = { .connect_timeout_ms = 10000, .on_state = on_state };
    struct cc_err       err;

    if (argc != 4)
        return 2;
    cfg.host = argv[1];
    cfg.port = (uint16_t) strtoul(argv[2], NULL, 10);
    if (uv_loop_init(&loop) < 0 || store_uv_start(&client, &loop, &cfg, &err) < 0) {
        printf("Bail out! %s\n", err.msg);
        return 1;
    }
    plain();
    waits();
    if (strcmp(argv[3], "legacy") != 0)
        queues();
    store_uv_close(client, NULL, NULL);
    (void) uv_run(&loop, UV_RUN_DEFAULT);
    ok(uv_loop_close(&loop) == 0, "nothing is left on the loop");
    printf("1..%u\n", n_tests);
    return n_bad > 0;
}
