/* The directory that is a file: when to look at it, and what follows.  All calls on it are made aside (aside.h), because a
 * file system of the network may hang for minutes, and the workers, the peers and the signals do not wait. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/aside.h"
#include "agent/hosting.h"
#include "agent/sharedfile.h"
#include "store/base/clock.h"
#include "store/base/macros.h"

enum {
    TICK_MS = 500,
    BEAT_MS = 1000,   /* a host shows so often that it is there, by the time of the file */
    SLOW_MS = 2000,   /* a file system that takes longer is named */
    LOST_MS = SHAREDFILE_STALE_MS - 2000, /* a host that cannot show itself stops before others may take over */
    CHECK_MS = 2000,  /* at the start, for errors that end the run at once */
    LEAVE_MS = 1000,  /* at the end, to take our file away */
};

enum task { CHECK, LOOK, KEEP, LEAVE };

struct visit { /* the thread's while it is there */
    enum task               task;
    struct sharedfile       file;
    struct sharedfile_found found;
    struct cc_err           err;    /* CHECK */
    uint8_t                *saving; /* KEEP: a state; NULL: none */
    size_t                  n_saving;
    bool                    is_host, is_over; /* LEAVE */
};

struct file_directory {
    struct directory      d;
    uv_timer_t            timer;
    struct aside         *aside;
    struct visit         *visit;
    uint64_t              begun_at;  /* the visit */
    unsigned              term, visit_term; /* the place we had, or had not, when it began */
    struct directory_host host;      /* whom we follow */
    char                  line[DIRECTORY_LINE_MAX];
    size_t                n_line;    /* of our own candidacy; 0: we do not stand */
    bool                  is_host, has_address, is_over, is_closing;
    uint64_t              shown_at;  /* when the last visit began that has shown others that we are there */
    uint8_t              *saving;    /* the newest state, until a visit takes it */
    size_t                n_saving;
    uint64_t              version, version_saving; /* of the newest; of that of the visit */
};

static void note(struct file_directory *f, const char *why)
{
    directory_note(&f->d, why);
}

static void free_visit(void *job)
{
    struct visit *v = job;

    free(v->found.state);
    free(v->saving);
    free(v);
}

static void run_visit(void *job)
{
    struct visit *v = job;

    switch (v->task) {
    case CHECK:
        (void) sharedfile_check(&v->file, &v->err);
        break;
    case LOOK:
        sharedfile_look(&v->file, &v->found);
        break;
    case KEEP:
        sharedfile_keep(&v->file, v->saving, v->n_saving, &v->found);
        break;
    case LEAVE:
        sharedfile_leave(&v->file, v->is_host, v->is_over);
        break;
    }
}

static void start(struct file_directory *f, enum task task)
{
    struct visit *v = f->visit;

    v->task = task;
    memcpy(v->file.line, f->line, sizeof f->line);
    v->file.n_line = f->n_line;
    v->is_host = f->is_host;
    v->is_over = f->is_over;
    free(v->saving);
    v->saving = NULL;
    v->n_saving = 0;
    if (task == KEEP && f->saving) {
        v->saving = f->saving;
        v->n_saving = f->n_saving;
        f->version_saving = f->version;
        f->saving = NULL;
    }
    f->visit_term = f->term;
    f->begun_at = cc_monotonic_ms();
    aside_start(f->aside, v);
}

/* ---- a place of our own */

static void lose(struct file_directory *f, const char *why)
{
    f->is_host = false;
    f->term++;
    free(f->saving);
    f->saving = NULL;
    f->host = (struct directory_host) { 0 };
    f->d.cbs->lost(f->d.ctx, why);
}

static void become_host(struct file_directory *f, struct sharedfile_found *found)
{
    char text[CC_ERR_MSG_MAX];

    f->is_host = true;
    f->term++;
    f->shown_at = f->begun_at;
    f->host = (struct directory_host) { 0 };
    note(f, "");
    if (found->text[0]) {
        (void) snprintf(text, sizeof text, "%.400s; this node takes over", found->text);
        f->d.cbs->say(f->d.ctx, text);
    }
    f->d.cbs->elected(f->d.ctx, found->state, found->n_state);
}

