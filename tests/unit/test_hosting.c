#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "agent/hosting.h"

struct result {
    unsigned              n;
    bool                  has_answer;
    struct hosting_answer answer;
    struct cc_err         err;
    struct hosting       *h;
};

static void on_done(void *ctx, const struct hosting_answer *a, const struct cc_err *err)
{
    struct result *r = ctx;

    r->n++;
    r->has_answer = a != NULL;
    if (a)
        r->answer = *a;
    if (err)
        r->err = *err;
    hosting_close(r->h);
}

static struct result ask(const struct hosting_cfg *cfg)
{
    struct result r = { 0 };
    uv_loop_t     loop;

    cr_assert_eq(uv_loop_init(&loop), 0);
    r.h = hosting_start(&loop, cfg, on_done, &r);
    cr_assert_not_null(r.h);
    cr_assert_eq(r.n, 0, "done() in the same turn");
    (void) uv_run(&loop, UV_RUN_DEFAULT);
    cr_assert_eq(r.n, 1);
    cr_assert_eq(uv_loop_close(&loop), 0);
    return r;
}

Test(hosting, loopback_is_ours_however_it_is_spelled)
{
    static const char *const hosts[] = { "127.0.0.1", "localhost", "127.0.0.2", "::1" };

    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
        struct result r = ask(&(struct hosting_cfg) { .host = hosts[i] });

        cr_expect(r.has_answer && r.answer.is_ours, "%s", hosts[i]);
        cr_expect_str_eq(r.answer.publish, r.answer.bind);
    }
}

Test(hosting, an_address_that_no_machine_has_is_not_ours)
{
    struct result r = ask(&(struct hosting_cfg) { .host = "203.0.113.77" });

    cr_expect(r.has_answer && !r.answer.is_ours);
    r = ask(&(struct hosting_cfg) { .host = "::ffff:203.0.113.77" });
    cr_expect(r.has_answer && !r.answer.is_ours);
    r = ask(&(struct hosting_cfg) { .host = "::ffff:127.0.0.1" });
    cr_expect(r.has_answer && r.answer.is_ours);
    cr_expect_str_eq(r.answer.bind, "127.0.0.1");
}

Test(hosting, our_own_name_is_ours_whether_it_resolves_or_not)
{
    char          own[256] = "";
    struct result r;

    cr_assert_eq(gethostname(own, sizeof own - 1), 0);
    r = ask(&(struct hosting_cfg) { .host = own });
    cr_expect(r.has_answer && r.answer.is_ours);
}

Test(hosting, a_name_that_nobody_knows_ends_in_a_sentence)
{
    struct result r = ask(&(struct hosting_cfg) { .host = "nobody.invalid", .resolve_timeout = 1 });

    cr_expect(!r.has_answer);
    cr_expect_eq(r.err.code, -EHOSTUNREACH);
    cr_expect(strstr(r.err.msg, "the host 'nobody.invalid' of the endpoint cannot be resolved: "));
    cr_expect(strstr(r.err.msg, "(--resolve-timeout)"));
}

Test(hosting, nobody_waits_for_a_name_that_makes_no_difference)
{
    struct result r =
        ask(&(struct hosting_cfg) { .host = "nobody.invalid", .resolve_timeout = 60000, .wish = HOSTING_NO });

    cr_expect(r.has_answer && !r.answer.is_ours);
    r = ask(&(struct hosting_cfg) { .host = "nobody.invalid", .resolve_timeout = 60000, .wish = HOSTING_YES });
    cr_expect(r.has_answer && r.answer.is_ours);
}

static void not_called(void *ctx, const struct hosting_answer *a, const struct cc_err *err)
{
    (void) ctx, (void) a, (void) err;
    cr_assert(false, "done() after close");
}

Test(hosting, it_can_be_closed_at_any_time)
{
    for (int turns = 0; turns < 3; turns++) {
        uv_loop_t       loop;
        struct hosting *h;

        cr_assert_eq(uv_loop_init(&loop), 0);
        h = hosting_start(&loop, &(struct hosting_cfg) { .host = "nobody.invalid", .resolve_timeout = 60000 }, not_called, NULL);
        for (int i = 0; i < turns; i++)
            (void) uv_run(&loop, UV_RUN_NOWAIT);
        hosting_close(h);
        (void) uv_run(&loop, UV_RUN_DEFAULT);
        cr_assert_eq(uv_loop_close(&loop), 0);
    }
}

Test(hosting, an_interface_that_is_not_there_is_an_error)
{
    struct result r = ask(&(struct hosting_cfg) { .host = "127.0.0.1", .iface = "nosuch7" });

    cr_expect(!r.has_answer);
    cr_expect_eq(r.err.code, -ENODEV);
    cr_expect(strstr(r.err.msg, "no interface 'nosuch7'; there are: "));
    r = ask(&(struct hosting_cfg) { .host = "127.0.0.1", .iface = "lo" });
    cr_expect(r.has_answer);
    cr_expect_str_eq(r.answer.publish, "127.0.0.1");
}

Test(hosting, a_network_is_read_and_a_wrong_one_named)
{
    static const char *const bad[] = { "",           "10",   "10.0.0.0/",   "10.0.0.0/33", "10.0.0.0/8x",
                                       "fd00::/129", "eth0", "10.0.0.0/-1", "/8" };
    struct hostpick_net net;
    struct cc_err       err = { 0 };

    cr_assert_eq(hosting_parse_subnet(&net, "10.0.0.0/16", &err), 0);
    cr_expect(!net.is_v6 && net.ip[0] == 10 && net.prefix == 16);
    cr_assert_eq(hosting_parse_subnet(&net, "fd00::/64", &err), 0);
    cr_expect(net.is_v6 && net.prefix == 64);
    cr_assert_eq(hosting_parse_subnet(&net, "10.0.0.7", &err), 0);
    cr_expect_eq(net.prefix, 32);
    cr_assert_eq(hosting_parse_subnet(&net, "fd00::1", &err), 0);
    cr_expect_eq(net.prefix, 128);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        cr_expect_eq(hosting_parse_subnet(&net, bad[i], &err), -EINVAL, "%s", bad[i]);
        cr_expect(strstr(err.msg, bad[i]));
    }
}

Test(hosting, our_own_address_is_a_number_that_is_ours)
{
    struct hosting_cfg cfg = { .host = NULL };
    struct result      r;
    char               own[64];

    hosting_own_address(own, sizeof own);
    cfg.host = own;
    r = ask(&cfg);
    cr_assert(r.has_answer, "%s", r.err.msg);
    cr_expect(r.answer.is_ours, "%s", own);
    cr_expect_str_eq(r.answer.bind, own);
}
