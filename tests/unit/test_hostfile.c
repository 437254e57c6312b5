#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/hostfile.h"
#include "launcher/hostfilter.h"
#include "store/base/macros.h"
#include "tests/unit/fake_machine.h"

/* user@name:slots/max,port+devices, without what was not said; the caller frees it. */
static char *show(const struct hostlist *l)
{
    char  *text = NULL;
    size_t size = 0;
    FILE  *to = open_memstream(&text, &size);

    cr_assert_not_null(to);
    for (size_t i = 0; i < l->n; i++) {
        const struct host *h = &l->host[i];

        (void) fprintf(to, "%s%s%s%s", i ? " " : "", h->user ? h->user : "", h->user ? "@" : "", h->name);
        if (h->slots)
            (void) fprintf(to, ":%u", h->slots);
        if (h->max_slots)
            (void) fprintf(to, "/%u", h->max_slots);
        if (h->port)
            (void) fprintf(to, ",%u", h->port);
        if (h->devices)
            (void) fprintf(to, "+%s", h->devices);
    }
    cr_assert_eq(fclose(to), 0);
    return text;
}

static void check(int r, struct hostlist *l, const char *text, const char *hosts, const struct cc_err *err)
{
    char *got = r == 0 ? show(l) : strdup(err->msg);

    cr_expect_str_eq(got, hosts, "'%s': %s", text, got);
    free(got);
    hostlist_clear(l);
}

/* The hosts, or the sentence. */
static void file(const char *text, const char *hosts)
{
    struct hostlist l = { 0 };
    struct cc_err   err = { 0 };

    check(hostfile_parse(&l, "hosts", text, &err), &l, text, hosts, &err);
}

static void option(const char *text, const char *hosts)
{
    struct hostlist l = { 0 };
    struct cc_err   err = { 0 };

    check(hostfile_hosts(&l, text, &err), &l, text, hosts, &err);
}

static void filter(const char *from, const char *include, const char *exclude, const char *hosts)
{
    struct hostlist l = { 0 };
    struct cc_err   err = { 0 };
    int             r = hostfile_parse(&l, "hosts", from, &err);

    if (r == 0)
        r = hostfilter(&l, include, exclude, &err);
    check(r, &l, include ? include : exclude, hosts, &err);
}

Test(hostfile, the_grammars_of_mpi_and_deepspeed_are_read)
{
    file("a\nb\n", "a b");
    file("a:4\nb:2", "a:4 b:2");                                   /* MPICH */
    file("a slots=4\nb slots=2 max_slots=8\n", "a:4 b:2/8");       /* Open MPI, DeepSpeed */
    file("a cpu=4\nb count=2 max-slots=2\nc slots_max=3\n", "a:4 b:2/2 c/3");
    file("a username=ann port=2222\nbob@b:3\nc user=eve", "ann@a,2222 bob@b:3 eve@c");
    file("a 4\n", "a:4");
    file("n[08-10] slots=8\n", "n08:8 n09:8 n10:8");
    file("n[1,3]:2,m[0-8/4]\n", "n1:2 n3:2 m0 m4 m8");
    file("[fe80::1]:4\n[fe80::2]\n[::1%eth0]:2\n", "fe80::1:4 fe80::2 ::1%eth0:2");
    file("[1-3]\n", "1 2 3");
    file("10.0.0.[1-2]:8\n", "10.0.0.1:8 10.0.0.2:8");
    file("a:*\n", "a");
}

Test(hostfile, comments_and_blank_lines_are_nothing)
{
    file("# all\n\na # one\n  b\t// two\r\n/* c\n d */ e slots=2 /* f */\n#", "a b e:2");
    file("\n# nothing\n", "host file 'hosts' names no host");
    file("", "host file 'hosts' names no host");
    file("a\n\n/* b\n", "hosts:3: this comment is not closed");
    file("/*\n*/\na b=c", "hosts:3: position 3: 'b=c' is not known; a line is HOST [slots=N] [max_slots=N] [user=NAME] [port=N]");
}

