#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/core/hostpick.h"

/* ---- a machine, written down */

struct scene {
    struct hostpick       in;
    struct hostpick_iface ifaces[12];
    struct hostpick_addr  found[8], out[2], local;
    struct hostpick_net   net;
};

static struct hostpick_addr addr(const char *text, uint32_t scope)
{
    struct hostpick_addr a = { .is_v6 = strchr(text, ':') != NULL, .scope = scope };
    char                 number[64];

    (void) snprintf(number, sizeof number, "%.*s", (int) strcspn(text, "%"), text);
    cr_assert_eq(inet_pton(a.is_v6 ? AF_INET6 : AF_INET, number, a.ip), 1, "%s", text);
    (void) snprintf(a.text, sizeof a.text, "%s", text);
    return a;
}

static struct hostpick_iface *has(struct scene *s, const char *name, const char *text, unsigned prefix)
{
    struct hostpick_iface *f = &s->ifaces[s->in.n_ifaces++];

    *f = (struct hostpick_iface) { .prefix = prefix, .is_up = true, .is_loopback = strcmp(name, "lo") == 0 };
    (void) snprintf(f->name, sizeof f->name, "%s", name);
    if (text)
        f->addr = addr(text, 0);
    return f;
}

static void resolves_to(struct scene *s, const char *text)
{
    s->found[s->in.n_found++] = addr(text, 0);
}

static void scene(struct scene *s, const char *host)
{
    memset(s, 0, sizeof *s);
    s->in.host = host;
    s->in.ifaces = s->ifaces;
    s->in.found = s->found;
    (void) has(s, "lo", "127.0.0.1", 8);
    (void) has(s, "lo", "::1", 128);
}

/* Two networks; the way out is eth0's. */
static void cluster(struct scene *s, const char *host)
{
    scene(s, host);
    (void) has(s, "docker0", "172.17.0.1", 16);
    (void) has(s, "eth0", "10.0.0.5", 24);
    (void) has(s, "eth0", "fd00::5", 64);
    (has(s, "eth0", "fe80::5%eth0", 64))->addr.scope = 2;
    (void) has(s, "ib0", "192.168.7.5", 16);
    (void) has(s, "ib1", NULL, 0);
    s->out[0] = addr("10.0.0.5", 0);
    s->out[1] = addr("fd00::5", 0);
    s->in.way_out[0] = &s->out[0];
    s->in.way_out[1] = &s->out[1];
}

static struct hosting_answer decide(const struct scene *s)
{
    struct hosting_answer a;
    struct cc_err         err = { 0 };

    cr_assert_eq(hostpick_decide(&s->in, &a, &err), 0, "%s", err.msg);
    return a;
}

static struct cc_err refuse(const struct scene *s, int code)
{
    struct hosting_answer a;
    struct cc_err         err = { 0 };

    cr_assert_eq(hostpick_decide(&s->in, &a, &err), code);
    return err;
}

static void wants_net(struct scene *s, const char *text, const char *ip, unsigned prefix)
{
    struct hostpick_addr a = addr(ip, 0);

    s->net = (struct hostpick_net) { .is_v6 = a.is_v6, .prefix = prefix };
    memcpy(s->net.ip, a.ip, sizeof a.ip);
    s->in.net = &s->net;
    s->in.subnet = text;
}

/* ---- whose address it is */

Test(hostpick, an_address_of_ours_is_listened_on_and_published)
{
    struct scene          s;
    struct hosting_answer a;

    cluster(&s, "10.0.0.5");
    resolves_to(&s, "10.0.0.5");
    a = decide(&s);
    cr_expect(a.is_ours);
    cr_expect_str_eq(a.bind, "10.0.0.5");
    cr_expect_str_eq(a.also[0], "");
    cr_expect_str_eq(a.publish, "10.0.0.5");
    cr_expect_str_eq(a.note, "");
}

Test(hostpick, an_address_of_another_is_not_ours_even_on_our_network)
{
    struct scene          s;
    struct hosting_answer a;

    cluster(&s, "node1");
    resolves_to(&s, "10.0.0.6");
    a = decide(&s);
    cr_expect(!a.is_ours);
    cr_expect_str_eq(a.publish, "");
    cr_expect_str_eq(a.from, "");
}

Test(hostpick, an_alias_and_a_second_card_are_ours_because_of_the_address)
{
    struct scene          s;
    struct hosting_answer a;

    cluster(&s, "node1-ib");
    resolves_to(&s, "192.168.7.5");
    a = decide(&s);
    cr_expect(a.is_ours);
    cr_expect_str_eq(a.bind, "192.168.7.5");
    cr_expect_str_eq(a.publish, "192.168.7.5");
}

