#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/rdzv.h"

/* One coordinator after the other, and what nodes 1 .. 4 were told last. */
enum { N_MAX = 4 };

struct game {
    struct rdzv_cfg  cfg;
    struct rdzv     *r;
    uint64_t         now, seq;
    struct rdzv_view view[N_MAX + 1];
    char             refused[2 * RDZV_TEXT_MAX];
    uint8_t         *saved;
    size_t           n_saved;
};

static void on_view(void *ctx, uint64_t link, const struct rdzv_view *v)
{
    struct game *g = ctx;

    g->view[link] = *v;
}

static void on_refuse(void *ctx, uint64_t link, const struct rdzv_refused *r)
{
    struct game *g = ctx;

    (void) link;
    (void) snprintf(g->refused, sizeof g->refused, "%s", r->sentence);
}

static const struct rdzv_ops ops = { on_view, on_refuse };

static void open_game(struct game *g, uint32_t min, uint32_t max)
{
    struct cc_err err;

    *g = (struct game) { .now = 1000000 };
    g->cfg = (struct rdzv_cfg) {
        .nodes_cap = 8, .min_nodes = min, .max_nodes = max, .max_rejoins = 2, .last_call = 1000, .join_timeout = 60000,
        .replace_timeout = 60000, .dead_after = 3000, .reset_grace = 300, .settle_timeout = 4500, .switch_timeout = 5000,
        .budget = { .max_restarts = 3, .window = 100000 },
        .plan = { .min_nodes = min, .max_nodes = max, .arguments = 77, .program = "t.py", .version = "1" },
    };
    g->r = rdzv_new(&g->cfg, g->now, &ops, g, &err);
    cr_assert(g->r);
    g->saved = malloc(rdzv_save_max(&g->cfg));
}

static void close_game(struct game *g)
{
    rdzv_free(g->r);
    free(g->saved);
}

static void say(struct game *g, unsigned node, enum rdzv_node_phase phase, uint32_t round, const struct rdzv_cause *why)
{
    struct rdzv_hello h = { .incarnation = node, .seq = ++g->seq, .round = round, .phase = phase, .has_about = round == 0 };

    h.about = (struct rdzv_about) { .nproc = 2, .wish = -1, .pid = 4711, .port = 29500, .role = "trainer", .plan = g->cfg.plan };
    (void) snprintf(h.about.host, sizeof h.about.host, "h%u", node);
    (void) snprintf(h.about.addr, sizeof h.about.addr, "10.0.0.%u", node);
    if (why) {
        h.has_cause = true;
        h.cause = *why;
    }
    h.term = (uint32_t) (g->view[node].seq >> RDZV_TERM_SHIFT);
    if (g->view[node].hosts_store)
        h.store_round = g->view[node].round;
    rdzv_event(g->r, &(struct rdzv_event) { .kind = RDZV_EV_HELLO, .now = g->now, .link = node, .hello = &h });
}

static void pass(struct game *g, uint64_t ms)
{
    uint64_t until = g->now + ms;

    while (rdzv_deadline(g->r) <= until) {
        g->now = rdzv_deadline(g->r) > g->now ? rdzv_deadline(g->r) : g->now;
        rdzv_event(g->r, &(struct rdzv_event) { .kind = RDZV_EV_TICK, .now = g->now });
    }
    g->now = until;
}

/* Nodes from .. to are ready, and the one that hosts the store has switched it. */
static void form(struct game *g, unsigned from, unsigned to)
{
    unsigned i;

    for (i = from; i <= to; i++)
        say(g, i, RDZV_NODE_READY, g->view[i].round, NULL);
    for (i = from; i <= to; i++)
        say(g, i, RDZV_NODE_READY, g->view[i].round, NULL);
    for (i = from; i <= to; i++)
        if (g->view[i].phase == RDZV_SWITCH && g->view[i].hosts_store)
            say(g, i, RDZV_NODE_READY, g->view[i].round, NULL);
}

static void save(struct game *g)
{
    g->n_saved = rdzv_save(g->r, g->now, g->saved);
    cr_assert_leq(g->n_saved, rdzv_save_max(&g->cfg));
}

/* By a clock that shows something else. */
static int take_over(struct game *g, uint64_t now, struct cc_err *err)
{
    rdzv_free(g->r);
    g->now = now;
    g->r = rdzv_new(&g->cfg, g->now, &ops, g, err);
    return rdzv_load(g->r, g->now, g->saved, g->n_saved, err);
}