static void on_kept(struct file_directory *f, struct visit *v)
{
    if (v->found.what == SHAREDFILE_ANOTHER || v->found.what == SHAREDFILE_NOBODY) {
        lose(f, v->found.what == SHAREDFILE_ANOTHER ? "another agent has taken over the file" : "somebody has removed the file");
        return;
    }
    if (v->found.what == SHAREDFILE_TROUBLE) {
        note(f, v->found.text);
        if (v->saving && !f->saving) { /* the next tick tries again */
            f->saving = v->saving;
            f->n_saving = v->n_saving;
            v->saving = NULL;
        }
        return;
    }
    note(f, "");
    f->shown_at = f->begun_at;
    if (v->saving)
        f->d.cbs->saved(f->d.ctx, f->version_saving);
}

/* ---- another hosts */

static void on_looked(struct file_directory *f, struct visit *v)
{
    switch (v->found.what) {
    case SHAREDFILE_TROUBLE:
        note(f, v->found.text);
        break;
    case SHAREDFILE_OURS:
        become_host(f, &v->found);
        break;
    case SHAREDFILE_ANOTHER:
        note(f, "");
        if (v->found.host.incarnation != f->host.incarnation) {
            f->host = v->found.host;
            f->d.cbs->host(f->d.ctx, &f->host);
        }
        break;
    case SHAREDFILE_NOBODY:
        note(f, "");
        break;
    }
}

/* ---- the loop's side */

static void let_go(struct file_directory *f);
static void on_tick(uv_timer_t *t);

static void wake(struct file_directory *f)
{
    (void) uv_timer_start(&f->timer, on_tick, 0, TICK_MS);
}

static void on_done(void *ctx, void *job)
{
    struct file_directory *f = ctx;
    struct visit          *v = job;
    bool                   is_due = f->visit_term == f->term;

    if (f->is_closing) {
        f->is_host |= v->task == LOOK && v->found.what == SHAREDFILE_OURS;
        if (v->task == LEAVE)
            let_go(f);
        else
            start(f, LEAVE);
    } else if (is_due && v->task == LOOK) {
        on_looked(f, v);
    } else if (is_due && v->task == KEEP) {
        on_kept(f, v);
    }
    if (!f->visit)
        return;
    if (!aside_is_busy(f->aside)) {
        free(v->found.state);
        v->found.state = NULL;
    }
    if (f->saving && !f->is_closing)
        wake(f);
}

static const struct aside_cbs aside_cbs = { run_visit, on_done, free_visit };

static void name_wait(struct file_directory *f, uint64_t now)
{
    char why[CC_ERR_MSG_MAX];

    (void) snprintf(why, sizeof why, "the file system of '%.300s' has not answered for %" PRIu64 " s", f->visit->file.path,
                    (now - f->begun_at) / 1000);
    note(f, why);
}

static void show_address(struct file_directory *f)
{
    char own[DIRECTORY_ADDR_MAX];

    f->has_address = true;
    hosting_own_address(own, sizeof own);
    f->d.cbs->address(f->d.ctx, own);
}

static void on_tick(uv_timer_t *t)
{
    struct file_directory *f = CC_CONTAINER_OF(t, struct file_directory, timer);
    uint64_t               now = cc_monotonic_ms();
    bool                   is_busy = aside_is_busy(f->aside);

    if (f->is_closing) { /* our time to leave is over */
        let_go(f);
        return;
    }
    if (!f->has_address) {
        show_address(f);
        return;
    }
    if (is_busy && now - f->begun_at >= SLOW_MS)
        name_wait(f, now);
    if (f->is_host && now - f->shown_at >= LOST_MS) {
        char why[CC_ERR_MSG_MAX];

        (void) snprintf(why, sizeof why, "the file was not touched for %llu s%s%.300s",
                        (unsigned long long) (now - f->shown_at) / 1000,
                        f->d.trouble[0] ? ": " : "", f->d.trouble);
        lose(f, why);
    }
    if (is_busy)
        return;
    if (!f->is_host)
        start(f, LOOK);
    else if (f->saving || now - f->shown_at >= BEAT_MS)
        start(f, KEEP);
}

