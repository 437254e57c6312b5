/* sim_rdzv.c - thousands of jobs of many nodes against the real cores, with a simulated clock and network, and oracles.
 *
 *   sim_rdzv [-n SEEDS] [-s FIRST_SEED] [-v]     games: small jobs under every kind of fault, then a calm
 *   sim_rdzv -b NODES [-s SEED]                  one big job: forming, a failure, the loss of 1 %, the end
 *
 * In a game, messages are lost, doubled and up to 20 s late, links are cut both ways or one way, break and come back; agents
 * crash with and without a word and come back with the same address, or never; the coordinator stalls; workers fail, fail
 * because others did, ignore SIGTERM, sit in D state; agents are stopped, more come, and some are done before the others.
 * Some of the agents are cut off together; the host is stopped, or dies with the coordinator; a pre-emption is announced.
 * In some games the coordinator's state is saved, and it dies, with its agent or without; another agent's takes over.
 * In some games agents cannot take part and say so; some of those come again, with the same result or another.
 * Checked all the time:
 *   O1  a rank of a round starts once, all are told the same, ranks are dense, and there are min to max nodes
 *   O2  workers of two rounds live neither on one node nor on two that the coordinator counts on
 *   O3  a round with an absent member ends in bounded time
 *   O4  a restart follows a worker's failure only, and there are never more than the budget
 *   O5  a round starts when its store has an empty key space
 *   O6  a job that has ended stays ended
 *   O7  who stays in the job keeps its rank or moves down, never up
 *   O8  the cause of the end is the first failure of the round, as far as the nodes could know the coordinator's clock:
 *       to half of the shortest way to it and back
 *   O19 nodes that cannot take part end a job that has not begun when without them too few can come, or when one of them is
 *       the host and has no successor; and only then
 *   O18 no two coordinators speak in one term
 * After the calm:
 *   O9  all agents are in the same round, in bounded time
 *   O10 when all workers end well, and not before, so does every agent; when the job has failed, all exit alike
 * In smooth games also:
 *   O11 an agent that is there all the time is never lost
 *   O12 an agent that has lost the coordinator stops its workers in bounded time; and ends when nobody takes over:
 *       counted from the last that it said, however late that came
 *   O14 when the host leaves, the job ends
 *   O15 the job ends so long after its first worker was done, and not before
 *   O16 a pre-emption is known to all within a second, with the right time
 *   O17 the workers of a round that is over are told once to stop
 * In a big job:
 *   O13 the time to form, to start again after a failure (the 99th percentile) and after a loss, with spares and without, is
 *       bounded; so are messages and bytes per node, and the coordinator's memory
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/sim/sim_world.h"

enum { FAULTS_S = 60, HEALED_S = 60, END_S = 30 };

static const uint64_t second = 1000 * MS;

static struct rdzv_cfg defaults(void)
{
    struct rdzv_cfg c = {
        .max_rejoins = UINT32_MAX,
        .budget = { .max_restarts = 1000, .quick = 5000 },
        .last_call = 3000,
        .join_timeout = 40000,
        .replace_timeout = 40000,
        .dead_after = 3000,
        .reset_grace = 300,
        .settle_timeout = 4500,
        .switch_timeout = 5000,
        .scale_delay = 500,
        .plan = { .min_nodes = 1, .max_nodes = 1, .program = "train.py", .version = "0.1.0" },
    };

    return c;
}

/* ---- games */

static struct rdzv_cfg random_cfg(struct world *w, uint32_t n)
{
    struct rdzv_cfg c = defaults();

    c.nodes_cap = 2 * n;
    c.max_nodes = world_chance(w, 60000) ? n : 1 + (uint32_t) world_random(w, n);
    c.min_nodes = world_chance(w, 30000) ? c.max_nodes : 1 + (uint32_t) world_random(w, c.max_nodes);
    if (world_chance(w, 30000))
        c.budget.max_restarts = (uint32_t) world_random(w, 4);
    if (world_chance(w, 20000)) {
        c.budget.backoff_min = 100;
        c.budget.backoff_max = 2000;
    }
    if (world_chance(w, 20000))
        c.budget.same_max = 3;
    c.scales_on_restart_only = world_chance(w, 20000);
    if (world_chance(w, 15000))
        c.expected = c.min_nodes + (uint32_t) world_random(w, c.max_nodes - c.min_nodes + 1);
    if (world_chance(w, 15000))
        c.n_spares = 1;
    if (world_chance(w, 10000))
        c.replace_timeout = 0;
    return c;
}