static struct rdzv_status status_of(const struct game *g)
{
    struct rdzv_status s;

    rdzv_status(g->r, &s);
    return s;
}

Test(rdzv_state, a_successor_begins_a_new_round_in_which_survivors_keep_their_ranks)
{
    struct game   g;
    struct cc_err err;
    uint64_t      seq;

    open_game(&g, 2, 3);
    form(&g, 1, 3);
    cr_assert_eq(status_of(&g).phase, RDZV_ACTIVE);
    cr_assert_eq(g.view[3].group_rank, 2);
    save(&g);
    seq = g.view[2].seq;
    cr_assert_eq(take_over(&g, 5000, &err), 0, "%s", err.msg);
    say(&g, 2, RDZV_NODE_RUNNING, 1, NULL);
    cr_assert_eq(g.view[2].phase, RDZV_GATHER);
    cr_assert_eq(g.view[2].round, 2);
    cr_assert_gt(g.view[2].seq, seq, "or the node takes the view for an old one");
    say(&g, 3, RDZV_NODE_RUNNING, 1, NULL);
    form(&g, 2, 3);
    cr_assert_eq(status_of(&g).phase, RDZV_GATHER, "the node of the predecessor may come yet");
    pass(&g, g.cfg.dead_after - 1);
    form(&g, 2, 3);
    pass(&g, 1);
    form(&g, 2, 3);
    cr_assert_eq(status_of(&g).phase, RDZV_ACTIVE);
    cr_assert_eq(g.view[2].group_rank, 0, "ranks close up, in the old order");
    cr_assert_eq(g.view[3].group_rank, 1);
    cr_assert_eq(status_of(&g).restarts, 0);
    cr_assert_eq(status_of(&g).rejoins, 1, "a loss has its own budget");
    close_game(&g);
}

static void decline(struct game *g, unsigned node)
{
    struct rdzv_cause why = { .kind = RDZV_CAUSE_LOST, .rank = RDZV_NO_RANK, .code = 127, .text = "no t.py" };

    say(g, node, RDZV_NODE_GONE, 0, &why);
}

Test(rdzv_state, who_has_declined_is_not_waited_for_by_a_successor_either)
{
    struct game   g;
    struct cc_err err;
    uint64_t      vital, before;

    open_game(&g, 2, 4);
    say(&g, 1, RDZV_NODE_READY, 0, NULL);
    (void) rdzv_changes(g.r, &before);
    decline(&g, 3);
    (void) rdzv_changes(g.r, &vital);
    cr_assert_gt(vital, before, "what is said once is saved at once");
    save(&g);
    cr_assert_eq(take_over(&g, 5000, &err), 0, "%s", err.msg);
    decline(&g, 4);
    form(&g, 1, 2);
    cr_assert_eq(status_of(&g).phase, RDZV_ACTIVE, "all that may come are there: no last call");
    cr_assert_eq(status_of(&g).n_members, 2);
    close_game(&g);

    open_game(&g, 2, 3);
    decline(&g, 3);
    save(&g);
    cr_assert_eq(take_over(&g, 5000, &err), 0, "%s", err.msg);
    decline(&g, 2);
    cr_assert_eq(status_of(&g).phase, RDZV_ENDED, "one of at least two is left to come");
    cr_assert_eq(status_of(&g).cause.code, 127);
    close_game(&g);
}

Test(rdzv_state, who_may_be_dead_keeps_nobody_out)
{
    struct game   g;
    struct cc_err err;

    open_game(&g, 2, 2);
    g.r = rdzv_free(g.r);
    g.cfg.nodes_cap = 2;
    g.r = rdzv_new(&g.cfg, g.now, &ops, &g, &err);
    cr_assert(g.r);
    form(&g, 1, 2);
    say(&g, 3, RDZV_NODE_READY, 0, NULL);
    cr_assert(strstr(g.refused, "no room for h3"), "both were heard just now: %s", g.refused);
    g.refused[0] = '\0';
    save(&g);
    cr_assert_eq(take_over(&g, 5000, &err), 0, "%s", err.msg);
    say(&g, 3, RDZV_NODE_READY, 0, NULL);
    cr_assert_str_empty(g.refused, "nobody was heard by this one");
    say(&g, 2, RDZV_NODE_RUNNING, 1, NULL);
    pass(&g, g.cfg.dead_after - 1);
    say(&g, 2, RDZV_NODE_RUNNING, 1, NULL);
    say(&g, 3, RDZV_NODE_READY, 0, NULL);
    cr_assert_str_empty(g.refused);
    pass(&g, 1);
    say(&g, 3, RDZV_NODE_READY, 0, NULL);
    form(&g, 2, 3);
    form(&g, 2, 3);
    cr_assert_eq(g.view[3].phase, RDZV_ACTIVE, "there was room when node 1 was lost");
    close_game(&g);
}

