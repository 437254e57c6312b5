/* sim_node.c - thousands of jobs of one node against the real cores, with a simulated clock, and oracles.
 *
 *   sim_node [-n SEEDS] [-s FIRST_SEED] [-v]
 *
 * The node is a member of a job whose coordinator is in the same process, as ccrun has it.
 *
 * One seed is one job: workers that end well or badly or of a signal, ignore SIGTERM, leave daemons behind, sit in D state or
 * cannot be executed; a user or a scheduler that sends TERM, INT, HUP in any order, to us or to the whole step.
 * Checked after every step:
 *   O1  workers of two attempts never live at the same time, daemons included
 *   O2  a restart follows a real failure only, and there are never more than the budget
 *   O3  once something has failed or a stop was asked for, the attempt is over in bounded time
 *   O4  nothing is left alive when the job ends, but for what is in D state
 *   O5  the exit status is that of the first failure of the last attempt, or 128 + the first stopping signal, or 0
 *   O6  a worker gets SIGKILL only after its grace time or the second ^C
 *   O7  after a stop was asked for, no worker is started
 *   O8  when somebody asked for a stop, and not before, the workers are told with that signal
 *   O9  when nothing lives any more and all output is out the attempt is over, unless a death is held
 *   O10 output that nobody reads is waited for, and given up only after a stop
 *   O11 nothing is said to have outlived SIGKILL when nothing has
 */
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/sim/sim_solo.h"

enum { MAX_WORKERS = 8, TERM_GRACE = 3000, KILL_GRACE = 500, SWEEP_GRACE = 200, SLACK = 1000 };
enum { BOUND = TERM_GRACE + KILL_GRACE + SWEEP_GRACE + SLACK };

static const uint64_t never = UINT64_MAX;

struct proc {
    bool     is_alive, is_daemon_alive, is_termed, is_killed;
    uint64_t ends_at, daemon_ends_at; /* by itself, or after a signal */
    int      status;                  /* how it will end */
    bool     ignores_term, daemon_ignores_term, is_stuck;
};

struct sim {
    uint64_t    seed, rng, now;
    struct solo solo;
    struct node *node; /* in it */
    struct proc procs[MAX_WORKERS];
    unsigned    n, max_restarts, n_starts, fail_percent;
    bool        is_stop_sent, is_done, is_stuck_any, is_killed_by_user, has_failed, is_unstartable;
    int         first_stop;
    uint64_t    first_int_at, over_by, termed_at;
    uint64_t    reads_from; /* until then nobody reads the console, and it is full */
    unsigned    first_code, status;
    bool        is_verbose;
};

static uint64_t rnd(struct sim *s, uint64_t n)
{
    s->rng ^= s->rng << 13;
    s->rng ^= s->rng >> 7;
    s->rng ^= s->rng << 17;
    return s->rng % n;
}

static bool chance(struct sim *s, unsigned percent)
{
    return rnd(s, 100) < percent;
}

__attribute__((noreturn, format(printf, 2, 3))) static void broken(const struct sim *s, const char *fmt, ...)
{
    va_list ap;

    (void) fprintf(stderr, "seed %llu, %llu ms: ", (unsigned long long) s->seed, (unsigned long long) s->now);
    va_start(ap, fmt);
    (void) vfprintf(stderr, fmt, ap);
    va_end(ap);
    (void) fprintf(stderr, " (group %s, %u alive)\n", group_state_name(s->node->group.state), s->node->n_alive);
    exit(1);
}

static void trace(const struct sim *s, const char *what, int arg)
{
    if (s->is_verbose)
        (void) printf("%8llu %s %d\n", (unsigned long long) s->now, what, arg);
}

static bool is_anything_alive(const struct sim *s)
{
    unsigned i;

    for (i = 0; i < s->n; i++)
        if (s->procs[i].is_alive || s->procs[i].is_daemon_alive)
            return true;
    return false;
}

static bool is_drained(const struct sim *s)
{
    return s->now >= s->reads_from;
}

/* ---- the world's side of the ops */

