#include <cjson/cJSON.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent/report.h"

enum { START = 1700000000 };

static char              dir[64];
static struct report_cfg cfg;
static char             *text;

static void setup(void)
{
    strcpy(dir, "/tmp/report-XXXXXX");
    cr_assert(mkdtemp(dir));
    setenv("TZ", "UTC", 1);
    tzset();
    cfg = (struct report_cfg){
        .entry = "train.py",
        .python = "/usr/bin/python3",
        .host = "node7",
        .run_id = "42",
        .role = "default",
        .world_size = 8,
        .nproc = 8,
        .shutdown_timeout = 30000,
        .root = dir, /* an empty machine: no cgroup, no core pattern */
    };
}

static void teardown(void)
{
    char cmd[128];

    free(text);
    snprintf(cmd, sizeof cmd, "rm -rf %s", dir);
    cr_assert_eq(system(cmd), 0);
}

TestSuite(report, .init = setup, .fini = teardown);

static const char *path(const char *name)
{
    static char buf[4][256];
    static int  turn;

    turn = (turn + 1) % 4;
    snprintf(buf[turn], sizeof buf[turn], "%s/%s", dir, name);
    return buf[turn];
}

static void put(const char *name, const char *content)
{
    FILE *f = fopen(path(name), "w");

    cr_assert(f && fputs(content, f) >= 0 && fclose(f) == 0);
}

static char *get(const char *name)
{
    static char buf[1 << 20];
    FILE       *f = fopen(path(name), "r");

    cr_assert(f, "%s", name);
    buf[fread(buf, 1, sizeof buf - 1, f)] = '\0';
    fclose(f);
    return buf;
}

static struct report_failure failure(unsigned rank, int status)
{
    return (struct report_failure){
        .rank = rank,
        .local_rank = rank,
        .pid = (pid_t) (100 + rank),
        .status = status,
        .realtime_ms = (uint64_t) START * 1000 + 10 * rank,
        .ran_ms = 12300,
    };
}

static struct report_failure stopped(unsigned rank)
{
    struct report_failure f = failure(rank, SIGTERM);

    f.is_killed_by_us = true;
    return f;
}

static void note(struct report *r, struct report_failure f)
{
    report_failure(r, &f);
}

static unsigned print(struct report *r, unsigned n_ok, unsigned n_stopped)
{
    size_t   len;
    FILE    *f;
    unsigned n = 0;

    free(text);
    text = NULL;
    f = open_memstream(&text, &len);
    cr_assert_eq(report_print(r, f, n_ok, n_stopped), 0);
    fclose(f);
    for (size_t i = 0; i < len; i++)
        n += text[i] == '\n';
    return n;
}

static void has(const char *needle)
{
    cr_assert(strstr(text, needle), "no '%s' in:\n%s", needle, text);
}

static void has_not(const char *needle)
{
    cr_assert_not(strstr(text, needle), "'%s' in:\n%s", needle, text);
}

Test(report, the_first_line_says_what_failed_first)
{
    struct report *r;

    cfg.max_restarts = 2;
    r = report_new(&cfg);
    note(r, failure(1, 3 << 8));
    print(r, 6, 0);
    has("ccrun: ChildFailedError: train.py FAILED: rank 1 (local_rank: 1, pid: 101) on node7 exited with "
        "code 3 at "
        "22:13:20 after 12.3 s, attempt 1 of 3\n");
    has("Root Cause (first observed failure):\n");
    has("  time      : 2023-11-14_22:13:20\n  host      : node7\n  rank      : 1 (local_rank: 1)\n"
        "  exitcode  : 3 (pid: 101)\n  error_file: <N/A>\n  traceback : To enable traceback see: "
        "https://pytorch.org/docs/stable/elastic/errors.html\n");
    has("Others: 6 ended with 0, 0 stopped by ccrun, 0 failed too\n");
    cr_assert_eq(report_first_code(r), 3);
    report_free(r);
}

Test(report, what_is_not_python_is_not_sent_to_pytorch)
{
    struct report_failure f = failure(1, 1 << 8);
    struct report        *r;

    cfg.python = NULL;
    r = report_new(&cfg);
    note(r, f);
    print(r, 0, 0);
    has("  traceback : <N/A>\n");
    report_restarted(r);
    f.stderr_tail = "solver: no mesh\n";
    note(r, f);
    print(r, 0, 0);
    has("  traceback : see stderr below\n");
    has_not("@record");
    report_restarted(r);
    f.stderr_tail = "Traceback (most recent call last):\n  ...\nValueError: boom\n"; /* of a script that starts Python */
    note(r, f);
    print(r, 0, 0);
    has("  traceback : see stderr below (@record brings it here: https://");
    report_free(r);
}

