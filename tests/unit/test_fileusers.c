#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/fileusers.h"
#include "backends/whois.h"
#include "store/core/kv.h"

static struct kv       *kv;
static struct kv_budget budget = { .max = UINT64_MAX };
static char             who[200];

static void wake_nobody(struct kv_wait *w)
{
    (void) w;
}

static void start(void)
{
    static const uint64_t seed[2] = { 1, 2 };

    kv = kv_new(seed, &budget, wake_nobody);
}

static void end(void)
{
    (void) kv_free(kv);
}

static void set(const char *key, const char *value)
{
    cr_assert_eq(kv_set(kv, cc_bytes_of(key), cc_bytes_of(value)), 0);
}

static void claim(const char *key, const struct whois *w)
{
    char text[WHOIS_TEXT_MAX], value[WHOIS_TEXT_MAX + 8];

    (void) snprintf(value, sizeof value, "1 %s", whois_write(w, text));
    set(key, value);
}

static struct whois dead(void)
{
    struct whois w;
    pid_t        pid = fork();

    if (pid == 0)
        _exit(0);
    cr_assert_eq(waitpid(pid, NULL, 0), pid);
    whois_self(&w);
    w.pid = pid;
    w.start = 1;
    return w;
}

static bool ask(int64_t users)
{
    who[0] = '\0';
    return fileusers_are_dead(NULL, kv, users, who, sizeof who);
}

TestSuite(fileusers, .init = start, .fini = end);

Test(fileusers, all_who_are_counted_have_a_place_and_are_dead)
{
    struct whois a = dead(), b = dead();

    claim("/ccrun/default/who/0", &a);
    claim("/ccrun/default/1/ccrun/x/who/0", &a); /* one process in two groups */
    cr_assert(ask(1));
    cr_assert_not(ask(2));
    claim("/ccrun/default/who/1", &b);
    set("/ccrun/default/who/2", "3"); /* has left */
    cr_assert(ask(2));
    cr_assert_not(ask(1), "somebody is in it who is not counted");
    cr_assert_not(ask(3));
    cr_assert(strstr(who, " is one of them, and is dead"), "%s", who);
}

Test(fileusers, one_who_lives_or_is_elsewhere_keeps_it)
{
    struct whois a = dead(), me;

    whois_self(&me);
    claim("/ccrun/default/who/0", &a);
    claim("/ccrun/default/who/1", &me);
    cr_assert_not(ask(2));
    (void) kv_delete(kv, cc_bytes_of("/ccrun/default/who/1"));
    a.boot[0] = a.boot[0] == 'f' ? '0' : 'f';
    claim("/ccrun/default/who/0", &a);
    cr_assert_not(ask(1));
    cr_assert(strstr(who, " is one of them") && !strstr(who, "dead"), "%s", who);
}

Test(fileusers, other_keys_say_nothing)
{
    struct whois a = dead();

    claim("/who/0", &a);
    claim("/ccrun/default/1/words/who/0", &a);
    set("/ccrun/default/who/0", "1 nonsense");
    cr_assert_not(ask(1));
    cr_assert_str_eq(who, "");
}