Test(hostfile, a_host_that_is_named_again_gets_more_slots)
{
    file("a\nb\na\nA\n", "a:3 b");         /* Open MPI, PBS_NODEFILE */
    file("a:4\nb:2\na:2\n", "a:6 b:2");    /* MPICH */
    file("a slots=4\na\n", "a:5");
    file("a:3\na slots=2 user=ann\n", "ann@a:5");
    file("a slots=4\nb\na slots=4\n", "hosts:3: the slots of host 'a' were given in line 1");
    file("n[1-3] slots=4\nn2 slots=4\n", "hosts:2: the slots of host 'n2' were given in line 1");
    file("ann@a\nbob@a\n", "hosts:2: host 'a' has user 'ann' already");
    file("a max_slots=2\na\na\n", "hosts:3: host 'a' has 3 slots and at most 2");
    file("a:65536\na\n", "hosts:2: host 'a' has more than 65536 slots");
    file("z\na\nz\nm\n", "z:2 a m");
}

Test(hostfile, errors_name_the_file_and_the_line)
{
    static const struct {
        const char *line, *wrong;
    } bad[] = {
        { "b slots=0", "9: a number from 1 to 65536 is wanted" },
        { "b slots=x", "9: 'x' is not a number" },
        { "b slots=", "9: a number from 1 to 65536 is wanted" },
        { "b:", "3: a number from 1 to 65536 is wanted" },
        { "b:4 slots=4", "2: the slots are given twice" },
        { "b slots=4 slots=4", "17: the slots are given twice" },
        { "b:99999", "3: a number from 1 to 65536 is wanted" },
        { "b port=65536", "8: a number from 1 to 65535 is wanted" },
        { "b[1-2", "2: this '[' is not closed" },
        { "b[2-1]:4", "3: the range ends before it begins" },
        { "fe80::1", "1: an IPv6 address stands in brackets, as in [fe80::1]:4" },
        { "fe80::1:4", "1: an IPv6 address stands in brackets, as in [fe80::1]:4" },
        { "[fe80::x]:4", "2: a number, or a range of numbers like 1-4, is wanted inside brackets" },
        { "^b", "1: '^' is understood by mpirun only; --exclude leaves out hosts" },
        { "+n3", "1: '+' is understood by mpirun only" },
        { "@b", "1: a user name of 1 to 63 letters, digits and '-_.' is wanted" },
        { "-oProxyCommand=x@b", "1: a user name of 1 to 63 letters, digits and '-_.' is wanted" },
        { "-b", "1: a host name cannot begin with '-'" },
        { "ann@", "5: a host name is missing" },
        { "b,,c", "3: a host name is missing" },
        { "b;c", "2: ';' cannot be part of a host name" },
        { "b binding=core", "3: 'binding=core' is not known; a line is HOST [slots=N] [max_slots=N] [user=NAME] [port=N]" },
    };
    char text[128], sentence[256];

    for (size_t i = 0; i < CC_COUNT(bad); i++) {
        (void) snprintf(text, sizeof text, "a slots=1\n%s\nc\n", bad[i].line);
        (void) snprintf(sentence, sizeof sentence, "hosts:2: position %s", bad[i].wrong);
        file(text, sentence);
    }
}

Test(hostfile, a_line_cut_anywhere_gives_hosts_or_a_sentence)
{
    static const char whole[] = "ann@n[08-10/2],[fe80::1]:4 max_slots=8 user=bob port=22 # x\n/* y */ m:2";
    char              cut[sizeof whole];

    for (size_t n = 0; n < sizeof whole; n++) {
        struct hostlist l = { 0 };
        struct cc_err   err = { 0 };
        int             r;

        (void) snprintf(cut, n + 1, "%s", whole);
        r = hostfile_parse(&l, "hosts", cut, &err);
        cr_expect(r == 0 ? l.n > 0 : strstr(err.msg, "hosts") != NULL, "'%s': %s", cut, err.msg);
        hostlist_clear(&l);
    }
}