Test(hostpick, a_name_with_addresses_of_both_families_is_served_by_both)
{
    struct scene          s;
    struct hosting_answer a;

    cluster(&s, "node1");
    resolves_to(&s, "fd00::5");
    resolves_to(&s, "10.0.0.5");
    a = decide(&s);
    cr_expect_str_eq(a.bind, "fd00::5");
    cr_expect_str_eq(a.also[0], "10.0.0.5");
    cr_expect_str_eq(a.publish, "fd00::5");
}

Test(hostpick, a_name_of_several_machines_is_remarked_upon)
{
    struct scene          s;
    struct hosting_answer a;

    cluster(&s, "workers.svc");
    resolves_to(&s, "10.0.0.4");
    resolves_to(&s, "10.0.0.5");
    a = decide(&s);
    cr_expect(a.is_ours);
    cr_expect_str_eq(a.bind, "10.0.0.5");
    cr_expect_str_eq(a.note, "'workers.svc' is 10.0.0.5, an address of this machine, and 1 that are not; if it is several "
                             "machines, let the endpoint name one");
}

Test(hostpick, a_link_local_address_is_listened_on_with_its_interface)
{
    struct scene          s;
    struct hosting_answer a;

    cluster(&s, "fe80::5");
    resolves_to(&s, "fe80::5");
    a = decide(&s);
    cr_expect(a.is_ours);
    cr_expect_str_eq(a.bind, "fe80::5%eth0");
    s.found[0].scope = 2;
    cr_expect(decide(&s).is_ours);
    s.found[0].scope = 3;
    cr_expect(!decide(&s).is_ours);
}

Test(hostpick, no_machine_has_the_address_zero)
{
    struct scene s;

    cluster(&s, "0.0.0.0");
    resolves_to(&s, "0.0.0.0");
    cr_expect(strstr(refuse(&s, -EINVAL).msg, "'0.0.0.0' is no machine's address"));
    cluster(&s, "::");
    resolves_to(&s, "::");
    (void) refuse(&s, -EINVAL);
}

/* ---- loopback */

Test(hostpick, all_spellings_of_loopback_meet)
{
    static const char *const spellings[][2] = { { "127.0.0.1", "::1" }, { "::1", "127.0.0.1" } };

    for (size_t i = 0; i < 2; i++) {
        struct scene          s;
        struct hosting_answer a;

        cluster(&s, "localhost");
        resolves_to(&s, spellings[i][0]);
        a = decide(&s);
        cr_expect(a.is_ours);
        cr_expect_str_eq(a.bind, spellings[i][0]);
        cr_expect_str_eq(a.also[0], spellings[i][1]);
        cr_expect_str_eq(a.also[1], "");
        cr_expect_str_eq(a.publish, spellings[i][0]);
    }
}

Test(hostpick, without_ipv6_its_loopback_is_quietly_the_other)
{
    struct scene          s;
    struct hosting_answer a;

    scene(&s, "::1");
    s.in.n_ifaces = 1;
    resolves_to(&s, "::1");
    a = decide(&s);
    cr_expect(a.is_ours);
    cr_expect_str_eq(a.bind, "127.0.0.1");
    cr_expect_str_eq(a.also[0], "");
    cr_expect_str_eq(a.publish, "127.0.0.1");
    cr_expect_str_eq(a.note, "");
}

Test(hostpick, every_address_of_the_loopback_network_is_ours_and_stays_alone)
{
    struct scene          s;
    struct hosting_answer a;

    cluster(&s, "127.0.0.2");
    resolves_to(&s, "127.0.0.2");
    a = decide(&s);
    cr_expect(a.is_ours);
    cr_expect_str_eq(a.bind, "127.0.0.2");
    cr_expect_str_eq(a.also[0], "");
}

/* ---- our own name */

Test(hostpick, our_own_name_that_nothing_resolves_is_ours)
{
    struct scene          s;
    struct hosting_answer a;

    cluster(&s, "node1");
    s.in.is_own_name = true;
    a = decide(&s);
    cr_expect(a.is_ours);
    cr_expect_str_eq(a.bind, "10.0.0.5");
    cr_expect_str_eq(a.publish, "10.0.0.5");
    cr_expect_str_eq(a.note, "the name 'node1' of this machine does not resolve; hosting on 10.0.0.5 (eth0); --iface or --subnet "
                             "name another");
    s.in.is_own_name = false;
    cr_expect(!decide(&s).is_ours);
}

Test(hostpick, our_own_name_as_loopback_is_hosted_where_others_reach_us)
{
    struct scene          s;
    struct hosting_answer a;

    cluster(&s, "node1");
    s.in.is_own_name = true;
    resolves_to(&s, "127.0.1.1");
    a = decide(&s);
    cr_expect(a.is_ours);
    cr_expect_str_eq(a.bind, "10.0.0.5");
    cr_expect_str_eq(a.publish, "10.0.0.5");
    cr_expect(strstr(a.note, "'node1' is 127.0.1.1 on this machine"));
    s.in.iface = "ib0";
    a = decide(&s);
    cr_expect_str_eq(a.bind, "192.168.7.5");
    cr_expect_str_eq(a.publish, "192.168.7.5");
    cr_expect_str_eq(a.note, "");
}

