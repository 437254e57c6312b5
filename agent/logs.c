#include "agent/logs.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/console.h"
#include "agent/core/prefix.h"
#include "agent/core/tail.h"
#include "agent/keeper.h"
#include "agent/logdir.h"
#include "agent/sink.h"
#include "agent/stream.h"
#include "store/base/cleanup.h"
#include "store/base/macros.h"

enum {
    TAIL_BYTES = 8 * 1024,
    TAIL_LINES = 20,
    WORKER_MEMORY = 2 * STREAM_MEMORY + TAIL_BYTES,
    PIPE_BUDGET = 16 << 20,
    NOTICE_MAX = 1024,
    DROPPED_EVERY_MS = 10000,
};

struct worker {
    struct logs  *l;
    unsigned      rank;
    struct stream stream[2]; /* stdout, stderr */
    unsigned      n_open;    /* streams whose last callback is still to come */
    bool          is_exited, is_drained_due;
    uint64_t      deadline;
    char         *prefix[2];
    struct tail   tail;
    char         *tail_text, *error_file;
};

struct logs {
    struct logs_cfg        cfg;
    const struct logs_cbs *cbs;
    void                  *ctx;
    uv_loop_t             *loop;
    struct stream_env      env;
    struct console         console[2],
        *console_of[2]; /* one object where both descriptors are the same terminal or pipe */
    struct logdir  dir;
    bool           has_files, is_lost_said, is_disk_said, is_dropped_said, is_closing;
    unsigned       attempt, base_rank;
    struct sink    filter[2];
    uint64_t       lost_bytes;
    uint64_t       dropped_said, say_dropped_at; /* of env.dropped; when there may be another sentence */
    int            null_fd;
    char          *memory; /* WORKER_MEMORY each */
    uv_timer_t     timer;
    uint64_t       timer_at;
    uv_check_t     check;
    unsigned       n_handles;
    struct worker *workers;
};

