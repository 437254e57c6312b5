#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <termios.h>
#include <unistd.h>

#include "agent/console.h"

enum { BIG = 3 << 20 };

struct room {
    uv_loop_t        loop;
    struct console   c;
    struct merge_src src;
    unsigned         n_room;
    int              lost;
    char             state[MERGE_STATE_MAX];
};

static void on_room(void *ctx)
{
    ((struct room *) ctx)->n_room++;
}

static void on_lost(void *ctx, int error)
{
    ((struct room *) ctx)->lost = error;
}

static const struct console_cbs cbs = { .on_room = on_room, .on_lost = on_lost, .on_dropped = on_lost };

static void setup(struct room *r, int fd)
{
    struct sigaction ignore = { .sa_handler = SIG_IGN };

    memset(r, 0, sizeof *r);
    (void) sigaction(SIGPIPE, &ignore, NULL);
    cr_assert_eq(uv_loop_init(&r->loop), 0);
    console_init(&r->c, &r->loop, fd, false, &cbs, r);
    merge_src_init(&r->src, "", 0, r->state);
}

static void teardown(struct room *r)
{
    console_close(&r->c);
    (void) uv_run(&r->loop, UV_RUN_DEFAULT);
    cr_assert_eq(r->c.n_open, 0);
    cr_assert_eq(uv_loop_close(&r->loop), 0);
}

static void unit(struct room *r, enum demux_kind kind, const char *text)
{
    cr_assert_gt(console_take(&r->c, 0), strlen(text));
    merge_unit(&r->c.merge, &r->src, kind, text, strlen(text), uv_now(&r->loop));
}

/* Fills the console beyond what its reader's side takes, then reads it all with the loop running. */
static void expect_all_of_it_without_blocking(int write_fd, int read_fd)
{
    static char big[BIG], got[1 << 16];
    struct room r;
    size_t      total = 0;
    int         flags = fcntl(write_fd, F_GETFL);

    for (size_t i = 0; i < sizeof big; i++)
        big[i] = (char) (i % 64 == 63 ? '\n' : 'a' + (i / 64) % 26);
    setup(&r, write_fd);
    cr_assert_gt(console_take(&r.c, 0), (size_t) 0);
    merge_unit(&r.c.merge, &r.src, DEMUX_LINES, big, sizeof big, 0);
    console_write(&r.c);
    cr_assert_eq(console_take(&r.c, 0), 0, "the queue is full");
    cr_assert_eq(fcntl(write_fd, F_GETFL), flags, "the flags are shared with others");
    while (total < sizeof big) {
        struct pollfd p = { .fd = read_fd, .events = POLLIN };
        ssize_t       n;

        cr_assert_eq(poll(&p, 1, 10000), 1);
        n = read(read_fd, got, sizeof got);
        cr_assert_gt(n, 0);
        cr_assert_eq(memcmp(got, big + total, (size_t) n), 0);
        total += (size_t) n;
        (void) uv_run(&r.loop, UV_RUN_NOWAIT);
    }
    cr_assert_eq(r.n_room, 1);
    cr_assert_eq(logq_used(&r.c.q), 0);
    teardown(&r);
}

Test(console, a_slow_pipe_gets_everything)
{
    int fds[2];

    cr_assert_eq(pipe2(fds, O_CLOEXEC), 0);
    expect_all_of_it_without_blocking(fds[1], fds[0]);
}

Test(console, a_slow_socket_gets_everything)
{
    int fds[2];

    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    expect_all_of_it_without_blocking(fds[1], fds[0]);
}

/* As after `su`: the pipe belongs to another user and cannot be opened again. */
Test(console, a_slow_pipe_of_another_user_gets_everything)
{
    int fds[2];

    if (geteuid() != 0)
        cr_skip_test("only root can become another user");
    cr_assert_eq(pipe2(fds, O_CLOEXEC), 0);
    cr_assert_eq(seteuid(65534), 0);
    expect_all_of_it_without_blocking(fds[1], fds[0]);
    cr_assert_eq(seteuid(0), 0);
}

