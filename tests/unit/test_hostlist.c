#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/hostlist.h"
#include "store/base/macros.h"

/* The hosts with a blank between them; the caller frees it. NULL: refused, and why is in err. */
static char *expand(const char *list, struct cc_err *err)
{
    struct hostlist l = { 0 };
    char           *text = NULL;
    size_t          size = 0;
    FILE           *to = open_memstream(&text, &size);
    int             r = hostlist_nodes(&l, "LIST", list, err);

    cr_assert_not_null(to);
    for (size_t i = 0; r == 0 && i < l.n; i++)
        (void) fprintf(to, "%s%s", i ? " " : "", l.host[i].name);
    cr_assert_eq(fclose(to), 0);
    hostlist_clear(&l);
    if (r == 0)
        return text;
    free(text);
    return NULL;
}

static void expect(const char *list, const char *hosts)
{
    struct cc_err err = { 0 };
    char         *got = expand(list, &err);

    cr_expect_not_null(got, "'%s' was refused: %s", list, err.msg);
    if (got)
        cr_expect_str_eq(got, hosts, "'%s' gave '%s'", list, got);
    free(got);
}

static void refuse(const char *list, const char *sentence)
{
    struct cc_err err = { 0 };
    char         *got = expand(list, &err);

    cr_expect_null(got, "'%s' gave '%s'", list, got);
    cr_expect_str_eq(err.msg, sentence, "'%s': %s", list, err.msg);
    free(got);
}

/* What `scontrol show hostnames` makes of them (22.05, and 24.05 where a text stands behind a bracket). */
Test(hostlist, expands_as_scontrol_does)
{
    static const struct {
        const char *list, *hosts;
    } vectors[] = {
        { "n1", "n1" },
        { "n[1-3]", "n1 n2 n3" },
        { "n[001-003]", "n001 n002 n003" },
        { "n[08-11]", "n08 n09 n10 n11" },
        { "n[8-011]", "n8 n9 n10 n11" },
        { "n[9-10]", "n9 n10" },
        { "n[09-10]", "n09 n10" },
        { "n[099-101]", "n099 n100 n101" },
        { "n[00-02]", "n00 n01 n02" },
        { "n[0-2]", "n0 n1 n2" },
        { "n[001,2,03]", "n001 n2 n03" },
        { "a,b,c", "a b c" },
        { "n[1-2],m3", "n1 n2 m3" },
        { "n[01-02],n3", "n01 n02 n3" },
        { "n[1-2]r[01-03,07]", "n1r01 n1r02 n1r03 n1r07 n2r01 n2r02 n2r03 n2r07" },
        { "n[1-2]r[01-03],m1", "n1r01 n1r02 n1r03 n2r01 n2r02 n2r03 m1" },
        { "a[1-2]b[1-2]c[1-2]", "a1b1c1 a1b1c2 a2b1c1 a2b1c2 a1b2c1 a1b2c2 a2b2c1 a2b2c2" },
        { "a[1-2]b[3-4]c[5-6]d[7-8]", "a1b3c5d7 a1b3c5d8 a2b3c5d7 a2b3c5d8 a1b4c5d7 a1b4c5d8 a2b4c5d7 a2b4c5d8 "
                                      "a1b3c6d7 a1b3c6d8 a2b3c6d7 a2b3c6d8 a1b4c6d7 a1b4c6d8 a2b4c6d7 a2b4c6d8" },
        { "n[1-2][3-4]", "n13 n14 n23 n24" },
        { "n[1-2]-[3-4]", "n1-3 n1-4 n2-3 n2-4" },
        { "ip-10-0-[0-1]-[1-2]", "ip-10-0-0-1 ip-10-0-0-2 ip-10-0-1-1 ip-10-0-1-2" },
        { "ip-10-0-0-[1-3]", "ip-10-0-0-1 ip-10-0-0-2 ip-10-0-0-3" },
        { "n[1,3-4]-ib", "n1-ib n3-ib n4-ib" },
        { "n[1-2].cl.local", "n1.cl.local n2.cl.local" },
        { "n[1-3]x", "n1x n2x n3x" },
        { "n[1-2]r[1-2]x", "n1r1x n1r2x n2r1x n2r2x" },
        { "n[1-2]x,n[3-4]x", "n1x n2x n3x n4x" },
        { "n[5,3,1]", "n5 n3 n1" },
        { "n[1-2,2-3]", "n1 n2 n2 n3" },
        { "n1,n1", "n1 n1" },
        { "n01,n02,n1", "n01 n02 n1" },
        { "n[1-1]", "n1" },
        { "n[1-]", "n1" },
        { "n[1-,3]", "n1 n3" },
        { "[1-3]", "1 2 3" },
        { "10.0.0.[1-3]", "10.0.0.1 10.0.0.2 10.0.0.3" },
        { "fe80::[1-2]", "fe80::1 fe80::2" },
        { "N[1-2]", "N1 N2" },
        { "a_[1-2]", "a_1 a_2" },
        { "n[1-2]n[1-2]", "n1n1 n1n2 n2n1 n2n2" },
        { " n1 , n2 ", "n1 n2" },
        { "n1,,n2", "n1 n2" },
        { ",n1", "n1" },
        { "n1,", "n1" },
        { "n1 n2", "n1 n2" },
        { "n1\tn2\nn3\n", "n1 n2 n3" },
        { "", "" },
        { " ,\n", "" },
        { "n[1-2],", "n1 n2" },
        { "n[18446744073709551615]", "n18446744073709551615" },
        { "n[18446744073709551614-18446744073709551615]", "n18446744073709551614 n18446744073709551615" },
        { "n[00000000000000000000000001-2]", "n00000000000000000000000001 n00000000000000000000000002" },
    };

    for (size_t i = 0; i < CC_COUNT(vectors); i++)
        expect(vectors[i].list, vectors[i].hosts);
}

