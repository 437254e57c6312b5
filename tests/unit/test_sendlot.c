#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "store/sendlot.h"

enum { N = 40 };

struct pair {
    int    ours, theirs;
    size_t n_sent;
};

static struct sendlot *new_lot(void)
{
    struct sendlot *l = sendlot_new();

    if (!l)
        cr_skip_test("no io_submit() here");
    return l;
}

static void open_pair(struct pair *p)
{
    int ends[2];

    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    *p = (struct pair){ ends[0], ends[1], 0 };
}

static void close_pair(struct pair *p)
{
    (void) close(p->ours);
    (void) close(p->theirs);
}

static void on_sent(void *owner, size_t n)
{
    struct pair *p = owner;

    p->n_sent += n;
}

static void assert_has(const struct pair *p, const char *text)
{
    char got[64];

    cr_assert_eq(p->n_sent, strlen(text));
    cr_assert_eq(recv(p->theirs, got, sizeof got, 0), (ssize_t) strlen(text));
    cr_assert_eq(memcmp(got, text, strlen(text)), 0);
}

Test(sendlot, sends_to_each_its_own_and_can_be_used_again)
{
    static struct pair p[N];
    struct sendlot    *l = new_lot();

    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 0; i < N; i++) {
            open_pair(&p[i]);
            cr_assert(sendlot_add(l, p[i].ours, i % 2 ? "odd" : "even", i % 2 ? 3 : 4, &p[i]));
        }
        sendlot_go(l, on_sent);
        for (unsigned i = 0; i < N; i++) {
            assert_has(&p[i], i % 2 ? "odd" : "even");
            close_pair(&p[i]);
        }
    }
    cr_assert_null(sendlot_free(l));
}

static bool is_sigpipe_pending(void)
{
    sigset_t set;

    return sigpending(&set) == 0 && sigismember(&set, SIGPIPE);
}

Test(sendlot, who_is_gone_raises_no_signal_and_holds_nobody_up)
{
    struct sendlot *l = new_lot();
    struct pair     a, gone, b;
    sigset_t        pipe;

    open_pair(&a);
    open_pair(&gone);
    open_pair(&b);
    (void) close(gone.theirs);
    cr_assert(sendlot_add(l, a.ours, "one", 3, &a));
    cr_assert(sendlot_add(l, gone.ours, "two", 3, &gone));
    cr_assert(sendlot_add(l, b.ours, "three", 5, &b));
    sendlot_go(l, on_sent); /* SIGPIPE would end us here */
    assert_has(&a, "one");
    assert_has(&b, "three");
    cr_assert_eq(gone.n_sent, 0);
    cr_assert_eq(send(gone.ours, "two", 3, MSG_NOSIGNAL), -1);
    cr_assert_eq(errno, EPIPE);

    (void) sigemptyset(&pipe); /* where it is blocked, as in the agent, it is not left behind either */
    (void) sigaddset(&pipe, SIGPIPE);
    (void) sigprocmask(SIG_BLOCK, &pipe, NULL);
    cr_assert(sendlot_add(l, gone.ours, "two", 3, &gone));
    sendlot_go(l, on_sent);
    cr_assert_not(is_sigpipe_pending());
    (void) raise(SIGPIPE);
    cr_assert(sendlot_add(l, gone.ours, "two", 3, &gone));
    sendlot_go(l, on_sent);
    cr_assert(is_sigpipe_pending(), "somebody else's is not taken away");
    cr_assert_null(sendlot_free(l));
}

Test(sendlot, who_does_not_read_is_not_waited_for)
{
    static char     much[1 << 20];
    struct sendlot *l = new_lot();
    struct pair     full, b;

    open_pair(&full);
    open_pair(&b);
    for (unsigned i = 0; i < 3; i++) { /* a part of it, and then nothing */
        cr_assert(sendlot_add(l, full.ours, much, sizeof much, &full));
        sendlot_go(l, on_sent);
    }
    cr_assert_gt(full.n_sent, 0);
    cr_assert_lt(full.n_sent, sizeof much);
    cr_assert(sendlot_add(l, full.ours, much, sizeof much, &full));
    cr_assert(sendlot_add(l, b.ours, "b", 1, &b));
    sendlot_go(l, on_sent);
    assert_has(&b, "b");
    cr_assert_null(sendlot_free(l));
}

Test(sendlot, says_when_it_is_full)
{
    struct sendlot *l = new_lot();
    struct pair     p;

    open_pair(&p);
    for (unsigned i = 0; i < SENDLOT_MAX; i++)
        cr_assert(sendlot_add(l, p.ours, "x", 1, &p));
    cr_assert_not(sendlot_add(l, p.ours, "x", 1, &p));
    sendlot_go(l, on_sent);
    cr_assert_eq(p.n_sent, SENDLOT_MAX);
    sendlot_go(l, on_sent);
    cr_assert_eq(p.n_sent, SENDLOT_MAX, "nothing is sent twice");
    cr_assert_null(sendlot_free(l));
}
