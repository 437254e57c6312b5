#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/errfile.h"

static char dir[64];

static void make_dir(void)
{
    strcpy(dir, "/tmp/errfile-XXXXXX");
    cr_assert(mkdtemp(dir));
}

static void remove_dir(void)
{
    char cmd[128];

    snprintf(cmd, sizeof cmd, "rm -rf %s", dir);
    cr_assert_eq(system(cmd), 0);
}

TestSuite(errfile, .init = make_dir, .fini = remove_dir);

static const char *path(const char *name)
{
    static char buf[2][PATH_MAX];
    static int  turn;

    turn = !turn;
    snprintf(buf[turn], sizeof buf[turn], "%s/%s", dir, name);
    return buf[turn];
}

static void put(const char *name, const char *text, size_t len)
{
    FILE *f = fopen(path(name), "w");

    cr_assert(f);
    cr_assert_eq(fwrite(text, 1, len, f), len);
    cr_assert_eq(fclose(f), 0);
}

static char *get(const char *name)
{
    static char buf[4096];
    FILE       *f = fopen(path(name), "r");

    cr_assert(f, "%s", name);
    buf[fread(buf, 1, sizeof buf - 1, f)] = '\0';
    fclose(f);
    return buf;
}

static const char *const object_form = "{\"message\": {\"message\": \"ValueError: boom\", \"extraInfo\": "
                                       "{\"py_callstack\": \"Traceback...\\n  x\\n\", "
                                       "\"timestamp\": \"1700000000\"}}}";

Test(errfile, reads_the_form_that_record_writes)
{
    struct errfile e;
    struct cc_err  err = { 0 };

    put("error.json", object_form, strlen(object_form));
    cr_assert_eq(errfile_read(path("error.json"), &e, &err), 1, "%s", err.msg);
    cr_assert_str_eq(e.message, "ValueError: boom");
    cr_assert_str_eq(e.callstack, "Traceback...\n  x\n");
    cr_assert_eq(e.timestamp, 1700000000);
    cr_assert_gt(e.mtime_ms, 1700000000000u);
    errfile_done(&e);
}

static int64_t stamp(const char *text)
{
    struct errfile e;
    struct cc_err  err = { 0 };
    int64_t        t;

    cr_assert_eq(errfile_parse(text, strlen(text), &e, &err), 1, "%s: %s", text, err.msg);
    cr_assert_str_eq(e.message, "x");
    cr_assert_null(e.callstack);
    t = e.timestamp;
    errfile_done(&e);
    return t;
}

Test(errfile, reads_the_text_form_with_any_timestamp)
{
    cr_assert_eq(stamp("{\"message\": \"x\", \"timestamp\": 10}"), 10);
    cr_assert_eq(stamp("{\"message\": \"x\", \"timestamp\": \"10\"}"), 10);
    cr_assert_eq(stamp("{\"message\": \"x\"}\n"), 0);
    cr_assert_eq(stamp("{\"message\": \"x\", \"timestamp\": -1}"), 0);
    cr_assert_eq(stamp("{\"message\": \"x\", \"timestamp\": 1e300}"), 0);
    cr_assert_eq(stamp("{\"message\": \"x\", \"timestamp\": \"10 \"}"), 0);
    cr_assert_eq(stamp("{\"message\": \"x\", \"timestamp\": \"99999999999999999999\"}"), 0);
    cr_assert_eq(stamp("{\"message\": \"x\", \"timestamp\": [1]}"), 0);
}

Test(errfile, an_object_without_text_takes_the_end_of_its_traceback)
{
    struct errfile e;
    const char *text = "{\"message\": {\"extraInfo\": {\"py_callstack\": \"Traceback\\nKeyError: 'x'\\n\"}}}";

    cr_assert_eq(errfile_parse(text, strlen(text), &e, NULL), 1);
    cr_assert_str_eq(e.message, "KeyError: 'x'");
    cr_assert_eq(e.timestamp, 0);
    errfile_done(&e);
}

Test(errfile, half_surrogates_and_nul_do_not_lose_the_message)
{
    struct errfile e;
    const char    *text = "{\"message\": \"a\\udcffb\\u0000c\\ud83d\\ude00\\\\u0000 \\ud83d!\"}";

    cr_assert_eq(errfile_parse(text, strlen(text), &e, NULL), 1);
    cr_assert_str_eq(e.message, "a\xef\xbf\xbd"
                                "b\xef\xbf\xbd"
                                "c\xf0\x9f\x98\x80\\u0000 \xef\xbf\xbd!");
    errfile_done(&e);
}

Test(errfile, half_of_a_file_is_never_taken_for_a_whole_one)
{
    struct errfile e;

    for (size_t len = 0; len < strlen(object_form); len++)
        cr_assert_lt(errfile_parse(object_form, len, &e, NULL), 0, "%zu", len);
}

