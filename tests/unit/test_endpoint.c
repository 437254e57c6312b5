#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "launcher/endpoint.h"
#include "store/base/macros.h"

Test(endpoint, is_split_as_by_torchrun)
{
    static const struct {
        const char *text, *host;
        int         port;
    } cases[] = {
        { "dummy.com:0", "dummy.com", 0 },
        { "dummy.com:123", "dummy.com", 123 },
        { "dummy.com:65535", "dummy.com", 65535 },
        { "dummy-1.com_x:00001", "dummy-1.com_x", 1 },
        { "1.2.3.4:123", "1.2.3.4", 123 },
        { "[2001:db8::1]:123", "2001:db8::1", 123 },
        { "[2001:db8::1]", "2001:db8::1", 29400 },
        { "::1:29500", "::1", 29500 },
        { "::1", "::1", 29400 },
        { "fe80::2", "fe80::2", 29400 },
        { "[fe80::2%eth0.7]:1", "fe80::2%eth0.7", 1 },
        { "fe80::2%eth0", "fe80::2%eth0", 29400 },
        { "fe80::2%eth0:1", "fe80::2%eth0", 1 },
        { "dummy.com", "dummy.com", 29400 },
        { " dummy.com:1\n", "dummy.com", 1 },
        { "", "localhost", 29400 },
        { "  ", "localhost", 29400 },
        { "b\xc3\xbc\x63her.example:1", "b\xc3\xbc\x63her.example", 1 },
    };
    struct endpoint e;
    struct cc_err   err;
    size_t          i;

    for (i = 0; i < CC_COUNT(cases); i++) {
        cr_expect_eq(endpoint_parse(&e, cases[i].text, 29400, &err), 0, "%s: %s", cases[i].text, err.msg);
        cr_expect_str_eq(e.host, cases[i].host, "%s: %s", cases[i].text, e.host);
        cr_expect_eq(e.port, cases[i].port, "%s: %d", cases[i].text, e.port);
    }
    cr_assert_eq(endpoint_parse(&e, "h", ENDPOINT_NO_PORT, &err), 0);
    cr_assert_eq(e.port, ENDPOINT_NO_PORT);
}

Test(endpoint, bad_hosts_and_ports_have_torchruns_sentences)
{
    static const char *const hosts[] = { "~",   "dummy.com :123", "~:123",        ":123", "[]:1",
                                         "a/b", "a%b",            "1.2.3.4%eth0", "[fe80::2%]:1" };
    static const char *const ports[] = { "dummy.com:",       "dummy.com:abc",   "dummy.com:-123",
                                         "dummy.com:-",      "dummy.com:65536", "dummy.com:70000",
                                         "dummy.com:123456", "dummy.com: 1" };
    char                     want[256];
    struct endpoint          e;
    struct cc_err            err;
    size_t                   i;

    for (i = 0; i < CC_COUNT(hosts); i++) {
        (void) snprintf(
            want, sizeof want,
            "The hostname of the rendezvous endpoint '%s' must be a dot-separated list of labels, "
            "an IPv4 address, or an IPv6 address.",
            hosts[i]);
        cr_expect_eq(endpoint_parse(&e, hosts[i], 1, &err), -EINVAL, "%s", hosts[i]);
        cr_expect_str_eq(err.msg, want, "%s", err.msg);
    }
    for (i = 0; i < CC_COUNT(ports); i++) {
        (void) snprintf(
            want, sizeof want,
            "The port number of the rendezvous endpoint '%s' must be an integer between 0 and 65536.",
            ports[i]);
        cr_expect_eq(endpoint_parse(&e, ports[i], 1, &err), -EINVAL, "%s", ports[i]);
        cr_expect_str_eq(err.msg, want, "%s", err.msg);
    }
}

Test(endpoint, a_very_long_one_is_refused)
{
    char            text[ENDPOINT_HOST_MAX + 1];
    struct endpoint e;
    struct cc_err   err;

    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    cr_assert_eq(endpoint_parse(&e, text, 1, &err), -EINVAL);
    cr_assert_eq(endpoint_parse(&e, text + 1, 1, &err), 0);
}

Test(endpoint, a_number_that_no_machine_has_is_known)
{
    static const char *const nobody[] = { "0.0.0.0", "0.1.2.3", "255.255.255.255", "224.0.0.1", "239.255.0.1", "::", "0::0",
                                          "ff02::1", "ff02::1%eth0" };
    static const char *const some[] = { "10.0.0.1", "127.0.0.1", "240.0.0.1", "223.255.255.255", "::1", "fd00::1", "fe80::1%eth0",
                                        "::ffff:10.0.0.1", "host", "0.0.0.0.example", "" };

    for (size_t i = 0; i < sizeof nobody / sizeof *nobody; i++)
        cr_expect(endpoint_is_nobody(nobody[i]), "%s", nobody[i]);
    for (size_t i = 0; i < sizeof some / sizeof *some; i++)
        cr_expect(!endpoint_is_nobody(some[i]), "%s", some[i]);
}
