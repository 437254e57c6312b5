#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/sink.h"

struct place {
    char          dir[64], path[80];
    int           in, out; /* a pipe: `in` is what the worker writes to */
    struct sink   s;
    struct cc_err err;
};

static void setup(struct place *p, uint64_t max_size, unsigned keep)
{
    struct sigaction ignore = { .sa_handler = SIG_IGN };
    int              fds[2];

    memset(p, 0, sizeof *p);
    (void) sigaction(SIGXFSZ, &ignore, NULL);
    (void) snprintf(p->dir, sizeof p->dir, "/tmp/test-sink-XXXXXX");
    cr_assert_not_null(mkdtemp(p->dir));
    (void) snprintf(p->path, sizeof p->path, "%s/log", p->dir);
    cr_assert_eq(pipe2(fds, O_CLOEXEC | O_NONBLOCK), 0);
    p->out = fds[0];
    p->in = fds[1];
    cr_assert_eq(sink_open(&p->s, p->path, max_size, keep, &p->err), 0, "%s", p->err.msg);
}

static void teardown(struct place *p)
{
    char path[96];

    sink_close(&p->s);
    (void) unlink(p->path);
    for (unsigned i = 1; i < 10; i++) {
        (void) snprintf(path, sizeof path, "%s.%u", p->path, i);
        (void) unlink(path);
    }
    cr_assert_eq(rmdir(p->dir), 0);
    (void) close(p->in);
    (void) close(p->out);
}

static const char *content(const struct place *p, const char *suffix)
{
    static char buf[1 << 16];
    char        path[96];
    FILE       *f;

    (void) snprintf(path, sizeof path, "%s%s", p->path, suffix);
    f = fopen(path, "r");
    if (!f)
        return "(no file)";
    buf[fread(buf, 1, sizeof buf - 1, f)] = '\0';
    (void) fclose(f);
    return buf;
}

static void feed(struct place *p, const char *text)
{
    cr_assert_eq(write(p->in, text, strlen(text)), (ssize_t) strlen(text));
}

static void take_all(struct place *p)
{
    ssize_t n;

    while ((n = sink_take(&p->s, p->out, 1 << 20, 0)) > 0)
        (void) sink_rotate(&p->s);
    cr_assert_eq(n, -EAGAIN);
}

Test(sink, moves_a_pipe_into_a_file_and_reads_it_back)
{
    struct place p;
    char         buf[8];

    setup(&p, 0, 0);
    feed(&p, "hello\n");
    cr_assert_eq(sink_take(&p.s, p.out, 100, 0), 6);
    cr_assert_eq(sink_take(&p.s, p.out, 100, 0), -EAGAIN);
    cr_assert_eq(sink_read_back(&p.s, buf, 3), 3);
    cr_assert_eq(memcmp(buf, "lo\n", 3), 0);
    cr_assert_str_eq(content(&p, ""), "hello\n");
    (void) close(p.in);
    cr_assert_eq(sink_take(&p.s, p.out, 100, 0), 0);
    teardown(&p);
}

Test(sink, copies_where_the_kernel_cannot_splice)
{
    struct place p;

    setup(&p, 0, 0);
    cr_assert_eq(fcntl(p.s.fd, F_SETFL, O_APPEND),
                 0); /* splice() refuses that as it does some file systems */
    feed(&p, "hello\n");
    cr_assert_eq(sink_take(&p.s, p.out, 100, 0), 6);
    cr_assert(p.s.is_copied);
    cr_assert_str_eq(content(&p, ""), "hello\n");
    teardown(&p);
}

Test(sink, rotates_between_lines_and_keeps_so_many)
{
    struct place p;

    setup(&p, 10, 2);
    feed(&p, "line 1\nline 2\nline 3\nline 4\nline");
    take_all(&p);
    cr_assert_str_eq(content(&p, ".3"), "(no file)");
    cr_assert_str_eq(content(&p, ".2"), "line 3\n");
    cr_assert_str_eq(content(&p, ".1"), "line 4\n");
    cr_assert_str_eq(content(&p, ""), "line");
    teardown(&p);
}

Test(sink, a_line_longer_than_the_limit_is_cut)
{
    struct place p;

    setup(&p, 4, 3);
    feed(&p, "0123456789\n");
    take_all(&p);
    cr_assert_str_eq(content(&p, ".2"), "0123");
    cr_assert_str_eq(content(&p, ".1"), "4567");
    cr_assert_str_eq(content(&p, ""), "89\n");
    teardown(&p);
}

Test(sink, with_none_to_keep_the_old_bytes_go)
{
    struct place p;

    setup(&p, 8, 0);
    feed(&p, "line 1\nline 2\n");
    take_all(&p);
    cr_assert_str_eq(content(&p, ""), "line 2\n");
    cr_assert_str_eq(content(&p, ".1"), "(no file)");
    teardown(&p);
}

Test(sink, a_full_disk_is_tried_again_and_what_is_missing_is_noted)
{
    struct place  p;
    struct rlimit lim, old;

    setup(&p, 0, 0);
    cr_assert_eq(getrlimit(RLIMIT_FSIZE, &old), 0);
    lim = old;
    lim.rlim_cur = 8;
    feed(&p, "line 1\nline 2\n");
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &lim), 0);
    cr_assert_eq(sink_take(&p.s, p.out, 100, 5000), 8);
    cr_assert_eq(sink_take(&p.s, p.out, 100, 5000), -EFBIG);
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &old), 0);
    cr_assert_eq(sink_take(&p.s, p.out, 100, 5000 + SINK_RETRY_MS - 1), -EFBIG, "not at every read");
    sink_drop(&p.s, 2);
    cr_assert_eq(sink_take(&p.s, p.out, 100, 5000 + SINK_RETRY_MS), 6);
    cr_assert_str_eq(content(&p, ""),
                     "line 1\nl\n[ccrun: 2 bytes are missing here: File too large]\nine 2\n");
    cr_assert_eq(p.s.lost_total, 2);
    teardown(&p);
}

Test(sink, follows_no_link)
{
    struct place p;
    struct sink  other;

    setup(&p, 0, 0);
    (void) snprintf(p.path, sizeof p.path, "%s/log.1", p.dir);
    cr_assert_eq(symlink("/dev/null", p.path), 0);
    cr_assert_eq(sink_open(&other, p.path, 0, 0, &p.err), -ELOOP);
    cr_assert_not_null(strstr(p.err.msg, p.path));
    (void) snprintf(p.path, sizeof p.path, "%s/log", p.dir);
    teardown(&p);
}