Test(errfile, what_is_no_error_file_is_called_so)
{
    static const char *const bad[] = { "",
                                       " ",
                                       "null",
                                       "[]",
                                       "{}",
                                       "\"message\"",
                                       "{\"message\": 3}",
                                       "{\"message\": \"\"}",
                                       "{\"message\": {}}",
                                       "{\"message\": \"x\"} {",
                                       "{\"msg\": \"x\"}",
                                       "\xff\xfe",
                                       "{\"message\": {\"extraInfo\": {\"py_callstack\": \"\\n\"}}}" };
    struct errfile           e;
    struct cc_err            err = { 0 };

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        err.msg[0] = '\0';
        cr_assert_lt(errfile_parse(bad[i], strlen(bad[i]), &e, &err), 0, "%s", bad[i]);
        cr_assert(err.msg[0]);
    }
    cr_assert_lt(errfile_parse("{\"message\": \"x\"}\0", 17, &e, &err), 0);
}

Test(errfile, deep_nesting_is_refused_not_followed)
{
    static char    deep[200000];
    struct errfile e;

    memset(deep, '[', sizeof deep);
    cr_assert_lt(errfile_parse(deep, sizeof deep, &e, NULL), 0);
}

Test(errfile, no_file_is_no_failure)
{
    struct errfile e;

    cr_assert_eq(errfile_read(path("error.json"), &e, NULL), 0);
    cr_assert_eq(errfile_read(path("no/such/dir"), &e, NULL), 0);
}

static void ignored(const char *name, const char *reason)
{
    struct errfile e;
    struct cc_err  err = { 0 };

    cr_assert_lt(errfile_read(path(name), &e, &err), 0);
    cr_assert(strstr(err.msg, reason), "%s", err.msg);
    cr_assert(strstr(err.msg, name), "%s", err.msg);
}

Test(errfile, never_waits_for_a_fifo_nor_follows_a_link, .timeout = 5)
{
    put("target", object_form, strlen(object_form));
    cr_assert_eq(mkfifo(path("fifo"), 0600), 0);
    cr_assert_eq(symlink(path("target"), path("link")), 0);
    cr_assert_eq(mkdir(path("dir"), 0700), 0);
    put("empty", "", 0);
    ignored("fifo", "no regular file");
    ignored("link", "symbolic link");
    ignored("dir", "no regular file");
    ignored("empty", "empty");
}

Test(errfile, reads_one_mebibyte_and_not_a_byte_more)
{
    static char    big[ERRFILE_MAX + 1];
    struct errfile e;
    const char    *head = "{\"message\": \"";

    memset(big, 'x', sizeof big);
    memcpy(big, head, strlen(head));
    memcpy(big + ERRFILE_MAX - 2, "\"} ", 3);
    put("big", big, ERRFILE_MAX);
    put("huge", big, ERRFILE_MAX + 1);
    cr_assert_eq(errfile_read(path("big"), &e, NULL), 1);
    errfile_done(&e);
    ignored("huge", "larger than 1048576 bytes");
}

Test(errfile, copies_for_a_parent_with_the_exit_code_inside_the_object)
{
    struct cc_err err = { 0 };

    put("child", object_form, strlen(object_form));
    put("parent", "old", 3);
    cr_assert_eq(errfile_copy(path("child"), path("parent"), -11, &err), 0, "%s", err.msg);
    cr_assert_str_eq(get("parent"),
                     "{\"message\":{\"message\":\"ValueError: boom\",\"extraInfo\":{\"py_callstack\":"
                     "\"Traceback...\\n  x\\n\",\"timestamp\":\"1700000000\"},\"errorCode\":-11}}");
    /* and again: replaced, not doubled */
    cr_assert_eq(errfile_copy(path("parent"), path("parent"), 3, &err), 0);
    cr_assert(strstr(get("parent"), "\"errorCode\":3}"));
    cr_assert_not(strstr(get("parent"), "-11"));
}

Test(errfile, a_text_message_is_copied_as_it_is)
{
    put("child", "{\"message\": \"x\", \"timestamp\": 10}", 33);
    cr_assert_eq(errfile_copy(path("child"), path("parent"), 1, NULL), 0);
    cr_assert_str_eq(get("parent"), "{\"message\":\"x\",\"timestamp\":10}");
}

Test(errfile, our_own_failure_reads_like_an_exception)
{
    struct errfile e;

    cr_assert_eq(errfile_write(path("own"), "ccrun: the port is taken", 1700000001, NULL), 0);
    cr_assert_eq(errfile_read(path("own"), &e, NULL), 1);
    cr_assert_str_eq(e.message, "ccrun: the port is taken");
    cr_assert_eq(e.timestamp, 1700000001);
    errfile_done(&e);
}
