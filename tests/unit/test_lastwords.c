#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/lastwords.h"
#include "store/base/clock.h"

enum { SIZE = 3 };

static struct keystore  *store;
static struct lastwords *ranks[SIZE];
static char              path[] = "/tmp/ccrun-lastwords-XXXXXX";

static int open_store(struct cc_err *err)
{
    struct init_where where = { .scheme = INIT_FILE, .world_size = 2 };

    (void) snprintf(where.path, sizeof where.path, "%s", path);
    return keystore_open(&store, &where, 1000, err);
}

/* Ranks below n are here, all in this process. */
static void open_all(int n)
{
    struct cc_err err;
    int           fd = mkstemp(path);

    cr_assert_geq(fd, 0);
    (void) close(fd);
    cr_assert_eq(open_store(&err), 0, "%s", err.msg);
    for (int i = 0; i < n; i++)
        cr_assert_eq(lastwords_open(&ranks[i], store, i, SIZE, &err), 0, "%s", err.msg);
}

static void close_all(void)
{
    for (int i = 0; i < SIZE; i++)
        (void) lastwords_free(ranks[i]);
    (void) keystore_free(store);
    (void) unlink(path);
}

Test(lastwords, nobody_is_heard_before_somebody_speaks, .fini = close_all)
{
    struct cc_err err;

    open_all(SIZE);
    cr_assert_not(lastwords_heard(ranks[0], &err));
    lastwords_say(ranks[2], "barrier", "it hurts");
    cr_assert(lastwords_heard(ranks[0], &err));
    cr_assert_eq(err.code, -ECONNRESET);
    cr_assert_str_eq(err.msg, "given up, as rank 2 failed in barrier: it hurts");
}

Test(lastwords, the_first_to_fail_is_told_to_the_others, .fini = close_all)
{
    struct cc_err err = { -EIO, "it does not go on" };

    open_all(SIZE);
    lastwords_say(ranks[1], "barrier", "it hurts");
    lastwords_say(ranks[0], "barrier", "it does not go on");
    lastwords_say(ranks[2], "barrier", "it does not go on");
    lastwords_ask(ranks[0], "barrier", true, &err);
    cr_assert_str_eq(err.msg, "it does not go on; rank 1 failed in barrier: it hurts");
}

Test(lastwords, the_first_to_fail_is_named_once, .fini = close_all)
{
    struct cc_err err = { -EIO, "it does not go on" }, heard;

    open_all(SIZE);
    lastwords_say(ranks[1], "broadcast", "it hurts");
    lastwords_say(ranks[0], "barrier", "it does not go on");
    lastwords_say(ranks[2], "barrier", "it does not go on");
    lastwords_ask(ranks[0], "barrier", true, &err);
    cr_assert_str_eq(err.msg, "it does not go on; rank 1 failed in broadcast: it hurts");
    cr_assert(lastwords_heard(ranks[2], &heard));
    lastwords_ask(ranks[2], "barrier", true, &heard);
    cr_assert_str_eq(heard.msg, "given up, as rank 1 failed in broadcast: it hurts");
}

/* Rank 2 has ended, and rank 0 was the first to see it; rank 1 sees only that rank 0 is gone. */
Test(lastwords, who_gave_up_first_says_whom_it_lost, .fini = close_all)
{
    struct cc_err err = { -ECONNRESET, "lost rank 0: closed" }, same = { -ECONNRESET, "lost rank 2: reset" };
    struct cc_err own = { -ECONNRESET, "lost rank 2: closed" };

    open_all(SIZE);
    lastwords_add_first(ranks[1], "lost rank 0:", &err);
    cr_assert_str_eq(err.msg, "lost rank 0: closed"); /* nobody has said anything */
    lastwords_say(ranks[0], "barrier", "lost rank 2: closed");
    lastwords_say(ranks[1], "barrier", "lost rank 0: closed");
    lastwords_add_first(ranks[1], "lost rank 0:", &err);
    cr_assert_str_eq(err.msg, "lost rank 0: closed; rank 0 failed in barrier: lost rank 2: closed");
    lastwords_add_first(ranks[2], "lost rank 2:", &same);
    cr_assert_str_eq(same.msg, "lost rank 2: reset"); /* it knows */
    lastwords_add_first(ranks[0], "lost rank 2:", &own);
    cr_assert_str_eq(own.msg, "lost rank 2: closed");
}

Test(lastwords, the_same_failure_everywhere_is_nobodys_fault, .fini = close_all)
{
    struct cc_err err = { -ETIMEDOUT, "late" };
    uint64_t      start = cc_monotonic_ms();

    open_all(SIZE);
    for (int i = SIZE - 1; i >= 0; i--)
        lastwords_say(ranks[i], "barrier", "late");
    lastwords_ask(ranks[0], "barrier", true, &err);
    cr_assert_str_eq(err.msg, "late");
    cr_assert_lt(cc_monotonic_ms() - start, 900); /* nobody is waited for */
}

Test(lastwords, who_says_nothing_is_named_after_a_while, .fini = close_all)
{
    struct cc_err err = { -ETIMEDOUT, "late" };

    open_all(SIZE);
    lastwords_say(ranks[0], "barrier", "late");
    lastwords_say(ranks[1], "barrier", "late");
    lastwords_ask(ranks[0], "barrier", true, &err);
    cr_assert_str_eq(err.msg, "late; rank 2 has not come, or is still in it");
}

Test(lastwords, who_was_in_another_call_is_named_with_it, .fini = close_all)
{
    struct cc_err err = { -ETIMEDOUT, "late" }, of_message = err;

    open_all(SIZE);
    lastwords_say(ranks[0], "barrier", "late");
    lastwords_say(ranks[1], "barrier", "late");
    lastwords_say(ranks[2], "broadcast of 3 f32 from rank 0", "late");
    lastwords_ask(ranks[0], "barrier", true, &err);
    cr_assert_str_eq(err.msg, "late; rank 2 was in broadcast of 3 f32 from rank 0");
    lastwords_ask(ranks[1], "barrier", false, &of_message);
    cr_assert_str_eq(of_message.msg, "late");
}

/* The process of rank 2 has ended: nobody waits for its words. */
Test(lastwords, a_process_that_has_ended_is_named_as_such, .fini = close_all)
{
    struct cc_err err = { -ECONNRESET, "lost" };
    pid_t         pid;
    int           status;

    open_all(SIZE - 1);
    pid = fork();
    cr_assert_geq(pid, 0);
    if (pid == 0)
        _exit(open_store(&err) < 0 || lastwords_open(&ranks[2], store, 2, SIZE, &err) < 0);
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_assert_eq(status, 0);
    lastwords_say(ranks[0], "barrier", "lost");
    lastwords_say(ranks[1], "barrier", "lost");
    lastwords_ask(ranks[0], "barrier", true, &err);
    cr_assert(strstr(err.msg, "lost; rank 2 (process "));
    cr_assert(strstr(err.msg, ") has ended"), "%s", err.msg);
}
