#include <cjson/cJSON.h>
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/events.h"

static char line[8192];

static void keep(void *ctx, const char *text, size_t len)
{
    (void) ctx;
    cr_assert_lt(len, sizeof line);
    memcpy(line, text, len);
    line[len] = '\0';
}

static struct events job(void)
{
    return (struct events){ .run_id = "42",
                            .role = "default",
                            .host = "node7",
                            .backend = "c10d",
                            .entry_point = "/usr/bin/python3",
                            .is_formed = true,
                            .group_world_size = 1,
                            .write = keep };
}

/* The texts are torchrun 2.13's own, with the values of job(). */
Test(events, a_rendezvous_reads_as_torchruns)
{
    struct events e = job();

    e.is_formed = false;
    cr_assert_eq(events_agent(&e, EVENTS_RENDEZVOUS, 112.5, NULL), 0);
    cr_assert_str_eq(
        line,
        "{\"name\": \"torchelastic.worker.status.RENDEZVOUS\", \"source\": \"AGENT\", \"timestamp\": 0, "
        "\"metadata\": {\"run_id\": \"42\", \"global_rank\": null, \"group_rank\": null, \"worker_id\": "
        "null, "
        "\"role\": \"default\", \"hostname\": \"node7\", \"state\": \"RENDEZVOUS\", \"total_run_time\": 0, "
        "\"rdzv_backend\": \"c10d\", \"raw_error\": null, \"metadata\": \"{\\\"group_world_size\\\": null, "
        "\\\"entry_point\\\": \\\"python3\\\"}\", \"agent_restarts\": 0, \"duration_ms\": 112.5}}\n");
}

Test(events, a_start_reads_as_torchruns)
{
    struct events        e = job();
    struct events_worker w = {
        .rank = 1, .local_rank = 1, .role_rank = 1, .role_world_size = 2, .pid = 31281
    };

    e.n_restarts = 3;
    cr_assert_eq(events_worker(&e, EVENTS_START, &w), 0);
    cr_assert_str_eq(
        line,
        "{\"name\": \"torchelastic.worker.status.START\", \"source\": \"WORKER\", \"timestamp\": 0, "
        "\"metadata\": {\"run_id\": \"42\", \"global_rank\": 1, \"group_rank\": 0, \"worker_id\": \"31281\", "
        "\"role\": \"default\", \"hostname\": \"node7\", \"state\": \"START\", \"total_run_time\": 0, "
        "\"rdzv_backend\": \"c10d\", \"raw_error\": null, \"metadata\": \"{\\\"group_world_size\\\": 1, "
        "\\\"entry_point\\\": \\\"python3\\\", \\\"local_rank\\\": [1], \\\"role_rank\\\": [1], "
        "\\\"role_world_size\\\": [2], \\\"exit_code\\\": [null], \\\"worker_pid\\\": [null]}\", "
        "\"agent_restarts\": 3, \"duration_ms\": null}}\n");
}

static const char *raw_error(void)
{
    static char buf[1024];
    cJSON      *doc = cJSON_Parse(line);

    cr_assert(doc);
    snprintf(buf, sizeof buf, "%s",
             cJSON_GetStringValue(cJSON_GetObjectItem(cJSON_GetObjectItem(doc, "metadata"), "raw_error")));
    cJSON_Delete(doc);
    return buf;
}

Test(events, a_failure_carries_the_error_file_and_the_code)
{
    struct events        e = job();
    struct events_worker w = { .rank = 1, .pid = 77, .status = SIGSEGV };
    char                 path[] = "/tmp/events-XXXXXX";
    int                  fd = mkstemp(path);

    cr_assert_eq(write(fd, "{\"message\":{\"message\":\"a: \\\"b\\\", c\"}}", 37), 37);
    close(fd);
    w.error_file = path;
    cr_assert_eq(events_worker(&e, EVENTS_FAILED, &w), 0);
    cr_assert_str_eq(raw_error(), "{\"message\": {\"message\": \"a: \\\"b\\\", c\"}}");
    cr_assert(strstr(line, "\\\"exit_code\\\": [-11], \\\"worker_pid\\\": [77]"), "%s", line);
    unlink(path);
    cr_assert_eq(events_worker(&e, EVENTS_FAILED, &w), 0);
    cr_assert_str_eq(raw_error(), "{\"message\": \"<NONE>\"}");
    w.status = 3 << 8;
    cr_assert_eq(events_worker(&e, EVENTS_FAILED, &w), 0);
    cr_assert_str_eq(raw_error(), "{\"message\": \"<NONE>\", \"errorTraits\": {\"category\": "
                                  "\"system_terminated_error\", \"retryability\": \"False\"}}");
}

Test(events, quotes_and_newlines_keep_the_line_one_line)
{
    struct events e = job();

    e.run_id = "a\"b\nc\\";
    cr_assert_eq(events_agent(&e, EVENTS_FAILED, -1, "ccrun: \"x\":\n,"), 0);
    cr_assert_str_eq(raw_error(), "ccrun: \"x\":\n,");
    cr_assert_eq(strchr(line, '\n'), line + strlen(line) - 1);
}

Test(events, loglevel_above_info_silences_them)
{
    cr_assert(events_are_silenced("WARNING"));
    cr_assert(events_are_silenced("error"));
    cr_assert_not(events_are_silenced("INFO"));
    cr_assert_not(events_are_silenced("DEBUG"));
    cr_assert_not(events_are_silenced(NULL));
}