static void notice(struct logs *l, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void notice(struct logs *l, const char *fmt, ...)
{
    char    sentence[NOTICE_MAX];
    va_list ap;

    va_start(ap, fmt);
    (void) vsnprintf(sentence, sizeof sentence, fmt, ap);
    va_end(ap);
    l->cbs->on_notice(l->ctx, sentence);
}

/* ---- routing */

static unsigned mask_of(const uint8_t *masks, unsigned rank)
{
    return masks ? masks[rank] : 0;
}

static bool is_teed(const struct logs *l, unsigned rank, unsigned i)
{
    return mask_of(l->cfg.tee, rank) & ((unsigned) LOGS_OUT << i);
}

static bool is_filed(const struct logs *l, unsigned rank, unsigned i)
{
    return l->has_files &&
           (is_teed(l, rank, i) || (mask_of(l->cfg.redirects, rank) & ((unsigned) LOGS_OUT << i)));
}

/* The table of contract 3.3; without files (/dev/null, or no directory) everything goes to the console. */
static bool is_shown(const struct logs *l, unsigned rank, unsigned i)
{
    bool is_redirected = l->has_files && !is_teed(l, rank, i) &&
                         (mask_of(l->cfg.redirects, rank) & ((unsigned) LOGS_OUT << i));
    bool is_asked = !l->cfg.is_on_console || l->cfg.is_on_console[rank] ||
                    (l->cfg.log_dir && !strcmp(l->cfg.log_dir, "/dev/null"));

    return is_asked && !is_redirected;
}

/* One worker with a terminal of its own: debuggers, prompts and progress bars work as if we were not there.
 */
static bool is_inherited(const struct logs *l, unsigned rank, unsigned i)
{
    return l->cfg.nproc == 1 && !l->cfg.is_label && !is_filed(l, rank, i) && !is_teed(l, rank, i) &&
           is_shown(l, rank, i) && isatty(l->cfg.console_fd[i + 1]) == 1;
}

/* The one whose last lines may be the cause of a failure: it is read wherever it goes. */
static unsigned tail_stream(const struct logs *l)
{
    return l->cfg.is_merged ? 0 : 1;
}

static unsigned count_shown(const struct logs *l)
{
    unsigned n = 0;

    for (unsigned rank = 0; rank < l->cfg.nproc; rank++)
        n += is_shown(l, rank, 0) || is_shown(l, rank, 1);
    return n;
}

static bool wants_files(const struct logs_cfg *cfg)
{
    if (cfg->log_dir)
        return strcmp(cfg->log_dir, "/dev/null") != 0;
    if (cfg->dup_out || cfg->dup_err)
        return true;
    for (unsigned i = 0; i < cfg->nproc; i++)
        if (mask_of(cfg->redirects, i) || mask_of(cfg->tee, i))
            return true;
    return false;
}

/* ---- time */

static void on_timer(uv_timer_t *t);

static void wake(void *ctx, uint64_t at)
{
    struct logs *l = ctx;
    uint64_t     now = uv_now(l->loop);

    if (l->is_closing || at >= l->timer_at)
        return;
    l->timer_at = at;
    (void) uv_timer_start(&l->timer, on_timer, at > now ? at - now : 0, 0);
}

static void drained(struct worker *w)
{
    struct logs *l = w->l;

    w->is_exited = w->is_drained_due = false;
    if (l->lost_bytes > 0 && !l->is_dropped_said) {
        l->is_dropped_said = true;
        notice(l, "%" PRIu64 " bytes of the log files of '%s' were lost, because they could not be written",
               l->lost_bytes, l->dir.run);
    }
    l->cbs->on_drained(l->ctx, w->rank);
}

static void on_timer(uv_timer_t *t)
{
    struct logs *l = CC_CONTAINER_OF(t, struct logs, timer);
    uint64_t     now = uv_now(l->loop);

    l->timer_at = UINT64_MAX;
    for (unsigned i = 0; i < l->cfg.nproc && !l->is_closing; i++) {
        struct worker *w = &l->workers[i];

        wake(l, stream_tick(&w->stream[1], now));
        wake(l, stream_tick(&w->stream[0], now));
        if (w->is_drained_due)
            drained(w);
    }
}

/* ---- what streams and consoles report */

static void on_disk_error(void *ctx, const struct stream *s)
{
    struct logs *l = ctx;

    if (l->is_disk_said)
        return;
    l->is_disk_said = true;
    notice(l,
           "cannot write the log file '%s': %s; the job goes on, and its output is missing there until there "
           "is room",
           s->sink.path, strerror(-s->sink.error));
}

static void on_stream_end(void *ctx, struct stream *s)
{
    struct logs   *l = ctx;
    struct worker *w = s->owner;

    assert(w->n_open > 0);
    l->lost_bytes += s->sink_lost;
    w->n_open--;
    if (w->n_open == 0 && w->is_exited && !l->is_closing)
        drained(w);
}

/* At the end, and now and then: a console that is slow all the time must not be told all the time. */
static void say_dropped(struct logs *l, uint64_t now)
{
    if (l->env.dropped == l->dropped_said || now < l->say_dropped_at)
        return;
    l->say_dropped_at = now + DROPPED_EVERY_MS;
    notice(l, "%" PRIu64 " bytes of output were dropped, because the console is slower than the workers",
           l->env.dropped - l->dropped_said);
    l->dropped_said = l->env.dropped;
}

static void on_room(void *ctx)
{
    struct logs *l = ctx;

    say_dropped(l, uv_now(l->loop));

    for (unsigned i = 0; i < l->cfg.nproc; i++) {
        stream_resume(&l->workers[i].stream[1]);
        stream_resume(&l->workers[i].stream[0]);
    }
}

static void on_lost(void *ctx, int error)
{
    struct logs *l = ctx;

    if (l->is_lost_said)
        return;
    l->is_lost_said = true; /* first: what is said may go to the other console, which may be lost as well */
    if (error == -EPIPE)
        l->cbs->on_console_lost(l->ctx);
    else
        notice(l, "cannot write to the console: %s; the job goes on without it", strerror(-error));
}

static void on_dropped(void *ctx, int error)
{
    struct logs *l = ctx;

    if (l->is_dropped_said)
        return;
    l->is_dropped_said = true; /* first: the sentence itself may find no room */
    notice(l, "cannot write the output of the job: %s; what does not fit is lost, and the job goes on",
           strerror(-error));
}

static const struct console_cbs console_cbs = { .on_room = on_room,
                                                .on_lost = on_lost,
                                                .on_dropped = on_dropped };

/* Once per turn of the loop: what all workers have written goes out together. */
static void on_check(uv_check_t *c)
{
    struct logs *l = CC_CONTAINER_OF(c, struct logs, check);

    for (unsigned i = 0; i < 2; i++)
        if (!l->console[i].is_waiting)
            console_write(&l->console[i]);
}

/* ---- birth */

static int open_files(struct logs *l, struct cc_err *err)
{
    struct cc_err why = { 0 };
    int           r;

    if (!wants_files(&l->cfg))
        return 0;
    r = logdir_open(&l->dir, l->cfg.log_dir, l->cfg.run_id, &why);
    if (r == 0)
        l->has_files = true;
    else if (l->cfg.is_strict)
        return cc_fail(err, r, "%s", why.msg);
    else
        notice(l, "%s; the job goes on without log files", why.msg);
    return 0;
}

static void init_handles(struct logs *l)
{
    (void) uv_timer_init(l->loop, &l->timer);
    (void) uv_check_init(l->loop, &l->check);
    (void) uv_check_start(&l->check, on_check);
    uv_unref((uv_handle_t *) &l->check);
    l->n_handles = 2;
    l->timer_at = UINT64_MAX;
}

static void init_consoles(struct logs *l)
{
    bool is_keep = l->cfg.cr == LOGS_CR_KEEP;

    for (unsigned i = 0; i < 2; i++) {
        console_init(&l->console[i], l->loop, l->cfg.console_fd[i + 1], is_keep, &console_cbs, l);
        l->console_of[i] = &l->console[i];
    }
    if (console_is_same(&l->console[0], l->cfg.console_fd[2]))
        l->console_of[1] = &l->console[0];
}

static void on_private_dir(void *ctx, const char *path)
{
    struct logs *l = ctx;

    keeper_remove_later(l->env.keeper_fd, path);
}

int logs_new(struct logs **ret, uv_loop_t *loop, const struct logs_cfg *cfg, const struct logs_cbs *cbs,
             void *ctx, struct cc_err *err)
{
    struct logs *l = calloc(1, sizeof *l);
    int          r;

    if (l)
        l->workers = calloc(cfg->nproc, sizeof *l->workers);
    if (!l || !l->workers) {
        free(l);
        return cc_fail(err, -ENOMEM, "no memory for the output of %u workers", cfg->nproc);
    }
    l->cfg = *cfg;
    l->cbs = cbs;
    l->ctx = ctx;
    l->loop = loop;
    l->null_fd = l->filter[0].fd = l->filter[1].fd = -1;
    r = open_files(l, err);
    if (r < 0) {
        (void) logs_free(l);
        return r;
    }
    l->env = (struct stream_env){
        .loop = loop,
        .pipe_budget = PIPE_BUDGET,
        .is_dropping = cfg->is_dropping,
        .keeper_fd = cfg->keeper_fd > 0 ? cfg->keeper_fd : -1,
        .wake = wake,
        .on_disk_error = on_disk_error,
        .on_end = on_stream_end,
        .ctx = l,
    };
    for (unsigned i = 0; i < cfg->nproc; i++) {
        l->workers[i].l = l;
        l->workers[i].rank = i;
    }
    l->dir.on_private = on_private_dir;
    l->dir.ctx = l;
    init_consoles(l);
    init_handles(l);
    *ret = l;
    return 0;
}

/* ---- the start of a worker */

/* Pages that no worker's output touches cost nothing. */
static int make_memory(struct logs *l, struct cc_err *err)
{
    size_t size = (size_t) l->cfg.nproc * WORKER_MEMORY + STREAM_READ_MAX;

    if (l->memory)
        return 0;
    l->memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (l->memory == MAP_FAILED) {
        l->memory = NULL;
        return cc_fail(err, -ENOMEM, "no memory for the output of %u workers", l->cfg.nproc);
    }
    (void) madvise(l->memory, size, MADV_NOHUGEPAGE);
    l->env.buf = l->memory + (size_t) l->cfg.nproc * WORKER_MEMORY;
    return 0;
}

static char *worker_memory(const struct worker *w)
{
    return w->l->memory + (size_t) w->rank * WORKER_MEMORY;
}

static char *make_prefix(const struct logs *l, unsigned rank, unsigned i)
{
    char               buf[PREFIX_MAX] = "";
    struct prefix_vars vars = {
        .role_name = l->cfg.role,
        .rank = l->base_rank + rank,
        .local_rank = rank,
    };

    if (is_teed(l, rank, i) && l->has_files)
        (void) prefix_tee(buf, l->cfg.prefix_template, &vars);
    else if (l->cfg.is_label)
        (void) prefix_label(buf, vars.rank);
    return strdup(buf);
}

/* One file a node and stream for the lines of all tee'd workers that contain a needle. */
static int open_filter(struct logs *l, unsigned i, struct cc_err *err)
{
    CC_AUTO_FREE char *path = NULL;
    const char *const *needles = i == 0 ? l->cfg.dup_out : l->cfg.dup_err;

    if (!needles)
        return 0;
    sink_close(&l->filter[i]);
    if (asprintf(&path, "%s/filtered_%s.log", l->dir.attempt, i == 0 ? "stdout" : "stderr") < 0) {
        path = NULL;
        return cc_fail(err, -ENOMEM, "no memory for the filtered log");
    }
    return sink_open(&l->filter[i], path, 0, 0, err);
}

/* The worker's directory and its files. */
static int open_worker_files(struct worker *w, unsigned attempt, struct cc_err *err)
{
    struct logs       *l = w->l;
    bool               is_first = !l->dir.attempt || l->dir.n_attempt != attempt;
    CC_AUTO_FREE char *dir = logdir_worker(&l->dir, attempt, w->rank, err);
    int                r = dir ? 0 : err->code;

    if (r == 0 && is_first) {
        r = open_filter(l, 0, err);
        if (r == 0)
            r = open_filter(l, 1, err);
    }
    for (unsigned i = 0; i < 2 && r == 0; i++) {
        CC_AUTO_FREE char *path = NULL;

        if (!is_filed(l, w->rank, i) || (i == 1 && l->cfg.is_merged))
            continue;
        if (asprintf(&path, "%s/%s.log", dir, i == 0 ? "stdout" : "stderr") < 0) {
            path = NULL;
            return cc_fail(err, -ENOMEM, "no memory for the log of local rank %u", w->rank);
        }
        r = sink_open(&w->stream[i].sink, path, l->cfg.max_size, l->cfg.keep, err);
        w->stream[i].has_sink = r == 0;
    }
    return r;
}

static void close_worker_files(struct worker *w)
{
    for (unsigned i = 0; i < 2; i++) {
        if (w->stream[i].has_sink)
            sink_close(&w->stream[i].sink);
        w->stream[i].has_sink = false;
    }
}

static int open_null(struct logs *l, struct cc_err *err)
{
    if (l->null_fd < 0)
        l->null_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    return l->null_fd < 0 ? cc_fail(err, -errno, "cannot open '/dev/null': %s", strerror(errno)) : 0;
}

static int open_pipe(struct worker *w, unsigned i, struct cc_err *err)
{
    struct logs   *l = w->l;
    struct stream *s = &w->stream[i];
    bool is_shown_here = is_shown(l, w->rank, i), is_filtered = is_teed(l, w->rank, i) && l->filter[i].path;
    struct stream_cfg cfg = {
        .console = is_shown_here ? l->console_of[i] : NULL,
        .memory = worker_memory(w) + i * STREAM_MEMORY,
        .tail = i == tail_stream(l) ? &w->tail : NULL,
        .filter = is_shown_here && is_filtered ? &l->filter[i] : NULL,
        .needles = i == 0 ? l->cfg.dup_out : l->cfg.dup_err,
        .before = i == 0 ? &w->stream[1] : NULL,
    };

    free(w->prefix[i]);
    w->prefix[i] = make_prefix(l, w->rank, i);
    if (!w->prefix[i])
        return cc_fail(err, -ENOMEM, "no memory for the output of local rank %u", w->rank);
    cfg.prefix = w->prefix[i];
    cfg.prefix_len = strlen(cfg.prefix);
    cfg.is_prompting = cfg.console && cfg.console->is_tty && count_shown(l) == 1;
    s->owner = w;
    s->id = 2 * w->rank + i;
    return stream_open(s, &l->env, &cfg, err);
}

/* Fills *ret_fd with what the child gets. */
static int open_stream(struct worker *w, unsigned i, int *ret_fd, struct cc_err *err)
{
    struct logs *l = w->l;
    int          r;

    if (is_inherited(l, w->rank, i)) {
        *ret_fd = l->cfg.console_fd[i + 1];
        return 0;
    }
    if (i != tail_stream(l) && !is_shown(l, w->rank, i) && !is_filed(l, w->rank, i)) {
        r = open_null(l, err);
        *ret_fd = l->null_fd;
        return r;
    }
    r = open_pipe(w, i, err);
    if (r == 0) {
        w->n_open++;
        *ret_fd = w->stream[i].child_fd;
    }
    return r;
}

static void reset_worker(struct worker *w)
{
    free(w->tail_text);
    free(w->error_file);
    w->tail_text = w->error_file = NULL;
    w->is_exited = w->is_drained_due = false;
    w->deadline = UINT64_MAX;
    tail_init(&w->tail, worker_memory(w) + 2 * STREAM_MEMORY, TAIL_BYTES);
}

int logs_open(struct logs *l, unsigned local_rank, unsigned attempt, struct logs_stdio *ret,
              struct cc_err *err)
{
    struct worker    *w = &l->workers[local_rank];
    struct logs_stdio io = { -1, -1 };
    struct cc_err     why = { 0 };
    int               r = make_memory(l, err);

    assert(local_rank < l->cfg.nproc && w->n_open == 0);
    if (r < 0)
        return r;
    reset_worker(w);
    l->attempt = attempt;
    if (l->has_files && open_worker_files(w, attempt, &why) < 0) {
        close_worker_files(w);
        if (l->cfg.is_strict && attempt == 0) /* a disk that filled up meanwhile must not end a restart */
            return cc_fail(err, why.code, "%s", why.msg);
        l->has_files = false; /* the console takes it all from here on */
        notice(l, "%s; the job goes on without log files", why.msg);
    }
    if (!l->cfg.is_merged)
        r = open_stream(w, 1, &io.err, err);
    if (r == 0)
        r = open_stream(w, 0, &io.out, err);
    if (l->cfg.is_merged)
        io.err = io.out;
    if (r < 0) {
        stream_close(&w->stream[1]);
        close_worker_files(w);
        return r;
    }
    *ret = io;
    return 0;
}

void logs_set_base_rank(struct logs *l, unsigned base_rank)
{
    l->base_rank = base_rank;
}

void logs_started(struct logs *l, unsigned local_rank)
{
    struct worker *w = &l->workers[local_rank];

    stream_start(&w->stream[1]);
    stream_start(&w->stream[0]);
}

void logs_exited(struct logs *l, unsigned local_rank)
{
    struct worker *w = &l->workers[local_rank];
    uint64_t       now = uv_now(l->loop);

    w->is_exited = true;
    w->deadline = now + l->cfg.drain_ms;
    stream_exited(&w->stream[1], w->deadline);
    stream_exited(&w->stream[0], w->deadline);
    if (w->n_open == 0) {
        w->is_drained_due = true;
        wake(l, now);
    }
}

/* ---- what the agent asks for */

const char *logs_stderr_tail(struct logs *l, unsigned local_rank)
{
    struct worker *w = &l->workers[local_rank];

    if (!l->memory)
        return "";
    free(w->tail_text);
    w->tail_text = malloc(TAIL_BYTES + 2);
    if (!w->tail_text)
        return "";
    (void) tail_text(&w->tail, w->tail_text, TAIL_LINES);
    return w->tail_text;
}

const char *logs_run_dir(const struct logs *l)
{
    return l->has_files ? l->dir.run : NULL;
}

const char *logs_attempt_dir(const struct logs *l)
{
    return l->has_files ? l->dir.attempt : NULL;
}

char *logs_private_file(struct logs *l, const char *name)
{
    return logdir_private_file(&l->dir, name);
}

const char *logs_error_file(struct logs *l, unsigned local_rank)
{
    struct worker *w = &l->workers[local_rank];

    if (l->cfg.log_dir && !strcmp(l->cfg.log_dir, "/dev/null"))
        return "";
    if (!w->error_file) {
        w->error_file = logdir_error_file(&l->dir, l->attempt, local_rank);
        if (w->error_file)
            (void) unlink(w->error_file); /* of an earlier round of this attempt */
    }
    return w->error_file ? w->error_file : "";
}

void logs_say(struct logs *l, const char *text)
{
    struct console  *c = l->console_of[1];
    struct merge_src us;
    size_t           len = strlen(text);

    merge_src_init(&us, "", 0, NULL);
    if (len == 0 || !console_admits(c, len))
        return;
    merge_unit(&c->merge, &us, text[len - 1] == '\n' ? DEMUX_LINES : DEMUX_REST, text, len, uv_now(l->loop));
    console_write(c);
}

/* ---- the end */

int logs_flush(struct logs *l, uint64_t timeout_ms, const sigset_t *mask)
{
    int r, r2;

    say_dropped(l, UINT64_MAX - DROPPED_EVERY_MS);
    r = console_flush(&l->console[0], timeout_ms, mask);
    r2 = console_flush(&l->console[1], r == -EINTR ? 0 : timeout_ms, mask);

    return r == -EINTR || r == -ETIMEDOUT ? r : r2 == -EINTR || r2 == -ETIMEDOUT ? r2 : 0;
}

static void on_handle_closed(uv_handle_t *h)
{
    struct logs *l = h->data;

    l->n_handles--;
}

void logs_close(struct logs *l)
{
    if (l->is_closing)
        return;
    for (unsigned i = 0; i < l->cfg.nproc; i++) {
        stream_close(&l->workers[i].stream[1]);
        stream_close(&l->workers[i].stream[0]);
    }
    l->is_closing = true;
    for (unsigned i = 0; i < 2; i++) {
        console_write(&l->console[i]);
        console_close(&l->console[i]);
    }
    l->timer.data = l->check.data = l;
    uv_close((uv_handle_t *) &l->timer, on_handle_closed);
    uv_close((uv_handle_t *) &l->check, on_handle_closed);
}

struct logs *logs_free(struct logs *l)
{
    if (!l)
        return NULL;
    assert(!l->is_closing || (l->n_handles == 0 && l->console[0].n_open == 0 && l->console[1].n_open == 0));
    for (unsigned i = 0; i < l->cfg.nproc; i++) {
        struct worker *w = &l->workers[i];

        free(w->prefix[0]);
        free(w->prefix[1]);
        free(w->tail_text);
        free(w->error_file);
    }
    if (l->memory)
        (void) munmap(l->memory, (size_t) l->cfg.nproc * WORKER_MEMORY + STREAM_READ_MAX);
    sink_close(&l->filter[0]);
    sink_close(&l->filter[1]);
    logdir_close(&l->dir);
    cc_fdp(&l->null_fd);
    free(l->workers);
    free(l);
    return NULL;
}