static void schedule_faults(struct world *w)
{
    static const enum fault faults[] = {
        FAULT_CRASH, FAULT_POWER, FAULT_CUT, FAULT_CUT_IN, FAULT_CUT_OUT, FAULT_FLAP, FAULT_STALL, FAULT_PARTITION,
    };
    uint64_t n = world_random(w, 3) == 0 ? 0 : 1 + world_random(w, 8), i;

    for (i = 0; i < n; i++)
        world_fault(w, world_random(w, FAULTS_S * second), (uint32_t) world_random(w, w->n), faults[world_random(w, 8)]);
    for (i = world_chance(w, 30000) ? 1 + world_random(w, 4) : 0; i > 0; i--)
        world_fault(w, world_random(w, FAULTS_S * second), (uint32_t) world_random(w, w->n), FAULT_TERM);
    if (world_chance(w, 5000))
        world_fault(w, world_random(w, FAULTS_S * second), 0, FAULT_BEHEAD);
    if (world_chance(w, 30000))
        world_fault(w, world_random(w, FAULTS_S * second), (uint32_t) world_random(w, w->n), FAULT_NOTICE);
    for (i = w->is_durable ? world_random(w, 5) : 0; i > 0; i--)
        world_fault(w, world_random(w, FAULTS_S * second), 0, world_chance(w, 50000) ? FAULT_DEPOSE : FAULT_USURP);
}

static void set_up(struct world *w, uint64_t seed, bool is_verbose)
{
    struct world    dice = { .rng = seed * 1000003 };
    uint32_t        n = 1 + (uint32_t) world_random(&dice, 10), i;
    struct rdzv_cfg cfg = random_cfg(&dice, n);
    bool            has_wishes = world_chance(&dice, 25000), is_rough = world_chance(&dice, 50000);
    uint32_t        lacking = world_chance(&dice, 25000) ? 35000 : 0; /* their program, of 100,000 agents */

    if (seed % 3 != 0)
        cfg.own = seed * 0x9e3779b97f4a7c15u | 1;
    if (!is_rough && world_chance(&dice, 25000))
        cfg.finish_timeout = 6000 + world_random(&dice, 10000);
    world_init(w, seed, n, &cfg);
    w->is_durable = cfg.own == 0;
    w->is_verbose = is_verbose;
    w->calm_at = FAULTS_S * second;
    if (world_chance(&dice, 40000))
        w->latency = world_random(&dice, 40 * MS); /* who fails first is not who tells first */
    w->odds = (struct odds) { .fails = world_chance(&dice, 50000) ? 4000 : 0, .ignores_term = 10000, .cascades = 70000 };
    if (world_chance(&dice, 30000))
        w->odds.finishes = 20000;
    if (is_rough) {
        w->odds.lost = 500;
        w->odds.doubled = 1000;
        w->odds.late = 1000;
        w->odds.very_late = 200;
        w->odds.stuck = 200;
    }
    for (i = 0; i < n; i++) {
        w->agents[i].nproc = w->agents[i].m.cfg.about.nproc = 1 + (uint32_t) world_random(w, MAX_PROCS / 2);
        w->agents[i].lacks_program = world_chance(w, lacking);
        if (has_wishes)
            w->agents[i].m.cfg.about.wish = (int32_t) i;
        (void) snprintf(w->agents[i].m.cfg.about.role, RDZV_ROLE_MAX, world_chance(w, 20000) ? "ps" : "trainer");
        world_boot(w, world_random(w, (world_chance(w, 20000) ? 40 : 1) * second), i);
    }
    if (world_chance(w, 80000))
        schedule_faults(w);
}

static void dump(const struct world *w)
{
    struct rdzv_status s;
    uint32_t           i;

    rdzv_status(w->coord, &s);
    (void) printf("coordinator: phase %d, round %u, %u known, %u members, %u ready\n", (int) s.phase, s.round, s.n_known,
                  s.n_members, s.n_ready);
    for (i = 0; i < w->n; i++) {
        const struct agent *a = &w->agents[i];

        (void) printf("agent %u:%s%s%s%s%s round %u, ready %u, sees %u, group %s, %u alive\n", i, a->is_up ? " up" : "",
                      a->m.is_busy ? " busy" : "", a->m.is_done ? " done" : "", a->m.is_stuck ? " stuck" : "",
                      a->m.is_leaving ? " leaving" : "", a->m.work_round, a->m.ready_round, a->m.view.round,
                      group_state_name(a->m.node.group.state), a->m.node.n_alive);
    }
}