Test(report, which_python_lacks_a_module_and_why_it_was_chosen)
{
    static const char     line[] = "  python    : /usr/bin/python3, the first python3 on PATH; PYTHON_EXEC=PATH chooses "
                                   "another\n";
    struct report_failure f = failure(1, 1 << 8);
    struct report        *r;

    cfg.python_why = "the first python3 on PATH";
    r = report_new(&cfg);
    f.stderr_tail = "Traceback (most recent call last):\nModuleNotFoundError: No module named 'torch'\n";
    note(r, f);
    print(r, 0, 0);
    has(line);
    report_restarted(r);
    f.stderr_tail = "ValueError: boom\n";
    note(r, f);
    print(r, 0, 0);
    has_not("  python ");
    report_restarted(r);
    put("error.json", "{\"message\": \"ImportError: cannot import name 'x'\"}");
    f.error_file = path("error.json");
    note(r, f);
    print(r, 0, 0);
    has(line);
    report_free(r);
}

Test(report, a_script_that_ends_over_threads_of_pytorch_is_advised)
{
    struct report_failure f = failure(1, SIGABRT);
    struct report        *r = report_new(&cfg);

    f.stderr_tail = "terminate called without an active exception\n";
    note(r, f);
    print(r, 0, 0);
    has("  hint      : if the script had come to its end, let it call torch.distributed.destroy_process_group() there");
    report_restarted(r);
    f.status = 1 << 8;
    note(r, f);
    print(r, 0, 0);
    has_not("  hint ");
    report_free(r);
}

Test(report, a_signal_is_named_and_never_blamed_on_those_that_we_stopped)
{
    struct report *r = report_new(&cfg);

    note(r, stopped(0));
    note(r, failure(5, SIGSEGV));
    note(r, stopped(6));
    print(r, 0, 2);
    has("rank 5 (local_rank: 5, pid: 105) on node7 was killed by SIGSEGV");
    has("  exitcode  : -11 (pid: 105) (SIGSEGV)\n");
    has("  traceback : Signal 11 (SIGSEGV) received by PID 105\n");
    has("Others: 0 ended with 0, 2 stopped by ccrun, 0 failed too\n  ranks 0,6: SIGTERM by ccrun\n");
    cr_assert_eq(report_first_code(r), 128 + SIGSEGV);
    report_free(r);
}

Test(report, a_crash_after_our_sigterm_is_a_crash)
{
    struct report        *r = report_new(&cfg);
    struct report_failure f = stopped(6);

    note(r, failure(5, SIGSEGV));
    f.status = SIGSEGV;
    note(r, f);
    print(r, 0, 1);
    has("  rank 6: SIGSEGV after SIGTERM by ccrun\n");
    report_free(r);
}

Test(report, the_exception_is_told_with_its_place)
{
    struct report        *r = report_new(&cfg);
    struct report_failure f = failure(1, 1 << 8);

    put("error.json",
        "{\"message\": {\"message\": \"ValueError: \\u001b[31mboom\\nmore\", \"extraInfo\": "
        "{\"py_callstack\": "
        "\"Traceback:\\n  File \\\"/a/b/train.py\\\", line 7, in main\\n    step()\\n  File "
        "\\\"/a/b/model.py\\\", "
        "line 12, in step\\n    raise ValueError\\nValueError: boom\\n\", \"timestamp\": \"1700000000\"}}}");
    f.error_file = path("error.json");
    f.log_dir = dir;
    f.stderr_tail = "noise\n";
    note(r, f);
    print(r, 0, 0);
    has("  traceback : ValueError: \\x1b[31mboom\\nmore (model.py:12 in step)\n");
    has("  error_file: /tmp/report-");
    has("Logs: /tmp/report-");
    has_not("noise");
    report_free(r);
}

Test(report, an_error_file_that_goes_away_with_us_is_not_named)
{
    struct report        *r = report_new(&cfg);
    struct report_failure f = failure(1, 1 << 8);

    put("error.json", "{\"message\": \"boom\"}");
    f.error_file = path("error.json");
    note(r, f);
    print(r, 0, 0);
    has("  error_file: <N/A>\n  traceback : boom\n");
    report_free(r);
}