static int some_end(struct sim *s)
{
    static const int signals[] = { SIGSEGV, SIGKILL, SIGTERM, SIGINT };

    if (!chance(s, s->fail_percent))
        return 0;
    return chance(s, 70) ? (int) (1 + rnd(s, 120)) << 8 : signals[rnd(s, 4)];
}

static void note_failure(struct sim *s, unsigned code)
{
    if (s->has_failed)
        return;
    s->has_failed = true;
    s->first_code = code;
    s->over_by = s->now + BOUND;
}

static void start_one(struct sim *s, struct proc *p)
{
    *p = (struct proc) {
        .is_alive = true,
        .ends_at = s->now + 1 + rnd(s, chance(s, 20) ? 10 : 20000),
        .status = some_end(s),
        .ignores_term = chance(s, 15),
        .is_daemon_alive = chance(s, 20),
        .daemon_ends_at = never,
        .daemon_ignores_term = chance(s, 50),
        .is_stuck = chance(s, 1),
    };
    member_started(&s->solo.m);
}

static void op_start(void *ctx)
{
    struct sim *s = ctx;
    unsigned    i;

    trace(s, "start", (int) s->n_starts);
    if (is_anything_alive(s))
        broken(s, "O1: an attempt starts while the one before lives");
    if (s->n_starts > s->max_restarts || (s->n_starts > 0 && !s->has_failed))
        broken(s, "O2: restart %u of %u", s->n_starts, s->max_restarts);
    if (s->is_unstartable)
        broken(s, "O2: a program that cannot start is tried again");
    if (s->is_stop_sent)
        broken(s, "O7: started after a stop");
    s->n_starts++;
    s->has_failed = false;
    s->over_by = s->termed_at = never;
    for (i = 0; i < s->n; i++) {
        if (chance(s, 1)) {
            s->is_unstartable = true;
            note_failure(s, 127);
            member_cannot_start(&s->solo.m, s->now, 127);
            return;
        }
        start_one(s, &s->procs[i]);
    }
}

static void op_signal(void *ctx, int signum)
{
    struct sim *s = ctx;
    unsigned    i;

    trace(s, "signal", signum);
    if (!s->has_failed && !s->is_stop_sent)
        broken(s, "O8: signal %d to the workers for no reason", signum);
    if (s->termed_at == never)
        s->termed_at = s->now;
    for (i = 0; i < s->n; i++) {
        struct proc *p = &s->procs[i];

        if (!p->is_alive || p->ignores_term || p->is_stuck || p->is_termed)
            continue;
        p->is_termed = true;
        p->ends_at = s->now + rnd(s, 100);
        p->status = chance(s, 50) ? signum : chance(s, 50) ? 0 : 1 << 8;
    }
}

static void kill_all(struct sim *s)
{
    bool     is_due = s->termed_at != never && s->now >= s->termed_at + TERM_GRACE;
    unsigned i;

    for (i = 0; i < s->n; i++) {
        struct proc *p = &s->procs[i];

        if (p->is_alive && !is_due && !s->is_killed_by_user)
            broken(s, "O6: SIGKILL to worker %u too early", i);
        if (p->is_alive && !p->is_stuck && !p->is_killed) {
            p->is_killed = true;
            p->ends_at = s->now + rnd(s, 5);
            p->status = SIGKILL;
        }
        if (p->is_daemon_alive && p->daemon_ends_at == never)
            p->daemon_ends_at = s->now + rnd(s, 5);
    }
}

static void op_sweep(void *ctx, int signum)
{
    struct sim *s = ctx;
    unsigned    i;

    trace(s, "sweep", signum);
    if (signum == SIGKILL) {
        kill_all(s);
        return;
    }
    for (i = 0; i < s->n; i++)
        if (s->procs[i].is_daemon_alive && !s->procs[i].daemon_ignores_term)
            s->procs[i].daemon_ends_at = s->now + rnd(s, 50);
}

static unsigned op_attempt_ended(void *ctx)
{
    const struct sim *s = ctx;

    if (!is_drained(s) && !s->is_stop_sent && !s->node->is_stuck)
        broken(s, "O10: output is given up");
    return 0;
}