static void check_ends(const struct world *w)
{
    uint32_t i;
    unsigned want = w->end.kind == RDZV_CAUSE_NONE ? 0 : w->end.code;

    for (i = 0; i < w->n; i++) {
        const struct agent *a = &w->agents[i];

        if (a->is_up && !a->m.has_heard && w->is_leaderless)
            continue; /* it came when nobody was left to tell it */
        if (a->is_up)
            world_broken(w, "O10: agent %u is still there %llu s after the end", i,
                         (unsigned long long) ((w->now - w->ended_at) / second));
        if (a->has_exited && a->m.is_refused && decline_was_the_end(w))
            world_broken(w, "O10: agent %u is refused by a job that could not begin", i);
        if (a->has_exited && a->m.has_heard && a->m.view.phase == RDZV_ENDED && !a->m.is_stuck && !a->m.node.policy.is_stopped &&
            a->status != want)
            world_broken(w, "O10: agent %u exits with %u, not %u", i, a->status, want);
    }
}

static void heal(struct world *w)
{
    struct rdzv_status s;
    uint64_t           until;

    for (until = FAULTS_S + 1; until < FAULTS_S + HEALED_S && !w->has_ended; until++) {
        world_run(w, until * second);
        if (until > FAULTS_S + 30 && world_is_settled(w))
            return;
    }
    rdzv_status(w->coord, &s);
    if (!w->has_ended)
        world_broken(w, "O9: not in one round: phase %d, round %u, %u known, %u members, %u ready", (int) s.phase, s.round,
                     s.n_known, s.n_members, s.n_ready);
}

static void play(uint64_t seed, bool is_verbose, uint64_t *ret_handled)
{
    struct world w;

    set_up(&w, seed, is_verbose);
    world_run(&w, FAULTS_S * second);
    if (w.beheaded_at == 0)
        heal(&w);
    if (w.beheaded_at == 0 && !w.has_ended) {
        world_finish(&w);
        world_run(&w, w.now + END_S * second);
        if (is_verbose)
            dump(&w);
        if (!w.has_ended || w.end.kind != RDZV_CAUSE_NONE)
            world_broken(&w, "O10: the workers ended well, but not the job");
    }
    world_run(&w, w.now + END_S * second);
    if (w.beheaded_at == 0)
        check_ends(&w);
    else
        promise_orphans_ended(&w);
    *ret_handled += w.n_handled;
    world_free(&w);
}

/* ---- a big job */

static double ms_since(const struct world *w, uint64_t from)
{
    return (double) (w->last_start_at - from) / MS;
}

static void report(struct world *w, const char *what, uint64_t from, uint64_t n_started, double bound_ms)
{
    double messages = (double) w->n_messages / w->n, bytes = (double) w->n_bytes / w->n;

    (void) printf("%-16s %8.1f ms (bound %.0f), %.1f messages and %.0f bytes per node, coordinator %.3f s\n", what,
                  ms_since(w, from), bound_ms, messages, bytes, (double) w->coord_ns / 1e9);
    if (!world_is_settled(w))
        world_broken(w, "O13: %s: not settled", what);
    if (w->n_starts != n_started)
        world_broken(w, "O13: %s: %llu started, not %llu", what, (unsigned long long) w->n_starts,
                     (unsigned long long) n_started);
    if (ms_since(w, from) > bound_ms)
        world_broken(w, "O13: %s: too slow", what);
    if (messages > 16 || bytes > 3000)
        world_broken(w, "O13: %s: too many messages", what);
    w->n_messages = w->n_bytes = w->n_starts = w->coord_ns = 0;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *) a, y = *(const double *) b;

    return x < y ? -1 : x > y;
}

/* Some failure after the other, anywhere: the time from each to the start of the last worker of the next round. */
static void fail_again_and_again(struct world *w, uint32_t n)
{
    unsigned times = n <= 1024 ? 100 : 5, i;
    double   took[100], p99;

    for (i = 0; i < times; i++) {
        uint64_t at = w->now + second;

        w->n_starts = 0;
        world_fail(w, at, (uint32_t) world_random(w, n));
        world_run(w, at + second);
        if (!world_is_settled(w) || w->n_starts != n)
            world_broken(w, "O13: %llu of %u started after failure %u", (unsigned long long) w->n_starts, n, i);
        took[i] = ms_since(w, at);
    }
    qsort(took, times, sizeof(took[0]), compare);
    p99 = took[times * 99 / 100];
    (void) printf("%-16s %8.1f ms (bound 150) is the 99th percentile of %u, %.1f the median\n", "failures", p99, times,
                  took[times / 2]);
    if (p99 > 150)
        world_broken(w, "O13: failures: too slow");
    w->n_messages = w->n_bytes = w->n_starts = w->coord_ns = 0;
}

