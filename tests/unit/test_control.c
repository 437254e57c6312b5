#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/control.h"

static bool answer(void *ctx, const char *question, char ret_text[CONTROL_TEXT_MAX])
{
    uv_stop(ctx);
    (void) snprintf(ret_text, CONTROL_TEXT_MAX, "you said %s", question);
    return strcmp(question, "yes") == 0;
}

struct asked {
    const char   *question;
    char          text[CONTROL_TEXT_MAX];
    int           result;
    struct cc_err err;
};

static void *ask(void *arg)
{
    struct asked *a = arg;

    a->result = control_ask(getpid(), a->question, 10000, a->text, &a->err);
    return NULL;
}

static void round_trip(uv_loop_t *loop, const char *question, int want)
{
    struct asked a = { .question = question };
    char         text[CONTROL_TEXT_MAX];
    pthread_t    thread;

    cr_assert_eq(pthread_create(&thread, NULL, ask, &a), 0);
    (void) uv_run(loop, UV_RUN_DEFAULT); /* until it was asked */
    (void) pthread_join(thread, NULL);
    cr_assert_eq(a.result, want, "%d: %s", a.result, a.err.msg);
    (void) snprintf(text, sizeof text, "you said %s", question);
    cr_assert_str_eq(a.text, text);
}

Test(control, answers_yes_and_no)
{
    uv_loop_t       loop;
    struct control *c = NULL, *second = NULL;
    struct cc_err   err = { 0 };

    cr_assert_eq(uv_loop_init(&loop), 0);
    cr_assert_eq(control_open(&c, &loop, getpid(), answer, &loop, &err), 0, "%s", err.msg);
    round_trip(&loop, "yes", 1);
    round_trip(&loop, "no", 0);
    cr_assert_eq(control_open(&second, &loop, getpid(), answer, &loop, &err), -EADDRINUSE);
    control_close(c);
    control_close(c);
    (void) uv_run(&loop, UV_RUN_DEFAULT);
    cr_assert_eq(uv_loop_close(&loop), 0);
}

Test(control, is_found_by_its_pid)
{
    pid_t           pids[CONTROL_AGENTS_MAX];
    uv_loop_t       loop;
    struct control *c = NULL;
    struct cc_err   err = { 0 };
    unsigned        n, n_ours = 0;

    cr_assert_eq(uv_loop_init(&loop), 0);
    cr_assert_eq(control_open(&c, &loop, getpid(), answer, &loop, &err), 0, "%s", err.msg);
    n = control_agents(pids);
    for (unsigned i = 0; i < n; i++)
        n_ours += pids[i] == getpid();
    cr_assert_eq(n_ours, 1);
    control_close(c);
    (void) uv_run(&loop, UV_RUN_DEFAULT);
    cr_assert_eq(uv_loop_close(&loop), 0);
}

Test(control, says_who_is_not_there_and_who_is_silent)
{
    char            text[CONTROL_TEXT_MAX];
    uv_loop_t       loop;
    struct control *c = NULL;
    struct cc_err   err = { 0 };

    cr_assert_eq(control_ask(getpid(), "live", 100, text, &err), -ECONNREFUSED);
    cr_assert_not_null(strstr(err.msg, "no ccrun runs here"), "%s", err.msg);
    cr_assert_eq(uv_loop_init(&loop), 0);
    cr_assert_eq(control_open(&c, &loop, getpid(), answer, &loop, &err), 0, "%s", err.msg);
    for (int i = 0; i < 100; i++) /* however many wait already */
        cr_assert_eq(control_ask(getpid(), "live", 1, text, &err), -ETIMEDOUT);
    control_close(c);
    (void) uv_run(&loop, UV_RUN_DEFAULT);
    cr_assert_eq(uv_loop_close(&loop), 0);
}
