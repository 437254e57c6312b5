/* sim_replay.c - plays a recorded job again: the same inputs into the same cores, and what they decide, as text.
 *
 *   sim_replay [-v] FILE...     -v shows the inputs, too
 *
 * The files are what ccrun wrote with CCRUN_RECORD.  Exits with 1 when the cores decide otherwise than they did then (another
 * version of ccrun, or a difference that must not be) and says at which input that shows; with 2 when it is no recording.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/core/record.h"

struct replay {
    const char    *path;
    struct record *e;
    size_t         n, at; /* at: the entry that is being played */
    bool          *is_used; /* [n]: an answer, or what came while an op ran */
    bool           is_verbose;
    struct member  m;
    struct rdzv   *r;
    uint32_t       member_sum, rdzv_sum;
    uint64_t       began;
    uint8_t       *state; /* for the coordinator to load, as far as it has come */
    size_t         n_state;
};

static void say(const struct replay *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void say(const struct replay *p, const char *fmt, ...)
{
    uint64_t ms = p->e[p->at].now > p->began ? p->e[p->at].now - p->began : 0;
    va_list  ap;

    (void) printf("%6" PRIu64 ".%03u ", ms / 1000, (unsigned) (ms % 1000));
    va_start(ap, fmt);
    (void) vprintf(fmt, ap);
    va_end(ap);
    (void) printf("\n");
}

__attribute__((noreturn, format(printf, 2, 3))) static void differs(const struct replay *p, const char *fmt, ...)
{
    va_list ap;

    (void) fflush(stdout);
    (void) fprintf(stderr, "sim_replay: %s: input %zu of %zu: ", p->path, p->at + 1, p->n);
    va_start(ap, fmt);
    (void) vfprintf(stderr, fmt, ap);
    va_end(ap);
    (void) fprintf(stderr, "\n");
    exit(1);
}

/* ---- what came while an op of the member ran */

/* The member's next entry, when it is of that kind. */
static const struct record *next_of(struct replay *p, enum record_kind kind)
{
    size_t i = p->at + 1;

    while (i < p->n && (p->is_used[i] || record_is_coordinators(p->e[i].kind)))
        i++;
    if (i == p->n || p->e[i].kind != kind)
        return NULL;
    p->is_used[i] = true;
    return &p->e[i];
}

static void check_sum(const struct replay *p, const struct record *e)
{
    bool is_coordinators = record_is_coordinators(e->kind);

    if (e->sum != (is_coordinators ? p->rdzv_sum : p->member_sum))
        differs(p, "until here the %s decided otherwise than when it was recorded", is_coordinators ? "coordinator" : "node");
}

static const struct record *answer(struct replay *p, enum record_kind kind, const char *what)
{
    const struct record *e = next_of(p, kind);

    if (!e)
        differs(p, "%s was not asked for when it was recorded", what);
    check_sum(p, e);
    return e;
}

/* ---- decisions of the member */

static void decided(struct replay *p, enum record_decision what, uint64_t number)
{
    p->member_sum = record_sum_number(p->member_sum, what, number);
}

static void op_hello(void *ctx, const struct rdzv_hello *h)
{
    static const char *const phases[] = { "ready", "running", "failed", "done", "leaving", "stuck", "gone" };
    struct replay   *p = ctx;
    struct proto_msg m = { .type = PROTO_HELLO, .u.hello = *h };

    p->member_sum = record_sum_message(p->member_sum, 0, &m);
    say(p, "node: hello, %s, round %u%s%s", phases[h->phase], h->round, h->has_cause ? ": " : "",
        h->has_cause ? h->cause.text : "");
}

static void op_start(void *ctx, const struct rdzv_view *v)
{
    struct replay       *p = ctx;
    const struct record *e;

    decided(p, RECORD_DOES_START, v->round);
    say(p, "node: start %u workers, round %u, node rank %u of %u, ranks from %u of %u", p->m.cfg.about.nproc, v->round,
        v->group_rank, v->group_world, v->base_rank, v->world);
    while (next_of(p, RECORD_STARTED))
        member_started(&p->m);
    e = next_of(p, RECORD_CANNOT_START);
    if (e)
        member_cannot_start(&p->m, e->now, e->u.number);
}

static void op_signal(void *ctx, int signum)
{
    struct replay *p = ctx;

    decided(p, RECORD_DOES_SIGNAL, (uint64_t) signum);
    say(p, "node: stop the workers, signal %d", signum);
}

static void op_sweep(void *ctx, int signum)
{
    struct replay *p = ctx;

    decided(p, RECORD_DOES_SWEEP, (uint64_t) signum);
    say(p, "node: sweep, signal %d", signum);
}

static unsigned op_attempt_ended(void *ctx)
{
    return answer(ctx, RECORD_ENDED, "the code of an attempt")->u.number;
}

static void op_node_news(void *ctx, enum node_news news, int arg)
{
    (void) arg;
    decided(ctx, RECORD_DOES_NODE_NEWS, (uint64_t) news);
}

static void op_describe(void *ctx, struct rdzv_cause *c)
{
    *c = answer(ctx, RECORD_DESCRIBED, "the description of a failure")->u.cause;
}

static void op_host_store(void *ctx, uint32_t round)
{
    struct replay       *p = ctx;
    const struct record *e;

    decided(p, RECORD_DOES_HOST, round);
    say(p, "node: an empty store for round %u", round);
    e = next_of(p, RECORD_SWITCHED);
    if (e)
        member_store_switched(&p->m, e->now, e->u.number);
}

static void op_notice(void *ctx, uint64_t ms_left)
{
    struct replay *p = ctx;

    decided(p, RECORD_DOES_NOTICE, ms_left);
    say(p, "node: a pre-emption is due in %" PRIu64 " ms", ms_left);
}

static void op_news(void *ctx, enum member_news news, const struct rdzv_view *view)
{
    (void) view;
    decided(ctx, RECORD_DOES_NEWS, (uint64_t) news);
}

static void op_finish(void *ctx, unsigned status)
{
    struct replay *p = ctx;

    decided(p, RECORD_DOES_FINISH, status);
    say(p, "node: finished, status %u", status);
}

static const struct member_ops member_ops = {
    op_hello, op_start, op_signal, op_sweep, op_attempt_ended, op_node_news, op_describe, op_host_store, op_notice, op_news,
    op_finish,
};

/* ---- of the coordinator */

static void op_view(void *ctx, uint64_t link, const struct rdzv_view *v)
{
    static const char *const phases[] = { "gather", "switch", "active", "ended" };
    struct replay   *p = ctx;
    struct proto_msg m = { .type = PROTO_VIEW, .u.view = *v };

    p->rdzv_sum = record_sum_message(p->rdzv_sum, link, &m);
    say(p, "coordinator: view for link %" PRIu64 ": round %u, %s, node rank %d, %u restarts%s%s", link, v->round,
        phases[v->phase], (int) v->group_rank, v->restarts, v->has_cause ? ": " : "", v->has_cause ? v->cause.text : "");
}

static void op_refuse(void *ctx, uint64_t link, const struct rdzv_refused *r)
{
    struct replay   *p = ctx;
    struct proto_msg m = { .type = PROTO_REFUSED, .u.refused = *r };

    p->rdzv_sum = record_sum_message(p->rdzv_sum, link, &m);
    say(p, "coordinator: link %" PRIu64 " is refused: %s", link, r->sentence);
}

static const struct rdzv_ops rdzv_ops = { op_view, op_refuse };

/* ---- inputs */

/* A state that did not load has ended the coordinator when it was recorded, too. */
static void play_state(struct replay *p, const struct record *e)
{
    struct cc_err err = { 0 };

    p->state = realloc(p->state, p->n_state + e->u.state.n + 1);
    if (!p->state)
        differs(p, "no memory");
    memcpy(p->state + p->n_state, e->u.state.bytes, e->u.state.n);
    p->n_state += e->u.state.n;
    if (e->u.state.n_left > 0)
        return;
    if (rdzv_load(p->r, e->now, p->state, p->n_state, &err) < 0) {
        say(p, "coordinator: %s", err.msg);
        p->r = rdzv_free(p->r);
    } else {
        say(p, "coordinator: goes on from %zu bytes that were saved", p->n_state);
    }
    p->n_state = 0;
}

static void play_coordinators(struct replay *p, const struct record *e)
{
    struct rdzv_event ev = { .now = e->now, .link = e->u.heard.link, .incarnation = e->u.heard.incarnation };
    struct cc_err     err = { 0 };

    if (e->kind == RECORD_COORDINATOR) {
        rdzv_free(p->r);
        p->r = rdzv_new(&e->u.rdzv, e->now, &rdzv_ops, p, &err);
        if (!p->r)
            differs(p, "%s", err.msg);
        return;
    }
    if (!p->r)
        differs(p, "there is no coordinator yet");
    if (e->kind == RECORD_STATE) {
        play_state(p, e);
        return;
    }
    ev.kind = e->kind == RECORD_HELLO ? RDZV_EV_HELLO : e->kind == RECORD_BROKEN ? RDZV_EV_BROKEN : RDZV_EV_TICK;
    if (ev.kind == RDZV_EV_HELLO) {
        ev.hello = &e->u.heard.hello;
        ev.incarnation = ev.hello->incarnation;
    }
    rdzv_event(p->r, &ev);
}

static void play_members(struct replay *p, const struct record *e)
{
    struct member *m = &p->m;

    if (e->kind != RECORD_MEMBER && !m->ops)
        differs(p, "there is no node yet");
    switch (e->kind) {
    case RECORD_MEMBER:
        member_init(m, &e->u.member, e->now, &member_ops, p);
        break;
    case RECORD_VIEW:
        member_view(m, e->now, &e->u.view);
        break;
    case RECORD_REFUSED:
        member_refused(m, e->now, &e->u.refused);
        break;
    case RECORD_CONNECTED:
        member_connected(m, e->now);
        break;
    case RECORD_NOTICE:
        member_notice(m, e->now, e->u.ms);
        break;
    case RECORD_EXITED:
        (void) member_exited(m, e->now, e->u.exited.status, e->u.exited.is_terminal);
        break;
    case RECORD_SIGNAL:
        member_signal(m, e->now, (int) e->u.number);
        break;
    case RECORD_PRESSED:
        member_pressed(m, e->now);
        break;
    case RECORD_TICK:
        (void) member_tick(m, e->now);
        break;
    case RECORD_SETTLE:
        member_settle(m, e->now, e->u.settle.is_empty, e->u.settle.is_drained);
        break;
    case RECORD_PAUSED:
        member_paused(m, e->u.ms);
        break;
    case RECORD_STARTED: /* later than in the start: the workers' MPI had to be made ready */
        member_started(m);
        break;
    case RECORD_CANNOT_START:
        member_cannot_start(m, e->now, e->u.number);
        break;
    case RECORD_SWITCHED: case RECORD_ENDED: case RECORD_DESCRIBED:
        differs(p, "the node did not ask for what was recorded here");
    case RECORD_COORDINATOR: case RECORD_HELLO: case RECORD_BROKEN: case RECORD_DUE: case RECORD_STATE:
    case RECORD_N_KINDS:
        break;
    }
}

static void show_input(const struct replay *p, const struct record *e)
{
    static const char *const names[RECORD_N_KINDS] = {
        "node: is born", "node: view", "node: is refused", "node: is connected", "node: is told of a pre-emption",
        "node: a worker ends", "node: gets a signal", "node: gets ^C", "node: its time is up", "node: looks at what is left",
        "node: had been stopped", "", "", "", "", "", "coordinator: is born", "coordinator: hello", "coordinator: a link broke",
        "coordinator: its time is up", "coordinator: reads what was saved",
    };

    if (p->is_verbose)
        say(p, "  %s", names[e->kind]);
}

static void play(struct replay *p)
{
    for (p->at = 0; p->at < p->n; p->at++) {
        const struct record *e = &p->e[p->at];

        if (p->is_used[p->at])
            continue;
        check_sum(p, e);
        show_input(p, e);
        if (record_is_coordinators(e->kind))
            play_coordinators(p, e);
        else
            play_members(p, e);
    }
}

/* ---- files */

__attribute__((noreturn)) static void unreadable(const char *path, const char *why)
{
    (void) fprintf(stderr, "sim_replay: %s: %s\n", path, why);
    exit(2);
}

static uint8_t *read_file(const char *path, size_t *ret_n)
{
    FILE    *f = fopen(path, "r");
    long     n;
    uint8_t *bytes;

    if (!f || fseek(f, 0, SEEK_END) < 0 || (n = ftell(f)) < 0 || fseek(f, 0, SEEK_SET) < 0)
        unreadable(path, strerror(errno));
    bytes = malloc((size_t) n + 1);
    if (!bytes || fread(bytes, 1, (size_t) n, f) != (size_t) n)
        unreadable(path, "cannot be read");
    (void) fclose(f);
    *ret_n = (size_t) n;
    return bytes;
}

static void load(struct replay *p)
{
    size_t        size, at = RECORD_HEAD, used, cap = 0;
    uint8_t      *bytes = read_file(p->path, &size);
    struct cc_err err = { 0 };
    int           r = record_check_head(bytes, size, &err);

    while (r >= 0) {
        if (p->n == cap) {
            cap = cap > 0 ? 2 * cap : 1024;
            p->e = realloc(p->e, cap * sizeof(p->e[0]));
            if (!p->e)
                unreadable(p->path, "no memory");
        }
        r = record_decode(bytes + at, size - at, &used, &p->e[p->n], &err);
        if (r <= 0)
            break;
        at += used;
        p->n++;
    }
    if (r < 0)
        unreadable(p->path, err.msg);
    p->is_used = calloc(p->n + 1, sizeof(p->is_used[0]));
    if (!p->is_used)
        unreadable(p->path, "no memory");
    p->began = p->n > 0 ? p->e[0].now : 0;
    free(bytes);
}

int main(int argc, char **argv)
{
    bool is_verbose = argc > 1 && strcmp(argv[1], "-v") == 0;
    int  i;

    if (argc < 2 + is_verbose) {
        (void) fprintf(stderr, "usage: sim_replay [-v] FILE...\n");
        return 2;
    }
    for (i = 1 + is_verbose; i < argc; i++) {
        struct replay p = { .path = argv[i], .is_verbose = is_verbose };

        load(&p);
        play(&p);
        (void) printf("%s: %zu inputs, the decisions are the recorded ones\n", p.path, p.n);
        rdzv_free(p.r);
        free(p.e);
        free(p.is_used);
        free(p.state);
    }
    return 0;
}