static void op_news(void *ctx, enum node_news news, int arg)
{
    struct sim *s = ctx;

    (void) arg;
    trace(s, "news", (int) news);
    if (news == NODE_STUCK && !is_anything_alive(s))
        broken(s, "O11: nothing has outlived SIGKILL");
    s->is_stuck_any |= news == NODE_STUCK;
}

static void op_finish(void *ctx, unsigned status)
{
    struct sim *s = ctx;

    trace(s, "finish", (int) status);
    s->is_done = true;
    s->status = status;
}

static const struct solo_ops ops = { op_start, op_signal, op_sweep, op_attempt_ended, op_news, op_finish };

/* ---- what happens to it */

/* Whether this end is a failure is the world's own judgement here, not the policy's. */
static void worker_ends(struct sim *s, unsigned i)
{
    struct proc *p = &s->procs[i];

    p->is_alive = false;
    trace(s, "exit", p->status);
    if (!s->is_stop_sent && p->status != 0 && p->status != SIGTERM)
        note_failure(s, policy_status_code(p->status));
    solo_exited(&s->solo, s->now, p->status);
}

static void send_stop(struct sim *s, int signum)
{
    trace(s, "user", signum);
    if (!s->is_stop_sent) {
        s->is_stop_sent = true;
        s->first_stop = signum;
        if (s->over_by == never || !is_drained(s))
            s->over_by = s->now + BOUND;
    }
    if (signum == SIGINT && s->first_int_at != never && !s->is_killed_by_user) {
        s->is_killed_by_user = true;
        s->over_by = s->now + KILL_GRACE + (is_drained(s) ? 0 : SWEEP_GRACE) + SLACK;
    }
    if (signum == SIGINT)
        s->first_int_at = s->now;
    solo_signal(&s->solo, s->now, signum);
    if (s->termed_at == never && s->node->n_alive > 0 && !s->is_killed_by_user)
        broken(s, "O8: the workers were not told of signal %d", signum);
}

/* scancel: TERM to every process of the step; the workers may die of it before we hear of it. */
static void stop_step(struct sim *s)
{
    bool     is_us_first = chance(s, 50);
    unsigned i;

    trace(s, "scancel", is_us_first);
    if (is_us_first)
        send_stop(s, SIGTERM);
    for (i = 0; i < s->n; i++) {
        struct proc *p = &s->procs[i];

        if (p->is_alive && !p->ignores_term && !p->is_stuck) {
            p->status = SIGTERM;
            worker_ends(s, i);
        }
    }
    if (!is_us_first) {
        solo_settle(&s->solo, s->now, !is_anything_alive(s), is_drained(s));
        s->now += rnd(s, POLICY_TERM_HOLD_MS);
        send_stop(s, SIGTERM);
    }
}

static void settle(struct sim *s)
{
    solo_settle(&s->solo, s->now, !is_anything_alive(s), is_drained(s));
    if (!s->is_done && !is_anything_alive(s) && is_drained(s) && s->node->policy.hold_until == never)
        broken(s, "O9: waits for nobody");
    if (!s->is_done && s->now > s->over_by && (is_drained(s) || s->is_stop_sent))
        broken(s, "O3: not over in time");
}

static uint64_t next_event(const struct sim *s, uint64_t user_at)
{
    uint64_t due = solo_deadline(&s->solo), at = due < user_at ? due : user_at;
    unsigned i;

    if (s->reads_from > s->now && s->reads_from < at)
        at = s->reads_from;

    for (i = 0; i < s->n; i++) {
        const struct proc *p = &s->procs[i];

        if (p->is_alive && !p->is_stuck && p->ends_at < at)
            at = p->ends_at;
        if (p->is_daemon_alive && p->daemon_ends_at < at)
            at = p->daemon_ends_at;
    }
    return at;
}