Test(rdzv_state, who_is_new_is_not_named_as_missing)
{
    struct game   g;
    struct cc_err err;

    open_game(&g, 3, 3);
    form(&g, 1, 3);
    save(&g);
    cr_assert_eq(take_over(&g, 5000, &err), 0, "%s", err.msg);
    pass(&g, g.cfg.dead_after - 1);
    say(&g, 3, RDZV_NODE_READY, g.view[3].round, NULL);
    say(&g, 3, RDZV_NODE_READY, g.view[3].round, NULL);
    pass(&g, 1);
    say(&g, 4, RDZV_NODE_READY, 0, NULL);
    say(&g, 4, RDZV_NODE_READY, g.view[4].round, NULL);
    say(&g, 3, RDZV_NODE_READY, g.view[3].round, NULL);
    cr_assert_eq(g.view[3].phase, RDZV_GATHER);
    cr_assert_eq(g.view[3].n_ready, 2);
    cr_assert_str_eq(g.view[3].missing, "1 (h2)");
    close_game(&g);
}

Test(rdzv_state, nodes_of_a_job_whose_state_is_lost_begin_a_round_that_they_have_not_seen)
{
    struct game   g;
    struct cc_err err;

    open_game(&g, 2, 3);
    form(&g, 1, 3);
    g.r = rdzv_free(g.r);
    g.now = 5000;
    g.r = rdzv_new(&g.cfg, g.now, &ops, &g, &err);
    cr_assert(g.r);
    say(&g, 4, RDZV_NODE_READY, 0, NULL);
    say(&g, 4, RDZV_NODE_READY, 1, NULL);
    cr_assert_eq(status_of(&g).n_ready, 1);
    say(&g, 1, RDZV_NODE_RUNNING, 1, NULL);
    cr_assert(g.view[1].is_unknown);
    for (unsigned i = 1; i <= 2; i++) { /* who is unknown tells all, and where it is */
        struct rdzv_hello h = { .incarnation = i, .seq = ++g.seq, .round = 1, .phase = RDZV_NODE_RUNNING, .has_about = true };

        h.about = (struct rdzv_about) { .nproc = 2, .wish = -1, .port = 29500, .role = "trainer", .plan = g.cfg.plan };
        rdzv_event(g.r, &(struct rdzv_event) { .kind = RDZV_EV_HELLO, .now = g.now, .link = i, .hello = &h });
        cr_assert_eq(g.view[i].phase, RDZV_GATHER);
        cr_assert_eq(g.view[i].round, 2);
    }
    cr_assert_eq(status_of(&g).n_ready, 0, "ready for the round that does not come");
    say(&g, 4, RDZV_NODE_READY, 1, NULL);
    cr_assert_eq(g.view[4].round, 2);
    g.view[3] = g.view[4];
    say(&g, 1, RDZV_NODE_READY, 2, NULL);
    say(&g, 2, RDZV_NODE_READY, 2, NULL);
    cr_assert_eq(status_of(&g).phase, RDZV_GATHER);
    say(&g, 4, RDZV_NODE_READY, 2, NULL);
    cr_assert_eq(status_of(&g).phase, RDZV_SWITCH);
    cr_assert_eq(status_of(&g).n_members, 3);
    close_game(&g);
}