Test(hostlist, a_range_is_as_long_as_slurm_lets_it_be)
{
    struct hostlist l = { 0 };
    struct cc_err   err = { 0 };

    cr_assert_eq(hostlist_nodes(&l, "LIST", "n[0-65535]", &err), 0, "%s", err.msg);
    cr_assert_eq(l.n, 65536);
    cr_assert_str_eq(l.host[0].name, "n0");
    cr_assert_str_eq(l.host[65535].name, "n65535");
    hostlist_clear(&l);
    refuse("n[0-65536]", "LIST 'n[0-65536]': position 3: the range has more than 65536 hosts");
    refuse("a[0-70000]b[0-1]", "LIST 'a[0-70000]b[0-1]': position 3: the range has more than 65536 hosts");
    refuse("a[0-999]b[0-999]c[1]", "LIST 'a[0-999]b[0-999]c[1]': position 1: the brackets before the last one make more than "
                                   "65536 combinations");
    refuse("a[0-65535]b[0-65535]", "LIST 'a[0-65535]b[0-65535]': 4294967296 hosts are too many: the limit is 1048576");
}

Test(hostlist, what_slurm_refuses_is_refused_at_its_position)
{
    static const struct {
        const char *list, *wrong;
    } vectors[] = {
        { "n[3-1]", "3: the range ends before it begins" },
        { "n[]", "3: a number, or a range of numbers like 1-4, is wanted inside brackets" },
        { "n[a-b]", "3: a number, or a range of numbers like 1-4, is wanted inside brackets" },
        { "n[-2]", "3: a number, or a range of numbers like 1-4, is wanted inside brackets" },
        { "n[1--2]", "5: a number, or a range of numbers like 1-4, is wanted inside brackets" },
        { "n[1-2-3]", "6: a number, or a range of numbers like 1-4, is wanted inside brackets" },
        { "n[1,]", "5: a number, or a range of numbers like 1-4, is wanted inside brackets" },
        { "n[,1]", "3: a number, or a range of numbers like 1-4, is wanted inside brackets" },
        { "n[0x1-2]", "4: boxes of clusters with several dimensions (000x133) are not supported" },
        { "bgl[000x133]", "8: boxes of clusters with several dimensions (000x133) are not supported" },
        { "n[1", "2: this '[' is not closed" },
        { "n[1-2", "2: this '[' is not closed" },
        { "n[1-", "2: this '[' is not closed" },
        { "n[", "2: this '[' is not closed" },
        { "a,n[1,2", "4: this '[' is not closed" },
        { "n[1-10/3]", "7: Slurm knows no steps ('/') in a range" },
        { "n[18446744073709551616]", "3: the number is larger than 18446744073709551615" },
    };
    char sentence[256];

    for (size_t i = 0; i < CC_COUNT(vectors); i++) {
        (void) snprintf(sentence, sizeof sentence, "LIST '%s': position %s", vectors[i].list, vectors[i].wrong);
        refuse(vectors[i].list, sentence);
    }
}