Test(console, flush_waits_for_the_reader)
{
    struct room r;
    int         fds[2];
    char        got[16];

    cr_assert_eq(pipe2(fds, O_CLOEXEC), 0);
    setup(&r, fds[1]);
    unit(&r, DEMUX_REST, "hello");
    cr_assert_eq(console_flush(&r.c, UINT64_MAX, NULL), 0);
    cr_assert_eq(read(fds[0], got, sizeof got), 6);
    (void) close(fds[0]);
    unit(&r, DEMUX_REST, "hello");
    cr_assert_eq(console_flush(&r.c, UINT64_MAX, NULL), -EPIPE);
    cr_assert_eq(r.lost, -EPIPE);
    teardown(&r);
}

Test(console, a_closed_descriptor_is_nobody)
{
    struct room r;

    setup(&r, 1000); /* not the lowest free one, which the loop would take */
    unit(&r, DEMUX_REST, "hello");
    console_write(&r.c);
    cr_assert_eq(logq_used(&r.c.q), 0);
    cr_assert_eq(r.lost, 0);
    teardown(&r);
}

Test(console, a_full_disk_drops_and_goes_on)
{
    struct room r;
    int         fd = open("/dev/full", O_WRONLY | O_CLOEXEC);

    setup(&r, fd);
    unit(&r, DEMUX_REST, "hello");
    console_write(&r.c);
    cr_assert_eq(r.lost, -ENOSPC);
    cr_assert_not(r.c.is_lost);
    cr_assert_eq(logq_used(&r.c.q), 0);
    (void) close(fd);
    teardown(&r);
}

static int open_terminal(int *ret_master, unsigned columns)
{
    int            master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC), slave;
    struct termios t;
    struct winsize ws = { .ws_col = (unsigned short) columns, .ws_row = 24 };

    cr_assert_geq(master, 0);
    cr_assert_eq(grantpt(master), 0);
    cr_assert_eq(unlockpt(master), 0);
    slave = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
    cr_assert_geq(slave, 0);
    cr_assert_eq(tcgetattr(slave, &t), 0);
    cfmakeraw(&t);
    cr_assert_eq(tcsetattr(slave, TCSANOW, &t), 0);
    cr_assert_eq(ioctl(slave, TIOCSWINSZ, &ws), 0);
    *ret_master = master;
    return slave;
}

static void expect(int fd, const char *want)
{
    char   got[256];
    size_t n = 0;

    while (n < strlen(want)) {
        ssize_t more = read(fd, got + n, sizeof got - n);

        cr_assert_gt(more, 0);
        n += (size_t) more;
    }
    got[n] = '\0';
    cr_assert_str_eq(got, want);
}

Test(console, a_terminal_shows_a_bar_in_its_last_row_within_its_width)
{
    struct room r;
    int         master, slave = open_terminal(&master, 10);

    setup(&r, slave);
    unit(&r, DEMUX_STATE, "50% ####################\r");
    console_write(&r.c);
    expect(master, "\r50% #####");
    unit(&r, DEMUX_LINES, "done\n");
    console_write(&r.c);
    expect(master, "\r         \rdone\n");
    teardown(&r);
    (void) close(slave);
    (void) close(master);
}

Test(console, stdout_and_stderr_on_one_terminal_or_pipe_are_one)
{
    struct room r;
    int         fds[2], other, master, slave = open_terminal(&master, 80);

    cr_assert_eq(pipe2(fds, O_CLOEXEC), 0);
    other = fcntl(fds[1], F_DUPFD_CLOEXEC, 3);
    setup(&r, fds[1]);
    cr_assert(console_is_same(&r.c, other));
    cr_assert_not(console_is_same(&r.c, slave));
    teardown(&r);
}