Test(report, an_unusable_error_file_is_a_note_and_the_stderr_tells)
{
    struct report        *r = report_new(&cfg);
    struct report_failure f = failure(1, 1 << 8);
    char                  tail[4096] = "";

    put("error.json", "{\"mess");
    f.error_file = path("error.json");
    for (int i = 0; i < 30; i++)
        snprintf(tail + strlen(tail), 64, "line %d \xff\n", i);
    strcat(tail, " 1%\r 2%\r");
    f.stderr_tail = tail;
    note(r, f);
    cr_assert_leq(print(r, 0, 0), 15 + 20 + 1);
    has("  error_file: <N/A> (the error file '/tmp/report-");
    has("is ignored: it is no whole JSON document)\n");
    has("  traceback : see stderr below (@record brings it here: https://");
    has("Last 20 lines of stderr of rank 1:\n  line 11 \\xff\n");
    has("  line 29 \\xff\n   2%\n");
    has_not("line 10");
    report_free(r);
}

Test(report, of_256_failures_fifteen_lines_are_enough)
{
    struct report *r;

    cfg.nproc = cfg.world_size = 256;
    cfg.json_file = path("report.json");
    r = report_new(&cfg);
    for (unsigned i = 0; i < 256; i++) {
        struct report_failure f = i == 0  ? failure(0, SIGKILL)
                                  : i % 3 ? stopped(i)
                                          : failure(i, (int) (i % 100 + 1) << 8);

        f.log_dir = dir;
        note(r, f);
    }
    cr_assert_leq(print(r, 0, 170), 15);
    has("rank 0 (local_rank: 0");
    has("  170 ranks 1-2,4-5,7-8,10-11,");
    has("Others: 0 ended with 0, 170 stopped by ccrun, 85 failed too; ");
    has("  evidence  : sender unknown (not ccrun; no cgroup memory limit is visible)\n");
    cr_assert_eq(report_first_code(r), 137);
    report_free(r);
}

Test(report, a_message_of_a_megabyte_is_cut)
{
    struct report        *r = report_new(&cfg);
    struct report_failure f = failure(1, 1 << 8);
    static char           big[1000000];

    memset(big, 'x', sizeof big - 1);
    memcpy(big, "{\"message\": \"", 13);
    memcpy(big + sizeof big - 3, "\"}", 2);
    put("error.json", big);
    f.error_file = path("error.json");
    note(r, f);
    print(r, 0, 0);
    cr_assert_lt(strlen(text), 2000);
    has("xxx...\n");
    report_free(r);
}

Test(report, raised_and_then_stopped_by_us_counts_as_an_exception)
{
    struct report        *r = report_new(&cfg);
    struct report_failure slow = stopped(2), victim = failure(1, 1 << 8);
    char                  doc[128];

    /* whole seconds decide: an old file keeps the file system's clock out of it */
    snprintf(doc, sizeof doc, "{\"message\": \"KeyError: 1\", \"timestamp\": %d}", START - 2);
    put("error.json", doc);
    slow.error_file = path("error.json");
    note(r, victim);
    note(r, slow);
    print(r, 0, 1);
    has("traceback : KeyError: 1\n");
    cr_assert_eq(report_first_code(r), 1);
    report_free(r);
}

Test(report, a_parent_gets_the_workers_error_file)
{
    struct report        *r;
    struct report_failure f = failure(1, SIGSEGV);

    cfg.parent_error_file = path("parent.json");
    r = report_new(&cfg);
    note(r, f);
    print(r, 0, 0);
    cr_assert_eq(access(path("parent.json"), F_OK), -1); /* no file, no copy */
    put("error.json", "{\"message\": {\"message\": \"boom\"}}");
    f.error_file = path("error.json");
    f.realtime_ms -= 10;
    note(r, f);
    print(r, 0, 0);
    cr_assert_str_eq(get("parent.json"), "{\"message\":{\"message\":\"boom\",\"errorCode\":-11}}");
    report_free(r);
}

Test(report, our_own_failure_is_recorded_for_a_parent)
{
    cr_assert_eq(report_own_failure(path("own.json"), "ccrun: no port", NULL), 0);
    cr_assert(strstr(get("own.json"), "{\"message\":{\"message\":\"ccrun: no port\""));
    cr_assert_eq(report_own_failure(NULL, "x", NULL), 0);
    cr_assert_eq(report_own_failure("", "x", NULL), 0);
}

Test(report, a_restart_is_announced_with_its_reason)
{
    struct report        *r = report_new(&cfg);
    struct report_failure f = failure(1, 3 << 8);
    char                  buf[256];

    report_describe_first(r, buf, sizeof buf);
    cr_assert_str_eq(buf, "");
    put("error.json", "{\"message\": \"ValueError: boom\"}");
    f.error_file = path("error.json");
    note(r, stopped(0));
    note(r, f);
    report_describe_first(r, buf, sizeof buf);
    cr_assert_str_eq(buf,
                     "rank 1 (local_rank: 1, pid: 101) exited with code 3 after 12.3 s: ValueError: boom");
    report_free(r);
}