static void set_up_big(struct world *w, uint64_t seed, uint32_t n, const struct rdzv_cfg *cfg)
{
    uint32_t i;

    world_init(w, seed, n, cfg);
    w->measures = true;
    w->latency = 200;
    w->jitter = 100;
    w->stop_time = 50 * MS;
    w->calm_at = UINT64_MAX;
    for (i = 0; i < n; i++) {
        w->agents[i].nproc = w->agents[i].m.cfg.about.nproc = MAX_PROCS;
        world_boot(w, world_random(w, 10 * MS), i);
    }
    world_run(w, second);
}

static void lose(struct world *w, uint32_t n_lost)
{
    uint64_t at = w->now + second;
    uint32_t i;

    w->odds.cascades = 0;
    for (i = 0; i < n_lost; i++)
        world_fault(w, at, w->n - 1 - i * 64 % (w->n - 1), FAULT_CRASH);
    world_run(w, at + 2 * second);
}

static void check_memory(const struct world *w, uint32_t n)
{
    (void) printf("%-16s %8.1f KiB for the coordinator, %llu bytes per node\n", "memory", (double) w->coord_bytes / 1024,
                  (unsigned long long) w->coord_bytes / n);
    if (w->coord_bytes > 65536 + 1024 * (uint64_t) n)
        world_broken(w, "O13: the coordinator takes %llu bytes", (unsigned long long) w->coord_bytes);
}

static void big(uint64_t seed, uint32_t n)
{
    struct rdzv_cfg cfg = defaults();
    struct world    w;
    uint32_t        n_lost = (n + 99) / 100;
    uint64_t        at;

    cfg.nodes_cap = cfg.max_nodes = n;
    cfg.min_nodes = n - n_lost > 0 ? n - n_lost : 1;
    set_up_big(&w, seed, n, &cfg);
    (void) printf("%u nodes\n", n);
    report(&w, "forming", 0, n, 100);
    check_memory(&w, n);
    at = w.now + second;
    world_fail(&w, at, n / 2);
    world_run(&w, at + second);
    report(&w, "a worker fails", at, n, 150);
    fail_again_and_again(&w, n);
    at = w.now + second;
    lose(&w, n_lost);
    report(&w, "1 % crash", at, n - n_lost, 500);
    world_free(&w);
}

/* As many as are lost stand by: the job stays as big as it was, and nobody but they gets another rank. */
static void big_with_spares(uint64_t seed, uint32_t n)
{
    struct rdzv_cfg cfg = defaults();
    struct world    w;
    uint32_t        n_spare = (n + 99) / 100, i;
    uint64_t        at;

    cfg.nodes_cap = n;
    cfg.min_nodes = cfg.max_nodes = n - n_spare;
    set_up_big(&w, seed, n, &cfg);
    for (i = 0, at = w.now + second; i < n; i++) /* members, not those that stand by */
        w.agents[i].rank_before = w.agents[i].m.is_busy ? w.agents[i].started_rank : UINT32_MAX;
    w.n_messages = w.n_bytes = w.n_starts = w.coord_ns = 0;
    for (i = 1; n_spare > 0 && i < n; i++)
        if (w.agents[i].m.is_busy) {
            world_fault(&w, at, i, FAULT_CRASH);
            n_spare--;
        }
    w.odds.cascades = 0;
    world_run(&w, at + 2 * second);
    report(&w, "spares take over", at, cfg.max_nodes, 500);
    for (i = 0; i < n; i++)
        if (w.agents[i].is_up && w.agents[i].rank_before != UINT32_MAX && w.agents[i].rank_before != w.agents[i].started_rank)
            world_broken(&w, "O13: agent %u had rank %u and has %u", i, w.agents[i].rank_before, w.agents[i].started_rank);
    world_free(&w);
}

int main(int argc, char **argv)
{
    uint64_t first = 1, n = 3000, n_handled = 0, i;
    uint32_t n_big = 0;
    bool     is_verbose = false;
    int      c;

    while ((c = getopt(argc, argv, "n:s:b:v")) != -1) {
        if (c == 'n')
            n = strtoull(optarg, NULL, 10);
        else if (c == 's')
            first = strtoull(optarg, NULL, 10);
        else if (c == 'b')
            n_big = (uint32_t) strtoul(optarg, NULL, 10);
        else if (c == 'v')
            is_verbose = true;
        else
            return 2;
    }
    if (n_big > 0) {
        big(first, n_big);
        if (n_big > 1)
            big_with_spares(first, n_big);
        return 0;
    }
    for (i = 0; i < n; i++)
        play(first + i, is_verbose, &n_handled);
    (void) printf("sim_rdzv: %llu jobs, %llu events\n", (unsigned long long) n, (unsigned long long) n_handled);
    return 0;
}
