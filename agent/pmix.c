#include "agent/pmix.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/spawn.h"
#include "store/base/cleanup.h"
#include "store/base/fdwrite.h"
#include "store/base/macros.h"

enum { READ_SIZE = 64 * 1024 };

struct pmix_server {
    const struct pmix_cbs *cbs;
    void         *ctx;
    int           fd;
    uv_poll_t     watch;
    struct cc_buf in, out;
    bool          is_closed, is_failed;
    unsigned      n_local;
    char        **env[]; /* of each worker; the strings are one block, at env[i][0] */
};

static void on_poll(uv_poll_t *w, int status, int events);

static void fail(struct pmix_server *s, const char *sentence)
{
    if (s->is_closed || s->is_failed)
        return;
    s->is_failed = true;
    (void) uv_poll_stop(&s->watch);
    s->cbs->failed(s->ctx, sentence);
}

static void watch(struct pmix_server *s)
{
    if (!s->is_closed && !s->is_failed)
        (void) uv_poll_start(&s->watch, cc_buf_len(&s->out) > 0 ? UV_READABLE | UV_WRITABLE : UV_READABLE, on_poll);
}

int pmix_tell(struct pmix_server *s, const struct pmixmsg *m, struct cc_err *err)
{
    int r = pmixmsg_put(&s->out, m);

    if (r < 0)
        return cc_fail(err, r, "tell ccrun-pmix: %s", strerror(-r));
    (void) cc_send_some(s->fd, &s->out); /* an end is found out by reading */
    watch(s);
    return 0;
}

/* Strings, each with its NUL. */
static void take_env(struct pmix_server *s, const struct pmixmsg *m)
{
    size_t n = 0, i;
    char  *block, **list;

    for (i = 0; i < m->blob.n; i++)
        n += m->blob.p[i] == '\0';
    if (m->id >= s->n_local || s->env[m->id] || n == 0 || m->blob.p[m->blob.n - 1] != '\0')
        return;
    block = malloc(m->blob.n);
    list = calloc(n + 1, sizeof *list);
    if (!block || !list) {
        free(block);
        free(list);
        return; /* the worker is not started without it */
    }
    memcpy(block, m->blob.p, m->blob.n);
    for (i = 0; i < n; i++, block += strlen(block) + 1)
        list[i] = block;
    s->env[m->id] = list;
}

static void take(struct pmix_server *s, const struct pmixmsg *m)
{
    char line[256];

    if (m->type == PMIXMSG_ENV) {
        take_env(s, m);
    } else if (m->type == PMIXMSG_FAILED) {
        (void) snprintf(line, sizeof line, "%.*s", m->text.n < 200 ? (int) m->text.n : 200, (const char *) m->text.p);
        fail(s, line);
    } else {
        s->cbs->said(s->ctx, m);
    }
}

/* False: nothing more is there. */
static bool read_some(struct pmix_server *s)
{
    uint8_t       *at = cc_buf_grow(&s->in, READ_SIZE);
    ssize_t        n = at ? recv(s->fd, at, READ_SIZE, MSG_DONTWAIT) : -1;
    int            error = at ? errno : ENOMEM;
    struct pmixmsg m;

    if (at)
        s->in.len -= (size_t) (READ_SIZE - (n > 0 ? n : 0));
    if (n < 0 && (error == EAGAIN || error == EWOULDBLOCK || error == EINTR))
        return error == EINTR;
    if (n <= 0) {
        fail(s, "ccrun-pmix has ended");
        return false;
    }
    while (!s->is_closed && (n = pmixmsg_take(cc_buf_data(&s->in), cc_buf_len(&s->in), &m)) > 0) {
        take(s, &m);
        if (!s->is_closed)
            cc_buf_drop(&s->in, (size_t) n);
    }
    if (n < 0)
        fail(s, "ccrun-pmix says what cannot be understood");
    return n >= 0 && !s->is_closed;
}

void pmix_listen(struct pmix_server *s)
{
    while (!s->is_closed && !s->is_failed && read_some(s))
        ;
}

static void on_poll(uv_poll_t *w, int status, int events)
{
    struct pmix_server *s = CC_CONTAINER_OF(w, struct pmix_server, watch);

    (void) status;
    if (events & UV_WRITABLE) {
        (void) cc_send_some(s->fd, &s->out);
        watch(s);
    }
    pmix_listen(s);
}

static void on_closed(uv_handle_t *h)
{
    struct pmix_server *s = CC_CONTAINER_OF((uv_poll_t *) h, struct pmix_server, watch);
    unsigned            i;

    for (i = 0; i < s->n_local; i++) {
        if (s->env[i])
            free(s->env[i][0]);
        free(s->env[i]);
    }
    cc_buf_free(&s->in);
    cc_buf_free(&s->out);
    free(s);
}

void pmix_close(struct pmix_server *s)
{
    if (!s || s->is_closed)
        return;
    s->is_closed = true;
    uv_close((uv_handle_t *) &s->watch, on_closed);
    (void) close(s->fd);
}

char *const *pmix_env(const struct pmix_server *s, unsigned local_rank)
{
    return s->env[local_rank];
}

/* Its stderr is ours: libpmix says there what it cannot say to us. */
static int spawn_it(const struct pmix_cfg *cfg, int fd, struct cc_err *err)
{
    char *const             argv[] = { (char *) (uintptr_t) "ccrun-pmix", (char *) (uintptr_t) cfg->directory,
                                       (char *) (uintptr_t) cfg->host, NULL };
    const struct spawn_req  req = { .path = cfg->program, .argv = argv, .env = cfg->env, .cgroup_fd = -1,
                                    .fd = { fd, STDERR_FILENO, STDERR_FILENO } };
    struct spawn_batch     *b = spawn_batch_new();
    pid_t                   pid;
    int                     r = b ? spawn_begin(b, &req, &pid, err) : cc_fail(err, -ENOMEM, "no memory to start ccrun-pmix");

    if (r == 0)
        r = spawn_next(b, &pid, err); /* who could not exec is reaped as an orphan */
    (void) spawn_batch_free(b);
    return r < 0 ? r : 0;
}

int pmix_start(struct pmix_server **ret, uv_loop_t *loop, const struct pmix_cfg *cfg, const struct pmix_cbs *cbs, void *ctx,
               struct cc_err *err)
{
    struct pmix_server *s = calloc(1, sizeof *s + cfg->n_local * sizeof s->env[0]);
    int                 ends[2], r;

    if (!s || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0) {
        r = s ? -errno : -ENOMEM;
        free(s);
        return cc_fail(err, r, "start ccrun-pmix: %s", strerror(-r));
    }
    *s = (struct pmix_server) { .cbs = cbs, .ctx = ctx, .fd = ends[0], .n_local = cfg->n_local };
    r = spawn_it(cfg, ends[1], err);
    (void) close(ends[1]);
    if (r == 0 && (r = uv_poll_init(loop, &s->watch, s->fd)) < 0)
        r = cc_fail(err, r, "watch ccrun-pmix: %s", uv_strerror(r));
    if (r < 0) {
        (void) close(s->fd);
        free(s);
        return r;
    }
    watch(s);
    *ret = s;
    return 0;
}
