#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/envfile.h"
#include "store/base/macros.h"

struct parsed {
    char          bytes[512];
    char        **list;
    struct cc_err err;
    int           r;
};

static void parse(struct parsed *p, const char *text, size_t len)
{
    memset(p, 0, sizeof *p);
    cr_assert_lt(len, sizeof p->bytes);
    memcpy(p->bytes, text, len);
    p->r = envfile_parse(p->bytes, len, "f", &p->list, &p->err);
}

Test(envfile, lines_are_taken_as_they_are_and_quotes_as_a_shell_takes_them)
{
    static const struct {
        const char *text, *entry; /* the first */
        unsigned    n;
    } cases[] = {
        { "", NULL, 0 },
        { "# a comment\n\n \t\n\r\n", NULL, 0 },
        { "A=1", "A=1", 1 },
        { "A=1\nB=2\n", "A=1", 2 },
        { "  export A=1\n", "A=1", 1 },
        { "A=", "A=", 1 },
        { "A= x  y # z \n", "A= x  y # z ", 1 },
        { "A=x'y\"\\n", "A=x'y\"\\n", 1 },
        { "A=b=c", "A=b=c", 1 },
        { "A=\xff\x01", "A=\xff\x01", 1 },
        { "A='x  y'", "A=x  y", 1 },
        { "A='it'\\''s'\n", "A=it's", 1 },
        { "A='one\ntwo\n'\nB=2", "A=one\ntwo\n", 2 },
        { "A=\"a\\\"b\\$c\\\\d\\ne\"", "A=a\"b$c\\d\\ne", 1 },
        { "A=\"one\\\ntwo\"", "A=onetwo", 1 },
        { "A='x'  # why\nB=1", "A=x", 2 },
        { "A='x'\"y\"z\r\n", "A=xyz", 1 },
        { "A=''", "A=", 1 },
        { "BASH_FUNC_f%%=() { :; }", "BASH_FUNC_f%%=() { :; }", 1 },
    };
    size_t i;

    for (i = 0; i < CC_COUNT(cases); i++) {
        struct parsed p;
        unsigned      n = 0;

        parse(&p, cases[i].text, strlen(cases[i].text));
        cr_expect_eq(p.r, 0, "%s: %s", cases[i].text, p.err.msg);
        while (p.r == 0 && p.list[n])
            n++;
        cr_expect_eq(n, cases[i].n, "%s: %u", cases[i].text, n);
        if (n > 0)
            cr_expect_str_eq(p.list[0], cases[i].entry, "%s: %s", cases[i].text, p.list[0]);
        free(p.list);
    }
}

Test(envfile, with_nul_bytes_every_value_is_byte_for_byte)
{
    static const char text[] = "A=one\ntwo\0# B='x'\\\n\0C=";
    struct parsed     p;

    parse(&p, text, sizeof text - 1);
    cr_assert_eq(p.r, 0, "%s", p.err.msg);
    cr_assert_str_eq(p.list[0], "A=one\ntwo");
    cr_assert_str_eq(p.list[1], "# B='x'\\\n");
    cr_assert_str_eq(p.list[2], "C=");
    cr_assert_null(p.list[3]);
    free(p.list);
}

Test(envfile, a_fault_is_named_with_its_line)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        { "A=1\nB\n", "f:2: 'B' is not NAME=VALUE" },
        { "\n\n=x", "f:3: '=x' is not NAME=VALUE" },
        { "A='1\n2'\nB", "f:3: 'B' is not NAME=VALUE" },
        { "A=1\nB='x", "f:2: the quote that begins here has no end" },
        { "A=\"x\\", "f:1: the quote that begins here has no end" },
        { "A='x' y\n", "f:1: ' y' stands after the closing quote" },
    };
    static const char nul[] = "A=1\0B\0";
    struct parsed     p;
    size_t            i;

    for (i = 0; i < CC_COUNT(cases); i++) {
        parse(&p, cases[i].text, strlen(cases[i].text));
        cr_expect_eq(p.r, -EINVAL, "%s", cases[i].text);
        cr_expect_str_eq(p.err.msg, cases[i].message, "%s", p.err.msg);
    }
    parse(&p, nul, sizeof nul - 1);
    cr_assert_eq(p.r, -EINVAL);
    cr_assert_str_eq(p.err.msg, "f:2: 'B' is not NAME=VALUE");
}

/* Wherever the file ends: no byte is read or written beyond it. */
Test(envfile, may_be_cut_anywhere)
{
    static const char text[] = "A='one\ntwo' # x\nexport B=\"\\\"y\\\n\"\nC=z\\\r\n";
    size_t            len;

    for (len = 0; len < sizeof text; len++) {
        struct cc_err err;
        char         *exact = malloc(len + 1), **list = NULL;

        memcpy(exact, text, len);
        if (envfile_parse(exact, len, "f", &list, &err) == 0)
            free(list);
        free(exact);
    }
}