Test(hostpick, loopback_it_is_where_there_is_nothing_else)
{
    struct scene          s;
    struct hosting_answer a;

    scene(&s, "laptop");
    s.in.is_own_name = true;
    resolves_to(&s, "127.0.1.1");
    a = decide(&s);
    cr_expect(a.is_ours);
    cr_expect_str_eq(a.bind, "127.0.1.1");
    cr_expect_str_eq(a.note, "");
    s.in.n_found = 0;
    cr_expect_str_eq(decide(&s).bind, "127.0.0.1");
}

Test(hostpick, another_name_that_was_given_to_loopback_stays_there)
{
    struct scene s;

    cluster(&s, "trial");
    resolves_to(&s, "127.0.0.1");
    cr_expect_str_eq(decide(&s).bind, "127.0.0.1");
}

Test(hostpick, a_name_is_the_same_with_and_without_its_domain)
{
    cr_expect(hostpick_is_same_name("node1", "node1"));
    cr_expect(hostpick_is_same_name("Node1", "node1"));
    cr_expect(hostpick_is_same_name("node1.", "node1"));
    cr_expect(hostpick_is_same_name("node1.cluster.example", "node1"));
    cr_expect(hostpick_is_same_name("node1", "node1.cluster.example"));
    cr_expect(!hostpick_is_same_name("node1.a", "node1.cluster.example"));
    cr_expect(!hostpick_is_same_name("node1.a", "node1.b"));
    cr_expect(!hostpick_is_same_name("node10", "node1"));
    cr_expect(!hostpick_is_same_name("node1-ib", "node1"));
    cr_expect(!hostpick_is_same_name("", "node1"));
    cr_expect(!hostpick_is_same_name("node1", ""));
    cr_expect(!hostpick_is_same_name(".", ""));
}

/* ---- what was asked for */

Test(hostpick, the_named_network_is_published_and_listened_on_beside_the_endpoint)
{
    struct scene          s;
    struct hosting_answer a;

    cluster(&s, "node1");
    resolves_to(&s, "10.0.0.5");
    wants_net(&s, "192.168.0.0/16", "192.168.0.0", 16);
    a = decide(&s);
    cr_expect_str_eq(a.bind, "10.0.0.5");
    cr_expect_str_eq(a.also[0], "192.168.7.5");
    cr_expect_str_eq(a.publish, "192.168.7.5");
}

Test(hostpick, a_client_publishes_what_was_asked_for_and_connects_from_it_only_to_its_neighbours)
{
    struct scene          s;
    struct hosting_answer a;

    cluster(&s, "node1");
    resolves_to(&s, "10.0.0.6");
    s.in.iface = "ib0";
    a = decide(&s);
    cr_expect(!a.is_ours);
    cr_expect_str_eq(a.publish, "192.168.7.5");
    cr_expect_str_eq(a.also[0], "192.168.7.5");
    cr_expect_str_eq(a.from, "");
    s.in.iface = "eth0";
    a = decide(&s);
    cr_expect_str_eq(a.publish, "10.0.0.5");
    cr_expect_str_eq(a.from, "10.0.0.5");
}

Test(hostpick, an_interface_gives_the_family_of_the_endpoint)
{
    struct scene s;

    cluster(&s, "node1");
    resolves_to(&s, "fd00::6");
    s.in.iface = "eth0";
    cr_expect_str_eq(decide(&s).publish, "fd00::5");
}

Test(hostpick, a_prefix_may_end_within_a_byte)
{
    struct scene s;

    cluster(&s, "node1");
    resolves_to(&s, "10.0.0.6");
    wants_net(&s, "192.168.6.0/23", "192.168.6.0", 23);
    cr_expect_str_eq(decide(&s).publish, "192.168.7.5");
    wants_net(&s, "192.168.6.0/24", "192.168.6.0", 24);
    (void) refuse(&s, -ENODEV);
    wants_net(&s, "0.0.0.0/0", "0.0.0.0", 0);
    cr_expect_str_eq(decide(&s).publish, "10.0.0.5");
    wants_net(&s, "192.168.7.5", "192.168.7.5", 32);
    cr_expect_str_eq(decide(&s).publish, "192.168.7.5");
}