static void user_acts(struct sim *s, uint64_t *user_at)
{
    static const int signals[] = { SIGTERM, SIGINT, SIGHUP, SIGINT };

    if (chance(s, 25) && !s->has_failed && s->node->policy.hold_until == never)
        stop_step(s);
    else
        send_stop(s, signals[rnd(s, 4)]);
    *user_at = chance(s, 60) ? s->now + POLICY_SAME_PRESS_MS + rnd(s, 2000) : never;
}

static void step(struct sim *s, uint64_t *user_at)
{
    unsigned i;

    if (s->now >= *user_at)
        user_acts(s, user_at);
    for (i = 0; i < s->n; i++) {
        struct proc *p = &s->procs[i];

        if (p->is_daemon_alive && p->daemon_ends_at <= s->now)
            p->is_daemon_alive = false;
        if (p->is_alive && !p->is_stuck && p->ends_at <= s->now)
            worker_ends(s, i);
    }
    if (s->node->policy.hold_until <= s->now && !s->is_stop_sent)
        note_failure(s, 128 + SIGTERM);
    if (s->now >= solo_deadline(&s->solo))
        solo_tick(&s->solo, s->now);
    settle(s);
}

static void check_end(const struct sim *s)
{
    bool     is_last = s->n_starts > s->max_restarts || s->is_unstartable;
    unsigned want = 0, i;

    for (i = 0; i < s->n; i++) {
        const struct proc *p = &s->procs[i];

        if (p->is_alive ? !p->is_stuck : p->is_daemon_alive)
            broken(s, "O4: worker %u or its daemon lives on", i);
    }
    if (s->has_failed && (is_last || !s->is_stop_sent))
        want = s->first_code;
    else if (s->is_stop_sent)
        want = 128u + (unsigned) s->first_stop;
    else if (s->is_stuck_any)
        want = 70;
    if (s->status != want)
        broken(s, "O5: status %u, not %u", s->status, want);
}

static void run(uint64_t seed, bool is_verbose)
{
    struct sim      s = { .seed = seed, .rng = seed * 0x9e3779b97f4a7c15u + 1, .is_verbose = is_verbose };
    struct solo_cfg cfg = { .node = { .term_grace = TERM_GRACE, .kill_grace = KILL_GRACE, .sweep_grace = SWEEP_GRACE } };
    uint64_t        user_at;
    unsigned        i;

    for (i = 0; i < 8; i++)
        (void) rnd(&s, 2); /* neighbouring seeds begin alike */
    s.n = 1 + (unsigned) rnd(&s, MAX_WORKERS);
    s.max_restarts = cfg.max_restarts = (unsigned) rnd(&s, 4);
    s.fail_percent = (unsigned) rnd(&s, 3) * 20;
    s.first_int_at = s.over_by = s.termed_at = never;
    s.now = 1000;
    user_at = chance(&s, 50) ? s.now + rnd(&s, 15000) : never;
    if (chance(&s, 20))
        s.reads_from = chance(&s, 50) ? s.now + rnd(&s, 30000) : never;
    s.node = &s.solo.m.node;
    solo_start(&s.solo, &cfg, s.now, &ops, &s);
    settle(&s);
    for (i = 0; !s.is_done; i++) {
        uint64_t at = next_event(&s, user_at);

        if (at == never && !s.is_stop_sent)
            at = user_at = s.now + 1000; /* a worker hangs for good: the user gives up */
        if (at == never || i > 10000)
            broken(&s, "O3: nothing happens any more");
        s.now = at > s.now ? at : s.now;
        step(&s, &user_at);
    }
    check_end(&s);
    solo_free(&s.solo);
}

int main(int argc, char **argv)
{
    uint64_t first = 1, n = 20000, i;
    bool     is_verbose = false;
    int      c;

    while ((c = getopt(argc, argv, "n:s:v")) != -1) {
        if (c == 'n')
            n = strtoull(optarg, NULL, 10);
        else if (c == 's')
            first = strtoull(optarg, NULL, 10);
        else if (c == 'v')
            is_verbose = true;
        else
            return 2;
    }
    for (i = 0; i < n; i++)
        run(first + i, is_verbose);
    (void) printf("sim_node: %llu jobs\n", (unsigned long long) n);
    return 0;
}