/* ---- the operations */

static void op_stand(struct directory *d, const char *addr, uint16_t port)
{
    struct file_directory *f = CC_CONTAINER_OF(d, struct file_directory, d);
    struct directory_host  h = { .port = port, .incarnation = d->cfg.incarnation };

    (void) snprintf(h.addr, sizeof h.addr, "%s", addr);
    (void) snprintf(h.name, sizeof h.name, "%s", d->cfg.our_host);
    f->n_line = directory_write(&h, &f->visit->file.us, f->line);
    wake(f);
}

static void op_save(struct directory *d, uint64_t version, const uint8_t *state, size_t n)
{
    struct file_directory *f = CC_CONTAINER_OF(d, struct file_directory, d);

    if (!f->is_host)
        return;
    free(f->saving);
    f->saving = malloc(n > 0 ? n : 1);
    f->n_saving = n;
    f->version = version;
    if (!f->saving) {
        note(f, "no memory to save the state of the job");
        return;
    }
    memcpy(f->saving, state, n);
    wake(f);
}

static void op_forget(struct directory *d)
{
    CC_CONTAINER_OF(d, struct file_directory, d)->is_over = true;
}

static void on_closed(uv_handle_t *h)
{
    free(CC_CONTAINER_OF(h, struct file_directory, timer));
}

/* A visit that still hangs goes with the thread. */
static void let_go(struct file_directory *f)
{
    bool is_left = aside_is_busy(f->aside);

    aside_close(f->aside);
    if (!is_left)
        free_visit(f->visit);
    f->visit = NULL;
    free(f->saving);
    f->saving = NULL;
    uv_close((uv_handle_t *) &f->timer, on_closed);
}

static void op_close(struct directory *d)
{
    struct file_directory *f = CC_CONTAINER_OF(d, struct file_directory, d);

    f->is_closing = true;
    (void) uv_timer_start(&f->timer, on_tick, LEAVE_MS, 0);
    if (!aside_is_busy(f->aside))
        start(f, LEAVE);
}

/* An error that is there at once ends the run; a file system that does not answer is waited for in sight of everybody. */
static int check(struct file_directory *f, struct cc_err *err)
{
    start(f, CHECK);
    if (!aside_wait(f->aside, CHECK_MS) || f->visit->err.code == 0)
        return 0;
    *err = f->visit->err;
    return err->code;
}

struct directory *directory_file_new(uv_loop_t *loop, const struct directory_cfg *cfg, const struct directory_cbs *cbs,
                                     void *ctx, struct cc_err *err)
{
    struct file_directory *f = calloc(1, sizeof *f);

    if (f)
        f->visit = calloc(1, sizeof *f->visit);
    if (!f || !f->visit)
        (void) cc_fail(err, -ENOMEM, "no memory for the rendezvous's file");
    else if (sharedfile_init(&f->visit->file, cfg->path, cfg->incarnation, err) == 0)
        f->aside = aside_new(loop, &aside_cbs, f, err);
    if (!f || !f->aside) {
        if (f)
            free(f->visit);
        free(f);
        return NULL;
    }
    f->d = (struct directory) { .stand = op_stand, .save = op_save, .forget = op_forget, .close = op_close, .cfg = *cfg,
                                .cbs = cbs, .ctx = ctx };
    if (check(f, err) < 0) {
        aside_close(f->aside);
        free_visit(f->visit);
        free(f);
        return NULL;
    }
    (void) uv_timer_init(loop, &f->timer);
    wake(f);
    return &f->d;
}