Test(hostfile, hosts_of_an_option_stand_in_one_line)
{
    option("a:4,b:4", "a:4 b:4");
    option("a, b:2 ,n[1-2]", "a b:2 n1 n2");
    option("ann@a:2,[::1]:3", "ann@a:2 ::1:3");
    option("a,a,b", "a:2 b");
    option("a,", "--hosts 'a,': position 3: a host name is missing");
    option("", "--hosts '': position 1: a host name is missing");
    option("a,b:x", "--hosts 'a,b:x': position 5: 'x' is not a number");
    option("a:1 b:1", "--hosts 'a:1 b:1': position 1: a blank in the name of a host: commas stand between hosts");
}

Test(hostfile, is_read_from_a_file)
{
    struct fake_machine f;
    struct hostlist     l = { 0 };
    struct cc_err       err = { 0 };

    fake_init(&f, 1);
    fake_file(&f, "/hosts", "a slots=2\nb slots=x\n");
    cr_assert_eq(hostfile_read(&l, &f.m, "/hosts", &err), -EINVAL);
    cr_assert_str_eq(err.msg, "/hosts:2: position 9: 'x' is not a number");
    cr_assert_eq(hostfile_read(&l, &f.m, "/none", &err), -ENOENT);
    cr_assert_str_eq(err.msg, "host file '/none' cannot be opened: No such file or directory");
    hostlist_clear(&l);
    fake_dir(&f, "/dir");
    cr_assert_eq(hostfile_read(&l, &f.m, "/dir", &err), -EISDIR);
    fake_file(&f, "/hosts", "n[0-9999]:4\nn17:2\n");
    cr_assert_eq(hostfile_read(&l, &f.m, "/hosts", &err), 0, "%s", err.msg);
    cr_assert_eq(l.n, 10000);
    cr_assert_eq(l.host[17].slots, 6);
    cr_assert_str_eq(l.host[9999].name, "n9999");
    hostlist_clear(&l);
    fake_free(&f);
}

Test(hostfilter, keeps_and_drops_hosts_and_slots_in_their_order)
{
    const char *hosts = "w0 slots=4\nw1 slots=4\nw2 slots=2\n";

    filter(hosts, "w2@w0", NULL, "w0:4 w2:2");
    filter(hosts, "w0@w1:0,2", NULL, "w0:4 w1:2+0,2");
    filter(hosts, "w1:2,0,2@w1:3", NULL, "w1:3+0,2,3");
    filter(hosts, "w[0-1]:1", NULL, "w0:1+1 w1:1+1");
    filter(hosts, NULL, "w1", "w0:4 w2:2");
    filter(hosts, NULL, "w1:0@w2:0,1", "w0:4 w1:3+1,2,3");
    filter(hosts, NULL, "w1:0@w1", "w0:4 w2:2");
    filter("[fe80::1]:2\n[fe80::2]:2\n", "[fe80::2]:1", NULL, "fe80::2:1+1");
    filter("a\nb\n", "b:5", NULL, "b:1+5");
    filter(hosts, NULL, NULL, "w0:4 w1:4 w2:2");
}

Test(hostfilter, what_there_is_not_is_an_error)
{
    const char *hosts = "w0 slots=4\nw1\n";

    filter(hosts, "w0", "w1", "--include and --exclude: only one of them may be given");
    filter(hosts, "w2", NULL, "--include 'w2': there is no host 'w2' among the 2");
    filter(hosts, "w0:4", NULL, "--include 'w0:4': host 'w0' has no slot 4: its 4 are 0 to 3");
    filter(hosts, "w0:", NULL, "--include 'w0:': position 4: slots are numbers below 256 with commas between them");
    filter(hosts, "w0:1,,2", NULL, "--include 'w0:1,,2': position 6: slots are numbers below 256 with commas between them");
    filter(hosts, "w0:0-2", NULL, "--include 'w0:0-2': position 5: slots are numbers below 256 with commas between them");
    filter(hosts, "w0:256", NULL, "--include 'w0:256': position 4: a slot is a number below 256");
    filter(hosts, "w0@", NULL, "--include 'w0@': position 4: a host name is missing");
    filter(hosts, NULL, "w0@w1", "--exclude 'w0@w1': no host is left");
    filter(hosts, NULL, "w1:0",
           "--exclude 'w1:0': how many slots host 'w1' has is not said; slots=N is wanted to leave some out");
}