Test(rdzv_state, there_is_one_budget_for_all_coordinators)
{
    struct rdzv_cause why = { .kind = RDZV_CAUSE_WORKER, .rank = 1, .code = 1, .text = "exit code 1" };
    struct game       g;
    struct cc_err     err;
    unsigned          i;

    open_game(&g, 2, 2);
    form(&g, 1, 2);
    for (i = 1; i <= 3; i++) {
        why.round = i;
        why.at = g.now;
        say(&g, 2, RDZV_NODE_FAILED, i, &why);
        say(&g, 1, RDZV_NODE_READY, i + 1, NULL);
        say(&g, 2, RDZV_NODE_READY, i + 1, &why);
        cr_assert_eq(status_of(&g).restarts, i);
        if (i == 2) {
            save(&g); /* in the middle of GATHER, and judged */
            cr_assert_eq(take_over(&g, 77, &err), 0, "%s", err.msg);
            say(&g, 2, RDZV_NODE_FAILED, i, &why);
            cr_assert_eq(status_of(&g).restarts, 2, "paid once");
            break;
        }
        form(&g, 1, 2);
    }
    form(&g, 1, 2);
    cr_assert_eq(status_of(&g).phase, RDZV_ACTIVE);
    for (i = status_of(&g).round; status_of(&g).phase == RDZV_ACTIVE; i++) {
        why.round = i;
        why.at = g.now;
        say(&g, 2, RDZV_NODE_FAILED, i, &why);
        say(&g, 1, RDZV_NODE_READY, i + 1, NULL);
        form(&g, 1, 2);
    }
    cr_assert_eq(status_of(&g).phase, RDZV_ENDED);
    cr_assert_eq(status_of(&g).restarts, 3);
    close_game(&g);
}

Test(rdzv_state, when_something_failed_is_asked_again_by_the_new_clock)
{
    struct rdzv_cause why = { .kind = RDZV_CAUSE_WORKER, .round = 1, .rank = 1, .code = 3, .text = "exit code 3" };
    struct game       g;
    struct cc_err     err;

    open_game(&g, 2, 2);
    form(&g, 1, 2);
    save(&g);
    cr_assert_eq(take_over(&g, 5000, &err), 0, "%s", err.msg);
    why.at = 999999; /* by the other clock */
    say(&g, 2, RDZV_NODE_FAILED, 1, &why);
    cr_assert_eq(status_of(&g).cause.code, 1, "%s", status_of(&g).cause.text);
    cr_assert_str_eq(status_of(&g).cause.text, "the coordinator was lost");
    cr_assert_eq(g.view[2].round, 2, "it is answered");
    why.at = 4000;
    say(&g, 2, RDZV_NODE_FAILED, 1, &why);
    cr_assert_eq(status_of(&g).cause.code, 3);
    cr_assert_eq(status_of(&g).cause.at, 4000);
    close_game(&g);
}

/* How long nobody was there is unknown: what failed before that seems later than it was, until its node tells it again. */
Test(rdzv_state, the_verdict_waits_for_the_node_that_had_failed_first)
{
    struct rdzv_cause first = { .kind = RDZV_CAUSE_WORKER, .round = 1, .rank = 1, .code = 3, .text = "exit code 3" };
    struct rdzv_cause second = { .kind = RDZV_CAUSE_WORKER, .round = 1, .rank = 2, .code = 4, .text = "exit code 4" };
    struct game       g;
    struct cc_err     err;

    open_game(&g, 3, 3);
    form(&g, 1, 3);
    first.at = g.now - 10;
    say(&g, 1, RDZV_NODE_FAILED, 1, &first);
    say(&g, 1, RDZV_NODE_READY, 2, NULL);
    save(&g);
    cr_assert_eq(take_over(&g, 5000, &err), 0, "%s", err.msg); /* 200 ms later, but who knows */
    say(&g, 2, RDZV_NODE_RUNNING, 1, NULL);
    say(&g, 3, RDZV_NODE_RUNNING, 1, NULL);
    second.at = 4890;
    say(&g, 2, RDZV_NODE_FAILED, 1, &second);
    say(&g, 2, RDZV_NODE_READY, g.view[2].round, NULL);
    say(&g, 3, RDZV_NODE_READY, g.view[3].round, NULL);
    cr_expect_eq(status_of(&g).restarts, 0, "nothing is decided yet");
    first.at = 4790;
    say(&g, 1, RDZV_NODE_READY, 2, NULL);
    say(&g, 1, RDZV_NODE_READY, g.view[1].round, &first);
    cr_expect_eq(status_of(&g).restarts, 1);
    cr_expect_eq(g.view[1].cause.code, 3, "%s", g.view[1].cause.text);
    close_game(&g);
}