Test(hostpick, what_there_is_not_is_named_beside_what_there_is)
{
    struct scene s;

    cluster(&s, "node1");
    resolves_to(&s, "10.0.0.6");
    s.in.iface = "ib7";
    cr_expect_str_eq(refuse(&s, -ENODEV).msg,
                     "--iface: this machine has no interface 'ib7'; there are: lo 127.0.0.1/8, lo ::1/128, "
                     "docker0 172.17.0.1/16, eth0 10.0.0.5/24, eth0 fd00::5/64, eth0 fe80::5%eth0/64, "
                     "ib0 192.168.7.5/16, ib1 (no address)");
    s.in.iface = "ib1";
    cr_expect(strstr(refuse(&s, -ENODEV).msg, "the interface 'ib1' has no address; there are: lo"));
    wants_net(&s, "10.9.0.0/16", "10.9.0.0", 16);
    s.in.iface = "ib0";
    cr_expect(strstr(refuse(&s, -ENODEV).msg, "no address of interface 'ib0' is in '10.9.0.0/16'; there are: lo"));
    s.in.iface = NULL;
    cr_expect(strstr(refuse(&s, -ENODEV).msg, "--subnet: no address of this machine is in '10.9.0.0/16'; there are: lo"));
}

Test(hostpick, a_long_list_is_cut_and_says_so)
{
    struct scene s;
    char         name[16];

    cluster(&s, "node1");
    for (char i = '0'; s.in.n_ifaces < 12; i++) {
        (void) snprintf(name, sizeof name, "enp129s0f%cnp%c", i, i);
        (void) has(&s, name, "fd00:1234:5678:9abc:def0:1234:5678:9abc", 64);
    }
    s.in.iface = "ib7";
    cr_expect(strstr(refuse(&s, -ENODEV).msg, ", ..."));
}

Test(hostpick, the_local_address_is_published_as_it_was_given)
{
    struct scene          s;
    struct hosting_answer a;

    cluster(&s, "10.0.0.5");
    resolves_to(&s, "10.0.0.5");
    s.in.local_addr = "gateway.example";
    a = decide(&s);
    cr_expect_str_eq(a.bind, "10.0.0.5");
    cr_expect_str_eq(a.also[0], "");
    cr_expect_str_eq(a.publish, "gateway.example");
    s.local = addr("192.168.7.5", 0);
    s.in.local_addr = s.local.text;
    s.in.local = &s.local;
    cr_expect_str_eq(decide(&s).also[0], "192.168.7.5");
    s.in.iface = "eth0";
    cr_expect_str_eq(decide(&s).publish, "192.168.7.5");
}

Test(hostpick, a_local_address_that_is_not_here_is_refused)
{
    struct scene  s;
    struct cc_err err;

    cluster(&s, "10.0.0.5");
    resolves_to(&s, "10.0.0.5");
    s.local = addr("10.0.0.77", 0);
    s.in.local_addr = s.local.text;
    s.in.local = &s.local;
    err = refuse(&s, -EADDRNOTAVAIL);
    cr_expect(strstr(err.msg, "--local-addr: '10.0.0.77' is no address of this machine; there are: "), "%s", err.msg);
    cr_expect(strstr(err.msg, "eth0 10.0.0.5/"), "%s", err.msg);
    s.in.wish = HOSTING_NO;
    (void) refuse(&s, -EADDRNOTAVAIL);
}

Test(hostpick, agents_that_play_nodes_on_loopback_come_from_their_own_address)
{
    struct scene          s;
    struct hosting_answer a;

    cluster(&s, "127.0.0.1");
    resolves_to(&s, "127.0.0.1");
    s.local = addr("127.0.0.3", 0);
    s.in.local_addr = s.local.text;
    s.in.local = &s.local;
    s.in.wish = HOSTING_NO;
    a = decide(&s);
    cr_expect(!a.is_ours);
    cr_expect_str_eq(a.publish, "127.0.0.3");
    cr_expect_str_eq(a.from, "127.0.0.3");
    s.in.wish = HOSTING_AUTO;
    a = decide(&s);
    cr_expect_str_eq(a.bind, "127.0.0.1");
    cr_expect_str_eq(a.also[0], "::1");
    cr_expect_str_eq(a.also[1], "127.0.0.3");
}

Test(hostpick, who_must_host_listens_on_the_way_out_whatever_the_name_says)
{
    struct scene          s;
    struct hosting_answer a;

    cluster(&s, "gateway.example");
    resolves_to(&s, "203.0.113.9");
    s.in.wish = HOSTING_YES;
    a = decide(&s);
    cr_expect(a.is_ours);
    cr_expect_str_eq(a.bind, "10.0.0.5");
    cr_expect_str_eq(a.publish, "10.0.0.5");
    cr_expect(strstr(a.note, "'gateway.example' is no address of this machine"));
    s.in.n_found = 0;
    cr_expect(decide(&s).is_ours);
}

Test(hostpick, who_must_not_host_does_not)
{
    struct scene s;

    cluster(&s, "10.0.0.5");
    resolves_to(&s, "10.0.0.5");
    s.in.wish = HOSTING_NO;
    cr_expect(!decide(&s).is_ours);
}