Test(hostlist, what_can_be_no_host_is_refused_although_slurm_takes_it)
{
    static const struct {
        const char *list, *wrong;
    } vectors[] = {
        { "n1]", "3: there is no '[' for this ']'" },
        { "n[[1-2]]", "3: '[' cannot stand inside brackets" },
        { "n[1-[2-3]]", "5: '[' cannot stand inside brackets" },
        { "n[1-2]]", "7: there is no '[' for this ']'" },
        { "n[1 - 2]", "4: a blank cannot stand inside brackets" },
        { "n[1, 3]", "5: a blank cannot stand inside brackets" },
        { "n[1-2]:8", "7: a ':' belongs to an IPv6 address only, and 'n1:8' is none" },
        { "n{1..3}", "2: braces are not expanded here; write n[1-3] for n1, n2 and n3" },
        { "a,-oProxyCommand", "3: a host name cannot begin with '-'" },
        { "n1;n2", "3: ';' cannot be part of a host name" },
        { "n@m", "2: '@' cannot be part of a host name" },
    };
    char sentence[256], name[300];

    for (size_t i = 0; i < CC_COUNT(vectors); i++) {
        (void) snprintf(sentence, sizeof sentence, "LIST '%s': position %s", vectors[i].list, vectors[i].wrong);
        refuse(vectors[i].list, sentence);
    }
    refuse("n\x01", "LIST 'n\\x01': position 2: the byte 0x01 cannot be part of a host name");
    memset(name, 'n', sizeof name);
    (void) snprintf(name + 254, sizeof name - 254, "[0-10]");
    refuse(name, "LIST 'nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn...': position 1: the host name is "
                 "longer than 255 bytes");
}

Test(hostlist, a_list_cut_anywhere_gives_hosts_or_a_sentence)
{
    static const char whole[] = "a,n[1-2]r[01-03,07]x,fe80::[1-2],ip-10-0-[0-1]-[1-2] m3";
    char              cut[sizeof whole];
    struct cc_err     err;

    for (size_t n = 0; n < sizeof whole; n++) {
        char *got;

        (void) snprintf(cut, n + 1, "%s", whole);
        err = (struct cc_err){ 0 };
        got = expand(cut, &err);
        cr_expect(got || strstr(err.msg, "position"), "'%s': %s", cut, err.msg);
        free(got);
    }
}

Test(hostlist, an_item_may_have_steps_and_says_how_its_hosts_are)
{
    const char          *text = "gpu[00-08/4]";
    struct hostlist      l = { 0 };
    struct cc_err        err = { 0 };
    struct hostlist_item item = { .where = "hosts:3", .text = text, .at = text, .n = strlen(text), .has_steps = true };

    item.like = (struct host){ .user = "ann", .devices = "0,2", .slots = 2, .line = 3 };
    cr_assert_eq(hostlist_expand(&l, &item, &err), 0, "%s", err.msg);
    cr_assert_eq(l.n, 3);
    cr_assert_str_eq(l.host[0].name, "gpu00");
    cr_assert_str_eq(l.host[1].name, "gpu04");
    cr_assert_str_eq(l.host[2].name, "gpu08");
    cr_assert_str_eq(l.host[2].user, "ann");
    cr_assert_str_eq(l.host[2].devices, "0,2");
    cr_assert_eq(l.host[2].slots, 2);
    cr_assert_eq(l.host[2].line, 3);
    item.text = item.at = "n[1-3/0]";
    item.n = strlen(item.at);
    cr_assert_eq(hostlist_expand(&l, &item, &err), -EINVAL);
    cr_assert_str_eq(err.msg, "hosts:3: position 7: a step is 1 to 65536");
    cr_assert_eq(l.n, 3);
    hostlist_clear(&l);
}

Test(hostlist, names_stay_where_they_are_when_the_list_grows)
{
    struct hostlist l = { 0 };
    struct cc_err   err = { 0 };
    const char     *first;

    cr_assert_eq(hostlist_add(&l, &(struct host){ .name = "head", .user = "bob", .slots = 4 }, &err), 0);
    first = l.host[0].name;
    cr_assert_eq(hostlist_nodes(&l, "LIST", "n[0-9999]", &err), 0);
    cr_assert_eq(l.n, 10001);
    cr_assert_eq(l.host[0].name, first);
    cr_assert_str_eq(first, "head");
    cr_assert_str_eq(l.host[0].user, "bob");
    cr_assert_str_eq(hostlist_find(&l, "N9999.cluster")->name, "n9999");
    cr_assert_null(hostlist_find(&l, "n10000"));
    hostlist_clear(&l);
    cr_assert_eq(l.n, 0);
}

Test(hostlist, a_short_name_is_the_same_host_and_an_address_is_not)
{
    cr_assert(host_is("n17", "n17.cluster.example"));
    cr_assert(host_is("N17.cluster", "n17"));
    cr_assert(host_is("n17.a", "n17.a"));
    cr_assert_not(host_is("n17.a", "n17.b"));
    cr_assert_not(host_is("n1", "n17"));
    cr_assert_not(host_is("10.0.0.1", "10.0.0.2"));
    cr_assert_not(host_is("10", "10.0.0.2"));
    cr_assert(host_is("fe80::1", "FE80::1"));
}