static double number(const cJSON *o, const char *name)
{
    const cJSON *i = cJSON_GetObjectItemCaseSensitive(o, name);

    cr_assert(cJSON_IsNumber(i), "%s", name);
    return i->valuedouble;
}

static const char *string(const cJSON *o, const char *name)
{
    const cJSON *i = cJSON_GetObjectItemCaseSensitive(o, name);

    cr_assert(cJSON_IsString(i), "%s", name);
    return i->valuestring;
}

Test(report, the_json_has_the_same_and_the_attempts_before)
{
    struct report        *r;
    struct report_failure f = failure(1, SIGKILL);
    cJSON                *doc, *first, *attempts;

    cfg.json_file = path("report.json");
    cfg.max_restarts = 1;
    r = report_new(&cfg);
    note(r, failure(3, 7 << 8));
    report_restarted(r);
    cr_assert_eq(report_first_code(r), 0);
    f.attempt = 1;
    f.stderr_tail = "bad \xff byte\n";
    note(r, f);
    note(r, stopped(2));
    print(r, 5, 1);
    cr_assert_eq(report_write_json(r, 137, "failed", NULL), 0);
    doc = cJSON_Parse(get("report.json"));
    cr_assert(doc);
    cr_assert_eq(number(doc, "version"), 1);
    cr_assert_eq(number(doc, "exit_status"), 137);
    cr_assert_str_eq(string(doc, "outcome"), "failed");
    cr_assert_eq(number(doc, "n_ok"), 5);
    first = cJSON_GetObjectItem(doc, "first_failure");
    cr_assert_eq(number(first, "rank"), 1);
    cr_assert_eq(number(first, "exitcode"), -9);
    cr_assert_str_eq(string(first, "signal"), "SIGKILL");
    cr_assert_str_eq(string(first, "ended_by"), "itself");
    cr_assert_str_eq(string(first, "stderr_tail"), "bad \\xff byte\n");
    cr_assert_str_eq(string(first, "seen"), "2023-11-14T22:13:20.010Z");
    cr_assert_str_eq(string(cJSON_GetObjectItem(first, "evidence"), "kind"), "unknown_sender");
    cr_assert_eq(cJSON_GetArraySize(cJSON_GetObjectItem(doc, "failures")), 2);
    attempts = cJSON_GetObjectItem(doc, "attempts");
    cr_assert_eq(cJSON_GetArraySize(attempts), 1);
    cr_assert_eq(number(cJSON_GetObjectItem(cJSON_GetArrayItem(attempts, 0), "first_failure"), "exitcode"),
                 7);
    cJSON_Delete(doc);
    report_free(r);
}

Test(report, a_job_that_succeeds_has_a_report_too)
{
    struct report *r;
    cJSON         *doc;

    cfg.json_file = path("report.json");
    r = report_new(&cfg);
    cr_assert_eq(report_write_json(r, 0, "succeeded", NULL), 0);
    doc = cJSON_Parse(get("report.json"));
    cr_assert(cJSON_IsNull(cJSON_GetObjectItem(doc, "first_failure")));
    cJSON_Delete(doc);
    report_free(r);
}

Test(report, a_thousand_restarts_keep_the_newest_256)
{
    struct report *r;
    cJSON         *doc, *attempts;

    cfg.json_file = path("report.json");
    r = report_new(&cfg);
    for (unsigned i = 0; i < 1000; i++) {
        struct report_failure f = failure(i % 8, 1 << 8);

        f.attempt = i;
        note(r, f);
        report_restarted(r);
    }
    cr_assert_eq(report_write_json(r, 1, "failed", NULL), 0);
    doc = cJSON_Parse(get("report.json"));
    attempts = cJSON_GetObjectItem(doc, "attempts");
    cr_assert_eq(cJSON_GetArraySize(attempts), 256);
    cr_assert_eq(number(doc, "attempts_omitted"), 744);
    cr_assert_eq(number(cJSON_GetArrayItem(attempts, 255), "attempt"), 999);
    cJSON_Delete(doc);
    report_free(r);
}

Test(report, a_full_disk_is_an_error)
{
    struct report *r;
    struct cc_err  err = { 0 };

    cfg.json_file = "/dev/full";
    r = report_new(&cfg);
    cr_assert_eq(report_write_json(r, 0, "succeeded", &err), -ENOSPC);
    cr_assert(strstr(err.msg, "--report"));
    report_free(r);
}

Test(report, a_status_reads_as_a_sentence)
{
    char buf[96];

    report_describe_status(3 << 8, buf, sizeof buf);
    cr_assert_str_eq(buf, "exited with code 3");
    report_describe_status(SIGABRT | 0x80, buf, sizeof buf);
    cr_assert_str_eq(buf, "was killed by SIGABRT (core dumped)");
}