Test(rdzv_state, who_will_not_come_is_known_to_a_successor)
{
    struct rdzv_hello no = { .seq = 1, .phase = RDZV_NODE_GONE, .has_about = true, .has_cause = true };
    struct cc_err     err;
    struct game       g;

    open_game(&g, 2, 4);
    no.about = (struct rdzv_about) { .nproc = 2, .wish = -1, .host = "h7", .role = "trainer", .plan = g.cfg.plan };
    no.cause = (struct rdzv_cause) { .kind = RDZV_CAUSE_LOST, .rank = RDZV_NO_RANK, .code = 127, .text = "no t.py" };
    for (no.incarnation = 7; no.incarnation < 9; no.incarnation++)
        rdzv_event(g.r, &(struct rdzv_event) { .kind = RDZV_EV_HELLO, .now = g.now, .link = 2, .hello = &no });
    cr_expect_eq(status_of(&g).phase, RDZV_GATHER);
    save(&g);
    cr_assert_eq(take_over(&g, 5000, &err), 0, "%s", err.msg);
    cr_expect_eq(status_of(&g).n_over, 2);
    no.incarnation = 8; /* again */
    rdzv_event(g.r, &(struct rdzv_event) { .kind = RDZV_EV_HELLO, .now = g.now, .link = 2, .hello = &no });
    cr_expect_eq(status_of(&g).phase, RDZV_GATHER);
    no.incarnation = 9;
    rdzv_event(g.r, &(struct rdzv_event) { .kind = RDZV_EV_HELLO, .now = g.now, .link = 2, .hello = &no });
    cr_expect_eq(status_of(&g).phase, RDZV_ENDED);
    cr_expect_eq(status_of(&g).cause.code, 127);
    cr_expect_str_eq(status_of(&g).cause.host, "h7");
    close_game(&g);
}

Test(rdzv_state, a_job_that_has_ended_stays_ended)
{
    struct game   g;
    struct cc_err err;

    open_game(&g, 2, 2);
    form(&g, 1, 2);
    say(&g, 1, RDZV_NODE_LEAVING, 1, NULL);
    say(&g, 2, RDZV_NODE_LEAVING, 1, NULL);
    save(&g);
    cr_assert_eq(take_over(&g, 5, &err), 0, "%s", err.msg);
    say(&g, 2, RDZV_NODE_RUNNING, 1, NULL);
    cr_assert_eq(g.view[2].phase, RDZV_ENDED);
    cr_assert_eq(g.view[2].cause.kind, RDZV_CAUSE_STOPPED);
    say(&g, 3, RDZV_NODE_READY, 0, NULL);
    cr_assert(strstr(g.refused, "the job has ended"), "%s", g.refused);
    close_game(&g);
}

Test(rdzv_state, what_views_say_is_known_by_its_number_of_changes)
{
    struct game g;
    uint64_t    vital, newest;

    open_game(&g, 2, 2);
    cr_assert_eq(rdzv_changes(g.r, &vital), 1, "there is a coordinator, in its term");
    cr_assert_eq(vital, 1, "which the first view tells");
    say(&g, 1, RDZV_NODE_READY, 0, NULL);
    newest = rdzv_changes(g.r, &vital);
    cr_assert_eq(newest, 2, "a node has come");
    cr_assert_eq(vital, 1, "of which nobody is told");
    form(&g, 1, 2);
    newest = rdzv_changes(g.r, &vital);
    cr_assert_eq(vital, newest, "the round is active");
    say(&g, 2, RDZV_NODE_RUNNING, 1, NULL);
    cr_assert_eq(rdzv_changes(g.r, &vital), newest, "a heartbeat changes nothing");
    close_game(&g);
}

Test(rdzv_state, every_shorter_or_changed_state_is_refused_or_sound)
{
    struct game   g;
    struct cc_err err;
    size_t        whole, i;

    open_game(&g, 2, 3);
    form(&g, 1, 3);
    save(&g);
    whole = g.n_saved;
    for (g.n_saved = 0; g.n_saved < whole; g.n_saved++)
        cr_assert_eq(take_over(&g, 5, &err), -EINVAL, "%zu bytes", g.n_saved);
    for (i = 0; i < whole; i++) {
        g.saved[i] ^= 0x5a;
        if (take_over(&g, 5, &err) == 0) {
            pass(&g, 100000);
            form(&g, 1, 3);
        }
        g.saved[i] ^= 0x5a;
    }
    cr_assert_eq(take_over(&g, 5, &err), 0, "%s", err.msg);
    close_game(&g);
}

Test(rdzv_state, the_state_of_another_job_is_told_from_a_damaged_one)
{
    struct game   g;
    struct cc_err err;

    open_game(&g, 1, 2);
    save(&g);
    g.cfg.plan.arguments++;
    cr_assert_eq(take_over(&g, 5, &err), -ESTALE);
    cr_assert(strstr(err.msg, "another program"), "%s", err.msg);
    close_game(&g);
}
